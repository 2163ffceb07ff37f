// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensor unit's dot product as isa/number/README.md states it, written a second time and differently, so that one
// checks the other: 113-bit floating point, in which every sum here is exact.
#include <vector>

#include "isa/format.hpp"

namespace sluice::models {

/// start + sum of a[i] * b[i], the values being those of the formats (scales applied). 4- to 8-bit formats: one
/// rounding to FP32 a block of 32; 16-bit ones: eight products added in binary64, then one rounding.
[[nodiscard]] float dot(isa::Format a_format, const std::vector<float>& a, isa::Format b_format,
                        const std::vector<float>& b, float start);

}  // namespace sluice::models
