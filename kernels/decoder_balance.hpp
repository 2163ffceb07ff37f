// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/decoder_plan.hpp"

namespace sluice::kernels {

/// Decode is bound by what tiles stream from HBM, each its own part of every matrix and of the caches. Sets
/// DecoderPlan::wide_from such that those that take one unit more of a matrix are others than those that take one more
/// of the rest, as far as that goes.
void balance_streams(DecoderPlan& plan);

}  // namespace sluice::kernels
