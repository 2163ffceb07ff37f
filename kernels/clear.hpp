// SPDX-License-Identifier: Apache-2.0
#pragma once
// Zeros for rows that hold no token. A lone row block works on its valid rows only; several row blocks are worked on
// whole, and what is not a token must then be a number all the same: what nobody wrote could be NaN, and 0 x NaN is
// NaN.
#include "kernels/decoder_plan.hpp"
#include "kernels/emitter.hpp"

namespace sluice::kernels {

/// Of the residual, and of what no kernel writes for such rows, in all clusters of the group.
[[nodiscard]] std::vector<isa::DmaMacro> clear_spare_rows(const Emitter& emit, const DecoderPlan& plan,
                                                          const Chunk& chunk);
/// Of the head's input in a prefill, in all clusters of the chip.
[[nodiscard]] std::vector<isa::DmaMacro> clear_last_rows(const Emitter& emit, const DecoderPlan& plan);

}  // namespace sluice::kernels
