// SPDX-License-Identifier: Apache-2.0
#pragma once
// The embedding: rows of the table to the residual of every cluster of a group.
#include "kernels/decoder_chunk.hpp"

namespace sluice::kernels {

void emit_embedding(const DecoderChunk& at);

}  // namespace sluice::kernels
