// SPDX-License-Identifier: Apache-2.0
#include "models/rotary.hpp"

#include <cmath>
#include <numbers>

#include "isa/number/number.hpp"

namespace sluice::models {

namespace {

/// Llama 3.1 (Hugging Face transformers, `rope_type: llama3`): long wave lengths are stretched by the factor, short
/// ones kept, those between interpolated.
double stretch(const RopeScaling& scaling, double frequency) {
    switch (scaling.kind) {
        case RopeScaling::Kind::none: return frequency;
        case RopeScaling::Kind::linear: return frequency / scaling.factor;
        case RopeScaling::Kind::llama3: break;
    }
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

float to_bf16(double value) {
    return isa::decode(isa::Number::bf16, isa::encode(isa::Number::bf16, static_cast<float>(value)));
}

}  // namespace

RotaryRow rotary_row(const Rope& rope, std::int64_t position) {
    RotaryRow out;
    for (std::int64_t i = 0; i < rope.head_dim / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.head_dim);
        const double angle = static_cast<double>(position) * stretch(rope.scaling, std::pow(rope.theta, exponent));
        out.cosine.push_back(to_bf16(std::cos(angle)));
        out.sine.push_back(to_bf16(std::sin(angle)));
    }
    return out;
}

}  // namespace sluice::models
