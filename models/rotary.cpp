// SPDX-License-Identifier: Apache-2.0
#include "models/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "isa/number/number.hpp"

namespace sluice::models {

namespace {

/// Llama 3.1 (Hugging Face transformers, `rope_type: llama3`): long wave lengths are stretched by the factor, short
/// ones kept, those between interpolated.
double stretch_llama3(const RopeScaling& scaling, double frequency) {
    const double wave_length = 2 * std::numbers::pi / frequency;
    const auto original = static_cast<double>(scaling.original_max_position_embeddings);
    if (wave_length < original / scaling.high_freq_factor) {
        return frequency;
    }
    if (wave_length > original / scaling.low_freq_factor) {
        return frequency / scaling.factor;
    }
    const double smooth =
        (original / wave_length - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

/// YaRN (arXiv 2309.00071, section 3.2): pairs that turn more than `beta_fast` times within the original context are
/// kept, those that turn less than `beta_slow` times stretched; those between are mixed.
double stretch_yarn(const Rope& rope, std::int64_t pair, double frequency) {
    const RopeScaling& scaling = rope.scaling;
    const auto dims = static_cast<double>(rope.head_dim);
    const auto pair_of_turns = [&](double turns) {
        const double wave_lengths =
            static_cast<double>(scaling.original_max_position_embeddings) / (turns * 2 * std::numbers::pi);
        return dims * std::log(wave_lengths) / (2 * std::log(rope.theta));
    };
    double low = pair_of_turns(scaling.beta_fast);
    double high = pair_of_turns(scaling.beta_slow);
    if (scaling.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, dims - 1);
    constexpr double kApart = 0.001;
    const double width = low == high ? kApart : high - low;
    const double stretched = std::clamp((static_cast<double>(pair) - low) / width, 0.0, 1.0);
    return frequency * (stretched / scaling.factor + 1 - stretched);
}

double stretch(const Rope& rope, std::int64_t pair, double frequency) {
    switch (rope.scaling.kind) {
        case RopeScaling::Kind::none: break;
        case RopeScaling::Kind::linear: return frequency / rope.scaling.factor;
        case RopeScaling::Kind::llama3: return stretch_llama3(rope.scaling, frequency);
        case RopeScaling::Kind::yarn: return stretch_yarn(rope, pair, frequency);
    }
    return frequency;
}

float to_bf16(double value) {
    return isa::decode(isa::Number::bf16, isa::encode(isa::Number::bf16, static_cast<float>(value)));
}

}  // namespace

RotaryRow rotary_row(const Rope& rope, std::int64_t position) {
    RotaryRow out;
    for (std::int64_t i = 0; i < rope.head_dim / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.head_dim);
        const double angle = static_cast<double>(position) * stretch(rope, i, std::pow(rope.theta, exponent));
        out.cosine.push_back(to_bf16(std::cos(angle) * rope.scaling.attention_factor));
        out.sine.push_back(to_bf16(std::sin(angle) * rope.scaling.attention_factor));
    }
    return out;
}

}  // namespace sluice::models
