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

/// Bytes of 32 cosines or sines of one position.
constexpr std::int64_t kRotaryRowBytes = kBlockEdge * 2;

class QkvEpilogue {
public:
    QkvEpilogue(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, const LayerShape& shape,
                const QkvPlace& place)
        : emit_(emit),
          plan_(plan),
          chunk_(chunk),
          shape_(shape),
          place_(place),
          programs_(qkv_programs(shape, !plan.prefill())),
          pairs_(head_pairs(shape)),
          unit_pairs_(qkv_unit_pairs(shape)) {}

    void take(const Product& product, const Piece& piece) {
        load_inputs(piece);
        std::vector<SemUse> waits = piece_waits(piece);
        waits.push_back({own_tile_sem(tile_sem::in_full), 1});
        emit_.tile.fence(queue::kVector, waits, {}, "q, k, v complete");
        const auto one = [&](const Affine& unit) {
            take_unit(piece, unit);
            emit_.advance(emit_.tile, reg::out);
        };
        if (shape_.qkv_bias) {
            // Where a unit's biases lie in the ring's slot must be known here: an address in a ring takes no index.
            for (std::int64_t unit = 0; unit < piece.units; ++unit) {
                one(Affine(unit));
            }
        } else {
            emit_.tile.loop(piece.units, one);
        }
        std::vector<SemUse> signals = piece_signals(piece);
        signals.push_back({own_tile_sem(tile_sem::in_free), 1});
        emit_.tile.fence(queue::kVector, {}, signals, "q, k, v taken");
        emit_.advance(emit_.tile, reg::in);
        if (piece.last) {
            emit_.tile.fence(queue::kStore, {}, product.finished, "q, k, v stored");
        }
    }

private:
    /// Bytes of the piece's rotary table in staging; norms of heads and biases stand behind it.
    [[nodiscard]] std::int64_t rotary_bytes(const Piece& piece) const {
        return plan_.prefill() ? piece.row_blocks * rotary_row_bytes(shape_.head_dim) : pairs_ * 2 * kRotaryRowBytes;
    }
    [[nodiscard]] std::int64_t head_norms_at(const Piece& piece) const { return rotary_bytes(piece); }
    [[nodiscard]] std::int64_t biases_at(const Piece& piece) const {
        return rotary_bytes(piece) + (shape_.head_norms ? 2 * head_norm_bytes() : 0);
    }
    [[nodiscard]] std::int64_t head_norm_bytes() const { return shape_.head_dim * 2; }
    [[nodiscard]] std::int64_t unit_bias_bytes() const { return 2 * unit_pairs_ * kBiasBytes; }

    void load_inputs(const Piece& piece) {
        emit_.memory.in.check_fits(rotary_bytes(piece) + qkv_vector_bytes(shape_, piece.units), "rotary table");
        std::vector<DmaMacro> loads{rotary_table(piece)};
        const auto from_hbm = [&](const Affine& from, std::int64_t to, std::int64_t bytes) {
            loads.push_back(
                {{Space::hbm, 0, 0, from}, emit_.tsram(emit_.memory.in.at(to)), bytes, {}, Format::raw, Format::raw});
        };
        if (shape_.head_norms) {
            from_hbm(place_.head_norms, head_norms_at(piece), 2 * head_norm_bytes());
        }
        if (shape_.qkv_bias) {
            from_hbm(place_.biases + piece.first_unit * unit_bias_bytes(), biases_at(piece),
                     piece.units * unit_bias_bytes());
        }
        issue_all(emit_.tile, queue::kLoad, {{own_tile_sem(tile_sem::in_free), 1}}, loads,
                  {{own_tile_sem(tile_sem::in_full), 1}}, "load rotary table");
    }

    /// Cosines and sines of the piece's positions: [row block][pair][cosine, sine] blocks, or in decode one row of
    /// each.
    [[nodiscard]] DmaMacro rotary_table(const Piece& piece) const {
        const std::int64_t row_bytes = rotary_row_bytes(shape_.head_dim);
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
            load.src.offset = plan_.rope + at / kBlockEdge * row_bytes + at % kBlockEdge * kRotaryRowBytes;
            load.run_bytes = kRotaryRowBytes;
            load.dims.push_back({pairs_ * 2, block(Format::bf16), kRotaryRowBytes});
        }
        return load;
    }

    /// Branches on what the unit is: q, k or v, and which pair of column blocks of its heads it begins with.
    void take_unit(const Piece& piece, const Affine& unit) {
        const std::int64_t parts = pairs_ / unit_pairs_;
        const Affine number = piece.first_unit + unit;
        const std::int64_t first_k = parts * shape_.q_heads;
        const std::int64_t first_v = first_k + parts * shape_.kv_heads;
        const auto part_of = [&](const Affine& local, std::int64_t heads, const auto& body) {
            for_part(local, heads, 0, parts,
                     [&](const Affine& head, std::int64_t part) { body(head, part * unit_pairs_); });
        };
        emit_.tile.branch(
            Affine(first_k - 1) - number,
            [&] {
                part_of(number, shape_.q_heads, [&](const Affine& head, std::int64_t pair) {
                    rotate(piece, unit, pair, 0);
                    store_query(piece, head, pair);
                });
            },
            [&] {
                emit_.tile.branch(
                    Affine(first_v - 1) - number,
                    [&] {
                        part_of(number - first_k, shape_.kv_heads, [&](const Affine& head, std::int64_t pair) {
                            rotate(piece, unit, pair, head_norm_bytes());
                            append(piece, place_.k_cache, head, pair);
                        });
                    },
                    [&] {
                        part_of(number - first_v, shape_.kv_heads, [&](const Affine& head, std::int64_t pair) {
                            convert(piece, unit);
                            append(piece, place_.v_cache, head, pair);
                        });
                    });
            });
    }

    template <class Body>
    void for_part(const Affine& local, std::int64_t heads, std::int64_t part, std::int64_t parts, const Body& body) {
        if (part + 1 == parts) {
            body(local - part * heads, part);
            return;
        }
        emit_.tile.branch(
            Affine((part + 1) * heads - 1) - local, [&] { body(local - part * heads, part); },
            [&] { for_part(local, heads, part + 1, parts, body); });
    }

    /// Column blocks of a unit, from `first` on.
    [[nodiscard]] VectorOperand unit_operand(const Piece& piece, const Affine& unit, std::int64_t first) const {
        VectorOperand operand = accumulator_operand(piece, first, 1);
        operand.offset = operand.offset + unit * (2 * unit_pairs_ * isa::kAccumulatorBlockBytes);
        return operand;
    }
    [[nodiscard]] VectorOperand bias_operand(const Piece& piece, const Affine& unit, std::int64_t first) const {
        return {emit_.memory.in.at(biases_at(piece) + first * kBiasBytes) + unit * unit_bias_bytes(), 0, 0};
    }
    [[nodiscard]] std::int64_t piece_rows(const Piece& piece) const {
        return chunk_.row_blocks == 1 ? chunk_.rows : piece.row_blocks * kBlockEdge;
    }
    [[nodiscard]] std::int64_t unit_bytes() const { return 2 * unit_pairs_ * block(shape_.kv); }
    void issue_units(const Piece& piece, const std::vector<VectorMacro>& macros) {
        emit_.memory.out.check_fits(piece.row_blocks * unit_bytes(), "a unit of q, k or v");
        for (std::size_t i = 0; i < macros.size(); ++i) {
            const auto when = [](bool now, int sem) {
                return now ? std::vector<SemUse>{{own_tile_sem(sem), 1}} : std::vector<SemUse>{};
            };
            emit_.tile.issue(queue::kVector, when(i == 0, tile_sem::out_free), macros[i],
                             when(i + 1 == macros.size(), tile_sem::out_full), "q, k, v unit");
        }
    }

    /// `norm_at`: of q's or k's weights within the norms of heads.
    void rotate(const Piece& piece, const Affine& unit, std::int64_t pair, std::int64_t norm_at) {
        std::vector<VectorMacro> macros;
        if (shape_.head_norms) {
            macros.push_back(head_factor(piece, unit));
        }
        for (std::int64_t i = 0; i < unit_pairs_; ++i) {
            macros.push_back(rotate_pair(piece, unit, pair, i, norm_at));
        }
        issue_units(piece, macros);
    }

    [[nodiscard]] VectorMacro head_factor(const Piece& piece, const Affine& unit) {
        VectorMacro macro;
        macro.program = emit_.vectors.add(programs_.head_factor);
        macro.rows = piece_rows(piece);
        macro.cols = shape_.head_dim;
        macro.operands = {unit_operand(piece, unit, 0), VectorOperand{emit_.memory.head_factor, 4, 0}};
        if (shape_.qkv_bias) {
            macro.operands.push_back(bias_operand(piece, unit, 0));
        }
        return macro;
    }

    /// Pair `i` of the unit, which is pair `pair + i` of its head.
    [[nodiscard]] VectorMacro rotate_pair(const Piece& piece, const Affine& unit, std::int64_t pair, std::int64_t i,
                                          std::int64_t norm_at) {
        const bool one_position = !plan_.prefill();
        const std::int64_t table_row = rotary_row_bytes(shape_.head_dim);
        const std::int64_t table_block = one_position ? kRotaryRowBytes : block(Format::bf16);
        const std::int64_t out = block(shape_.kv);
        VectorMacro macro;
        macro.program = emit_.vectors.add(programs_.rotate);
        macro.rows = piece_rows(piece);
        macro.cols = kBlockEdge;
        const auto table = [&](std::int64_t which) {
            return VectorOperand{emit_.memory.in.at(((pair + i) * 2 + which) * table_block),
                                 one_position ? 0 : table_row, one_position ? 0 : table_block};
        };
        macro.operands = {unit_operand(piece, unit, 2 * i),
                          unit_operand(piece, unit, 2 * i + 1),
                          table(0),
                          table(1),
                          VectorOperand{emit_.memory.out.at(2 * i * out), unit_bytes(), out},
                          VectorOperand{emit_.memory.out.at((2 * i + 1) * out), unit_bytes(), out}};
        if (shape_.qkv_bias) {
            macro.operands.push_back(bias_operand(piece, unit, 2 * i));
            macro.operands.push_back(bias_operand(piece, unit, 2 * i + 1));
        }
        if (shape_.head_norms) {
            macro.operands.push_back({emit_.memory.head_factor, 4, 0});
            for (std::int64_t half = 0; half < 2; ++half) {
                const std::int64_t at = head_norms_at(piece) + norm_at + (2 * (pair + i) + half) * kBiasBytes;
                macro.operands.push_back({emit_.memory.in.at(at), 0, 0});
            }
        }
        return macro;
    }

    void convert(const Piece& piece, const Affine& unit) {
        VectorMacro macro;
        macro.program = emit_.vectors.add(programs_.convert);
        macro.rows = piece_rows(piece);
        macro.cols = 2 * unit_pairs_ * kBlockEdge;
        macro.operands = {unit_operand(piece, unit, 0),
                          VectorOperand{emit_.memory.out.at(), unit_bytes(), block(shape_.kv)}};
        if (shape_.qkv_bias) {
            macro.operands.push_back(bias_operand(piece, unit, 0));
        }
        issue_units(piece, {macro});
    }

    void store_unit(const std::vector<DmaMacro>& macros, const char* label) {
        issue_all(emit_.tile, queue::kStore, {{own_tile_sem(tile_sem::out_full), 1}}, macros,
                  {{own_tile_sem(tile_sem::out_free), 1}}, label);
    }

    /// A head's queries lie in CSRAM pair by pair, 2 blocks each. Of a lone row block that is not full: its valid rows.
    void store_query(const Piece& piece, const Affine& head, std::int64_t pair) {
        const std::int64_t kv = block(shape_.kv);
        const std::int64_t pair_stride = shape_.q_heads * 2 * kv;
        const std::int64_t row_stride = pairs_ * pair_stride;
        const bool part = chunk_.row_blocks == 1 && chunk_.rows < kBlockEdge;
        std::vector<DmaMacro> stores;
        for (std::int64_t i = 0; i < unit_pairs_; ++i) {
            DmaMacro store{emit_.tsram(emit_.memory.out.at(i * 2 * kv)),
                           emit_.group_csram(piece.first_row_block * row_stride + head * (2 * kv) +
                                             (plan_.csram.q + (pair + i) * pair_stride)),
                           part ? chunk_.rows * isa::row_data_bytes(shape_.kv) : 2 * kv,
                           {},
                           Format::raw,
                           Format::raw};
            if (piece.row_blocks > 1) {
                store.dims.push_back({piece.row_blocks, unit_bytes(), row_stride});
            }
            if (part) {
                store.dims.push_back({2, kv, kv});
            }
            stores.push_back(store);
        }
        store_unit(stores, "store queries");
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
                           unit_bytes(),
                           {},
                           Format::raw,
                           Format::raw};
            if (piece.row_blocks > 1) {
                store.dims.push_back({piece.row_blocks, unit_bytes(), plan_.grouping.groups * position_bytes});
            }
            store_unit({store}, "append");
            return;
        }
        const std::int64_t row_bytes = isa::row_data_bytes(attention.kv);
        const std::int64_t sequence_bytes = attention.kv_heads * attention.cache_bytes();
        const std::int64_t at = attention.context - 1;
        const Affine row = base + at / kBlockEdge * position_bytes + at % kBlockEdge * row_bytes;
        const auto macro = [&](std::int64_t j, std::int64_t rows) {
            return DmaMacro{emit_.tsram(emit_.memory.out.at(j * unit_bytes())),
                            {Space::hbm, 0, 0, row + (piece.first_row_block + j) * (kBlockEdge * sequence_bytes)},
                            row_bytes,
                            {{rows, row_bytes, sequence_bytes}, {2 * unit_pairs_, kv, kv}},
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
    const QkvPlace& place_;
    QkvPrograms programs_;
    std::int64_t pairs_, unit_pairs_;  ///< of 32 columns that rotate together: of a head, of a unit
};

}  // namespace

QkvPrograms qkv_programs(const LayerShape& shape, bool one_position) {
    return {rope_program(shape.kv, {one_position, shape.qkv_bias, shape.head_norms}),
            convert_program(shape.kv, shape.qkv_bias),
            head_factor_program(shape.head_dim, shape.head_epsilon, shape.qkv_bias)};
}

void emit_qkv_piece(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, const LayerShape& shape,
                    const QkvPlace& place, const Product& product, const Piece& piece) {
    QkvEpilogue(emit, plan, chunk, shape, place).take(product, piece);
}

}  // namespace sluice::kernels
