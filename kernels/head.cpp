// SPDX-License-Identifier: Apache-2.0
#include "kernels/head.hpp"

#include <algorithm>

#include "kernels/clear.hpp"
#include "kernels/decoder_nodes.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Format;
using isa::kBlockEdge;
using isa::Space;
using isa::VectorMacro;
using isa::VectorOperand;

/// Logits = last rows * head^T, to HBM.
void emit_head(Emitter& emit, const DecoderPlan& plan, Product& head, std::int64_t first_block) {
    head.name = "lm_head";
    head.weights = plan.head;
    const std::int64_t columns = plan.head_shape.units;
    head.epilogue = [&emit, &plan, &head, columns, first_block](const Piece& piece) {
        emit.memory.out.check_fits(piece.row_blocks * piece.units * block(Format::bf16), "a piece of logits");
        BlockRows store;
        store.src = emit.tsram(emit.memory.out.at());
        store.dst = {Space::hbm, 0, 0,
                     (piece.first_row_block + first_block) * (columns * block(Format::bf16)) +
                         piece.first_unit * block(Format::bf16) + plan.logits};
        store.format = Format::bf16;
        store.blocks = piece.units;
        store.row_blocks = piece.row_blocks;
        store.src_row_stride = piece.units * block(Format::bf16);
        store.dst_row_stride = columns * block(Format::bf16);
        store.rows = head.valid_rows;
        VectorMacro macro;
        macro.program = emit.vectors.add(convert_program(Format::bf16));
        macro.rows = (piece.row_blocks - 1) * kBlockEdge + head.valid_rows;
        macro.cols = piece.units * kBlockEdge;
        macro.operands = {accumulator_operand(piece, 0, 1),
                          VectorOperand{emit.memory.out.at(), store.src_row_stride, block(Format::bf16)}};
        emit_epilogue(emit, head, piece, macro, {}, {}, copy_block_rows(store));
    };
    emit_product_tile(emit, head);
    emit_product_cluster(emit, head);
}

void emit_clear_last_rows(Emitter& emit, const DecoderPlan& plan) {
    if (emit.group != 0) {
        return;
    }
    emit.set_node(head_node(plan), head_node(plan));
    emit.cluster.branch(isa::variable(isa::Var::cluster) * -1, [&] {
        for (const isa::DmaMacro& clear : clear_last_rows(emit, plan)) {
            emit.cluster.issue(queue::kCluster, {}, clear, {{emit.all_sem(cluster_sem::ready_last), 1}},
                               "clear rows without a sequence");
        }
    });
}

void emit_prefill_head(Emitter& emit, const DecoderPlan& plan) {
    emit.set_node(head_node(plan), head_node(plan));
    if (emit.eager()) {
        emit_clear_last_rows(emit, plan);
    }
    const std::int64_t batch = plan.graph->workload.batch;
    Product head;
    head.shape = plan.head_shape;
    head.tiling = plan.head_tiling;
    head.tiling.m = std::min(head.tiling.m, head.shape.row_blocks);
    head.piece_blocks = piece_blocks(emit.chip);
    head.position = isa::variable(isa::Var::self);
    head.a = emit.own_csram(plan.csram.last);
    head.ready = cluster_sem::ready_last;
    head.ready_count = batch + static_cast<std::int64_t>(clear_last_rows(emit, plan).size());
    head.valid_rows = head.shape.row_blocks == 1 ? batch : kBlockEdge;
    emit_head(emit, plan, head, 0);
}

}  // namespace sluice::kernels
