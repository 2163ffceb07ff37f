// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a decoder's tensors lie in HBM.
#include "kernels/decoder_plan.hpp"
#include "kernels/placement.hpp"

namespace sluice::kernels {

[[nodiscard]] Placement decoder_placement(const DecoderPlan& plan);

}  // namespace sluice::kernels
