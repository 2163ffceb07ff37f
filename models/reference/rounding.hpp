// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scalar operations of the vector unit, each rounded once to FP32.
#include <cmath>
#include <vector>

#include "isa/number/number.hpp"

namespace sluice::models {

inline float bf16(float value) {
    return isa::decode(isa::Number::bf16, isa::encode(isa::Number::bf16, value));
}
inline float sum_of(const std::vector<float>& values) {
    double total = 0;
    for (const float value : values) {
        total += static_cast<double>(value);
    }
    return static_cast<float>(total);
}
inline float exponential(float x) {
    return static_cast<float>(std::exp(static_cast<double>(x)));
}
inline float reciprocal(float x) {
    return static_cast<float>(1.0 / static_cast<double>(x));
}

}  // namespace sluice::models
