// SPDX-License-Identifier: Apache-2.0
#pragma once
// The angles of a rotary position embedding, as every implementation must compute them: binary64, then BF16.
#include <cstdint>
#include <vector>

#include "models/graph.hpp"

namespace sluice::models {

struct RotaryRow {
    std::vector<float> cosine, sine;  ///< head_dim / 2 values; element i rotates dimensions i and i + head_dim / 2
};
/// angle_i = position * f_i with f_i = theta^(-2 i / head_dim), stretched as `rope.scaling` says.
[[nodiscard]] RotaryRow rotary_row(const Rope& rope, std::int64_t position);

}  // namespace sluice::models
