// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of a decoder share while they write the programs of one chunk of one group: the chunk's place in the
// plan, its products and norms.
#include "kernels/decoder_nodes.hpp"
#include "kernels/decoder_plan.hpp"
#include "kernels/norm.hpp"
#include "kernels/product.hpp"

namespace sluice::kernels {

/// Where a loop stands, in both programs.
struct LayerIndex {
    isa::Affine tile, cluster;
};

struct DecoderChunk {
    Emitter& emit;
    const DecoderPlan& plan;
    const Chunk& chunk;
    std::size_t index = 0;  ///< among the group's chunks
    LayerIndex sequence;    ///< prefill: index of the sequence (0 in decode)

    /// Signals of ready_x when a layer of a run is complete in this group.
    [[nodiscard]] std::int64_t x_count(std::size_t run) const;
    void set_node(std::size_t run, LayerNode node, const LayerIndex& layer) const;
    /// HBM offset of what a layer has there but its caches.
    [[nodiscard]] isa::Affine layer_weights(std::size_t run, const LayerIndex& layer) const;
    [[nodiscard]] Norm final_norm(std::int64_t x_ready) const;
    [[nodiscard]] Norm norm(const std::string& name, std::size_t run, int ready, std::int64_t count,
                            const isa::Affine& weights) const;
    [[nodiscard]] RowDeal deal(std::int64_t row_blocks, std::int64_t rows, std::int64_t fit) const;
    /// In a fused schedule its weights have been asked for before.
    void emit_norm(const Norm& norm) const;
    /// A product of this chunk without its epilogue.
    [[nodiscard]] Product product(std::size_t run, ProductIndex index) const;
    void complete(Product& out) const;
    void emit_product(const Product& product) const;
    /// Rows of the last row block that are worked on: of a lone one those that hold tokens; several are worked on
    /// whole, with zeros where there is no token.
    [[nodiscard]] std::int64_t worked_rows() const;
    [[nodiscard]] std::int64_t piece_rows(const Piece& piece) const;
    /// The rows that hold tokens: no expert gives anything for others.
    [[nodiscard]] RowDeal token_deal(std::size_t run) const;
    /// A cluster goes on when all of its group have come here: the next embedding overwrites the residual of all. (What
    /// experts give is added by each cluster for itself.)
    void await_all_clusters() const;
};

}  // namespace sluice::kernels
