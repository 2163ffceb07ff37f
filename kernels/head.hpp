// SPDX-License-Identifier: Apache-2.0
#pragma once
// The LM head: logits of the last tokens, BF16, to HBM.
#include "kernels/decoder_plan.hpp"
#include "kernels/product.hpp"

namespace sluice::kernels {

/// Completes and emits `head`, whose shape, tiling, position and input are set. Row `first_row` of the logits is its
/// first; `rows` rows of its last row block are valid.
void emit_head(Emitter& emit, const DecoderPlan& plan, Product& head, std::int64_t first_block, std::int64_t rows);

/// After all sequences of a prefill: the head over their last tokens, by all tiles of the chip together.
void emit_prefill_head(Emitter& emit, const DecoderPlan& plan);

}  // namespace sluice::kernels
