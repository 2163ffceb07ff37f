// SPDX-License-Identifier: Apache-2.0
// Shared scales against their definitions, word by word: at all powers of two, at all multiples of the largest element
// by a power of two, at what is next to them, and at random values.
#include "isa/number/block_scale.hpp"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/files.hpp"

namespace sluice::isa {
namespace {

using Catch::Matchers::Contains;
using test::input_error;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array kElements{Number::e2m1, Number::e1m2, Number::e2m3, Number::e3m2, Number::e4m3, Number::e5m2};
constexpr std::array kRoundings{ScaleRounding::floor, ScaleRounding::ceil, ScaleRounding::even};

/// e with 2^e <= m < 2^(e + 1), by doubling.
int floor_of_log2(double m) {
    int exponent = 0;
    for (; m >= 2; m /= 2) {
        ++exponent;
    }
    for (; m < 1; m *= 2) {
        --exponent;
    }
    return exponent;
}

/// m with `bits` of fraction, ties to even, on its digits as an integer.
double rounded_to(double m, int bits) {
    const int exponent = floor_of_log2(m);
    const double digits = std::ldexp(m, bits - exponent);
    const double whole = std::floor(digits);
    const double rest = digits - whole;
    const bool odd = std::fmod(whole, 2) != 0;
    const bool up = rest > 0.5 || (rest == 0.5 && odd);
    return std::ldexp(up ? whole + 1 : whole, exponent - bits);
}

/// The definition of block_scale.hpp.
int scale_by_definition(float magnitude, Number element, ScaleRounding rounding) {
    if (!std::isfinite(magnitude)) {
        return 0xFF;
    }
    const auto m = static_cast<double>(magnitude);
    const double largest = static_cast<double>(info(element).largest);
    const int highest = floor_of_log2(largest);
    int exponent = -127;
    if (m > 0 && rounding == ScaleRounding::floor) {
        exponent = floor_of_log2(m) - highest;
    } else if (m > 0 && rounding == ScaleRounding::even) {
        exponent = floor_of_log2(rounded_to(m, info(element).mantissa_bits)) - highest;
    } else if (m > 0) {
        while (largest * std::exp2(exponent) < m) {
            ++exponent;
        }
    }
    return exponent > 127 ? 0xFF : std::max(exponent, -127) + 127;
}

std::vector<float> magnitudes(Number element) {
    std::vector<float> out{0, kNan, kInfinity, std::numeric_limits<float>::max()};
    const auto with_neighbours = [&out](double value) {
        const auto middle = static_cast<float>(value);
        if (middle > 0 && std::isfinite(middle)) {
            out.insert(out.end(), {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, kInfinity)});
        }
    };
    for (int exponent = -149; exponent <= 127; ++exponent) {
        // Powers of two, the largest element, and what lies half way from it to the next power of two, where `even`
        // goes over: all with one scale after the other.
        with_neighbours(std::exp2(exponent));
        with_neighbours(static_cast<double>(info(element).largest) * std::exp2(exponent));
        with_neighbours((2 - std::exp2(-1 - info(element).mantissa_bits)) * std::exp2(exponent));
    }
    std::mt19937 random(2);
    for (int i = 0; i < 20'000; ++i) {
        out.push_back(std::abs(std::bit_cast<float>(static_cast<std::uint32_t>(random()))));
    }
    return out;
}

TEST_CASE("a shared scale is its definition, in every rounding and for every element") {
    for (const Number element : kElements) {
        const std::vector<float> values = magnitudes(element);
        for (const ScaleRounding rounding : kRoundings) {
            for (const float value : values) {
                const int expected = scale_by_definition(value, element, rounding);
                if (shared_scale(value, element, rounding) != expected) {
                    CAPTURE(info(element).name, name(rounding), value);
                    CHECK(shared_scale(value, element, rounding) == expected);
                }
            }
        }
    }
    CHECK(shared_scale(-6.0F, Number::e2m1, ScaleRounding::floor) == 127);  // the sign does not count
}

TEST_CASE("scales at the ends of the range") {
    // The largest FP32 value is just below 2^128, so its floor is 127 - E.
    const float most = std::numeric_limits<float>::max();
    CHECK(shared_scale(most, Number::e4m3, ScaleRounding::floor) == 127 + 127 - 8);
    CHECK(shared_scale(most, Number::e1m2, ScaleRounding::floor) == 127 + 127);
    CHECK(shared_scale(most, Number::e1m2, ScaleRounding::ceil) == 0xFF);  // 2^128 would be needed
    CHECK(shared_scale(most, Number::e1m2, ScaleRounding::even) == 0xFF);
    CHECK(shared_scale(std::numeric_limits<float>::denorm_min(), Number::e4m3, ScaleRounding::ceil) == 0);
    CHECK(shared_scale(0.0F, Number::e4m3, ScaleRounding::even) == 0);
}

TEST_CASE("floor saturates what is beyond the largest element, and ceil never does") {
    for (const float value : {6.5F, 7.0F, 7.75F}) {
        const std::uint8_t floor = shared_scale(value, Number::e2m1, ScaleRounding::floor);
        CHECK(floor == 127);
        CHECK(decode_scaled(Number::e2m1, encode_scaled(Number::e2m1, value, floor), floor) == 6);
        const std::uint8_t ceil = shared_scale(value, Number::e2m1, ScaleRounding::ceil);
        CHECK(ceil == 128);
        CHECK(decode_scaled(Number::e2m1, encode_scaled(Number::e2m1, value, ceil), ceil) >= 6);
    }
    for (const Number element : kElements) {
        for (const float value : magnitudes(element)) {
            const std::uint8_t scale = shared_scale(value, element, ScaleRounding::ceil);
            if (scale != 0xFF) {
                const double scaled = std::ldexp(static_cast<double>(value), 127 - scale);
                CHECK(scaled <= static_cast<double>(info(element).largest));
            }
        }
    }
}

TEST_CASE("even moves up where the largest value would round to the next power of two") {
    // E2M1 has one bit of fraction: 1.75 and above round to 2.
    CHECK(shared_scale(6.9F, Number::e2m1, ScaleRounding::even) == 127);
    CHECK(shared_scale(7.0F, Number::e2m1, ScaleRounding::even) == 128);
}

/// The nearest element by counting the midpoints below it; a tie goes to the even code.
std::uint32_t nearest(Number element, double scaled) {
    const std::uint32_t sign_bit = 1U << (info(element).bits - 1);
    const std::uint32_t largest = encode(element, info(element).largest);
    const double magnitude = std::abs(scaled);
    std::uint32_t code = 0;
    for (; code < largest; ++code) {
        const double middle = (static_cast<double>(decode(element, code)) + decode(element, code + 1)) / 2;
        if (magnitude < middle || (magnitude == middle && code % 2 == 0)) {
            break;
        }
    }
    return code | (std::signbit(scaled) ? sign_bit : 0);
}

TEST_CASE("a scaled element is the nearest to value / 2^scale") {
    std::mt19937 random(3);
    for (const Number element : kElements) {
        for (int i = 0; i < 20'000; ++i) {
            const auto scale = static_cast<std::uint8_t>(random() % 255);
            // Half of them near the element's range, where something is to be rounded; half anywhere.
            const auto anything = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
            const float close = std::ldexp(static_cast<float>(static_cast<int>(random() % 4096) - 2048) / 64,
                                           static_cast<int>(scale) - 127);
            const float value = i % 2 == 0 ? anything : close;
            if (std::isnan(value)) {
                continue;
            }
            const double scaled = std::ldexp(static_cast<double>(value), 127 - static_cast<int>(scale));
            if (encode_scaled(element, value, scale) != nearest(element, scaled)) {
                CAPTURE(info(element).name, value, scale);
                CHECK(encode_scaled(element, value, scale) == nearest(element, scaled));
            }
        }
    }
}

TEST_CASE("every element under every scale is their product, rounded once to FP32") {
    for (const Number element : kElements) {
        for (std::uint32_t code = 0; code < 1U << info(element).bits; ++code) {
            for (int scale = 0; scale < 255; ++scale) {
                const float found = decode_scaled(element, code, static_cast<std::uint8_t>(scale));
                const auto expected =
                    static_cast<float>(std::ldexp(static_cast<double>(decode(element, code)), scale - 127));
                if (std::isnan(expected) ? !std::isnan(found) : found != expected) {
                    CAPTURE(info(element).name, code, scale);
                    CHECK(found == expected);
                }
            }
            CHECK(std::isnan(decode_scaled(element, code, 0xFF)));
        }
    }
    CHECK(decode_scaled(Number::e4m3, 0x7E, 0xFE) == kInfinity);  // 448 x 2^127
    CHECK(decode_scaled(Number::e2m1, 0x1, 0) == 0x1p-128F);      // a subnormal FP32 value
    CHECK(decode_scaled(Number::e5m2, 0x1, 127 - 120) == 0x1p-136F);
}

TEST_CASE("a group is encoded under its own scale") {
    const std::vector<float> values{0.0F, -0.0F, 1.0F, -3.0F, 12.0F, 0.4F, 0.5F, -0.75F};
    std::vector<std::uint32_t> codes(values.size());
    // The largest is 12 = 6 x 2: the scale is 2, and the elements are 0, -0, 0.5, -1.5, 6, 0.2, 0.25 (a tie), -0.375.
    const std::uint8_t scale = quantise_group(values, Number::e2m1, ScaleRounding::floor, codes);
    CHECK(scale == 128);
    CHECK(codes == std::vector<std::uint32_t>{0x0, 0x8, 0x1, 0xB, 0x7, 0x0, 0x0, 0x9});
}

TEST_CASE("a group of zeros has the smallest scale") {
    std::vector<std::uint32_t> codes(32, 99);
    CHECK(quantise_group(std::vector<float>(32), Number::e4m3, ScaleRounding::floor, codes) == 0);
    CHECK(codes == std::vector<std::uint32_t>(32, 0));
}

TEST_CASE("one NaN or infinity makes a group NaN") {
    for (const Number element : kElements) {
        for (const ScaleRounding rounding : kRoundings) {
            for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
                for (const std::size_t place : {0, 15, 31}) {
                    std::vector<float> values(32, 3.0F);
                    values[place] = bad;
                    std::vector<std::uint32_t> codes(32, 99);
                    CHECK(quantise_group(values, element, rounding, codes) == 0xFF);
                    CHECK(codes == std::vector<std::uint32_t>(32, 0));
                }
            }
        }
    }
}

TEST_CASE("a NaN under a scale that is none needs a code of its own") {
    CHECK(encode_scaled(Number::e4m3, kNan, 127) == 0x7F);
    const std::string message = input_error([] { static_cast<void>(encode_scaled(Number::e2m1, kNan, 127)); });
    CHECK_THAT(message, Contains("e2m1") && Contains("NaN"));
}

TEST_CASE("a rounding is found by its name, and an unknown one is refused") {
    for (const ScaleRounding rounding : kRoundings) {
        CHECK(parse_scale_rounding(name(rounding), "--scale-rounding") == rounding);
    }
    const std::string message =
        input_error([] { static_cast<void>(parse_scale_rounding("nearest", "--scale-rounding")); });
    CHECK_THAT(message, Contains("--scale-rounding") && Contains("nearest") && Contains("floor, ceil, even"));
}

}  // namespace
}  // namespace sluice::isa
