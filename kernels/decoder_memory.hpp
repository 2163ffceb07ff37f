// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a decoder's tensors lie in HBM and CSRAM, and how many rows CSRAM holds.
#include "kernels/decoder_plan.hpp"

namespace sluice::kernels {

/// CSRAM bytes of 32 rows of activations, of any layer at most.
[[nodiscard]] std::int64_t csram_bytes_per_row_block(const DecoderPlan& plan);
/// CSRAM bytes of the last tokens' rows of a prefill.
[[nodiscard]] std::int64_t last_rows_bytes(const DecoderPlan& plan);
/// Row blocks of one group that CSRAM holds.
[[nodiscard]] std::int64_t room_in_csram(const DecoderPlan& plan, const isa::ChipSpec& chip);

/// Place everything; throw InputError if a memory is too small.
void place_hbm(DecoderPlan& plan, const isa::ChipSpec& chip);
void place_csram(DecoderPlan& plan, const isa::ChipSpec& chip);

}  // namespace sluice::kernels
