// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.hpp"

#include <functional>

#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::Format;
using isa::kBlockEdge;
using isa::SemUse;
using isa::Space;
using isa::VectorMacro;
using isa::VectorOperand;

namespace {

std::int64_t blocks_per_row(const Norm& norm) {
    return norm.width / kBlockEdge;
}

/// Where one unit's rows go.
struct Destination {
    isa::MemRef row_block;  ///< first block of the block row
    Affine row;
    std::vector<SemUse> finished;
};

void load_weights(Emitter& emit, const Norm& norm) {
    const DmaMacro load{{Space::hbm, 0, 0, norm.weights},
                        emit.tsram(emit.memory.norm_weights),
                        norm.width * 2,
                        {},
                        Format::raw,
                        Format::raw};
    emit.tile.issue(queue::kLoad, {{own_tile_sem(tile_sem::norm_free), 1}}, load,
                    {{own_tile_sem(tile_sem::norm_full), 1}}, norm.name + " weights");
}

void await_weights(Emitter& emit) {
    emit.tile.fence(queue::kVector, {{own_tile_sem(tile_sem::norm_full), 1}}, {}, "norm weights loaded");
}

void free_weights(Emitter& emit) {
    emit.tile.fence(queue::kVector, {}, {{own_tile_sem(tile_sem::norm_free), 1}}, "norm weights free");
}

void unit(Emitter& emit, const Norm& norm, const Affine& row_block, const Affine& row, std::int64_t rows,
          const Destination& to, std::vector<SemUse> loaded) {
    const std::int64_t blocks = blocks_per_row(norm);
    BlockRows in;
    in.src = emit.own_csram(row_block * (blocks * block(Format::bf16)) + norm.in_buffer);
    in.dst = emit.tsram(emit.memory.in.at());
    in.format = Format::bf16;
    in.blocks = blocks;
    in.rows = rows;
    in.src_first_row = row;
    in.dst_rows = rows;
    const std::vector<DmaMacro> loads = copy_block_rows(in);
    emit.memory.in.check_fits(blocks * packed_block_bytes(Format::bf16, rows), norm.name + " input");
    emit.memory.out.check_fits(blocks * packed_block_bytes(norm.out, rows), norm.name + " output");
    loaded.push_back({own_tile_sem(tile_sem::in_full), 1});
    issue_all(emit.tile, queue::kLoad, {{own_tile_sem(tile_sem::in_free), 1}}, loads, loaded, norm.name + " load");

    VectorMacro macro;
    macro.program = emit.vectors.add(rms_norm_program(norm.out, norm.width, norm.epsilon));
    macro.rows = rows;
    macro.cols = norm.width;
    macro.operands = {VectorOperand{emit.memory.in.at(), rows * 64 * blocks, rows * 64, rows},
                      VectorOperand{emit.memory.norm_weights, 0, 0},
                      VectorOperand{emit.memory.out.at(), blocks * packed_block_bytes(norm.out, rows),
                                    packed_block_bytes(norm.out, rows), rows}};
    emit.tile.issue(queue::kVector, {{own_tile_sem(tile_sem::in_full), 1}, {own_tile_sem(tile_sem::out_free), 1}},
                    macro, {{own_tile_sem(tile_sem::in_free), 1}, {own_tile_sem(tile_sem::out_full), 1}}, norm.name);

    BlockRows out;
    out.src = emit.tsram(emit.memory.out.at());
    out.dst = to.row_block;
    out.format = norm.out;
    out.blocks = blocks;
    out.rows = rows;
    out.src_rows = rows;
    out.dst_first_row = to.row;
    std::vector<SemUse> stored = to.finished;
    stored.push_back({own_tile_sem(tile_sem::out_free), 1});
    issue_all(emit.tile, queue::kStore, {{own_tile_sem(tile_sem::out_full), 1}}, copy_block_rows(out), stored,
              norm.name + " store");
    emit.advance(emit.tile, reg::in);
    emit.advance(emit.tile, reg::out);
}

}  // namespace

void emit_norm_weights(Emitter& emit, const Norm& norm) {
    where_rows_are(emit, norm.deal, [&] { load_weights(emit, norm); });
}

void emit_norm_tile(Emitter& emit, const Norm& norm) {
    emit.tile.fence(queue::kLoad, {{own_tile_sem(tile_sem::go), 1}}, {}, norm.name + " input complete");
    where_rows_are(emit, norm.deal, [&] { await_weights(emit); });
    const std::int64_t out_row_stride = blocks_per_row(norm) * block(norm.out);
    deal_rows(emit, norm.deal, [&](const Affine& row_block, const Affine& row, std::int64_t rows) {
        unit(emit, norm, row_block, row, rows,
             {emit.own_csram(row_block * out_row_stride + norm.out_buffer),
              row,
              {{own_cluster_sem(cluster_sem::ready_norm), 1}}},
             {});
    });
    where_rows_are(emit, norm.deal, [&] { free_weights(emit); });
}

void emit_norm_cluster(Emitter& emit, const Norm& norm) {
    emit.release_tiles(norm.ready, norm.ready_count, tile_sem::go, norm.name + " input complete");
}

void emit_single_row_norm(Emitter& emit, const Norm& norm, const SingleRow& single) {
    load_weights(emit, norm);
    await_weights(emit);
    const std::int64_t out_row_stride = blocks_per_row(norm) * block(norm.out);
    unit(emit, norm, single.row_block, single.row, 1,
         {emit.all_csram(single.out_row_block * out_row_stride + norm.out_buffer), single.out_row, single.finished},
         single.loaded);
    free_weights(emit);
}

}  // namespace sluice::kernels
