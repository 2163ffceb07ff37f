// SPDX-License-Identifier: Apache-2.0
// Every code, every midpoint between two neighbouring values and the midpoint's FP32 neighbours, in every format: these
// are all the places where the code of a value changes. Random values look in between.
#include "isa/number/number.hpp"

#include <algorithm>
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

/// The fields as the standards give them; written down again so that a slip in the sources is seen.
struct Layout {
    Number number;
    int exponent_bits, mantissa_bits, bias;
    std::uint32_t largest;   ///< code of the largest finite value
    std::uint32_t overflow;  ///< what is beyond it becomes
    std::uint32_t nan;       ///< the canonical one; 0: there is none
};
constexpr std::array<Layout, 8> kSigned{{
    {Number::e2m1, 2, 1, 1, 0x7, 0x7, 0},
    {Number::e1m2, 1, 2, 1, 0x7, 0x7, 0},
    {Number::e2m3, 2, 3, 1, 0x1F, 0x1F, 0},
    {Number::e3m2, 3, 2, 3, 0x1F, 0x1F, 0},
    {Number::e4m3, 4, 3, 7, 0x7E, 0x7E, 0x7F},
    {Number::e5m2, 5, 2, 15, 0x7B, 0x7B, 0x7E},
    {Number::bf16, 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0},
    {Number::fp16, 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00},
}};
constexpr std::uint32_t kLargestPower = 0xFE;  // E8M0

std::uint32_t sign_of(const Layout& layout) {
    return 1U << (layout.exponent_bits + layout.mantissa_bits);
}

/// (-1)^s * 2^(max(e, 1) - bias) * ((e > 0) + fraction / 2^mantissa bits), of codes up to the largest finite one.
double formula(const Layout& layout, std::uint32_t code) {
    const std::uint32_t magnitude = code & (sign_of(layout) - 1);
    const double fraction = std::fmod(magnitude, std::exp2(layout.mantissa_bits)) / std::exp2(layout.mantissa_bits);
    const int exponent = static_cast<int>(magnitude) / (1 << layout.mantissa_bits);
    const double value = std::ldexp((exponent > 0 ? 1 : 0) + fraction, std::max(exponent, 1) - layout.bias);
    return (code & sign_of(layout)) != 0 ? -value : value;
}

bool same_bits(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// Catch's assertions are too slow for millions of values.
void expect_code(Number number, float value, std::uint32_t code) {
    if (encode(number, value) != code) {
        CAPTURE(info(number).name, value, code);
        CHECK(encode(number, value) == code);
    }
}
void expect_value(Number number, std::uint32_t code, float value) {
    const float found = decode(number, code);
    if (std::isnan(value) ? !std::isnan(found) : !same_bits(found, value)) {
        CAPTURE(info(number).name, code, value);
        CHECK(found == value);
    }
}

TEST_CASE("every code is its fields, and is found again by its value") {
    std::size_t formats = 0;
    std::size_t codes = 0;
    for (const Layout& layout : kSigned) {
        for (std::uint32_t code = 0; code < 2 * sign_of(layout); ++code, ++codes) {
            const std::uint32_t magnitude = code & (sign_of(layout) - 1);
            if (magnitude <= layout.largest) {
                const auto value = static_cast<float>(formula(layout, code));
                expect_value(layout.number, code, value);
                expect_code(layout.number, value, code);
            } else if (layout.overflow > layout.largest && magnitude == layout.overflow) {
                expect_value(layout.number, code, code == magnitude ? kInfinity : -kInfinity);
                expect_code(layout.number, decode(layout.number, code), code);
            } else if (layout.number == Number::e5m2 && magnitude == 0x7C) {  // decoded, but saturated when encoded
                expect_value(layout.number, code, code == magnitude ? kInfinity : -kInfinity);
                expect_code(layout.number, decode(layout.number, code), code - 1);
            } else {
                expect_value(layout.number, code, std::numeric_limits<float>::quiet_NaN());
                expect_code(layout.number, decode(layout.number, code), layout.nan);
            }
        }
        ++formats;
    }
    for (std::uint32_t code = 0; code <= kLargestPower; ++code, ++codes) {
        expect_value(Number::e8m0, code, std::ldexp(1.0F, static_cast<int>(code) - 127));
        expect_code(Number::e8m0, decode(Number::e8m0, code), code);
    }
    CHECK(std::isnan(decode(Number::e8m0, 0xFF)));
    ++codes;
    ++formats;
    CHECK(formats == 9);
    CHECK(codes == 2 * 16 + 2 * 64 + 3 * 256 + 2 * 65'536);
}

TEST_CASE("FP32 is itself, but for the payload of a NaN") {
    // Every sign and exponent, with the ends of the fraction and some of its middle.
    for (std::uint32_t upper = 0; upper < 512; ++upper) {
        for (std::uint32_t i = 0; i < 256; ++i) {
            const std::uint32_t code = upper << 23 | (i < 128 ? i : 0x7FFFFF - (i - 128) * 0x8001);
            const bool nan = (code & 0x7FFFFFFF) > 0x7F800000;
            expect_value(Number::fp32, code, std::bit_cast<float>(code));
            expect_code(Number::fp32, std::bit_cast<float>(code), nan ? 0x7FC00000 : code);
        }
    }
}

TEST_CASE("the short formats hold the published values") {
    // OCP Microscaling Formats v1.0, its tables of element formats; E1M2 is assumed to be quarters.
    const std::vector<float> e2m1{0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const std::vector<float> e1m2{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75};
    const std::vector<float> e2m3{0,     0.125, 0.25,  0.375, 0.5,   0.625, 0.75, 0.875, 1,    1.125, 1.25,
                                  1.375, 1.5,   1.625, 1.75,  1.875, 2,     2.25, 2.5,   2.75, 3,     3.25,
                                  3.5,   3.75,  4,     4.5,   5,     5.5,   6,    6.5,   7,    7.5};
    const std::vector<float> e3m2{0,     0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75,
                                  0.875, 1,      1.25,  1.5,    1.75, 2,      2.5,   3,      3.5, 4,     5,
                                  6,     7,      8,     10,     12,   14,     16,    20,     24,  28};
    const auto holds = [](Number number, const std::vector<float>& values) {
        for (std::uint32_t code = 0; code < values.size(); ++code) {
            CAPTURE(info(number).name, code);
            CHECK(same_bits(decode(number, code), values[code]));
            CHECK(same_bits(decode(number, code + static_cast<std::uint32_t>(values.size())), -values[code]));
        }
    };
    holds(Number::e2m1, e2m1);
    holds(Number::e1m2, e1m2);
    holds(Number::e2m3, e2m3);
    holds(Number::e3m2, e3m2);
    // OCP 8-bit Floating Point Specification v1.0, its table of values.
    CHECK(decode(Number::e4m3, 0x7E) == 448);
    CHECK(decode(Number::e4m3, 0x08) == 0x1p-6F);
    CHECK(decode(Number::e4m3, 0x07) == 0.875F * 0x1p-6F);
    CHECK(decode(Number::e4m3, 0x01) == 0x1p-9F);
    CHECK(decode(Number::e5m2, 0x7B) == 57'344);
    CHECK(decode(Number::e5m2, 0x04) == 0x1p-14F);
    CHECK(decode(Number::e5m2, 0x03) == 0.75F * 0x1p-14F);
    CHECK(decode(Number::e5m2, 0x01) == 0x1p-16F);
    CHECK(decode(Number::fp16, 0x7BFF) == 65'504);
    CHECK(decode(Number::fp16, 0x0001) == 0x1p-24F);
}

/// Midpoints of neighbours lo < hi with codes `code` and `code + 1`, and what is next to them.
void expect_midpoint(Number number, double lo, double hi, std::uint32_t below, std::uint32_t above, float sign,
                     std::uint32_t sign_bit) {
    const double middle = (lo + hi) / 2;
    const auto value = static_cast<float>(middle);
    REQUIRE(static_cast<double>(value) == middle);
    expect_code(number, sign * std::nextafter(value, 0.0F), below | sign_bit);
    expect_code(number, sign * value, (below % 2 == 0 ? below : above) | sign_bit);
    expect_code(number, sign * std::nextafter(value, kInfinity), above | sign_bit);
}

TEST_CASE("midpoints go to the even code, and their neighbours to the nearest") {
    std::size_t midpoints = 0;
    for (const Layout& layout : kSigned) {
        for (std::uint32_t code = 0; code < layout.largest; ++code, ++midpoints) {
            const double lo = formula(layout, code);
            const double hi = formula(layout, code + 1);
            expect_midpoint(layout.number, lo, hi, code, code + 1, 1.0F, 0);
            expect_midpoint(layout.number, lo, hi, code, code + 1, -1.0F, sign_of(layout));
        }
    }
    for (std::uint32_t code = 0; code < kLargestPower; ++code, ++midpoints) {
        const double lo = std::exp2(static_cast<int>(code) - 127);
        expect_midpoint(Number::e8m0, lo, 2 * lo, code, code + 1, 1.0F, 0);
    }
    CHECK(midpoints == 2 * 7 + 2 * 31 + 126 + 123 + 32'639 + 31'743 + 254);
}

TEST_CASE("what is beyond the largest value saturates in 4 to 8 bits and is infinite in 16") {
    for (const Layout& layout : kSigned) {
        CAPTURE(info(layout.number).name);
        const double largest = formula(layout, layout.largest);
        const double next = 2 * largest - formula(layout, layout.largest - 1);
        const auto middle = static_cast<float>((largest + next) / 2);
        for (const float sign : {1.0F, -1.0F}) {
            const std::uint32_t bit = sign < 0 ? sign_of(layout) : 0;
            CHECK(encode(layout.number, sign * std::nextafter(static_cast<float>(largest), kInfinity)) ==
                  (layout.largest | bit));
            CHECK(encode(layout.number, sign * std::nextafter(middle, 0.0F)) == (layout.largest | bit));
            // The largest code of 16 bits is odd, so the midpoint is infinite.
            CHECK(encode(layout.number, sign * middle) == (layout.overflow | bit));
            CHECK(encode(layout.number, sign * std::nextafter(middle, kInfinity)) == (layout.overflow | bit));
            CHECK(encode(layout.number, sign * std::numeric_limits<float>::max()) == (layout.overflow | bit));
            CHECK(encode(layout.number, sign * kInfinity) == (layout.overflow | bit));
        }
    }
    CHECK(encode(Number::e8m0, std::numeric_limits<float>::max()) == kLargestPower);
    CHECK(encode(Number::e8m0, kInfinity) == kLargestPower);
}

TEST_CASE("E8M0 has no zero and no sign") {
    CHECK(encode(Number::e8m0, 0.0F) == 0);
    CHECK(encode(Number::e8m0, -0.0F) == 0);
    CHECK(encode(Number::e8m0, std::numeric_limits<float>::denorm_min()) == 0);
    CHECK(encode(Number::e8m0, -std::numeric_limits<float>::denorm_min()) == 0xFF);
    CHECK(encode(Number::e8m0, -1.0F) == 0xFF);
    CHECK(encode(Number::e8m0, -kInfinity) == 0xFF);
}

TEST_CASE("a NaN of any payload is the canonical one, and refused where there is none") {
    // Quiet, signalling, negative, and the ends of the payload.
    const std::vector<std::uint32_t> payloads{0x7FC00000, 0x7F800001, 0xFFC00000, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF};
    for (const std::uint32_t bits : payloads) {
        const auto nan = std::bit_cast<float>(bits);
        for (const Layout& layout : kSigned) {
            if (layout.nan != 0) {
                CHECK(encode(layout.number, nan) == layout.nan);
                continue;
            }
            const std::string message = input_error([&] { static_cast<void>(encode(layout.number, nan)); });
            CHECK_THAT(message, Contains(std::string(info(layout.number).name)) && Contains("NaN"));
        }
        CHECK(encode(Number::e8m0, nan) == 0xFF);
        CHECK(encode(Number::fp32, nan) == 0x7FC00000);
    }
}

TEST_CASE("a random value becomes the code that a search finds nearest") {
    std::mt19937 random(1);
    for (const Layout& layout : kSigned) {
        // Midpoint i lies between codes i and i + 1: as many as are below the value, that is its code.
        std::vector<double> midpoints;
        for (std::uint32_t code = 0; code < layout.largest; ++code) {
            midpoints.push_back((formula(layout, code) + formula(layout, code + 1)) / 2);
        }
        const double largest = formula(layout, layout.largest);
        midpoints.push_back(largest + (largest - midpoints.back()));
        for (int i = 0; i < 100'000; ++i) {
            const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
            if (std::isnan(value)) {
                continue;
            }
            // Ties, which are hardly met here, are above.
            const auto found = std::lower_bound(midpoints.begin(), midpoints.end(), std::abs(value));
            const auto code = static_cast<std::uint32_t>(found - midpoints.begin());
            expect_code(layout.number, value,
                        (code > layout.largest ? layout.overflow : code) | (std::signbit(value) ? sign_of(layout) : 0));
        }
    }
}

TEST_CASE("a format's description agrees with its codes") {
    for (const Layout& layout : kSigned) {
        const NumberInfo& entry = info(layout.number);
        CAPTURE(entry.name);
        CHECK(entry.number == layout.number);
        CHECK(entry.bits == 1 + layout.exponent_bits + layout.mantissa_bits);
        CHECK(entry.has_sign);
        CHECK(static_cast<double>(entry.largest) == formula(layout, layout.largest));
        CHECK(entry.highest_exponent == std::ilogb(formula(layout, layout.largest)));
        CHECK((entry.specials == Specials::none) == (layout.nan == 0));
    }
    CHECK(info(Number::e8m0).largest == decode(Number::e8m0, kLargestPower));
    CHECK_FALSE(info(Number::e8m0).has_sign);
    CHECK(info(Number::fp32).largest == std::numeric_limits<float>::max());
    for (int n = 0; n < kNumberCount; ++n) {
        CHECK(static_cast<int>(info(static_cast<Number>(n)).number) == n);
    }
}

TEST_CASE("only the low bits of a code count") {
    CHECK(decode(Number::e2m1, 0xF7) == 6);
    CHECK(decode(Number::e3m2, 0xDF) == 28);
    CHECK(decode(Number::e4m3, 0x17E) == 448);
    CHECK(decode(Number::bf16, 0x13F80) == 1);
    CHECK(decode(Number::fp16, 0x13C00) == 1);
}

}  // namespace
}  // namespace sluice::isa
