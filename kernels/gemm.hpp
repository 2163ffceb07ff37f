// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bare matrix product from and to HBM.
#include "kernels/compile.hpp"

namespace sluice::kernels {

[[nodiscard]] Compiled compile_gemm(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule);

}  // namespace sluice::kernels
