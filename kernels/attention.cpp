// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::kBlockEdge;
using isa::SemUse;
using isa::Space;
using isa::TensorMacro;
using isa::VectorMacro;
using isa::VectorOperand;

namespace {

/// The output region during attention: two score slots, then the output accumulator.
std::int64_t score_slot_bytes(const AttentionShape& shape) {
    return shape.query_blocks() * shape.chunk_blocks * isa::kAccumulatorBlockBytes;
}

/// Writes the steps of one work unit.
class WorkUnit {
public:
    WorkUnit(Emitter& emit, const Attention& attention, Affine position)
        : emit_(emit),
          tile_(emit.tile),
          attention_(attention),
          shape_(attention.shape),
          position_(std::move(position)),
          dim_(attention.shape.dim_blocks()),
          mb_(attention.shape.query_blocks()),
          chunk_(attention.shape.chunk_blocks) {
        scores_.base = 0;
        scores_.slot_bytes = score_slot_bytes(shape_);
        scores_.slots = 2;
        scores_.cursor = reg::step;
        accumulator_ = 2 * scores_.slot_bytes;
    }

    /// `cache`: byte offset of this unit's (sequence, head) within the layer's caches. `first`: value 0 for the first
    /// unit of this tile.
    void emit(const Affine& cache, const Affine& first) {
        cache_ = cache;
        first_ = first;
        load_queries();
        if (shape_.causal) {
            emit_causal();
        } else {
            emit_decode();
        }
        finish();
    }

private:
    void emit_decode() {
        const std::int64_t blocks = ceil_div(shape_.context, kBlockEdge);
        const std::int64_t steps = ceil_div(blocks, chunk_);
        const std::int64_t last_blocks = blocks - (steps - 1) * chunk_;
        if (steps == 1) {
            scores(0, last_blocks, true);
            softmax(last_blocks, true, true);
            values(0, last_blocks, true);
            return;
        }
        scores(0, chunk_, false);
        scores_ahead(1, steps == 2 ? last_blocks : chunk_, steps == 2);
        softmax(chunk_, true, false);
        values(0, chunk_, true);
        tile_.loop(steps - 3, [&](const Affine& i) {
            scores_ahead(i + 2, chunk_, false);
            softmax(chunk_, false, false);
            values(i + 1, chunk_, false);
        });
        if (steps > 2) {
            scores_ahead(steps - 1, last_blocks, true);
            softmax(chunk_, false, false);
            values(steps - 2, chunk_, false);
        }
        softmax(last_blocks, false, true);
        values(steps - 1, last_blocks, false);
    }

    /// Set a attends to a whole chunks and, masked, to its own.
    void emit_causal() {
        const Affine set = local_set() + attention_.first_set;
        tile_.branch(
            set - 1,
            [&] {
                scores(0, chunk_, false);
                scores_ahead(1, chunk_, false);
                softmax(chunk_, true, false);
                values(0, chunk_, true);
                tile_.loop(set - 1, [&](const Affine& i) {
                    scores_ahead(i + 2, chunk_, false);
                    softmax(chunk_, false, false);
                    values(i + 1, chunk_, false);
                });
                softmax(chunk_, false, true);
                values(set, chunk_, false);
            },
            [&] {
                scores(0, chunk_, false);
                softmax(chunk_, true, true);
                values(0, chunk_, true);
            });
    }

    /// Prefill: sets of this chunk are dealt from the last, which attends to most, to the first.
    [[nodiscard]] Affine local_set() const {
        return Affine(attention_.sets - 1) - isa::variable(isa::register_var(reg::row));
    }

    void load_queries() {
        const std::int64_t kv_block = block(shape_.kv);
        const std::int64_t heads = shape_.heads_per_kv();
        const std::int64_t pairs = dim_ / 2;
        const std::int64_t row_stride = pairs * shape_.q_heads * 2 * kv_block;
        const std::int64_t row_bytes = isa::row_data_bytes(shape_.kv);
        const Affine head = isa::variable(isa::register_var(reg::head), heads * 2 * kv_block);
        std::vector<DmaMacro> macros;
        if (shape_.causal) {
            const Affine set_row = local_set() * (shape_.set_row_blocks * row_stride);
            for (std::int64_t r = 0; r < shape_.set_row_blocks; ++r) {
                macros.push_back(
                    {emit_.own_csram(Affine(attention_.q_buffer + r * row_stride) + set_row + head),
                     emit_.tsram(emit_.memory.in.at(r * heads * dim_ * kv_block)),
                     2 * kv_block,
                     {{heads, 2 * kv_block, dim_ * kv_block}, {pairs, shape_.q_heads * 2 * kv_block, 2 * kv_block}},
                     isa::Format::raw,
                     isa::Format::raw});
            }
        } else {
            // Row `row` of each head's blocks becomes row `head` of the operand block.
            for (std::int64_t pair = 0; pair < pairs; ++pair) {
                const Affine row = isa::variable(isa::register_var(reg::row), row_bytes);
                macros.push_back({emit_.own_csram(position_ * row_stride + head + row +
                                                  (attention_.q_buffer + pair * shape_.q_heads * 2 * kv_block)),
                                  emit_.tsram(emit_.memory.in.at(2 * pair * kv_block)),
                                  row_bytes,
                                  {{heads, 2 * kv_block, row_bytes}, {2, kv_block, kv_block}},
                                  isa::Format::raw,
                                  isa::Format::raw});
            }
        }
        emit_.memory.in.check_fits(mb_ * dim_ * kv_block, "queries");
        issue_all(tile_, queue::kLoad, {{own_tile_sem(tile_sem::in_free), 1}}, macros,
                  {{own_tile_sem(tile_sem::in_full), 1}}, "load queries");
        tile_.fence(queue::kTensor, {{own_tile_sem(tile_sem::in_full), 1}}, {}, "queries loaded");
    }

    /// The step that touches this step's own K and V waits, in the tile's first unit, until all tiles have appended.
    void wait_for_append() {
        tile_.branch(first_ * -1, [&] {
            tile_.fence(queue::kStream, {{own_tile_sem(tile_sem::go_kv), 1}}, {}, "K and V appended");
        });
    }

    void load_cache(const Affine& cache, const Affine& chunk, std::int64_t blocks, const char* label) {
        const std::int64_t position_bytes = dim_ * block(shape_.kv);
        emit_.memory.stream.check_fits(blocks * position_bytes, label);
        emit_.memory.probabilities.check_fits(mb_ * blocks * block(shape_.kv), "probabilities");
        const DmaMacro load{{Space::hbm, 0, 0, cache + cache_ + chunk * (chunk_ * position_bytes)},
                            emit_.tsram(emit_.memory.stream.at()),
                            blocks * position_bytes,
                            {},
                            isa::Format::raw,
                            isa::Format::raw};
        tile_.issue(queue::kStream, {{own_tile_sem(tile_sem::b_free), 1}}, load, {{own_tile_sem(tile_sem::b_full), 1}},
                    label);
    }

    void scores_step(const Affine& chunk, std::int64_t blocks, std::int64_t ahead, bool waits_for_append) {
        if (waits_for_append) {
            wait_for_append();
        }
        load_cache(attention_.k_cache, chunk, blocks, "stream K");
        TensorMacro macro;
        macro.mb = mb_;
        macro.nb = blocks;
        macro.kb = dim_;
        macro.a_stride_k = block(shape_.kv);
        macro.a_stride_m = dim_ * macro.a_stride_k;
        macro.b_stride_k = block(shape_.kv);
        macro.b_stride_n = dim_ * macro.b_stride_k;
        macro.c_stride_n = isa::kAccumulatorBlockBytes;
        macro.c_stride_m = blocks * isa::kAccumulatorBlockBytes;
        macro.a_offset = emit_.memory.in.at();
        macro.b_offset = emit_.memory.stream.at();
        macro.c_offset = scores_.at(0, ahead);
        macro.last_rows = operand_rows();
        macro.a_format = shape_.kv;
        macro.b_format = shape_.kv;
        tile_.issue(queue::kTensor, {{own_tile_sem(tile_sem::b_full), 1}, {own_tile_sem(tile_sem::s_free), 1}}, macro,
                    {{own_tile_sem(tile_sem::b_free), 1}, {own_tile_sem(tile_sem::s_full), 1}}, "scores");
        emit_.advance(tile_, reg::stream);
    }
    void scores(const Affine& chunk, std::int64_t blocks, bool touches_append) {
        scores_step(chunk, blocks, 0, touches_append || shape_.causal);
    }
    void scores_ahead(const Affine& chunk, std::int64_t blocks, bool touches_append) {
        scores_step(chunk, blocks, 1, touches_append);
    }

    /// Decode: a row of the operand block for each query head.
    [[nodiscard]] std::int64_t operand_rows() const { return shape_.causal ? kBlockEdge : shape_.heads_per_kv(); }

    void softmax(std::int64_t blocks, bool first, bool last) {
        const bool masked = last && (shape_.causal || shape_.context % kBlockEdge != 0);
        const std::string program = emit_.vectors.add(softmax_program(shape_.kv, shape_.head_dim, first, masked));
        // A causal mask differs from row block to row block; everything else is one macro.
        const std::int64_t parts = shape_.causal && last ? shape_.set_row_blocks : 1;
        const std::int64_t part_blocks = mb_ / parts;
        for (std::int64_t part = 0; part < parts; ++part) {
            VectorMacro macro;
            macro.program = program;
            macro.rows = shape_.causal ? part_blocks * kBlockEdge : shape_.heads_per_kv();
            macro.cols = blocks * kBlockEdge;
            const std::int64_t row = part * part_blocks;
            const std::int64_t row_values = row * kBlockEdge * 4;
            macro.operands = {VectorOperand{scores_.at(row * blocks * isa::kAccumulatorBlockBytes),
                                            blocks * isa::kAccumulatorBlockBytes, isa::kAccumulatorBlockBytes},
                              VectorOperand{emit_.memory.probabilities.at(row * blocks * block(shape_.kv)),
                                            blocks * block(shape_.kv), block(shape_.kv)},
                              VectorOperand{emit_.memory.row_maximum + row_values, 4, 0},
                              VectorOperand{emit_.memory.row_sum + row_values, 4, 0}};
            if (!first) {
                macro.operands.push_back(VectorOperand{emit_.memory.row_rescale + row_values, 4, 0});
            }
            if (masked) {
                macro.mask_by_row = shape_.causal;
                macro.mask_limit = shape_.causal ? (part * emit_.grouping.groups + emit_.group) * kBlockEdge
                                                 : (shape_.context - 1) % (chunk_ * kBlockEdge);
            }
            std::vector<SemUse> waits;
            if (part == 0) {
                waits.push_back({own_tile_sem(tile_sem::s_full), 1});
            }
            std::vector<SemUse> signals;
            if (part + 1 == parts) {
                signals.push_back({own_tile_sem(tile_sem::s_free), 1});
                if (first) {
                    signals.push_back({own_tile_sem(tile_sem::p_full), 1});
                }
            }
            tile_.issue(queue::kVector, waits, macro, signals, "softmax");
        }
        if (!first) {
            VectorMacro macro;
            macro.program = emit_.vectors.add(rescale_program());
            macro.rows = shape_.causal ? mb_ * kBlockEdge : shape_.heads_per_kv();
            macro.cols = shape_.head_dim;
            macro.operands = {
                VectorOperand{accumulator_, dim_ * isa::kAccumulatorBlockBytes, isa::kAccumulatorBlockBytes},
                VectorOperand{emit_.memory.row_rescale, 4, 0}};
            tile_.issue(queue::kVector, {{own_tile_sem(tile_sem::pv_done), 1}}, macro,
                        {{own_tile_sem(tile_sem::p_full), 1}}, "rescale");
        }
    }

    void values(const Affine& chunk, std::int64_t blocks, bool first) {
        load_cache(attention_.v_cache, chunk, blocks, "stream V");
        TensorMacro macro;
        macro.mb = mb_;
        macro.nb = dim_;
        macro.kb = blocks;
        macro.a_stride_k = block(shape_.kv);
        macro.a_stride_m = blocks * macro.a_stride_k;
        macro.b_stride_n = block(shape_.kv);
        macro.b_stride_k = dim_ * macro.b_stride_n;
        macro.b_transposed = true;
        macro.c_stride_n = isa::kAccumulatorBlockBytes;
        macro.c_stride_m = dim_ * isa::kAccumulatorBlockBytes;
        macro.a_offset = emit_.memory.probabilities.at();
        macro.b_offset = emit_.memory.stream.at();
        macro.c_offset = accumulator_;
        macro.last_rows = operand_rows();
        macro.a_format = shape_.kv;
        macro.b_format = shape_.kv;
        macro.accumulate = !first;
        tile_.issue(queue::kTensor, {{own_tile_sem(tile_sem::b_full), 1}, {own_tile_sem(tile_sem::p_full), 1}}, macro,
                    {{own_tile_sem(tile_sem::b_free), 1}, {own_tile_sem(tile_sem::pv_done), 1}}, "values");
        emit_.advance(tile_, reg::stream);
        emit_.advance(tile_, reg::step);
    }

    void finish() {
        tile_.fence(queue::kTensor, {}, {{own_tile_sem(tile_sem::in_free), 1}}, "queries free");
        emit_.advance(tile_, reg::in);
        VectorMacro macro;
        macro.program = emit_.vectors.add(attention_finish_program(shape_.out));
        macro.rows = shape_.causal ? mb_ * kBlockEdge : shape_.heads_per_kv();
        macro.cols = shape_.head_dim;
        macro.operands = {VectorOperand{accumulator_, dim_ * isa::kAccumulatorBlockBytes, isa::kAccumulatorBlockBytes},
                          VectorOperand{emit_.memory.row_sum, 4, 0},
                          VectorOperand{emit_.memory.out.at(), dim_ * block(shape_.out), block(shape_.out)}};
        tile_.issue(queue::kVector, {{own_tile_sem(tile_sem::pv_done), 1}, {own_tile_sem(tile_sem::out_free), 1}},
                    macro, {{own_tile_sem(tile_sem::out_full), 1}}, "normalise");
        emit_.memory.out.check_fits(mb_ * dim_ * block(shape_.out), "attention output");
        std::vector<SemUse> stored = attention_.finished;
        stored.push_back({own_tile_sem(tile_sem::out_free), 1});
        issue_all(tile_, queue::kStore, {{own_tile_sem(tile_sem::out_full), 1}}, store_macros(), stored,
                  "store attention");
        emit_.advance(tile_, reg::out);
    }

    [[nodiscard]] std::vector<DmaMacro> store_macros() const {
        const std::int64_t heads = shape_.heads_per_kv();
        const std::int64_t out_block = block(shape_.out);
        const std::int64_t row_stride = shape_.q_heads * dim_ * out_block;
        const Affine head = isa::variable(isa::register_var(reg::head), heads * dim_ * out_block);
        std::vector<DmaMacro> macros;
        if (shape_.causal) {
            const Affine set_row = local_set() * (shape_.set_row_blocks * row_stride);
            for (std::int64_t r = 0; r < shape_.set_row_blocks; ++r) {
                macros.push_back({emit_.tsram(emit_.memory.out.at(r * heads * dim_ * out_block)),
                                  emit_.group_csram(Affine(attention_.out_buffer + r * row_stride) + set_row + head),
                                  heads * dim_ * out_block,
                                  {},
                                  isa::Format::raw,
                                  isa::Format::raw});
            }
            return macros;
        }
        // Row `head` of the staged blocks becomes row `row` of the attention buffer's blocks: data, then scales.
        const std::int64_t data = isa::row_data_bytes(shape_.out);
        const Affine base = position_ * row_stride + head + attention_.out_buffer;
        const auto rows = [&](std::int64_t offset, std::int64_t bytes) {
            return DmaMacro{emit_.tsram(emit_.memory.out.at(offset)),
                            emit_.group_csram(base + offset + isa::variable(isa::register_var(reg::row), bytes)),
                            bytes,
                            {{heads, bytes, dim_ * out_block}, {dim_, out_block, out_block}},
                            isa::Format::raw,
                            isa::Format::raw};
        };
        macros.push_back(rows(0, data));
        if (isa::info(shape_.out).block_scaled) {
            macros.push_back(rows(kBlockEdge * data, 1));
        }
        return macros;
    }

    Emitter& emit_;
    ControlBuilder& tile_;
    const Attention& attention_;
    const AttentionShape& shape_;
    Affine position_;  ///< decode: row block
    std::int64_t dim_, mb_, chunk_;
    Ring scores_;
    std::int64_t accumulator_ = 0;
    Affine cache_, first_;
};

/// The counters of a tile's work units: unit number = row * kv_heads + head, first the tile's position, then `tiles`
/// on. Every register stays in its range at every step, so that the verifier can bound the addresses.
class UnitCounters {
public:
    UnitCounters(Emitter& emit, std::int64_t heads, std::int64_t rows)
        : tile_(emit.tile), heads_(heads), rows_(rows), tiles_(emit.grouping.tiles_per_group()) {}

    /// row = position / heads, head = position mod heads, by repeated subtraction.
    void start(const Affine& position) {
        const Affine rest = isa::variable(isa::register_var(reg::token));
        tile_.set_register(reg::token, position, 0, tiles_ - 1);
        tile_.set_register(reg::row, 0, 0, rows_ - 1);
        tile_.loop(std::min((tiles_ - 1) / heads_, rows_ - 1), [&](const Affine&) {
            tile_.branch(rest - heads_, [&] {
                tile_.add_register(reg::token, -heads_, 0, tiles_ - 1);
                tile_.add_register(reg::row, 1, 0, rows_ - 1);
            });
        });
        tile_.set_register(reg::head, rest, 0, heads_ - 1);
    }
    void advance() {
        const std::int64_t step = tiles_ % heads_;
        const std::int64_t row_step = tiles_ / heads_;
        tile_.branch(
            isa::variable(isa::register_var(reg::head)) - (heads_ - step),
            [&] {
                tile_.add_register(reg::head, step - heads_, 0, heads_ - 1);
                tile_.add_register(reg::row, row_step + 1, 0, rows_ - 1);
            },
            [&] {
                tile_.add_register(reg::head, step, 0, heads_ - 1);
                tile_.add_register(reg::row, row_step, 0, rows_ - 1);
            });
    }

private:
    ControlBuilder& tile_;
    std::int64_t heads_, rows_, tiles_;
};

/// The tile's units of one round: `rows` x kv_heads units dealt in turn to the tiles of the group.
void emit_units(Emitter& emit, const Attention& attention, const Affine& row_block, std::int64_t rows,
                std::int64_t count) {
    ControlBuilder& tile = emit.tile;
    const AttentionShape& shape = attention.shape;
    if (count == 0) {
        tile.branch(row_block * -1, [&] {
            tile.fence(queue::kStream, {{own_tile_sem(tile_sem::go_kv), 1}}, {}, "no attention here");
        });
        return;
    }
    UnitCounters counters(emit, shape.kv_heads, rows);
    counters.start(isa::variable(isa::Var::self) - emit.first_tile());
    tile.loop(count, [&](const Affine& i) {
        Affine cache = isa::variable(isa::register_var(reg::head), shape.cache_bytes());
        if (!shape.causal) {
            cache = cache + (isa::variable(isa::register_var(reg::row)) + row_block * kBlockEdge) *
                                (shape.kv_heads * shape.cache_bytes());
        }
        WorkUnit(emit, attention, row_block).emit(cache, i + row_block);
        tile.branch(Affine(count - 2) - i, [&] { counters.advance(); });
    });
}

}  // namespace

std::int64_t AttentionShape::cache_bytes() const {
    return cache_blocks * dim_blocks() * block(kv);
}

std::int64_t choose_chunk_blocks(const AttentionShape& shape, std::int64_t groups, std::int64_t accumulator_bytes,
                                 std::int64_t slot_bytes, std::int64_t most) {
    std::int64_t best = 0;
    for (std::int64_t chunk = shape.causal ? groups : 1; chunk <= most; chunk *= 2) {
        AttentionShape probe = shape;
        probe.chunk_blocks = chunk;
        probe.set_row_blocks = std::max<std::int64_t>(1, chunk / groups);
        const std::int64_t region =
            2 * score_slot_bytes(probe) + probe.query_blocks() * probe.dim_blocks() * isa::kAccumulatorBlockBytes;
        if (region <= accumulator_bytes && chunk * probe.dim_blocks() * block(probe.kv) <= slot_bytes) {
            best = chunk;
        }
    }
    if (best == 0) {
        throw InputError("tsram.output_region",
                         fmt::format("attention with {} query heads per KV head of {} does not fit: {} bytes of output "
                                     "region, {} bytes per stream slot",
                                     shape.heads_per_kv(), shape.head_dim, accumulator_bytes, slot_bytes));
    }
    return best;
}

std::int64_t work_units(const Attention& attention) {
    return (attention.shape.causal ? attention.sets : attention.sequences) * attention.shape.kv_heads;
}

void emit_attention_tile(Emitter& emit, const Attention& attention) {
    ControlBuilder& tile = emit.tile;
    const AttentionShape& shape = attention.shape;
    const Affine position = isa::variable(isa::Var::self) - emit.first_tile();
    const std::int64_t tiles = emit.grouping.tiles_per_group();
    tile.fence(queue::kLoad, {{own_tile_sem(tile_sem::go), 1}}, {}, "queries ready");

    // Decode deals each block of 32 sequences in turn; prefill has one such round over its sets.
    const auto round = [&](const Affine& row_block, std::int64_t rows) {
        const Split split{rows * shape.kv_heads, tiles};
        if (split.remainder() == 0) {
            emit_units(emit, attention, row_block, rows, split.most());
            return;
        }
        tile.branch(
            Affine(split.remainder() - 1) - position,
            [&] { emit_units(emit, attention, row_block, rows, split.most()); },
            [&] { emit_units(emit, attention, row_block, rows, split.least()); });
    };
    if (shape.causal) {
        round(0, attention.sets);
        return;
    }
    const std::int64_t rounds = ceil_div(attention.sequences, kBlockEdge);
    tile.loop(rounds - 1, [&](const Affine& r) { round(r, kBlockEdge); });
    round(Affine(rounds - 1), attention.sequences - (rounds - 1) * kBlockEdge);
}

void emit_attention_cluster(Emitter& emit, const Attention& attention) {
    emit.release_tiles(cluster_sem::ready_q, attention.q_ready_count, tile_sem::go, "queries complete");
    emit.release_tiles(cluster_sem::ready_kv, attention.kv_ready_count, tile_sem::go_kv, "K and V complete");
}

}  // namespace sluice::kernels
