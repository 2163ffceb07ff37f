// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows a chunk's layers: the final norm, and in decode the LM head.
#include "kernels/decoder_chunk.hpp"

namespace sluice::kernels {

/// Prefill: the group that holds the sequence's last token norms its row into `last rows` of every cluster. `x_ready`:
/// signals of ready_x when the last layer is complete.
void emit_last_token(const DecoderChunk& at, std::int64_t x_ready);
/// Decode: final norm and head of all rows.
void emit_decode_head(const DecoderChunk& at, std::int64_t x_ready);

}  // namespace sluice::kernels
