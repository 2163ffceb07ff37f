// SPDX-License-Identifier: Apache-2.0
#include "isa/number/block_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr std::array kRoundings{ScaleRounding::floor, ScaleRounding::ceil, ScaleRounding::even};
constexpr std::uint8_t kNanScale = 0xFF;

/// 2^exponent, for -1022 <= exponent <= 1023.
double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

int floor_log2(double value) {
    return std::ilogb(value);
}

/// m rounded to `bits` of fraction, ties to even.
double to_fraction_bits(double value, int bits) {
    const double quantum = power_of_two(floor_log2(value) - bits);
    return std::nearbyint(value / quantum) * quantum;
}

int scale_exponent(double largest, const NumberInfo& element, ScaleRounding rounding) {
    switch (rounding) {
        case ScaleRounding::floor: break;
        case ScaleRounding::ceil: {
            // The least e with largest <= element.largest * 2^e; both sides are exact.
            const int guess = floor_log2(largest) - element.highest_exponent;
            return largest <= static_cast<double>(element.largest) * power_of_two(guess) ? guess : guess + 1;
        }
        case ScaleRounding::even:
            return floor_log2(to_fraction_bits(largest, element.mantissa_bits)) - element.highest_exponent;
    }
    return floor_log2(largest) - element.highest_exponent;
}

}  // namespace

std::string_view name(ScaleRounding rounding) {
    switch (rounding) {
        case ScaleRounding::floor: return "floor";
        case ScaleRounding::ceil: return "ceil";
        case ScaleRounding::even: return "even";
    }
    return "?";
}

ScaleRounding parse_scale_rounding(std::string_view text, const std::string& where) {
    for (const ScaleRounding rounding : kRoundings) {
        if (text == name(rounding)) {
            return rounding;
        }
    }
    throw InputError(where, fmt::format("found \"{}\", allowed: floor, ceil, even", text));
}

std::uint8_t shared_scale(float largest_magnitude, Number element, ScaleRounding rounding) {
    if (!std::isfinite(largest_magnitude)) {
        return kNanScale;
    }
    const auto largest = static_cast<double>(std::abs(largest_magnitude));
    if (largest == 0) {
        return 0;
    }
    const int exponent = scale_exponent(largest, info(element), rounding);
    return exponent > 127 ? kNanScale : static_cast<std::uint8_t>(std::max(exponent, -127) + 127);
}

std::uint32_t encode_scaled(Number element, float value, std::uint8_t scale) {
    if (scale == kNanScale) {
        return 0;
    }
    // Exact in binary64. The conversion to FP32 rounds only what is below 2^-126, where every element is zero; what is
    // beyond the clamp saturates anyway.
    const double scaled = static_cast<double>(value) * power_of_two(127 - static_cast<int>(scale));
    return encode(element, static_cast<float>(std::clamp(scaled, -0x1p127, 0x1p127)));
}

float decode_scaled(Number element, std::uint32_t code, std::uint8_t scale) {
    if (scale == kNanScale) {
        return decode(Number::e8m0, scale);
    }
    return static_cast<float>(static_cast<double>(decode(element, code)) * power_of_two(static_cast<int>(scale) - 127));
}

std::uint8_t quantise_group(std::span<const float> values, Number element, ScaleRounding rounding,
                            std::span<std::uint32_t> codes) {
    float largest = 0;
    for (const float value : values) {
        const float magnitude = std::abs(value);
        largest = std::isnan(magnitude) || std::isnan(largest) ? magnitude + largest : std::max(largest, magnitude);
    }
    const std::uint8_t scale = shared_scale(largest, element, rounding);
    for (std::size_t i = 0; i < values.size(); ++i) {
        codes[i] = encode_scaled(element, values[i], scale);
    }
    return scale;
}

}  // namespace sluice::isa
