// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_chunk.hpp"

#include <algorithm>

#include "kernels/experts.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::kBlockEdge;

std::int64_t DecoderChunk::x_count(std::size_t run) const {
    if (plan.model.runs[run].shape.experts.count > 0) {
        return combine_count(token_deal(run));
    }
    return finished_count(product(run, kDown));
}

void DecoderChunk::set_node(std::size_t run, LayerNode node, const LayerIndex& layer) const {
    const std::int64_t first = first_node(plan, run, node);
    const std::int64_t stride = nodes_of_layer(plan.model.runs[run]);
    emit.set_node(layer.tile * stride + first, layer.cluster * stride + first);
}

Affine DecoderChunk::layer_weights(std::size_t run, const LayerIndex& layer) const {
    return layer.tile * plan.layers[run].stride + plan.layers[run].base;
}

Norm DecoderChunk::final_norm(std::int64_t x_ready) const {
    Norm last = norm("final_norm", 0, cluster_sem::ready_x, x_ready, plan.final_norm);
    last.epsilon = plan.model.epsilon;
    last.out = plan.model.head_activations;
    return last;
}

Norm DecoderChunk::norm(const std::string& name, std::size_t run, int ready, std::int64_t count,
                        const Affine& weights) const {
    const LayerShape& shape = plan.model.runs[run].shape;
    Norm norm;
    norm.name = name;
    norm.width = plan.model.hidden;
    norm.epsilon = shape.epsilon;
    norm.out = shape.activations;
    const std::int64_t slot = std::min(plan.tile.memory.in.slot_bytes, plan.tile.memory.out.slot_bytes);
    norm.deal = deal(chunk.row_blocks, worked_rows(), slot / (norm.width * 2));
    norm.in_buffer = plan.csram.x;
    norm.out_buffer = plan.csram.norm;
    norm.weights = weights;
    norm.ready = ready;
    norm.ready_count = count;
    return norm;
}

RowDeal DecoderChunk::deal(std::int64_t row_blocks, std::int64_t rows, std::int64_t fit) const {
    return {row_blocks, rows, choose_rows_per_unit(row_blocks, rows, plan.grouping.tiles_per_cluster, fit)};
}

void DecoderChunk::emit_norm(const Norm& norm) const {
    if (emit.eager()) {
        emit_norm_weights(emit, norm);
    }
    emit_norm_tile(emit, norm);
    emit_norm_cluster(emit, norm);
}

Product DecoderChunk::product(std::size_t run, ProductIndex index) const {
    Product out;
    out.shape = product_shape(plan, plan.model.runs[run].shape, index, chunk.row_blocks);
    out.tiling = plan.tilings[run][index];
    out.wide_from = plan.wide_from[run][index];
    complete(out);
    out.valid_rows = worked_rows();
    if (index == kQkv) {
        out.piece_blocks = qkv_piece_blocks(plan, plan.model.runs[run].shape, emit.chip);
    }
    return out;
}

void DecoderChunk::complete(Product& out) const {
    out.tiling.m = std::min(out.tiling.m, out.shape.row_blocks);
    out.piece_blocks = piece_blocks(emit.chip);
    out.position = isa::variable(isa::Var::self) - emit.first_tile();
}

void DecoderChunk::emit_product(const Product& product) const {
    emit_product_tile(emit, product);
    emit_product_cluster(emit, product);
}

std::int64_t DecoderChunk::worked_rows() const {
    return chunk.row_blocks == 1 ? chunk.rows : kBlockEdge;
}

std::int64_t DecoderChunk::piece_rows(const Piece& piece) const {
    return (piece.row_blocks - 1) * kBlockEdge + worked_rows();
}

RowDeal DecoderChunk::token_deal(std::size_t run) const {
    const TokenRows tokens = token_rows(plan, chunk, emit.group);
    if (tokens.row_blocks == 0) {
        return {0, kBlockEdge, 1};
    }
    return deal(tokens.row_blocks, tokens.last_rows, combine_fit(plan, plan.model.runs[run].shape.experts));
}

void DecoderChunk::await_all_clusters() const {
    emit.cluster.fence(queue::kCluster, {}, {{emit.group_sem(cluster_sem::x_read), 1}}, "residual read");
    emit.cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::x_read), plan.grouping.clusters_per_group}}, {},
                       "residual read by all");
}

}  // namespace sluice::kernels
