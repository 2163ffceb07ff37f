// SPDX-License-Identifier: Apache-2.0
#include "isa/number/import_forms.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "isa/number/number.hpp"
#include "tests/support/files.hpp"

namespace sluice::isa {
namespace {

using Catch::Matchers::Contains;
using test::input_error;

/// The published E2M1 values by code.
constexpr float kE2m1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};

TEST_CASE("gpt-oss weights are nibbles, the low one first, times 2^(scale - 127)") {
    std::vector<std::uint8_t> blocks(2 * 16, 0);
    blocks[0] = 0x21;   // codes 1 and 2: 0.5 and 1
    blocks[15] = 0xF7;  // 7 and 15: 6 and -6
    blocks[16] = 0x0B;  // second group: 11: -1.5
    const std::vector<float> values = decode_gpt_oss(blocks, std::vector<std::uint8_t>{127, 130});
    std::vector<float> expected(64, 0.0F);
    expected[0] = 0.5F;
    expected[1] = 1;
    expected[30] = 6;
    expected[31] = -6;
    expected[32] = -1.5F * 8;
    CHECK(values == expected);
}

TEST_CASE("every gpt-oss nibble under every scale is exact in FP32") {
    std::vector<std::uint8_t> blocks(16);
    for (std::size_t i = 0; i < 16; ++i) {
        blocks[i] = static_cast<std::uint8_t>(i | (15 - i) << 4);
    }
    // 2^-127 x 0.5 is an FP32 subnormal; 2^125 x 6 is still finite.
    for (int scale = 0; scale <= 127 + 125; ++scale) {
        const std::vector<float> values =
            decode_gpt_oss(blocks, std::vector<std::uint8_t>{static_cast<std::uint8_t>(scale)});
        for (std::size_t i = 0; i < 16; ++i) {
            CHECK(std::ldexp(static_cast<double>(values[2 * i]), 127 - scale) == static_cast<double>(kE2m1[i]));
            CHECK(std::ldexp(static_cast<double>(values[2 * i + 1]), 127 - scale) ==
                  static_cast<double>(kE2m1[15 - i]));
        }
    }
    for (const float value : decode_gpt_oss(blocks, std::vector<std::uint8_t>{255})) {
        CHECK(std::isnan(value));
    }
}

TEST_CASE("NVFP4 weights are nibbles times the scale of their 16 times that of the tensor") {
    std::vector<std::uint8_t> packed(2 * 8, 0);
    packed[0] = 0x73;                                    // 1.5 and 6
    packed[7] = 0xA0;                                    // 0 and -1
    packed[8] = 0x01;                                    // second group: 0.5
    const std::vector<std::uint8_t> scales{0x38, 0x7E};  // 1 and 448
    const std::vector<float> values = decode_nvfp4(packed, scales, 0.125F);
    std::vector<float> expected(32, 0.0F);
    expected[0] = 1.5F / 8;
    expected[1] = 6.0F / 8;
    expected[15] = -1.0F / 8;
    expected[16] = 0.5F * 448 / 8;
    CHECK(values == expected);
}

TEST_CASE("an NVFP4 value is off by at most half a step of its element and the rounding of its scale") {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02F);
    std::vector<float> values(16 * 256);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = normal(random) * (i / 16 % 5 == 0 ? 8.0F : 1.0F);
    }
    const Nvfp4 stored = encode_nvfp4(values);
    CHECK(stored.packed.size() == values.size() / 2);
    CHECK(stored.scales.size() == values.size() / 16);
    const std::vector<float> back = decode_nvfp4(stored.packed, stored.scales, stored.tensor_scale);
    float most = 0;
    for (const float value : values) {
        most = std::max(most, std::abs(value));
    }
    CHECK(stored.tensor_scale == most / (6 * 448));
    for (std::size_t i = 0; i < values.size(); ++i) {
        float of_group = 0;
        for (std::size_t k = i / 16 * 16; k < i / 16 * 16 + 16; ++k) {
            of_group = std::max(of_group, std::abs(values[k]));
        }
        // E2M1's widest step is 2 (from 4 to 6), so half of it is 1 of 6 parts of the group's largest value. An E4M3
        // scale may be 1/16 too large, which widens the step, or too small, which cuts 1/16 off the largest.
        CHECK(std::abs(back[i] - values[i]) <= of_group / 6 * (1 + 1.0F / 16) * 1.0001F);
    }
}

TEST_CASE("NVFP4 stores what it can represent without a loss") {
    // The largest value of every group is 6 x an E4M3 scale x 2^-3; 448 occurs, so the tensor's scale is 2^-3.
    std::vector<float> values;
    for (const float scale : {448.0F, 1.0F, 0.25F, 3.5F}) {
        for (const float element : kE2m1) {
            values.push_back(element * scale / 8);
        }
    }
    const Nvfp4 stored = encode_nvfp4(values);
    CHECK(stored.tensor_scale == 0.125F);
    CHECK(stored.scales == std::vector<std::uint8_t>{0x7E, 0x38, 0x28, 0x46});
    CHECK(stored.packed[0] == 0x10);
    CHECK(decode_nvfp4(stored.packed, stored.scales, stored.tensor_scale) == values);
}

TEST_CASE("NVFP4 of zeros, of nothing and of groups too small for a scale is zeros") {
    const Nvfp4 zeros = encode_nvfp4(std::vector<float>(32, 0.0F));
    CHECK(zeros.tensor_scale == 0);
    CHECK(decode_nvfp4(zeros.packed, zeros.scales, zeros.tensor_scale) == std::vector<float>(32, 0.0F));
    CHECK(encode_nvfp4({}).packed.empty());
    // 1 of 2^20 parts of the largest value is below half of the smallest E4M3 scale, 2^-9 of 448.
    std::vector<float> mixed(32, 0x1p-20F);
    mixed[0] = 1;
    const Nvfp4 stored = encode_nvfp4(mixed);
    CHECK(stored.scales[1] == 0);
    CHECK(decode_nvfp4(stored.packed, stored.scales, stored.tensor_scale)[31] == 0);
}

TEST_CASE("NVFP4 keeps the largest and smallest FP32 values finite") {
    for (const float most : {std::numeric_limits<float>::max(), std::numeric_limits<float>::min(),
                             std::numeric_limits<float>::denorm_min()}) {
        std::vector<float> values(16, most / 2);
        values[0] = most;
        const Nvfp4 stored = encode_nvfp4(values);
        for (const float value : decode_nvfp4(stored.packed, stored.scales, stored.tensor_scale)) {
            CHECK(std::isfinite(value));
        }
    }
}

TEST_CASE("weights whose sizes do not match are refused") {
    const std::vector<std::uint8_t> bytes(24);
    const std::vector<std::uint8_t> scale(1);
    CHECK_THAT(input_error([&] { static_cast<void>(decode_gpt_oss(bytes, scale)); }),
               Contains("gpt-oss") && Contains("48 elements and 1 scales"));
    CHECK_THAT(input_error([&] { static_cast<void>(decode_nvfp4(bytes, scale, 1)); }),
               Contains("NVFP4") && Contains("16 elements"));
    CHECK_THAT(input_error([] { static_cast<void>(encode_nvfp4(std::vector<float>(17))); }), Contains("17 values"));
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> values(16, 1.0F);
        values[3] = bad;
        CHECK_THAT(input_error([&] { static_cast<void>(encode_nvfp4(values)); }), Contains("NaN or infinite"));
    }
}

}  // namespace
}  // namespace sluice::isa
