// SPDX-License-Identifier: Apache-2.0
#include "isa/number/block.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

// The proofs below need every operation to round to binary64, once, by IEEE 754.
static_assert(std::numeric_limits<double>::is_iec559 && FLT_EVAL_METHOD == 0);

constexpr std::size_t kEdge = 32;
/// Products of 16-bit operands that are added before the accumulator is.
constexpr std::size_t kWideStep = 8;

/// Values of all codes of the formats of up to 8 bits, in binary64.
const std::array<double, 256>& elements(Number number) {
    static const std::array<std::array<double, 256>, kNumberCount> kTables = [] {
        std::array<std::array<double, 256>, kNumberCount> out{};
        for (std::size_t n = 0; n < out.size(); ++n) {
            const NumberInfo& entry = info(static_cast<Number>(n));
            for (std::uint32_t code = 0; entry.bits <= 8 && code < 1U << entry.bits; ++code) {
                out[n][code] = static_cast<double>(decode(entry.number, code));
            }
        }
        return out;
    }();
    return kTables[static_cast<std::size_t>(number)];
}

/// Calls use(i, code) for the first `count` elements of a row.
template <class Use>
void for_codes(const std::byte* row, std::size_t count, int bits, const Use& use) {
    std::uint64_t waiting = 0;
    int filled = 0;
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    for (std::size_t i = 0; i < count; ++i) {
        for (; filled < bits; filled += 8) {
            waiting |= std::to_integer<std::uint64_t>(*row++) << filled;
        }
        use(i, static_cast<std::uint32_t>(waiting & mask));
        waiting >>= bits;
        filled -= bits;
    }
}

/// Writes code(i) of `count` elements one behind the other; returns the end.
template <class Code>
std::byte* pack(std::byte* row, std::size_t count, int bits, const Code& code) {
    std::uint64_t waiting = 0;
    int filled = 0;
    for (std::size_t i = 0; i < count; ++i) {
        waiting |= std::uint64_t{code(i)} << filled;
        for (filled += bits; filled >= 8; filled -= 8) {
            *row++ = static_cast<std::byte>(waiting & 0xFFU);
            waiting >>= 8;
        }
    }
    if (filled > 0) {
        *row++ = static_cast<std::byte>(waiting);
    }
    return row;
}

void check_row(const FormatInfo& format, std::size_t elements, std::size_t bytes) {
    if (format.format == Format::raw) {
        throw InputError("row of numbers", "raw bytes have no number format");
    }
    SLUICE_CHECK(elements * static_cast<std::size_t>(format.element_bits) <= 8 * bytes,
                 std::to_string(elements) + " elements do not fit " + std::to_string(bytes) + " bytes");
}

/// Two doubles whose exact sum is meant; `low` is at most half a unit in the last place of `high`.
struct Exact {
    double high = 0, low = 0;
};

/// a + b rounded, and its error (Knuth; exact without a condition on a and b unless the sum overflows).
Exact two_sum(double a, double b) {
    const double sum = a + b;
    const double a_part = sum - b;
    const double b_part = sum - a_part;
    return {sum, (a - a_part) + (b - b_part)};
}

/// The sum of 32 products in binary64. Exact for E4M3 and all smaller elements: a product is a multiple of 2^-18
/// (E4M3's quantum is 2^-9, the smallest), and a sum is at most 32 x 448^2 < 2^23, so every partial sum has at most 23
/// + 18 = 41 of 53 bits. The order does not matter then, and four partial sums let the compiler use vectors.
double sum_of_products(const double* a, const double* b) {
    double part[4] = {0, 0, 0, 0};
    for (std::size_t k = 0; k < kEdge; k += 4) {
        for (std::size_t i = 0; i < 4; ++i) {
            part[i] += a[k + i] * b[k + i];
        }
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/// The exact sum where E5M2 takes part (quantum 2^-16, largest 57,344 = 1.75 x 2^15): in units of 2^-32 it is at most
/// 32 x 57,344^2 x 2^32 < 2^69, so it may need 69 bits and a sign. So every product is taken apart: its nearest whole
/// number (adding 1.5 x 2^52 leaves no room for a fraction, and a product is below 2^32) and a rest. Whole numbers sum
/// below 2^37. Rests are multiples of 2^-32 of at most 1/2, and sum within 2^4. Both are exact in any order.
Exact wide_sum_of_products(const double* a, const double* b) {
    constexpr double kWhole = 0x1.8p52;
    double whole[2] = {0, 0};
    double rest[2] = {0, 0};
    for (std::size_t k = 0; k < kEdge; k += 2) {
        for (std::size_t i = 0; i < 2; ++i) {
            const double product = a[k + i] * b[k + i];
            const double rounded = (product + kWhole) - kWhole;
            whole[i] += rounded;
            rest[i] += product - rounded;
        }
    }
    const double high = whole[0] + whole[1];
    if (!std::isfinite(high)) {
        return {high, 0};
    }
    return two_sum(high, rest[0] + rest[1]);
}

/// value + error to FP32 with one rounding. `error`: below a unit in the last place of `value`; only its sign matters.
/// binary64 rounded to odd (the neighbour with an odd last bit, unless exact) keeps what the rounding to FP32 needs to
/// know, since 53 >= 24 + 2 bits (Boldo and Melquiond, "When double rounding is odd", 2005).
float round_once(double value, double error) {
    if (std::isnan(value)) {
        return std::numeric_limits<float>::quiet_NaN();
    }
    auto bits = std::bit_cast<std::uint64_t>(value);
    if (error != 0 && std::isfinite(value) && (bits & 1U) == 0) {
        bits += (error > 0) == (value > 0) ? 1 : -1;
        value = std::bit_cast<double>(bits);
    }
    return static_cast<float>(value);
}

/// accumulator + high + low, rounded once.
float add_exactly(float accumulator, Exact addend) {
    const Exact first = two_sum(static_cast<double>(accumulator), addend.high);
    if (addend.low == 0 || !std::isfinite(first.high)) {
        return round_once(first.high, first.low);
    }
    // Three parts: first.high + (first.low + addend.low). If first.low is not zero, nothing was cancelled (else the
    // first sum were exact), so the parts in parentheses are below two units in the last place of first.high. The error
    // of adding them up, rest.low, is below any bit of all.low: it decides the sign only where all.low is zero.
    const Exact rest = two_sum(first.low, addend.low);
    const Exact all = two_sum(first.high, rest.high);
    return round_once(all.high, all.low != 0 ? all.low : rest.low);
}

/// The 16-bit formats: eight products at a time.
float add_wide_products(float sum, const double* a, const double* b) {
    for (std::size_t k = 0; k < kEdge; k += kWideStep) {
        double step = a[k] * b[k];
        for (std::size_t i = 1; i < kWideStep; ++i) {
            step += a[k + i] * b[k + i];
        }
        sum = add_rounded_once(sum, step);
    }
    return sum;
}

}  // namespace

std::uint32_t get_code(std::span<const std::byte> row, std::int64_t index, int bits) {
    return get_bits(row, index * bits, bits);
}

void put_code(std::span<std::byte> row, std::int64_t index, int bits, std::uint32_t code) {
    put_bits(row, index * bits, bits, code);
}

std::uint32_t get_bits(std::span<const std::byte> bytes, std::int64_t first, int bits) {
    std::uint64_t word = 0;
    for (std::int64_t byte = first / 8; byte <= (first + bits - 1) / 8; ++byte) {
        word |= std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(byte)]) << (8 * (byte - first / 8));
    }
    return static_cast<std::uint32_t>(word >> (first % 8) & ((std::uint64_t{1} << bits) - 1));
}

void put_bits(std::span<std::byte> bytes, std::int64_t first, int bits, std::uint32_t code) {
    const std::uint64_t mask = ((std::uint64_t{1} << bits) - 1) << (first % 8);
    const std::uint64_t value = std::uint64_t{code} << (first % 8) & mask;
    for (std::int64_t byte = first / 8; byte <= (first + bits - 1) / 8; ++byte) {
        const std::int64_t shift = 8 * (byte - first / 8);
        std::byte& target = bytes[static_cast<std::size_t>(byte)];
        target = (target & static_cast<std::byte>(~(mask >> shift) & 0xFFU)) |
                 static_cast<std::byte>(value >> shift & 0xFFU);
    }
}

void load_operand(Format format, std::span<const std::byte> bytes, bool transposed, OperandBlock& out) {
    const FormatInfo& entry = info(format);
    if (entry.rate == TensorRate::none) {
        throw InputError("tensor operand", std::string(entry.name) + " cannot be multiplied");
    }
    if (transposed && entry.block_scaled) {
        throw InputError("tensor operand", std::string(entry.name) + " has scales along k and cannot be transposed");
    }
    SLUICE_CHECK(bytes.size() == static_cast<std::size_t>(block_bytes(format)),
                 std::string(entry.name) + " block of " + std::to_string(bytes.size()) + " bytes");
    // Element (row, k) of the block is element number row * row_step + k * k_step of the operand.
    const std::size_t row_step = transposed ? 1 : kEdge;
    const std::size_t k_step = transposed ? kEdge : 1;
    const std::size_t row_size = static_cast<std::size_t>(row_data_bytes(format));
    const std::array<double, 256>& table = elements(entry.element);
    for (std::size_t row = 0; row < kEdge; ++row) {
        double* const to = &out.element[row * row_step];
        if (entry.element_bits <= 8) {
            for_codes(&bytes[row * row_size], kEdge, entry.element_bits,
                      [&](std::size_t k, std::uint32_t code) { to[k * k_step] = table[code]; });
        } else {
            for_codes(&bytes[row * row_size], kEdge, entry.element_bits, [&](std::size_t k, std::uint32_t code) {
                to[k * k_step] = static_cast<double>(decode(entry.element, code));
            });
        }
        out.scale[row] = entry.block_scaled
                             ? elements(Number::e8m0)[std::to_integer<std::size_t>(bytes[kEdge * row_size + row])]
                             : 1.0;
    }
    out.exact = entry.element != Number::e5m2;
}

float add_rounded_once(float accumulator, double addend) {
    const Exact sum = two_sum(static_cast<double>(accumulator), addend);
    return round_once(sum.high, sum.low);
}

void multiply_blocks(Format a_format, const OperandBlock& a, Format b_format, const OperandBlock& b, std::int64_t rows,
                     std::span<float, 1024> c) {
    const bool wide = info(a_format).rate == TensorRate::bf16;
    SLUICE_CHECK(wide ? a_format == b_format : info(b_format).rate != TensorRate::bf16,
                 std::string(name(a_format)) + " does not mix with " + std::string(name(b_format)));
    SLUICE_CHECK(rows >= 0 && rows <= kBlockEdge, std::to_string(rows) + " rows of a block");
    const bool exact = a.exact && b.exact;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
        const double* const row_a = &a.element[i * kEdge];
        for (std::size_t j = 0; j < kEdge; ++j) {
            const double* const row_b = &b.element[j * kEdge];
            float& sum = c[i * kEdge + j];
            // A power of two from 2^-254 to 2^254. Times sums from 2^-32 to 2^37, all is far from the ends of binary64.
            const double scale = a.scale[i] * b.scale[j];
            if (wide) {
                sum = add_wide_products(sum, row_a, row_b);
            } else if (exact) {
                sum = add_rounded_once(sum, sum_of_products(row_a, row_b) * scale);
            } else {
                const Exact products = wide_sum_of_products(row_a, row_b);
                sum = add_exactly(sum, {products.high * scale, products.low * scale});
            }
        }
    }
}

void decode_row(Format format, std::span<const std::byte> data, std::byte scale, std::span<float> values) {
    const FormatInfo& entry = info(format);
    check_row(entry, values.size(), data.size());
    const auto shared = std::to_integer<std::uint8_t>(scale);
    for_codes(data.data(), values.size(), entry.element_bits, [&](std::size_t i, std::uint32_t code) {
        values[i] = entry.block_scaled ? decode_scaled(entry.element, code, shared) : decode(entry.element, code);
    });
}

void encode_row(Format format, std::span<const float> values, std::byte scale, std::span<std::byte> data) {
    const FormatInfo& entry = info(format);
    check_row(entry, values.size(), data.size());
    const auto shared = std::to_integer<std::uint8_t>(scale);
    std::byte* const end = pack(data.data(), values.size(), entry.element_bits, [&](std::size_t i) {
        return entry.block_scaled ? encode_scaled(entry.element, values[i], shared) : encode(entry.element, values[i]);
    });
    std::fill(end, data.data() + data.size(), std::byte{0});
}

}  // namespace sluice::isa
