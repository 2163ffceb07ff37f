// SPDX-License-Identifier: Apache-2.0
#pragma once
// Grouped-query attention over a KV cache in HBM, FlashAttention-2 style: scores of one KV chunk on the TTU, online
// softmax on the TVP, then probabilities times V, with the next chunk's scores computed while the TVP works.
//
// A work unit is one (row set, KV head): in decode one sequence, in prefill the row blocks of `set_row_blocks` x groups
// consecutive position blocks. Units are dealt to tiles in turn; registers `row` and `head` follow them.
#include "kernels/emitter.hpp"

namespace sluice::kernels {

struct AttentionShape {
    std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
    isa::Format kv = isa::Format::e4m3;
    isa::Format out = isa::Format::mxfp8;
    bool causal = false;            ///< prefill
    std::int64_t chunk_blocks = 1;  ///< position blocks per KV chunk
    std::int64_t cache_blocks = 1;  ///< position blocks of the cache of one (sequence, head)
    // decode
    std::int64_t context = 1;  ///< positions attended to
    // prefill
    std::int64_t set_row_blocks = 1;  ///< row blocks of a set in this group: chunk_blocks / groups

    [[nodiscard]] std::int64_t heads_per_kv() const { return q_heads / kv_heads; }
    [[nodiscard]] std::int64_t dim_blocks() const { return head_dim / isa::kBlockEdge; }
    /// Block rows of one work unit's queries.
    [[nodiscard]] std::int64_t query_blocks() const {
        return causal ? set_row_blocks * heads_per_kv() : ceil_div(heads_per_kv(), isa::kBlockEdge);
    }
    [[nodiscard]] std::int64_t cache_bytes() const;
};

struct Attention {
    AttentionShape shape;
    std::int64_t q_buffer = 0;     ///< CSRAM: [row block][pair of dim blocks][head][2 blocks]
    std::int64_t out_buffer = 0;   ///< CSRAM: blocked, K = q_heads * head_dim
    isa::Affine k_cache, v_cache;  ///< HBM: of this layer and of the first sequence here, as the tile program sees it
    // decode: `sequences` rows; prefill: `sets` row sets, of which those before `first_set` are in earlier chunks
    std::int64_t sequences = 1;
    std::int64_t sets = 1;
    isa::Affine first_set = 0;
    isa::Affine q_ready_count, kv_ready_count;
    std::vector<isa::SemUse> finished;  ///< one signal of each per work unit
};

/// KV chunk size that fits the output region and the stream slot; throws InputError if none does.
[[nodiscard]] std::int64_t choose_chunk_blocks(const AttentionShape& shape, std::int64_t groups,
                                               std::int64_t accumulator_bytes, std::int64_t slot_bytes,
                                               std::int64_t most);
[[nodiscard]] std::int64_t work_units(const Attention& attention);

void emit_attention_tile(Emitter& emit, const Attention& attention);
void emit_attention_cluster(Emitter& emit, const Attention& attention);

}  // namespace sluice::kernels
