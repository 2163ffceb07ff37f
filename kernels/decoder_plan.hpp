// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decisions about a decoder model before a line of program is written: grouping, chunks, tilings, and where every
// tensor lies.
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/fusion.hpp"
#include "kernels/routing_tables.hpp"
#include "kernels/tile_memory.hpp"

namespace sluice::kernels {

/// Rows that one group puts through all layers at once.
struct Chunk {
    std::int64_t row_blocks = 1;
    std::int64_t rows = 32;         ///< valid rows of the last row block
    std::int64_t first_row = 0;     ///< decode: first sequence; prefill: first row block of this group in the sequence
    std::int64_t tokens = 32;       ///< valid rows in all
    std::int64_t logits_block = 0;  ///< decode: first row block of the logits
};

/// HBM offsets within one layer of a run, from the run's base; then the next layer.
struct LayerPlace {
    std::int64_t base = 0;
    std::int64_t norm1 = 0, norm2 = 0, qkv = 0, o = 0, gate_up = 0, down = 0;
    std::int64_t head_norms = 0, qkv_bias = 0, o_bias = 0;
    std::int64_t router = 0, experts = 0;  ///< experts: expert_bytes() each, gate and up, then down
    std::int64_t stride = 0;
    std::int64_t k_cache = 0, v_cache = 0;  ///< absolute, of the run's first layer
    std::int64_t cache_stride = 0;          ///< per layer
};

/// Products of a layer; of an expert those of one unit of its tokens.
enum ProductIndex : std::uint8_t { kQkv, kO, kGateUp, kDown, kRouter, kExpertUp, kExpertDown, kProducts };
/// Those that the tiles of a group do together, and those of experts, if it has any.
[[nodiscard]] std::vector<ProductIndex> shared_products(const LayerShape& shape);
[[nodiscard]] std::vector<ProductIndex> expert_products(const LayerShape& shape);

struct CsramPlace {
    std::int64_t x = 0, norm = 0, q = 0, attention = 0, ffn = 0, last = 0;
    std::int64_t gates = 0;    ///< [row][expert] FP32
    std::int64_t results = 0;  ///< [row][chosen expert] rows of BF16
};

struct DecoderPlan {
    const models::Graph* graph = nullptr;
    DecoderModel model;
    Grouping grouping;
    std::vector<std::vector<Chunk>> chunks;  ///< by group
    std::int64_t logits_blocks = 1;          ///< row blocks of the logits
    std::int64_t most_row_blocks = 1;        ///< of any chunk
    AttentionShape attention;                ///< chunking; heads are each run's own
    TilePlan tile;
    std::vector<std::array<Tiling, kProducts>> tilings;          ///< by run
    std::vector<std::array<std::int64_t, kProducts>> wide_from;  ///< Product::wide_from, by run
    Tiling head_tiling;
    ProductShape head_shape;
    double cycles = 0;  ///< estimate

    std::int64_t embedding = 0, final_norm = 0, head = 0, rope = 0, logits = 0;  ///< HBM
    std::int64_t zeros = 0;             ///< a block of zeros, for rows without a token
    std::vector<LayerPlace> layers;     ///< by run
    std::vector<RoutingShape> routing;  ///< by run
    CsramPlace csram;
    std::vector<isa::Region> regions;

    [[nodiscard]] bool prefill() const { return graph->workload.phase == models::Phase::prefill; }
    [[nodiscard]] std::int64_t hidden_blocks() const { return model.hidden / isa::kBlockEdge; }
};

/// Prefill: the position block (32 positions) that row block `row_block` of a chunk holds in a group.
[[nodiscard]] isa::Affine position_block(const DecoderPlan& plan, const Chunk& chunk, std::int64_t group,
                                         const isa::Affine& row_block);

/// Row blocks of a chunk that hold tokens, and the tokens of the last of them; the rest of its rows are zeros. Decode:
/// all row blocks.
struct TokenRows {
    std::int64_t row_blocks = 0, last_rows = 32;
};
[[nodiscard]] TokenRows token_rows(const DecoderPlan& plan, const Chunk& chunk, std::int64_t group);

/// A head's pairs of 32 columns that rotate together.
[[nodiscard]] std::int64_t head_pairs(const LayerShape& shape);
/// Pairs of one unit of the fused q, k, v product: one; all of a head where heads have norms. Units are ordered by
/// their first pair, then by head: q heads, k heads, then v heads.
[[nodiscard]] std::int64_t qkv_unit_pairs(const LayerShape& shape);
/// Column blocks of q, k and v.
[[nodiscard]] std::int64_t qkv_blocks(const LayerShape& shape);
[[nodiscard]] std::int64_t qkv_units(const LayerShape& shape);

/// Bytes of the rotary table of one row block: a cosine and a sine block for every pair of column blocks of a head.
[[nodiscard]] std::int64_t rotary_row_bytes(std::int64_t head_dim);
/// Bytes that a piece of `units` units of q, k, v needs beside its rotary table: norms of heads and biases.
[[nodiscard]] std::int64_t qkv_vector_bytes(const LayerShape& shape, std::int64_t units);
/// piece_blocks() of the q, k, v product: few enough rows that what they need fits the staging slot.
[[nodiscard]] std::int64_t qkv_piece_blocks(const DecoderPlan& plan, const LayerShape& shape,
                                            const isa::ChipSpec& chip);

/// TSRAM bytes of the rows of one unit of an expert and their gates.
[[nodiscard]] std::int64_t expert_rows_bytes(const DecoderPlan& plan, const LayerShape& shape);
/// HBM bytes of one expert's weights, and of its gate and up matrices, which come first.
[[nodiscard]] std::int64_t expert_bytes(const DecoderPlan& plan, const LayerShape& shape);
[[nodiscard]] std::int64_t expert_up_bytes(const DecoderPlan& plan, const LayerShape& shape);

[[nodiscard]] ProductShape product_shape(const DecoderPlan& plan, const LayerShape& shape, ProductIndex product,
                                         std::int64_t row_blocks);

[[nodiscard]] DecoderPlan plan_decoder(const models::Graph& graph, const isa::ChipSpec& chip);

}  // namespace sluice::kernels
