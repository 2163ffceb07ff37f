// SPDX-License-Identifier: Apache-2.0
#pragma once
// The epilogue of the fused q, k, v product: rotary embedding of q and k, conversion to the KV format, queries to the
// group's CSRAM, keys and values to the caches in HBM.
#include "kernels/decoder_plan.hpp"
#include "kernels/product.hpp"

namespace sluice::kernels {

/// HBM offsets of a layer's caches, of the chunk's first sequence, as the tile program sees them.
struct QkvCaches {
    isa::Affine k, v;
};

/// Writes what takes one finished piece of the product out of the output region.
void emit_qkv_piece(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, const LayerShape& shape,
                    const QkvCaches& caches, const Product& product, const Piece& piece);

}  // namespace sluice::kernels
