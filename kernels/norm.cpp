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

std::int64_t units_of_block(const Norm& norm, bool last) {
    return ceil_div(last ? norm.rows : kBlockEdge, norm.rows_per_unit);
}

/// For the tiles of a cluster that have rows of a norm.
void where_rows_are(Emitter& emit, const Norm& norm, const std::function<void()>& body) {
    const std::int64_t tiles = emit.grouping.tiles_per_cluster;
    std::int64_t busy = units_of_block(norm, true);
    if (norm.row_blocks > 1) {
        busy = std::max(busy, units_of_block(norm, false));
    }
    if (norm.row_blocks >= tiles || busy >= tiles) {
        body();
    } else {
        emit.tile.branch(Affine(busy - 1) - isa::variable(isa::Var::tile), body);
    }
}

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

std::int64_t choose_rows_per_unit(std::int64_t width, std::int64_t row_blocks, std::int64_t rows, std::int64_t tiles,
                                  std::int64_t slot_bytes) {
    const std::int64_t fit = std::max<std::int64_t>(1, slot_bytes / (width * 2));
    std::int64_t wanted = kBlockEdge;
    if (row_blocks < tiles) {
        wanted = ceil_div(row_blocks == 1 ? rows : kBlockEdge, ceil_div(tiles, row_blocks));
    }
    std::int64_t power = 1;
    while (power < wanted && power * 2 <= fit && power < kBlockEdge) {
        power *= 2;
    }
    return power;
}

std::int64_t norm_units(const Norm& norm) {
    return (norm.row_blocks - 1) * units_of_block(norm, false) + units_of_block(norm, true);
}

void emit_norm_weights(Emitter& emit, const Norm& norm) {
    where_rows_are(emit, norm, [&] { load_weights(emit, norm); });
}

void emit_norm_tile(Emitter& emit, const Norm& norm) {
    ControlBuilder& tile = emit.tile;
    tile.fence(queue::kLoad, {{own_tile_sem(tile_sem::go), 1}}, {}, norm.name + " input complete");
    where_rows_are(emit, norm, [&] { await_weights(emit); });
    const std::int64_t out_row_stride = blocks_per_row(norm) * block(norm.out);
    const auto one = [&](const Affine& row_block, const Affine& index, std::int64_t rows) {
        const Affine row = index * norm.rows_per_unit;
        unit(emit, norm, row_block, row, rows,
             {emit.own_csram(row_block * out_row_stride + norm.out_buffer),
              row,
              {{own_cluster_sem(cluster_sem::ready_norm), 1}}},
             {});
    };
    // The last unit of a row block may hold fewer rows.
    const auto rows_of = [&](bool last_block) {
        const std::int64_t valid = last_block ? norm.rows : kBlockEdge;
        return valid - (units_of_block(norm, last_block) - 1) * norm.rows_per_unit;
    };
    const Affine position = isa::variable(isa::Var::tile);
    const std::int64_t tiles = emit.grouping.tiles_per_cluster;
    if (norm.row_blocks >= tiles) {
        // Whole row blocks are dealt to tiles.
        const auto block_units = [&](const Affine& row_block, bool last) {
            const std::int64_t units = units_of_block(norm, last);
            tile.loop(units - 1, [&](const Affine& i) { one(row_block, i, norm.rows_per_unit); });
            one(row_block, Affine(units - 1), rows_of(last));
        };
        tile.loop(ceil_div(norm.row_blocks, tiles), [&](const Affine& i) {
            const Affine row_block = i * tiles + position;
            tile.branch(
                Affine(norm.row_blocks - 2) - row_block, [&] { block_units(row_block, false); },
                [&] { tile.branch(Affine(norm.row_blocks - 1) - row_block, [&] { block_units(row_block, true); }); });
        });
    } else {
        const auto deal = [&](const Affine& row_block, bool last) {
            const std::int64_t units = units_of_block(norm, last);
            tile.loop(ceil_div(units, tiles), [&](const Affine& i) {
                const Affine index = i * tiles + position;
                tile.branch(
                    Affine(units - 2) - index, [&] { one(row_block, index, norm.rows_per_unit); },
                    [&] { tile.branch(Affine(units - 1) - index, [&] { one(row_block, index, rows_of(last)); }); });
            });
        };
        tile.loop(norm.row_blocks - 1, [&](const Affine& row_block) { deal(row_block, false); });
        deal(Affine(norm.row_blocks - 1), true);
    }
    where_rows_are(emit, norm, [&] { free_weights(emit); });
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
