// SPDX-License-Identifier: Apache-2.0
#pragma once
// How interleaved attention (interleaved_attention.hpp) cuts its work: rows of a step, position blocks of a unit,
// positions of a chunk; and what that takes of a tile's TSRAM.
#include "kernels/emitter.hpp"

namespace sluice::kernels {

struct InterleavedShape {
    std::int64_t q_heads = 1, kv_heads = 1, head_dim = 64;
    isa::Format kv = isa::Format::e4m3;  ///< of Q, K, V and the probabilities
    isa::Format out = isa::Format::bf16;
    bool causal = false;
    std::int64_t sequences = 1;
    std::int64_t query_blocks = 1;  ///< position blocks of a sequence's queries
    std::int64_t past_blocks = 0;   ///< position blocks before them
    std::int64_t context = 1;       ///< positions attended to by the last query

    [[nodiscard]] std::int64_t heads_per_kv() const { return q_heads / kv_heads; }
    [[nodiscard]] std::int64_t dim_blocks() const { return head_dim / isa::kBlockEdge; }
    [[nodiscard]] std::int64_t context_blocks() const { return ceil_div(context, isa::kBlockEdge); }
};

/// How the work is cut.
struct Interleaving {
    std::int64_t step_heads = 1;    ///< row blocks of a step; divides the heads of a KV head
    std::int64_t unit_blocks = 1;   ///< position blocks of a unit; causal: divides chunk_blocks and past_blocks
    std::int64_t chunk_blocks = 1;  ///< position blocks of K and V
    double cycles = 0;              ///< estimate for the whole

    [[nodiscard]] std::int64_t steps(const InterleavedShape& shape) const {
        return unit_blocks * shape.heads_per_kv() / step_heads;
    }
    [[nodiscard]] std::int64_t sets(const InterleavedShape& shape) const {
        return ceil_div(shape.query_blocks, unit_blocks);
    }
    [[nodiscard]] std::int64_t units(const InterleavedShape& shape) const {
        return sets(shape) * shape.sequences * shape.kv_heads;
    }
    /// Position blocks of a sequence's queries, and of the cache of one (sequence, KV head), in memory.
    [[nodiscard]] std::int64_t padded_query_blocks(const InterleavedShape& shape) const {
        return sets(shape) * unit_blocks;
    }
    [[nodiscard]] std::int64_t cache_blocks(const InterleavedShape& shape) const {
        // Whole chunks: the bounds of an address take every last chunk as wide as the widest.
        return shape.causal ? round_up(shape.past_blocks + padded_query_blocks(shape), chunk_blocks)
                            : shape.context_blocks();
    }
};

/// The cheapest that fits. Its cost is the longest of the TVP's passes, the TTU's macros and the stream of K and V, of
/// the busiest tile. Throws InputError if none fits: bytes that the smallest needs, bytes there.
[[nodiscard]] Interleaving choose_interleaving(const InterleavedShape& shape, const isa::ChipSpec& chip);

/// Rings and rows of a tile's TSRAM, which holds nothing else.
struct InterleavedMemory {
    TileMemory memory;
    std::vector<isa::Region> regions;
};
[[nodiscard]] InterleavedMemory plan_interleaved_memory(const InterleavedShape& shape, const Interleaving& cut,
                                                        const isa::ChipSpec& chip);

}  // namespace sluice::kernels
