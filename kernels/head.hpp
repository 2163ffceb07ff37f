// SPDX-License-Identifier: Apache-2.0
#pragma once
// The LM head: logits of the last tokens, BF16, to HBM.
#include "kernels/decoder_plan.hpp"
#include "kernels/product.hpp"

namespace sluice::kernels {

/// Completes and emits `head`, whose shape, tiling, position, input and valid rows are set. Its first row block is row
/// block `first_block` of the logits.
void emit_head(Emitter& emit, const DecoderPlan& plan, Product& head, std::int64_t first_block);

/// Clears rows of the head's input that no sequence has. A fused schedule does so before all else.
void emit_clear_last_rows(Emitter& emit, const DecoderPlan& plan);

/// After all sequences of a prefill: the head over their last tokens, by all tiles of the chip together.
void emit_prefill_head(Emitter& emit, const DecoderPlan& plan);

}  // namespace sluice::kernels
