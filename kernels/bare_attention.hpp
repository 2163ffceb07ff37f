// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bare attention from and to HBM.
#include "kernels/compile.hpp"

namespace sluice::kernels {

[[nodiscard]] Compiled compile_attention(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule);

}  // namespace sluice::kernels
