// SPDX-License-Identifier: Apache-2.0
#pragma once
// Number formats as storage: bits per element and the block scale they carry. A *block* is 32 x 32 elements, the
// operand unit of the TTU; in memory it is its elements row by row (k contiguous), then, for an MX format, its 32 scale
// bytes (one E8M0 per row of 32). Every block is a whole number of 32-byte beats.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "isa/number/number.hpp"
#include "isa/units.hpp"

namespace sluice::isa {

enum class Format : std::uint8_t {
    raw,
    mxfp4,
    mxfp4_e1m2,
    mxfp6,
    mxfp6_e3m2,
    mxfp8,
    mxfp8_e5m2,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    bf16,
    fp16,
    fp32
};
constexpr std::size_t kFormatCount = 14;

/// What the TTU's rate depends on.
enum class TensorRate : std::uint8_t { none, fp4, fp6, fp8, bf16 };

constexpr std::int64_t kBlockEdge = 32;
constexpr Bytes kBeatBytes = 32;
/// A 32 x 32 block of FP32 sums.
constexpr std::int64_t kAccumulatorBlockBytes = kBlockEdge * kBlockEdge * 4;

struct FormatInfo {
    Format format;
    std::string_view name;
    Number element;  ///< of raw: none, it holds bytes
    int element_bits;
    bool block_scaled;  ///< one E8M0 byte per 32 elements along k
    TensorRate rate;
    std::string_view description;
};

/// All formats, in the order of the enumeration.
[[nodiscard]] const std::array<FormatInfo, kFormatCount>& all_formats();
[[nodiscard]] const FormatInfo& info(Format format);
[[nodiscard]] std::string_view name(Format format);

/// Throws InputError naming `where` and the known names.
[[nodiscard]] Format parse_format(std::string_view text, const std::string& where);

/// Bytes of one 32 x 32 block with its scales: mxfp4 544, mxfp6 800, mxfp8 1056, e4m3 1024, bf16 2048, fp32 4096.
[[nodiscard]] Bytes block_bytes(Format format);

/// Bytes of a row of a block, 32 elements without their scale: mxfp4 16, mxfp6 24, mxfp8 32, bf16 64, fp32 128.
[[nodiscard]] std::int64_t row_data_bytes(Format format);

/// Mean bytes of an element including its share of the block scale: mxfp4 0.53125, mxfp8 1.03125, bf16 2.
[[nodiscard]] double bytes_per_element(Format format);

/// Bytes of `elements` consecutive elements along k, scales included; elements of a block-scaled format are counted in
/// whole groups of 32.
[[nodiscard]] Bytes row_bytes(Format format, std::int64_t elements);

/// The rate at which a macro with these operands runs: the wider operand sets it. Throws InputError for a pair that the
/// TTU does not take (the 16-bit formats mix with nothing).
[[nodiscard]] TensorRate tensor_rate(Format a, Format b, const std::string& where);

/// "fp4", "fp6", "fp8", "bf16".
[[nodiscard]] std::string_view name(TensorRate rate);

}  // namespace sluice::isa
