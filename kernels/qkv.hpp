// SPDX-License-Identifier: Apache-2.0
#pragma once
// The epilogue of the fused q, k, v product: rotary embedding of q and k, conversion to the KV format, queries to the
// group's CSRAM, keys and values to the caches in HBM.
#include "kernels/decoder_plan.hpp"
#include "kernels/product.hpp"

namespace sluice::kernels {

/// HBM offsets, as the tile program sees them: a layer's caches, of the chunk's first sequence; norms of heads, q's and
/// k's, in the order of a unit's columns; biases in the order of the units' columns.
struct QkvPlace {
    isa::Affine k_cache, v_cache;
    isa::Affine head_norms, biases;
};

/// The vector programs of the epilogue.
struct QkvPrograms {
    isa::VectorProgram rotate, convert, head_factor;
};
[[nodiscard]] QkvPrograms qkv_programs(const LayerShape& shape, bool one_position);

/// Writes what takes one finished piece of the product out of the output region.
void emit_qkv_piece(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, const LayerShape& shape,
                    const QkvPlace& place, const Product& product, const Piece& piece);

}  // namespace sluice::kernels
