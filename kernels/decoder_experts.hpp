// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last part of a layer with experts: router, experts, and their sum with the residual.
#include "kernels/decoder_chunk.hpp"

namespace sluice::kernels {

void emit_experts_layer(const DecoderChunk& at, std::size_t run, const LayerIndex& layer);

}  // namespace sluice::kernels
