// SPDX-License-Identifier: Apache-2.0
#pragma once
// A 32 x 32 block in memory (format.hpp states its layout) as values, and the tensor unit's product of two blocks.
// isa/number/README.md states the dot product in one page.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "isa/format.hpp"
#include "isa/number/block_scale.hpp"

namespace sluice::isa {

/// Elements of a row packed into bytes: element i takes bits [i * bits, (i + 1) * bits), the lowest bit first in the
/// first byte (so the even element of a 4-bit pair is the low nibble).
[[nodiscard]] std::uint32_t get_code(std::span<const std::byte> row, std::int64_t index, int bits);
void put_code(std::span<std::byte> row, std::int64_t index, int bits, std::uint32_t code);
/// The same of `bits` bits (1 to 32) from bit `first` on; no other byte is touched.
[[nodiscard]] std::uint32_t get_bits(std::span<const std::byte> bytes, std::int64_t first, int bits);
void put_bits(std::span<std::byte> bytes, std::int64_t first, int bits, std::uint32_t code);

/// A block ready to be multiplied: elements without their scales, and the scale of every row (1 if there are none, NaN
/// for a NaN scale).
struct OperandBlock {
    std::array<double, 1024> element;  ///< [row][k]
    std::array<double, 32> scale;
    bool exact = true;  ///< E5M2 needs more than binary64 to be summed exactly: see multiply_blocks
};
/// `bytes`: block_bytes(format) of them. `transposed`: rows in memory are k, columns the block's rows; only of formats
/// without block scales. Throws InputError for raw and fp32.
void load_operand(Format format, std::span<const std::byte> bytes, bool transposed, OperandBlock& out);

/// C[rows x 32] += A * B^T for one step of 32 along k, as the tensor unit does it.
///
/// 4- to 8-bit pairs, with or without block scales: the exact sum of the 32 products of a row of A and a row of B,
/// times both scales, is added to the FP32 accumulator with one rounding (nearest even).
///
/// BF16 and FP16: for each 8 consecutive k, the eight products are added in ascending k in binary64, and that sum is
/// added to the FP32 accumulator with one rounding; four such steps a block.
///
/// NaN and infinity follow IEEE 754; a NaN is stored as 0x7FC00000. A sum of 4- to 8-bit products that is zero is +0.
/// Formats: a pair that tensor_rate takes. Rows of C from `rows` on are not touched.
void multiply_blocks(Format a_format, const OperandBlock& a, Format b_format, const OperandBlock& b, std::int64_t rows,
                     std::span<float, 1024> c);

/// accumulator + addend, rounded once to FP32, to nearest even. A NaN is the canonical one.
[[nodiscard]] float add_rounded_once(float accumulator, double addend);

/// Consecutive elements of one row as FP32 values, and back. `data`: their bits, packed as put_code does it, in whole
/// bytes (bits beyond the last element are written as zeros). `scale`: the E8M0 byte that they share, read by
/// block-scaled formats alone. Throws InputError for raw.
void decode_row(Format format, std::span<const std::byte> data, std::byte scale, std::span<float> values);
void encode_row(Format format, std::span<const float> values, std::byte scale, std::span<std::byte> data);

}  // namespace sluice::isa
