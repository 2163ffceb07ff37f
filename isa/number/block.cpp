// SPDX-License-Identifier: Apache-2.0
#include "isa/number/block.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

__extension__ using Wide = __int128;

constexpr std::size_t kEdge = 32;

/// Elements of all 256 codes of a format of up to 8 bits, in binary64.
std::array<double, 256> element_table(Number number) {
    std::array<double, 256> out{};
    for (std::uint32_t code = 0; code < 1U << info(number).bits; ++code) {
        out[code] = static_cast<double>(decode(number, code));
    }
    return out;
}

const std::array<double, 256>& elements(Number number) {
    static const std::array<std::array<double, 256>, kNumberCount> kTables = [] {
        std::array<std::array<double, 256>, kNumberCount> out{};
        for (std::size_t n = 0; n < out.size(); ++n) {
            if (info(static_cast<Number>(n)).bits <= 8) {
                out[n] = element_table(static_cast<Number>(n));
            }
        }
        return out;
    }();
    return kTables[static_cast<std::size_t>(number)];
}

/// The 32 codes of a row.
void unpack(const std::byte* row, int bits, std::array<std::uint32_t, kEdge>& codes) {
    if (bits == 8) {
        for (std::size_t i = 0; i < kEdge; ++i) {
            codes[i] = std::to_integer<std::uint32_t>(row[i]);
        }
    } else if (bits == 16) {
        for (std::size_t i = 0; i < kEdge; ++i) {
            codes[i] = std::to_integer<std::uint32_t>(row[2 * i]) | std::to_integer<std::uint32_t>(row[2 * i + 1]) << 8;
        }
    } else if (bits == 4) {
        for (std::size_t i = 0; i < kEdge / 2; ++i) {
            const auto pair = std::to_integer<std::uint32_t>(row[i]);
            codes[2 * i] = pair & 0xFU;
            codes[2 * i + 1] = pair >> 4;
        }
    } else {
        const std::span<const std::byte> bytes(row, kEdge * static_cast<std::size_t>(bits) / 8);
        for (std::size_t i = 0; i < kEdge; ++i) {
            codes[i] = get_code(bytes, static_cast<std::int64_t>(i), bits);
        }
    }
}

// ---- sums
// ------------------------------------------------------------------------------------------------------------

/// The sum of 32 products in binary64. Exact for elements of E4M3 and below: a product is a multiple of 2^-18 (E4M3's
/// quantum is 2^-9), a sum of 32 is below 32 x 448^2 < 2^23, and 23 + 18 < 53; so the order does not matter either, and
/// four partial sums let the compiler use vectors.
double sum_of_products(const double* a, const double* b) {
    double part[4] = {0, 0, 0, 0};
    for (std::size_t k = 0; k < kEdge; k += 4) {
        for (std::size_t i = 0; i < 4; ++i) {
            part[i] += a[k + i] * b[k + i];
        }
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/// E5M2 (quantum 2^-16, largest 57,344): the sum in units of 2^-32 needs up to 69 bits. Returned as two doubles that
/// together are the exact sum, the second below half a unit in the last place of the first. Infinities and NaN: plain.
struct Exact {
    double high = 0, low = 0;
};
Exact wide_sum_of_products(const double* a, const double* b) {
    Wide sum = 0;
    for (std::size_t k = 0; k < kEdge; ++k) {
        const double product = a[k] * b[k];  // exact: at most 8 significant bits
        if (!std::isfinite(product)) {
            return {sum_of_products(a, b), 0};
        }
        sum += static_cast<Wide>(product * 0x1p32);
    }
    const auto high = static_cast<double>(sum);
    return {high * 0x1p-32, static_cast<double>(sum - static_cast<Wide>(high)) * 0x1p-32};
}

/// Two doubles whose exact sum is a + b: the rounded one and its error.
Exact two_sum(double a, double b) {
    const double sum = a + b;
    const double a_part = sum - b;
    const double b_part = sum - a_part;
    return {sum, (a - a_part) + (b - b_part)};
}

/// `value` + `error` to FP32 with one rounding: binary64 rounded to odd keeps what the second rounding needs to know
/// (53 >= 24 + 2 bits).
float round_once(double value, double error) {
    if (error != 0 && std::isfinite(value)) {
        auto bits = std::bit_cast<std::uint64_t>(value);
        if ((bits & 1U) == 0) {
            const bool away = (error > 0) == (value > 0);
            bits = away ? bits + 1 : bits - 1;
            value = std::bit_cast<double>(bits);
        }
    }
    return static_cast<float>(value);
}

float add_exactly(float accumulator, Exact addend) {
    const Exact first = two_sum(static_cast<double>(accumulator), addend.high);
    if (!std::isfinite(first.high)) {
        return static_cast<float>(first.high);
    }
    // The three parts first.high + first.low + addend.low: renormalise, so that the sign of the error is known.
    const Exact rest = two_sum(first.low, addend.low);
    const Exact all = two_sum(first.high, rest.high);
    const double error = all.low != 0 ? all.low : rest.low;
    return round_once(all.high, error);
}

}  // namespace

std::uint32_t get_code(std::span<const std::byte> row, std::int64_t index, int bits) {
    const std::int64_t first = index * bits;
    std::uint64_t word = 0;
    for (std::int64_t byte = first / 8; byte <= (first + bits - 1) / 8; ++byte) {
        word |= std::to_integer<std::uint64_t>(row[static_cast<std::size_t>(byte)]) << (8 * (byte - first / 8));
    }
    return static_cast<std::uint32_t>(word >> (first % 8) & ((std::uint64_t{1} << bits) - 1));
}

void put_code(std::span<std::byte> row, std::int64_t index, int bits, std::uint32_t code) {
    const std::int64_t first = index * bits;
    const std::uint64_t mask = ((std::uint64_t{1} << bits) - 1) << (first % 8);
    const std::uint64_t value = std::uint64_t{code} << (first % 8) & mask;
    for (std::int64_t byte = first / 8; byte <= (first + bits - 1) / 8; ++byte) {
        const std::int64_t shift = 8 * (byte - first / 8);
        std::byte& target = row[static_cast<std::size_t>(byte)];
        target =
            (target & static_cast<std::byte>(~(mask >> shift) & 0xFF)) | static_cast<std::byte>(value >> shift & 0xFF);
    }
}

void load_operand(Format format, std::span<const std::byte> bytes, bool transposed, OperandBlock& out) {
    const FormatInfo& entry = info(format);
    if (entry.rate == TensorRate::none || (transposed && entry.block_scaled)) {
        throw InputError("tensor operand", std::string(entry.name) + " cannot be multiplied");
    }
    const std::size_t row_bytes = kEdge * static_cast<std::size_t>(entry.element_bits) / 8;
    std::array<std::uint32_t, kEdge> codes;
    for (std::size_t row = 0; row < kEdge; ++row) {
        unpack(&bytes[row * row_bytes], entry.element_bits, codes);
        for (std::size_t k = 0; k < kEdge; ++k) {
            const double value = entry.element_bits <= 8 ? elements(entry.element)[codes[k]]
                                                         : static_cast<double>(decode(entry.element, codes[k]));
            out.element[transposed ? k * kEdge + row : row * kEdge + k] = value;
        }
        out.scale[row] = entry.block_scaled
                             ? static_cast<double>(
                                   decode(Number::e8m0, std::to_integer<std::uint32_t>(bytes[kEdge * row_bytes + row])))
                             : 1.0;
    }
    out.exact = entry.element != Number::e5m2;
}

float add_rounded_once(float accumulator, double addend) {
    return add_exactly(accumulator, {addend, 0});
}

void multiply_blocks(Format a_format, const OperandBlock& a, Format b_format, const OperandBlock& b, std::int64_t rows,
                     std::span<float, 1024> c) {
    const bool halves = info(a_format).rate == TensorRate::bf16;
    const bool exact = a.exact && b.exact;
    const bool scaled = info(a_format).block_scaled || info(b_format).block_scaled;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
        const double* const row_a = &a.element[i * kEdge];
        for (std::size_t j = 0; j < kEdge; ++j) {
            const double* const row_b = &b.element[j * kEdge];
            float& sum = c[i * kEdge + j];
            if (halves) {
                for (std::size_t k = 0; k < kEdge; k += 8) {
                    double eight = row_a[k] * row_b[k];
                    for (std::size_t n = 1; n < 8; ++n) {
                        eight += row_a[k + n] * row_b[k + n];
                    }
                    sum = add_rounded_once(sum, eight);
                }
                continue;
            }
            // Powers of two: exact, and far from the ends of binary64 (2^-36 x 2^-254 to 2^37 x 2^254).
            const double scale = scaled ? a.scale[i] * b.scale[j] : 1.0;
            if (exact) {
                sum = add_rounded_once(sum, sum_of_products(row_a, row_b) * scale);
            } else {
                const Exact wide = wide_sum_of_products(row_a, row_b);
                sum = add_exactly(sum, {wide.high * scale, wide.low * scale});
            }
        }
    }
}

void decode_row(Format format, std::span<const std::byte> data, std::byte scale, std::span<float> values) {
    const FormatInfo& entry = info(format);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t code = get_code(data, static_cast<std::int64_t>(i), entry.element_bits);
        values[i] = entry.block_scaled ? decode_scaled(entry.element, code, std::to_integer<std::uint8_t>(scale))
                                       : decode(entry.element, code);
    }
}

void encode_row(Format format, std::span<const float> values, std::byte scale, std::span<std::byte> data) {
    const FormatInfo& entry = info(format);
    std::fill(data.begin(), data.end(), std::byte{0});
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t code = entry.block_scaled
                                       ? encode_scaled(entry.element, values[i], std::to_integer<std::uint8_t>(scale))
                                       : encode(entry.element, values[i]);
        put_code(data, static_cast<std::int64_t>(i), entry.element_bits, code);
    }
}

}  // namespace sluice::isa
