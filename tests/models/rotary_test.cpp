// SPDX-License-Identifier: Apache-2.0
#include "models/rotary.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

namespace sluice::models {
namespace {

/// BF16 keeps 8 significant bits: half a unit in the last place is 2^-9 of the value.
Approx bf16(double value) {
    return Approx(value).epsilon(0x1p-8).margin(1e-30);
}

Rope rope(std::int64_t head_dim, double theta) {
    Rope out;
    out.heads = 1;
    out.head_dim = head_dim;
    out.theta = theta;
    return out;
}

TEST_CASE("dimension i turns by position x theta^(-2 i / d)") {
    const Rope plain = rope(64, 10000.0);
    for (const std::int64_t position : {0, 1, 2, 77, 4095}) {
        const RotaryRow row = rotary_row(plain, position);
        REQUIRE(row.cosine.size() == 32);
        REQUIRE(row.sine.size() == 32);
        for (int i = 0; i < 32; ++i) {
            const double angle = static_cast<double>(position) / std::pow(10000.0, i / 32.0);
            CHECK(static_cast<double>(row.cosine[static_cast<std::size_t>(i)]) == bf16(std::cos(angle)));
            CHECK(static_cast<double>(row.sine[static_cast<std::size_t>(i)]) == bf16(std::sin(angle)));
        }
    }
    CHECK(rotary_row(plain, 0).cosine == std::vector<float>(32, 1.0F));
}

TEST_CASE("linear scaling makes a position what an earlier one was") {
    Rope stretched = rope(64, 10000.0);
    stretched.scaling.kind = RopeScaling::Kind::linear;
    stretched.scaling.factor = 4;
    const Rope plain = rope(64, 10000.0);
    CHECK(rotary_row(stretched, 400).cosine == rotary_row(plain, 100).cosine);
    CHECK(rotary_row(stretched, 400).sine == rotary_row(plain, 100).sine);
}

TEST_CASE("Llama 3.1 keeps short wave lengths, divides long ones, and goes from one to the other in between") {
    Rope llama = rope(128, 500000.0);
    llama.scaling = {RopeScaling::Kind::llama3, 8.0, 1.0, 4.0, 8192};
    const RotaryRow row = rotary_row(llama, 1000);
    int kept = 0;
    int divided = 0;
    int between = 0;
    for (int i = 0; i < 64; ++i) {
        const double frequency = std::pow(500000.0, -i / 64.0);
        const double wave_length = 2 * std::numbers::pi / frequency;
        double wanted = frequency;
        if (wave_length > 8192.0) {  // original positions / low_freq_factor
            wanted = frequency / 8;
            ++divided;
        } else if (wave_length >= 8192.0 / 4) {
            // smooth = (original / wave length - low) / (high - low)
            const double smooth = (8192.0 / wave_length - 1.0) / (4.0 - 1.0);
            wanted = (1 - smooth) * frequency / 8 + smooth * frequency;
            ++between;
        } else {
            ++kept;
        }
        CHECK(static_cast<double>(row.cosine[static_cast<std::size_t>(i)]) == bf16(std::cos(1000 * wanted)));
        CHECK(static_cast<double>(row.sine[static_cast<std::size_t>(i)]) == bf16(std::sin(1000 * wanted)));
    }
    // 2 pi 500000^(i / 64) reaches 2,048 at i = 28.2 and 8,192 at i = 35.0.
    CHECK(kept == 29);
    CHECK(between == 6);
    CHECK(divided == 29);
}

TEST_CASE("YaRN keeps pairs that turn often within the original context, divides those that turn less than once") {
    Rope yarn = rope(64, 150000.0);
    yarn.scaling.kind = RopeScaling::Kind::yarn;
    yarn.scaling.factor = 32;
    yarn.scaling.original_max_position_embeddings = 4096;
    yarn.scaling.beta_fast = 32;
    yarn.scaling.beta_slow = 1;
    yarn.scaling.attention_factor = 1.25;
    // 4096 150000^(-i / 32) / 2 pi turns: 32 of them at i = 8.09, one at i = 17.4.
    const double fast = 32 * std::log(4096 / (2 * std::numbers::pi * 32)) / std::log(150000.0);
    const double slow = 32 * std::log(4096 / (2 * std::numbers::pi)) / std::log(150000.0);
    CHECK(fast == Approx(8.09).margin(0.01));
    CHECK(slow == Approx(17.40).margin(0.01));
    for (const bool truncate : {false, true}) {
        yarn.scaling.truncate = truncate;
        const double low = truncate ? 8 : fast;
        const double high = truncate ? 18 : slow;
        const RotaryRow row = rotary_row(yarn, 3000);
        for (int i = 0; i < 32; ++i) {
            const double frequency = std::pow(150000.0, -i / 32.0);
            double wanted = frequency / 32;
            if (i < low) {
                wanted = frequency;
            } else if (i < high) {
                wanted = frequency + (frequency / 32 - frequency) * (i - low) / (high - low);
            }
            CHECK(static_cast<double>(row.cosine[static_cast<std::size_t>(i)]) == bf16(1.25 * std::cos(3000 * wanted)));
            CHECK(static_cast<double>(row.sine[static_cast<std::size_t>(i)]) == bf16(1.25 * std::sin(3000 * wanted)));
        }
    }
}

}  // namespace
}  // namespace sluice::models
