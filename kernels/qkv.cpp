// SPDX-License-Identifier: Apache-2.0
#include "kernels/qkv.hpp"

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

class QkvEpilogue {
public:
    QkvEpilogue(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, const LayerShape& shape, Affine k_cache,
                Affine v_cache)
        : emit_(emit),
          plan_(plan),
          chunk_(chunk),
          shape_(shape),
          k_cache_(std::move(k_cache)),
          v_cache_(std::move(v_cache)) {}

    void take(const Product& product, const Piece& piece) {
        load_rotary_table(piece);
        std::vector<SemUse> waits = piece_waits(piece);
        waits.push_back({own_tile_sem(tile_sem::in_full), 1});
        emit_.tile.fence(queue::kVector, waits, {}, "q, k, v complete");
        emit_.tile.loop(piece.units, [&](const Affine& unit) {
            take_unit(piece, unit);
            emit_.advance(emit_.tile, reg::out);
        });
        std::vector<SemUse> signals = piece_signals(piece);
        signals.push_back({own_tile_sem(tile_sem::in_free), 1});
        emit_.tile.fence(queue::kVector, {}, signals, "q, k, v taken");
        emit_.advance(emit_.tile, reg::in);
        if (piece.last) {
            emit_.tile.fence(queue::kStore, {}, product.finished, "q, k, v stored");
        }
    }

private:
    /// Cosines and sines of the piece's positions: [row block][pair][cosine, sine] blocks, or in decode one row of
    /// each.
    void load_rotary_table(const Piece& piece) {
        const std::int64_t pairs = shape_.head_dim / 64;
        const std::int64_t row_bytes = rotary_row_bytes(shape_.head_dim);
        emit_.memory.in.check_fits((plan_.prefill() ? piece.row_blocks : 1) * row_bytes, "rotary table");
        DmaMacro load{
            {Space::hbm, 0, 0, plan_.rope}, emit_.tsram(emit_.memory.in.at()), row_bytes, {}, Format::raw, Format::raw};
        if (plan_.prefill()) {
            load.src.offset =
                position_block(plan_, chunk_, emit_.group, piece.first_row_block) * row_bytes + plan_.rope;
            if (piece.row_blocks > 1) {
                load.dims.push_back({piece.row_blocks, plan_.grouping.groups * row_bytes, row_bytes});
            }
        } else {
            const std::int64_t at = plan_.graph->workload.context - 1;
            load.src.offset = plan_.rope + at / kBlockEdge * row_bytes + at % kBlockEdge * 64;
            load.run_bytes = 64;
            load.dims.push_back({pairs * 2, block(Format::bf16), 64});
        }
        emit_.tile.issue(queue::kLoad, {{own_tile_sem(tile_sem::in_free), 1}}, load,
                         {{own_tile_sem(tile_sem::in_full), 1}}, "load rotary table");
    }

    /// Branches on what the unit is: q, k or v, and which pair of column blocks of its heads.
    void take_unit(const Piece& piece, const Affine& unit) {
        const std::int64_t pairs = shape_.head_dim / 64;
        const Affine number = piece.first_unit + unit;
        const std::int64_t first_k = pairs * shape_.q_heads;
        const std::int64_t first_v = first_k + pairs * shape_.kv_heads;
        const auto pair_of = [&](const Affine& local, std::int64_t heads, const auto& body) {
            for_pair(local, heads, 0, pairs, body);
        };
        emit_.tile.branch(
            Affine(first_k - 1) - number,
            [&] {
                pair_of(number, shape_.q_heads, [&](const Affine& head, std::int64_t pair) {
                    rotate(piece, unit, pair);
                    store_query(piece, head, pair);
                });
            },
            [&] {
                emit_.tile.branch(
                    Affine(first_v - 1) - number,
                    [&] {
                        pair_of(number - first_k, shape_.kv_heads, [&](const Affine& head, std::int64_t pair) {
                            rotate(piece, unit, pair);
                            append(piece, k_cache_, head, pair);
                        });
                    },
                    [&] {
                        pair_of(number - first_v, shape_.kv_heads, [&](const Affine& head, std::int64_t pair) {
                            convert(piece, unit);
                            append(piece, v_cache_, head, pair);
                        });
                    });
            });
    }

    template <class Body>
    void for_pair(const Affine& local, std::int64_t heads, std::int64_t pair, std::int64_t pairs, const Body& body) {
        if (pair + 1 == pairs) {
            body(local - pair * heads, pair);
            return;
        }
        emit_.tile.branch(
            Affine((pair + 1) * heads - 1) - local, [&] { body(local - pair * heads, pair); },
            [&] { for_pair(local, heads, pair + 1, pairs, body); });
    }

    [[nodiscard]] static VectorOperand unit_operand(const Piece& piece, const Affine& unit, std::int64_t half) {
        VectorOperand operand = accumulator_operand(piece, half, 1);
        operand.offset = operand.offset + unit * (2 * isa::kAccumulatorBlockBytes);
        return operand;
    }
    [[nodiscard]] std::int64_t piece_rows(const Piece& piece) const {
        return chunk_.row_blocks == 1 ? chunk_.rows : piece.row_blocks * kBlockEdge;
    }
    /// A lone row block that is not full: its valid rows, of each of the unit's two blocks.
    void only_valid_rows(DmaMacro& store) const {
        if (chunk_.row_blocks == 1 && chunk_.rows < kBlockEdge) {
            const std::int64_t kv = block(shape_.kv);
            store.run_bytes = chunk_.rows * isa::row_data_bytes(shape_.kv);
            store.dims.push_back({2, kv, kv});
        }
    }
    void issue_unit(const Piece& piece, VectorMacro macro) {
        emit_.memory.out.check_fits(piece.row_blocks * 2 * block(shape_.kv), "a unit of q, k or v");
        emit_.tile.issue(queue::kVector, {{own_tile_sem(tile_sem::out_free), 1}}, std::move(macro),
                         {{own_tile_sem(tile_sem::out_full), 1}}, "q, k, v unit");
    }

    void rotate(const Piece& piece, const Affine& unit, std::int64_t pair) {
        const bool one_position = !plan_.prefill();
        const std::int64_t table_row = rotary_row_bytes(shape_.head_dim);
        const std::int64_t table_block = one_position ? 64 : block(Format::bf16);
        const std::int64_t out = block(shape_.kv);
        VectorMacro macro;
        macro.program = emit_.vectors.add(rope_program(shape_.kv, one_position));
        macro.rows = piece_rows(piece);
        macro.cols = kBlockEdge;
        const auto table = [&](std::int64_t which) {
            return VectorOperand{emit_.memory.in.at((pair * 2 + which) * table_block), one_position ? 0 : table_row,
                                 one_position ? 0 : table_block};
        };
        macro.operands = {unit_operand(piece, unit, 0),
                          unit_operand(piece, unit, 1),
                          table(0),
                          table(1),
                          VectorOperand{emit_.memory.out.at(), 2 * out, out},
                          VectorOperand{emit_.memory.out.at(out), 2 * out, out}};
        issue_unit(piece, std::move(macro));
    }

    void convert(const Piece& piece, const Affine& unit) {
        VectorMacro macro;
        macro.program = emit_.vectors.add(convert_program(shape_.kv));
        macro.rows = piece_rows(piece);
        macro.cols = 2 * kBlockEdge;
        macro.operands = {unit_operand(piece, unit, 0),
                          VectorOperand{emit_.memory.out.at(), 2 * block(shape_.kv), block(shape_.kv)}};
        issue_unit(piece, std::move(macro));
    }

    void store_unit(const std::vector<DmaMacro>& macros, const char* label) {
        issue_all(emit_.tile, queue::kStore, {{own_tile_sem(tile_sem::out_full), 1}}, macros,
                  {{own_tile_sem(tile_sem::out_free), 1}}, label);
    }

    void store_query(const Piece& piece, const Affine& head, std::int64_t pair) {
        const std::int64_t unit_bytes = 2 * block(shape_.kv);
        const std::int64_t row_stride = shape_.head_dim / 64 * shape_.q_heads * unit_bytes;
        DmaMacro store{emit_.tsram(emit_.memory.out.at()),
                       emit_.group_csram(piece.first_row_block * row_stride + head * unit_bytes +
                                         (plan_.csram.q + pair * shape_.q_heads * unit_bytes)),
                       unit_bytes,
                       {},
                       Format::raw,
                       Format::raw};
        if (piece.row_blocks > 1) {
            store.dims.push_back({piece.row_blocks, unit_bytes, row_stride});
        }
        only_valid_rows(store);
        store_unit({store}, "store queries");
    }

    /// Prefill appends whole blocks; decode one row of each sequence's last block.
    void append(const Piece& piece, const Affine& cache, const Affine& head, std::int64_t pair) {
        const AttentionShape& attention = plan_.attention;
        const std::int64_t kv = block(attention.kv);
        const std::int64_t position_bytes = attention.dim_blocks() * kv;
        const Affine base = cache + head * attention.cache_bytes() + 2 * pair * kv;
        if (plan_.prefill()) {
            DmaMacro store{emit_.tsram(emit_.memory.out.at()),
                           {Space::hbm, 0, 0,
                            base + position_block(plan_, chunk_, emit_.group, piece.first_row_block) * position_bytes},
                           2 * kv,
                           {},
                           Format::raw,
                           Format::raw};
            if (piece.row_blocks > 1) {
                store.dims.push_back({piece.row_blocks, 2 * kv, plan_.grouping.groups * position_bytes});
            }
            store_unit({store}, "append");
            return;
        }
        const std::int64_t row_bytes = isa::row_data_bytes(attention.kv);
        const std::int64_t sequence_bytes = attention.kv_heads * attention.cache_bytes();
        const std::int64_t at = attention.context - 1;
        const Affine row = base + at / kBlockEdge * position_bytes + at % kBlockEdge * row_bytes;
        const auto macro = [&](std::int64_t j, std::int64_t rows) {
            return DmaMacro{emit_.tsram(emit_.memory.out.at(j * 2 * kv)),
                            {Space::hbm, 0, 0, row + (piece.first_row_block + j) * (kBlockEdge * sequence_bytes)},
                            row_bytes,
                            {{rows, row_bytes, sequence_bytes}, {2, kv, kv}},
                            Format::raw,
                            Format::raw};
        };
        std::vector<DmaMacro> macros;
        for (std::int64_t j = 0; j + 1 < piece.row_blocks; ++j) {
            macros.push_back(macro(j, kBlockEdge));
        }
        const std::int64_t last = piece.row_blocks - 1;
        // Only the chunk's last row block may be partly filled.
        emit_.tile.branch(
            piece.first_row_block + last - (chunk_.row_blocks - 1),
            [&] {
                std::vector<DmaMacro> all = macros;
                all.push_back(macro(last, chunk_.rows));
                store_unit(all, "append");
            },
            [&] {
                std::vector<DmaMacro> all = macros;
                all.push_back(macro(last, kBlockEdge));
                store_unit(all, "append");
            });
    }

    Emitter& emit_;
    const DecoderPlan& plan_;
    const Chunk& chunk_;
    const LayerShape& shape_;
    Affine k_cache_, v_cache_;
};

}  // namespace

void emit_qkv_piece(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, const LayerShape& shape,
                    const QkvCaches& caches, const Product& product, const Piece& piece) {
    QkvEpilogue(emit, plan, chunk, shape, caches.k, caches.v).take(product, piece);
}

}  // namespace sluice::kernels
