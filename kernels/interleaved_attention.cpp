// SPDX-License-Identifier: Apache-2.0
#include "kernels/interleaved_attention.hpp"

#include <optional>

#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::kAccumulatorBlockBytes;
using isa::kBlockEdge;
using isa::SemUse;
using isa::Space;
using isa::TensorMacro;
using isa::VectorMacro;
using isa::VectorOperand;

namespace {

SemUse own(int index) {
    return {own_tile_sem(index), 1};
}
Affine value_of(int reg) {
    return isa::variable(isa::register_var(reg));
}

/// A step's chunk of K and V. In a unit they have numbers 0, 1, ...; the last one may be narrower.
struct Chunk {
    Affine index;
    Affine blocks;
    bool first = false, last = false;
};

/// Writes the steps of one work unit, which registers row (set), sequence and head name.
class Unit {
public:
    Unit(Emitter& emit, const InterleavedAttention& attention)
        : emit_(emit),
          tile_(emit.tile),
          attention_(attention),
          shape_(attention.shape),
          cut_(attention.cut),
          steps_(cut_.steps(shape_)),
          ahead_(emit.memory.score_slots - 1),
          dim_(shape_.dim_blocks()),
          rows_(cut_.step_heads * kBlockEdge),
          kv_block_(block(shape_.kv)) {
        scores_ = {0, cut_.step_heads * cut_.chunk_blocks * kAccumulatorBlockBytes, emit.memory.score_slots, reg::step};
        accumulators_ = scores_.slot_bytes * scores_.slots;
    }

    void emit() {
        if (shape_.causal) {
            find_last_chunk();
        }
        load_queries();
        start_rows();
        chunks();
        for (std::int64_t i = 0; i < steps_; ++i) {
            normalise(i);
        }
        emit_.advance(tile_, reg::in);
    }

private:
    // ---- the order of things ------------------------------------------------------------------------------------

    /// Whole chunks before the last one.
    [[nodiscard]] Affine whole_chunks() const {
        return shape_.causal ? value_of(reg::chunks) : Affine((shape_.context_blocks() - 1) / cut_.chunk_blocks);
    }
    [[nodiscard]] Affine last_blocks() const {
        return shape_.causal ? value_of(reg::last_blocks)
                             : Affine((shape_.context_blocks() - 1) % cut_.chunk_blocks + 1);
    }
    [[nodiscard]] Chunk whole(const Affine& index, bool first) const {
        return {index, cut_.chunk_blocks, first, false};
    }
    [[nodiscard]] Chunk last() const { return {whole_chunks(), last_blocks(), false, true}; }

    /// Position block of the unit's first queries, counted from the past's first.
    [[nodiscard]] Affine first_position() const { return set() * cut_.unit_blocks + Affine(shape_.past_blocks); }
    /// Causal: sets are dealt from the last, which attends to most, to the first.
    [[nodiscard]] Affine set() const {
        return shape_.causal ? Affine(cut_.sets(shape_) - 1) - value_of(reg::row) : value_of(reg::row);
    }

    /// chunks = first position / chunk, last_blocks = the rest and the unit's own blocks, by repeated subtraction.
    void find_last_chunk() {
        const std::int64_t highest = shape_.past_blocks + (cut_.sets(shape_) - 1) * cut_.unit_blocks;
        const std::int64_t most = highest / cut_.chunk_blocks;
        const std::int64_t widest = highest + cut_.unit_blocks;
        tile_.set_register(reg::chunks, 0, 0, most);
        tile_.set_register(reg::last_blocks, first_position() + cut_.unit_blocks, 1, widest);
        tile_.loop(most, [&](const Affine&) {
            tile_.branch(value_of(reg::last_blocks) - (cut_.chunk_blocks + 1), [&] {
                tile_.add_register(reg::last_blocks, -cut_.chunk_blocks, 1, widest);
                tile_.add_register(reg::chunks, 1, 0, most);
            });
        });
        // What the loop has left, as the bounds of what follows rest on it.
        tile_.add_register(reg::last_blocks, 0, 1, std::min(widest, cut_.chunk_blocks));
    }

    void chunks() {
        const Affine whole_count = whole_chunks();
        tile_.branch(
            whole_count - 1,
            [&] {
                begin(whole(0, true));
                tile_.branch(
                    whole_count - 2,
                    [&] {
                        steps(whole(0, true), whole(1, false));
                        tile_.loop(whole_count - 2,
                                   [&](const Affine& i) { steps(whole(i + 1, false), whole(i + 2, false)); });
                        steps(whole(whole_count - 1, false), last());
                    },
                    [&] { steps(whole(0, true), last()); });
                steps(last(), std::nullopt);
            },
            [&] {
                Chunk only = last();
                only.first = true;
                begin(only);
                steps(only, std::nullopt);
            });
    }

    void begin(const Chunk& chunk) {
        load_cache(chunk, 0);
        tile_.fence(queue::kTensor, {own(tile_sem::in_full)}, {}, "queries loaded");
        for (std::int64_t i = 0; i < ahead_; ++i) {
            scores(chunk, i, 0, i);
        }
        maximum(chunk, 0, 0);
    }

    /// A step of every row set on one chunk, and the first scores on the next one.
    void steps(const Chunk& chunk, const std::optional<Chunk>& next) {
        if (next) {
            load_cache(*next, 1);
        }
        for (std::int64_t i = 0; i < steps_; ++i) {
            if (i + ahead_ < steps_) {
                scores(chunk, i + ahead_, 0, ahead_);
            } else if (next) {
                scores(*next, i + ahead_ - steps_, 1, ahead_);
            }
            const bool more = i + 1 < steps_ || next.has_value();
            const Chunk& following = i + 1 < steps_ ? chunk : next.value_or(chunk);
            const std::int64_t following_set = (i + 1) % steps_;
            const bool together = more && alike(chunk, i, following, following_set);
            softmax(chunk, i, together ? std::optional(following_set) : std::nullopt);
            if (!chunk.first) {
                rescale(i);
            }
            values(chunk, i);
            if (more && !together) {
                maximum(following, following_set, 1);
            }
            emit_.advance(tile_, reg::step);
        }
        emit_.advance(tile_, reg::stream);
    }

    [[nodiscard]] bool masked(const Chunk& chunk) const {
        return chunk.last && (shape_.causal || shape_.context % kBlockEdge != 0);
    }
    [[nodiscard]] std::int64_t position_block(std::int64_t i) const {
        return i * cut_.step_heads / shape_.heads_per_kv();
    }

    /// Whether one macro can take both: different rows, the same columns, the same mask.
    [[nodiscard]] bool alike(const Chunk& a, std::int64_t i, const Chunk& b, std::int64_t j) const {
        if (i == j || !(a.blocks == b.blocks) || masked(a) != masked(b)) {
            return false;
        }
        return !masked(a) || !shape_.causal || position_block(i) == position_block(j);
    }

    // ---- DMA ----------------------------------------------------------------------------------------------------

    [[nodiscard]] Affine query_row_block() const {
        return value_of(reg::sequence) * cut_.padded_query_blocks(shape_) + set() * cut_.unit_blocks;
    }

    void load_queries() {
        const std::int64_t heads = shape_.heads_per_kv();
        const std::int64_t row_stride = shape_.q_heads * dim_ * kv_block_;
        const std::int64_t run = heads * dim_ * kv_block_;
        DmaMacro load{
            {Space::hbm, 0, 0, query_row_block() * row_stride + value_of(reg::head) * run + Affine(attention_.q_base)},
            emit_.tsram(emit_.memory.in.at()),
            run,
            {{cut_.unit_blocks, row_stride, run}},
            isa::Format::raw,
            isa::Format::raw};
        emit_.memory.in.check_fits(cut_.unit_blocks * run, "queries");
        tile_.issue(queue::kLoad, {own(tile_sem::in_free)}, load, {own(tile_sem::in_full)}, "load queries");
    }

    /// K and V of a chunk, `ahead` slots from the present one.
    void load_cache(const Chunk& chunk, std::int64_t ahead) {
        const std::int64_t position_bytes = dim_ * kv_block_;
        const Affine cache = value_of(reg::sequence) * (shape_.kv_heads * cut_.cache_blocks(shape_) * position_bytes) +
                             value_of(reg::head) * (cut_.cache_blocks(shape_) * position_bytes) +
                             chunk.index * (cut_.chunk_blocks * position_bytes);
        const auto load = [&](std::int64_t base, const Ring& ring) {
            ring.check_fits(cut_.chunk_blocks * position_bytes, "a chunk of the cache");
            return DmaMacro{{Space::hbm, 0, 0, cache + Affine(base)},
                            emit_.tsram(ring.at(0, ahead)),
                            chunk.blocks * position_bytes,
                            {},
                            isa::Format::raw,
                            isa::Format::raw};
        };
        tile_.issue(queue::kStream, {own(tile_sem::b_free)}, load(attention_.k_base, emit_.memory.stream),
                    {own(tile_sem::b_full)}, "stream K");
        tile_.issue(queue::kStream, {own(tile_sem::v_free)}, load(attention_.v_base, emit_.memory.values),
                    {own(tile_sem::v_full)}, "stream V");
    }

    // ---- TTU ----------------------------------------------------------------------------------------------------

    void scores(const Chunk& chunk, std::int64_t i, std::int64_t chunks_ahead, std::int64_t ahead) {
        TensorMacro macro;
        macro.mb = cut_.step_heads;
        macro.nb = chunk.blocks;
        macro.kb = dim_;
        macro.a_offset = emit_.memory.in.at(i * cut_.step_heads * dim_ * kv_block_);
        macro.a_stride_k = kv_block_;
        macro.a_stride_m = dim_ * kv_block_;
        macro.b_offset = emit_.memory.stream.at(0, chunks_ahead);
        macro.b_stride_k = kv_block_;
        macro.b_stride_n = dim_ * kv_block_;
        macro.c_offset = scores_.at(0, ahead);
        macro.c_stride_n = kAccumulatorBlockBytes;
        macro.c_stride_m = cut_.chunk_blocks * kAccumulatorBlockBytes;
        macro.a_format = shape_.kv;
        macro.b_format = shape_.kv;
        std::vector<SemUse> waits{own(tile_sem::s_free)};
        std::vector<SemUse> signals{own(tile_sem::s_full)};
        if (i == 0) {
            waits.push_back(own(tile_sem::b_full));
        }
        if (i + 1 == steps_) {
            signals.push_back(own(tile_sem::b_free));
            if (chunk.last) {
                signals.push_back(own(tile_sem::in_free));
            }
        }
        tile_.issue(queue::kTensor, waits, macro, signals, "scores");
    }

    void values(const Chunk& chunk, std::int64_t i) {
        TensorMacro macro;
        macro.mb = cut_.step_heads;
        macro.nb = dim_;
        macro.kb = chunk.blocks;
        macro.a_offset = emit_.memory.probabilities.at();
        macro.a_stride_k = kv_block_;
        macro.a_stride_m = cut_.chunk_blocks * kv_block_;
        macro.b_offset = emit_.memory.values.at();
        macro.b_stride_n = kv_block_;
        macro.b_stride_k = dim_ * kv_block_;
        macro.b_transposed = true;
        macro.c_offset = accumulator(i);
        macro.c_stride_n = kAccumulatorBlockBytes;
        macro.c_stride_m = dim_ * kAccumulatorBlockBytes;
        macro.a_format = shape_.kv;
        macro.b_format = shape_.kv;
        macro.accumulate = !chunk.first;
        std::vector<SemUse> waits{own(tile_sem::p_full)};
        std::vector<SemUse> signals{own(tile_sem::p_free), own(tile_sem::pv_done)};
        if (i == 0) {
            waits.push_back(own(tile_sem::v_full));
        }
        if (i + 1 == steps_) {
            signals.push_back(own(tile_sem::v_free));
        }
        tile_.issue(queue::kTensor, waits, macro, signals, "values");
    }

    [[nodiscard]] std::int64_t accumulator(std::int64_t i) const {
        return accumulators_ + i * cut_.step_heads * dim_ * kAccumulatorBlockBytes;
    }

    // ---- TVP ----------------------------------------------------------------------------------------------------

    [[nodiscard]] VectorOperand score_operand(std::int64_t ahead) const {
        return {scores_.at(0, ahead), cut_.chunk_blocks * kAccumulatorBlockBytes, kAccumulatorBlockBytes};
    }
    /// One value a row of set i.
    [[nodiscard]] VectorOperand row_operand(std::int64_t base, std::int64_t i) const {
        return {base + i * rows_ * 4, 4, 0};
    }

    void set_mask(VectorMacro& macro, const Chunk& chunk, std::int64_t i) const {
        if (!masked(chunk)) {
            return;
        }
        macro.mask_by_row = shape_.causal;
        // Causal: the block of the set's own positions, the last but for those of later sets of the unit.
        macro.mask_limit = shape_.causal ? (chunk.blocks + (position_block(i) - cut_.unit_blocks)) * kBlockEdge
                                         : Affine((shape_.context - 1) % (cut_.chunk_blocks * kBlockEdge));
    }

    /// For all rows of the unit.
    void start_rows() {
        VectorMacro macro;
        macro.program = emit_.vectors.add(softmax_start_program());
        macro.rows = steps_ * rows_;
        macro.operands = {row_operand(emit_.memory.row_maximum, 0), row_operand(emit_.memory.row_sum, 0)};
        tile_.issue(queue::kVector, {}, macro, {}, "start rows");
    }

    void maximum(const Chunk& chunk, std::int64_t i, std::int64_t ahead) {
        VectorMacro macro;
        macro.program = emit_.vectors.add(softmax_maximum_program(shape_.head_dim, masked(chunk)));
        macro.rows = rows_;
        macro.cols = chunk.blocks * kBlockEdge;
        macro.operands = {score_operand(ahead), row_operand(emit_.memory.row_maximum, i),
                          row_operand(emit_.memory.row_shift, i), row_operand(emit_.memory.row_rescale, i)};
        set_mask(macro, chunk, i);
        tile_.issue(queue::kVector, {own(tile_sem::s_full)}, macro, {}, "maximum");
    }

    /// Exponents of set i and, in the same macro, the maximum of set `next`.
    void softmax(const Chunk& chunk, std::int64_t i, std::optional<std::int64_t> next) {
        VectorMacro macro;
        macro.program = emit_.vectors.add(next ? softmax_step_program(shape_.kv, shape_.head_dim, masked(chunk))
                                               : softmax_exponent_program(shape_.kv, shape_.head_dim, masked(chunk)));
        macro.rows = rows_;
        macro.cols = chunk.blocks * kBlockEdge;
        macro.operands = {score_operand(0),
                          {emit_.memory.probabilities.at(), cut_.chunk_blocks * kv_block_, kv_block_},
                          row_operand(emit_.memory.row_shift, i),
                          row_operand(emit_.memory.row_sum, i),
                          row_operand(emit_.memory.row_rescale, i)};
        std::vector<SemUse> waits{own(tile_sem::p_free)};
        if (next) {
            waits.push_back(own(tile_sem::s_full));
            macro.operands.push_back(score_operand(1));
            macro.operands.push_back(row_operand(emit_.memory.row_maximum, *next));
            macro.operands.push_back(row_operand(emit_.memory.row_shift, *next));
            macro.operands.push_back(row_operand(emit_.memory.row_rescale, *next));
        }
        set_mask(macro, chunk, i);
        std::vector<SemUse> signals{own(tile_sem::s_free)};
        if (chunk.first) {
            signals.push_back(own(tile_sem::p_full));
        }
        tile_.issue(queue::kVector, waits, macro, signals, "softmax");
    }

    [[nodiscard]] VectorMacro on_accumulator(const isa::VectorProgram& program, std::int64_t i) const {
        VectorMacro macro;
        macro.program = emit_.vectors.add(program);
        macro.rows = rows_;
        macro.cols = shape_.head_dim;
        macro.operands = {{accumulator(i), dim_ * kAccumulatorBlockBytes, kAccumulatorBlockBytes}};
        return macro;
    }

    void rescale(std::int64_t i) {
        VectorMacro macro = on_accumulator(rescale_program(), i);
        macro.operands.push_back(row_operand(emit_.memory.row_rescale, i));
        tile_.issue(queue::kVector, {own(tile_sem::pv_done)}, macro, {own(tile_sem::p_full)}, "rescale");
    }

    void normalise(std::int64_t i) {
        const std::int64_t out_block = block(shape_.out);
        const std::int64_t bytes = cut_.step_heads * dim_ * out_block;
        emit_.memory.out.check_fits(bytes, "attention output");
        VectorMacro macro = on_accumulator(attention_finish_program(shape_.out), i);
        macro.operands.push_back(row_operand(emit_.memory.row_sum, i));
        macro.operands.push_back({emit_.memory.out.at(), dim_ * out_block, out_block});
        tile_.issue(queue::kVector, {own(tile_sem::pv_done), own(tile_sem::out_free)}, macro, {own(tile_sem::out_full)},
                    "normalise");
        const std::int64_t row_stride = shape_.q_heads * dim_ * out_block;
        const std::int64_t first_head = i * cut_.step_heads % shape_.heads_per_kv();
        const Affine to = (query_row_block() + position_block(i)) * row_stride +
                          value_of(reg::head) * (shape_.heads_per_kv() * dim_ * out_block) +
                          Affine(attention_.o_base + first_head * dim_ * out_block);
        const DmaMacro store{
            emit_.tsram(emit_.memory.out.at()), {Space::hbm, 0, 0, to}, bytes, {}, isa::Format::raw, isa::Format::raw};
        tile_.issue(queue::kStore, {own(tile_sem::out_full)}, store, {own(tile_sem::out_free)}, "store attention");
        emit_.advance(tile_, reg::out);
    }

    Emitter& emit_;
    ControlBuilder& tile_;
    const InterleavedAttention& attention_;
    const InterleavedShape& shape_;
    const Interleaving& cut_;
    std::int64_t steps_, ahead_, dim_, rows_, kv_block_;
    Ring scores_;
    std::int64_t accumulators_ = 0;
};

/// The numbers of a tile's units: unit = (set * sequences + sequence) * kv_heads + head, first the tile's position,
/// then `tiles` on. Every register stays in its range at every step.
class Units {
public:
    Units(Emitter& emit, const InterleavedAttention& attention)
        : tile_(emit.tile),
          tiles_(emit.grouping.tiles_per_group()),
          heads_(attention.shape.kv_heads),
          sequences_(attention.shape.sequences),
          sets_(attention.cut.sets(attention.shape)) {}

    void start(const Affine& position) {
        tile_.set_register(reg::token, position, 0, tiles_ - 1);
        tile_.set_register(reg::sequence, 0, 0, sequences_ - 1);
        tile_.set_register(reg::row, 0, 0, sets_ - 1);
        take(heads_ * sequences_, reg::row, sets_);
        take(heads_, reg::sequence, sequences_);
        tile_.set_register(reg::head, value_of(reg::token), 0, heads_ - 1);
    }

    void advance() {
        tile_.set_register(reg::carry, 0, 0, 1);
        add(reg::head, tiles_ % heads_, heads_);
        add(reg::sequence, tiles_ / heads_ % sequences_, sequences_);
        tile_.add_register(reg::row, value_of(reg::carry) + tiles_ / (heads_ * sequences_), 0, sets_ - 1);
    }

private:
    /// digit = token / size, token = the rest.
    void take(std::int64_t size, int digit, std::int64_t radix) {
        tile_.loop(std::min((tiles_ - 1) / size, radix - 1), [&](const Affine&) {
            tile_.branch(value_of(reg::token) - size, [&] {
                tile_.add_register(reg::token, -size, 0, tiles_ - 1);
                tile_.add_register(digit, 1, 0, radix - 1);
            });
        });
    }
    /// digit += amount + carry, modulo the radix; carry = whether it went round.
    void add(int digit, std::int64_t amount, std::int64_t radix) {
        const Affine more = value_of(reg::carry) + amount;
        tile_.branch(
            value_of(digit) + more - radix,
            [&] {
                tile_.add_register(digit, more - radix, 0, radix - 1);
                tile_.set_register(reg::carry, 1, 0, 1);
            },
            [&] {
                tile_.add_register(digit, more, 0, radix - 1);
                tile_.set_register(reg::carry, 0, 0, 1);
            });
    }

    ControlBuilder& tile_;
    std::int64_t tiles_, heads_, sequences_, sets_;
};

}  // namespace

void emit_interleaved_tile(Emitter& emit, const InterleavedAttention& attention) {
    ControlBuilder& tile = emit.tile;
    const Split split{attention.cut.units(attention.shape), emit.grouping.tiles_per_group()};
    const Affine position = isa::variable(isa::Var::self) - emit.first_tile();
    Units units(emit, attention);
    const auto of_tile = [&](std::int64_t count) {
        if (count == 0) {
            return;
        }
        units.start(position);
        tile.loop(count, [&](const Affine& i) {
            Unit(emit, attention).emit();
            tile.branch(Affine(count - 2) - i, [&] { units.advance(); });
        });
    };
    if (split.remainder() == 0) {
        of_tile(split.most());
        return;
    }
    tile.branch(
        Affine(split.remainder() - 1) - position, [&] { of_tile(split.most()); }, [&] { of_tile(split.least()); });
}

}  // namespace sluice::kernels
