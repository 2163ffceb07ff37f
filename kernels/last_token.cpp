// SPDX-License-Identifier: Apache-2.0
#include "kernels/last_token.hpp"

#include <algorithm>

#include "kernels/frame.hpp"
#include "kernels/head.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::kBlockEdge;

namespace {

/// Row `row` of row block `row_block` of this chunk, which is the sequence's last.
void emit_last_norm(const DecoderChunk& at, std::int64_t x_ready, std::int64_t row_block, std::int64_t row) {
    Norm last = at.final_norm(x_ready);
    last.out_buffer = at.plan.csram.last;
    // Sequence b becomes row b of the head's input: row b mod 32 of block b / 32, by counting down. The row has a
    // register of its own, with a range that stays within the block.
    const std::int64_t highest = at.plan.graph->workload.batch - 1;
    SingleRow single;
    single.row_block = row_block;
    single.row = row;
    single.loaded = {{at.emit.group_sem(cluster_sem::x_read), 1}};
    single.finished = {{at.emit.all_sem(cluster_sem::ready_last), 1}};
    const Affine position = isa::variable(isa::Var::self) - at.emit.first_tile();
    at.emit.tile.branch(position * -1, [&] {
        at.emit.tile.set_register(reg::last_row_left, at.sequence.tile, 0, highest);
        at.emit.tile.set_register(reg::last_row_block, 0, 0, highest / kBlockEdge);
        at.emit.tile.loop(highest / kBlockEdge, [&](const Affine&) {
            at.emit.tile.branch(isa::variable(isa::register_var(reg::last_row_left)) - kBlockEdge, [&] {
                at.emit.tile.add_register(reg::last_row_left, -kBlockEdge, 0, highest);
                at.emit.tile.add_register(reg::last_row_block, 1, 0, highest / kBlockEdge);
            });
        });
        at.emit.tile.set_register(reg::last_row, isa::variable(isa::register_var(reg::last_row_left)), 0,
                                  std::min(highest, kBlockEdge - 1));
        single.out_row = isa::variable(isa::register_var(reg::last_row));
        single.out_row_block = isa::variable(isa::register_var(reg::last_row_block));
        emit_single_row_norm(at.emit, last, single);
    });
    // The next sequence's embedding, which every cluster of the group writes to all of them, may not overwrite the
    // residual before that row has been read.
    at.emit.cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::x_read), 1}}, {}, "last row read");
}

}  // namespace

/// The group that holds the sequence's last token norms its row into `last rows` of every cluster.
void emit_last_token(const DecoderChunk& at, std::int64_t x_ready) {
    const std::int64_t token = at.plan.graph->workload.tokens - 1;
    const std::int64_t position_block = token / kBlockEdge;
    const std::int64_t row_block = position_block / at.plan.grouping.groups - at.chunk.first_row;
    const bool here = row_block >= 0 && row_block < at.chunk.row_blocks;  // the same in all groups
    at.emit.set_node(final_norm_node(at.plan), final_norm_node(at.plan));
    at.emit.release_tiles(cluster_sem::ready_x, x_ready, tile_sem::go, "last layer complete");
    at.emit.tile.fence(queue::kLoad, {{own_tile_sem(tile_sem::go), 1}}, {}, "last layer complete");
    if (at.plan.model.runs.back().shape.experts.count > 0) {
        at.await_all_clusters();
    }
    if (here && position_block % at.plan.grouping.groups == at.emit.group) {
        emit_last_norm(at, x_ready, row_block, token % kBlockEdge);
    }
    // Of other chunks nothing is normed: what was launched behind the last layer is the next chunk.
    if (here) {
        launch_operator(at.emit);
    }
}

void emit_decode_head(const DecoderChunk& at, std::int64_t x_ready) {
    at.emit.set_node(final_norm_node(at.plan), final_norm_node(at.plan));
    at.emit_norm(at.final_norm(x_ready));
    launch_operator(at.emit);
    at.emit.set_node(head_node(at.plan), head_node(at.plan));
    Product head;
    head.shape = at.plan.head_shape;
    head.shape.row_blocks = at.chunk.row_blocks;
    head.tiling = at.plan.head_tiling;
    at.complete(head);
    head.a = at.emit.own_csram(at.plan.csram.norm);
    head.valid_rows = at.worked_rows();
    head.ready = cluster_sem::ready_norm;
    head.ready_count = row_units(at.final_norm(0).deal);
    emit_head(at.emit, at.plan, head, at.chunk.logits_block);
    // Every cluster has normed its rows: the next chunk's embedding may overwrite the residual of all.
    at.await_all_clusters();
    if (at.index + 1 < at.plan.chunks[static_cast<std::size_t>(at.emit.group)].size()) {
        launch_operator(at.emit);
    }
}

}  // namespace sluice::kernels
