// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_experts.hpp"

#include <algorithm>

#include "kernels/experts.hpp"
#include "kernels/frame.hpp"

namespace sluice::kernels {

using isa::kBlockEdge;

namespace {

Product router(const DecoderChunk& at, std::size_t run, const LayerIndex& layer) {
    Product out = at.product(run, kRouter);
    out.name = "router";
    out.weights = at.layer_weights(run, layer) + at.plan.layers[run].router;
    out.a = at.emit.own_csram(at.plan.csram.norm);
    out.ready = cluster_sem::ready_norm;
    out.ready_count = row_units(at.norm("norm2", run, 0, 0, 0).deal);
    out.finished = {{at.emit.group_sem(cluster_sem::ready_route), 1}};
    const std::int64_t row_bytes = kBlockEdge * at.plan.model.runs[run].shape.experts.count * 4;
    out.piece_blocks = std::min(out.piece_blocks / out.shape.unit_blocks, at.emit.memory.out.slot_bytes / row_bytes);
    out.piece_blocks = std::max<std::int64_t>(1, out.piece_blocks) * out.shape.unit_blocks;
    return out;
}

Product expert_product(const DecoderChunk& at, std::size_t run, ProductIndex index) {
    Product out = at.product(run, index);
    out.shape.row_blocks = 1;
    out.tiling.m = 1;
    out.position = 0;
    return out;
}

}  // namespace

void emit_experts_layer(const DecoderChunk& at, std::size_t run, const LayerIndex& layer) {
    const LayerShape& shape = at.plan.model.runs[run].shape;
    at.set_node(run, kRouterNode, layer);
    Product route = router(at, run, layer);
    route.epilogue = [&](const Piece& piece) {
        emit_gates(at.emit, at.plan, shape.experts, route, piece, at.piece_rows(piece));
    };
    at.emit_product(route);
    launch_operator(at.emit);

    const RoutingShape& routing = at.plan.routing[run];
    ExpertsWork work;
    work.shape = shape;
    work.run = run;
    work.segment = (layer.tile * routing.sequences + at.sequence.tile) * (routing.groups * routing.chunks) +
                   (at.emit.group * routing.chunks + static_cast<std::int64_t>(at.index));
    work.experts = at.layer_weights(run, layer) + at.plan.layers[run].experts;
    work.up = expert_product(at, run, kExpertUp);
    work.down = expert_product(at, run, kExpertDown);
    work.rows = at.token_deal(run);
    at.set_node(run, kExpertsNode, layer);
    emit_experts(at.emit, at.plan, work, finished_count(route));
    launch_operator(at.emit);
    at.set_node(run, kCombineNode, layer);
    emit_combine(at.emit, at.plan, work);
    launch_operator(at.emit);
}

}  // namespace sluice::kernels
