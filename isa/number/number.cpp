// SPDX-License-Identifier: Apache-2.0
#include "isa/number/number.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr std::array<NumberInfo, kNumberCount> kNumbers{{
    {Number::e2m1, "e2m1", 4, 2, 1, 1, true, Specials::none, 2, 6.0F},
    {Number::e1m2, "e1m2", 4, 1, 2, 1, true, Specials::none, 0, 1.75F},
    {Number::e2m3, "e2m3", 6, 2, 3, 1, true, Specials::none, 2, 7.5F},
    {Number::e3m2, "e3m2", 6, 3, 2, 3, true, Specials::none, 4, 28.0F},
    {Number::e4m3, "e4m3", 8, 4, 3, 7, true, Specials::nan_only, 8, 448.0F},
    {Number::e5m2, "e5m2", 8, 5, 2, 15, true, Specials::ieee, 15, 57344.0F},
    {Number::e8m0, "e8m0", 8, 8, 0, 127, false, Specials::nan_only, 127, 0x1p127F},
    {Number::bf16, "bf16", 16, 8, 7, 127, true, Specials::ieee, 127, 0x1.FEp127F},
    {Number::fp16, "fp16", 16, 5, 10, 15, true, Specials::ieee, 15, 65504.0F},
    {Number::fp32, "fp32", 32, 8, 23, 127, true, Specials::ieee, 127, std::numeric_limits<float>::max()},
}};

/// value = significand * 2^exponent, for the finite codes of signed formats.
float decode_fields(const NumberInfo& number, std::uint32_t code) {
    const std::uint32_t fraction = code & ((1U << number.mantissa_bits) - 1);
    const std::uint32_t exponent_field = code >> number.mantissa_bits & ((1U << number.exponent_bits) - 1);
    const bool negative = (code >> (number.bits - 1) & 1U) != 0;
    const std::uint32_t all_ones = (1U << number.exponent_bits) - 1;
    double value = 0;
    if (number.specials == Specials::ieee && exponent_field == all_ones) {
        value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    } else if (number.specials == Specials::nan_only && (code & 0x7FU) == 0x7FU) {
        value = std::numeric_limits<double>::quiet_NaN();
    } else {
        const bool normal = exponent_field != 0;
        const std::uint32_t significand = fraction | (normal ? 1U << number.mantissa_bits : 0U);
        const int exponent = static_cast<int>(normal ? exponent_field : 1U) - number.bias - number.mantissa_bits;
        value = std::ldexp(static_cast<double>(significand), exponent);
    }
    return static_cast<float>(negative ? -value : value);
}

/// A half's exponent is biased by 112 less than that of FP32.
float decode_half(std::uint32_t code) {
    const std::uint32_t sign = (code & 0x8000U) << 16;
    const std::uint32_t magnitude = code & 0x7FFFU;
    if (magnitude < 0x400) {  // zero and subnormal
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F));
    }
    // The highest exponent, of infinity and NaN, goes from 31 to 255.
    const std::uint32_t shift = magnitude < 0x7C00 ? 112 : 224;
    return std::bit_cast<float>(sign | ((magnitude << 13) + (shift << 23)));
}

float decode_plain(const NumberInfo& number, std::uint32_t code) {
    switch (number.number) {
        case Number::e8m0:
            return code == 0xFF ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>(std::ldexp(1.0, static_cast<int>(code) - 127));
        case Number::bf16: return std::bit_cast<float>(code << 16);
        case Number::fp16: return decode_half(code);
        case Number::fp32: return std::bit_cast<float>(code);
        default: return decode_fields(number, code);
    }
}

/// Values of all codes of the formats of up to 8 bits.
using Table = std::array<float, 256>;
const std::array<Table, kNumberCount>& tables() {
    static const std::array<Table, kNumberCount> kTables = [] {
        std::array<Table, kNumberCount> out{};
        for (std::size_t n = 0; n < kNumbers.size(); ++n) {
            for (std::uint32_t code = 0; kNumbers[n].bits <= 8 && code < 1U << kNumbers[n].bits; ++code) {
                out[n][code] = decode_plain(kNumbers[n], code);
            }
        }
        return out;
    }();
    return kTables;
}

std::uint32_t nan_code(const NumberInfo& number) {
    switch (number.number) {
        case Number::e4m3: return 0x7F;
        case Number::e5m2: return 0x7E;
        case Number::e8m0: return 0xFF;
        case Number::bf16: return 0x7FC0;
        case Number::fp16: return 0x7E00;
        case Number::fp32: return 0x7FC00000;
        default: break;
    }
    throw InputError(std::string(number.name), "a NaN is stored, and the format has none");
}

/// What a magnitude beyond the largest finite one becomes: infinity in BF16 and FP16, else the largest finite code.
constexpr std::uint32_t overflow_code(const NumberInfo& number) {
    const std::uint32_t infinity = ((1U << number.exponent_bits) - 1) << number.mantissa_bits;
    if (number.bits > 8) {
        return infinity;
    }
    switch (number.specials) {
        case Specials::none: return (1U << (number.bits - 1)) - 1;
        case Specials::nan_only: return 0x7E;
        case Specials::ieee: break;
    }
    return infinity - 1;
}

constexpr std::array<std::uint32_t, kNumberCount> kOverflowCodes = [] {
    std::array<std::uint32_t, kNumberCount> out{};
    for (std::size_t n = 0; n < out.size(); ++n) {
        out[n] = overflow_code(kNumbers[n]);
    }
    return out;
}();

/// The nearest power of two by value; half way goes to the even code. Below 2^-127 there is only the smallest.
std::uint32_t encode_power(float value) {
    if (std::isnan(value) || value < 0) {
        return 0xFF;
    }
    if (value >= kNumbers[static_cast<std::size_t>(Number::e8m0)].largest) {
        return 0xFE;
    }
    if (value < 0x1p-127F) {
        return 0;
    }
    int exponent = 0;
    const float fraction = std::frexp(value, &exponent);  // in [0.5, 1): value = 2 fraction * 2^(exponent - 1)
    const int code = exponent - 1 + 127;
    const bool up = fraction > 0.75F || (fraction == 0.75F && code % 2 != 0);
    return static_cast<std::uint32_t>(code + (up ? 1 : 0));
}

}  // namespace

const NumberInfo& info(Number number) {
    return kNumbers[static_cast<std::size_t>(number)];
}

float decode(Number number, std::uint32_t code) {
    const NumberInfo& entry = info(number);
    if (entry.bits <= 8) {
        return tables()[static_cast<std::size_t>(number)][code & ((1U << entry.bits) - 1)];
    }
    return decode_plain(entry, entry.bits == 16 ? code & 0xFFFFU : code);
}

std::uint32_t encode(Number number, float value) {
    const NumberInfo& entry = info(number);
    if (number == Number::e8m0) {
        return encode_power(value);
    }
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
        return nan_code(entry);
    }
    if (number == Number::fp32) {
        return bits;
    }
    // value = significand * 2^(exponent - 23). Infinity passes as 2^128, which is beyond every largest value.
    const auto field = static_cast<int>(magnitude >> 23);
    const std::uint32_t significand = (magnitude & 0x7FFFFFU) | (field == 0 ? 0U : 0x800000U);
    const int exponent = std::max(field, 1) - 127;
    // Below the least normal exponent of the target its quantum stays the same.
    const int target = std::max(exponent, 1 - entry.bias);
    // With 25 bits dropped, every value is below half a quantum.
    const int dropped = std::min(23 - entry.mantissa_bits + (target - exponent), 25);
    // To nearest even without a branch: half a quantum less one, plus the bit that says that the kept part is odd.
    const std::uint32_t odd = significand >> dropped & 1U;
    const std::uint32_t rounded = (significand + (1U << (dropped - 1)) - 1 + odd) >> dropped;
    // Adding to the exponent field carries a rounded-up significand into the next binade.
    const std::uint32_t code = rounded + (static_cast<std::uint32_t>(target + entry.bias - 1) << entry.mantissa_bits);
    const std::uint32_t sign = (bits >> 31) << (entry.bits - 1);
    return sign | std::min(code, kOverflowCodes[static_cast<std::size_t>(number)]);
}

}  // namespace sluice::isa
