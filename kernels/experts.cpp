// SPDX-License-Identifier: Apache-2.0
#include "kernels/experts.hpp"

#include <algorithm>

#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::Format;
using isa::kBlockEdge;
using isa::SemUse;
using isa::VectorMacro;
using isa::VectorOperand;

namespace {

constexpr std::int64_t kGateBytes = 4;

Affine value_of(int reg) {
    return isa::variable(isa::register_var(reg));
}

DmaMacro raw(const isa::MemRef& src, const isa::MemRef& dst, const Affine& bytes, std::vector<isa::DmaDim> dims = {}) {
    return {src, dst, bytes, std::move(dims), Format::raw, Format::raw};
}

/// The tile's part of one layer's experts.
class TileExperts {
public:
    TileExperts(Emitter& emit, const DecoderPlan& plan, const ExpertsWork& work)
        : emit_(emit),
          tile_(emit.tile),
          plan_(plan),
          work_(work),
          act_(work.shape.activations),
          hidden_blocks_(plan.hidden_blocks()) {}

    void emit() {
        tile_.wait({own_tile_sem(tile_sem::routed), 1});
        const Affine position = isa::variable(isa::Var::self) - emit_.first_tile();
        const RoutingShape& routing = plan_.routing[work_.run];
        tile_.load_index(reg::token, name(RoutingTable::units), work_.segment * routing.tiles + position);
        tile_.loop(value_of(reg::token), [&](const Affine& i) {
            const Affine unit = work_.segment * routing.units + i * routing.tiles + position;
            tile_.load_index(reg::expert, name(RoutingTable::expert), unit);
            tile_.load_index(reg::unit_rows, name(RoutingTable::rows), unit);
            tile_.load_index(reg::unit_first, name(RoutingTable::first), unit);
            gather();
            multiply();
        });
        tile_.fence(queue::kStore, {}, {{emit_.group_sem(cluster_sem::ready_experts), 1}}, "experts stored");
    }

private:
    [[nodiscard]] std::string name(RoutingTable table) const { return routing_table_name(work_.run, table); }
    /// Of row `i` of the unit: its place in `table`, an element for each pair of a token and a chosen expert.
    void load_pair(int reg, RoutingTable table, const Affine& i) {
        const Affine pair = work_.segment * plan_.routing[work_.run].pairs + value_of(reg::unit_first) + i;
        tile_.load_index(reg, name(table), pair);
    }
    [[nodiscard]] std::int64_t gates_at() const { return hidden_blocks_ * block(act_); }

    /// The unit's rows become rows 0, 1, ... of a block row; their gates stand behind it.
    void gather() {
        emit_.memory.expert_rows.check_fits(expert_rows_bytes(plan_, work_.shape), "rows of an expert");
        tile_.fence(queue::kLoad, {{own_tile_sem(tile_sem::expert_rows_free), 1}}, {}, "room for an expert's rows");
        tile_.loop(value_of(reg::unit_rows), [&](const Affine& i) {
            load_pair(reg::last_row_block, RoutingTable::row_block, i);
            load_pair(reg::row_in_block, RoutingTable::row, i);
            const auto piece = [&](std::int64_t bytes, std::int64_t at) {
                const Affine from = value_of(reg::last_row_block) * (hidden_blocks_ * block(act_)) +
                                    value_of(reg::row_in_block) * bytes + (plan_.csram.norm + at);
                const DmaMacro macro =
                    raw(emit_.own_csram(from), emit_.tsram(i * bytes + at + emit_.memory.expert_rows.base), bytes,
                        {{hidden_blocks_, block(act_), block(act_)}});
                tile_.issue(queue::kLoad, {}, macro, {}, "gather a row");
            };
            piece(isa::row_data_bytes(act_), 0);
            if (isa::info(act_).block_scaled) {
                piece(1, kBlockEdge * isa::row_data_bytes(act_));
            }
            const std::int64_t row = work_.shape.experts.count * kGateBytes;
            const Affine gate = value_of(reg::last_row_block) * (kBlockEdge * row) + value_of(reg::row_in_block) * row +
                                value_of(reg::expert) * kGateBytes + plan_.csram.gates;
            tile_.issue(queue::kLoad, {},
                        raw(emit_.own_csram(gate),
                            emit_.tsram(i * kGateBytes + gates_at() + emit_.memory.expert_rows.base), kGateBytes),
                        {}, "gather a gate");
        });
        tile_.fence(queue::kLoad, {}, {{own_tile_sem(tile_sem::expert_rows_full), 1}}, "rows of an expert gathered");
    }

    void multiply() {
        const Affine weights = value_of(reg::expert) * expert_bytes(plan_, work_.shape) + work_.experts;
        tile_.fence(queue::kTensor, {{own_tile_sem(tile_sem::expert_rows_full), 1}}, {}, "rows of an expert gathered");
        Product up = work_.up;
        up.name = "expert gate and up";
        up.weights = weights;
        up.local = LocalOperand{emit_.memory.expert_rows.base, value_of(reg::unit_rows)};
        up.epilogue = [&](const Piece& piece) { mix(piece); };
        tile_.fence(queue::kVector, {{own_tile_sem(tile_sem::expert_hidden_free), 1}}, {}, "hidden of the unit before");
        emit_product_tile(emit_, up);
        tile_.fence(queue::kVector, {}, {{own_tile_sem(tile_sem::expert_hidden_full), 1}}, "hidden complete");

        Product down = work_.down;
        down.name = "expert down";
        down.weights = weights + expert_up_bytes(plan_, work_.shape);
        down.local = LocalOperand{emit_.memory.expert_hidden.base, value_of(reg::unit_rows)};
        down.epilogue = [&](const Piece& piece) { send(piece); };
        tile_.fence(queue::kTensor, {{own_tile_sem(tile_sem::expert_hidden_full), 1}}, {}, "hidden complete");
        emit_product_tile(emit_, down);
        tile_.fence(queue::kTensor, {}, {{own_tile_sem(tile_sem::expert_hidden_free), 1}}, "hidden read");
        tile_.fence(queue::kVector, {}, {{own_tile_sem(tile_sem::expert_rows_free), 1}}, "rows and gates read");
    }

    void mix(const Piece& piece) {
        VectorMacro macro;
        macro.program = emit_.vectors.add(swiglu_program(act_));
        macro.rows = value_of(reg::unit_rows);
        macro.cols = piece.units * kBlockEdge;
        macro.operands = {accumulator_operand(piece, 0, 2), accumulator_operand(piece, 1, 2),
                          VectorOperand{piece.first_unit * block(act_) + emit_.memory.expert_hidden.base,
                                        work_.shape.experts.width / kBlockEdge * block(act_), block(act_)}};
        tile_.issue(queue::kVector, piece_waits(piece), macro, piece_signals(piece), "SwiGLU of an expert");
    }

    void send(const Piece& piece) {
        const std::int64_t row = piece.units * kBlockEdge * 2;
        emit_.memory.expert_results.check_fits(kBlockEdge * row, "results of an expert");
        VectorMacro macro;
        macro.program = emit_.vectors.add(gated_program());
        macro.rows = value_of(reg::unit_rows);
        macro.cols = piece.units * kBlockEdge;
        macro.operands = {accumulator_operand(piece, 0, 1),
                          VectorOperand{emit_.memory.expert_rows.base + gates_at(), kGateBytes, 0},
                          VectorOperand{emit_.memory.expert_results.base, row, 0}};
        std::vector<SemUse> waits = piece_waits(piece);
        waits.push_back({own_tile_sem(tile_sem::expert_results_free), 1});
        std::vector<SemUse> signals = piece_signals(piece);
        signals.push_back({own_tile_sem(tile_sem::expert_results_full), 1});
        tile_.issue(queue::kVector, waits, macro, signals, "gate an expert's results");

        tile_.fence(queue::kStore, {{own_tile_sem(tile_sem::expert_results_full), 1}}, {}, "results of an expert");
        tile_.loop(value_of(reg::unit_rows), [&](const Affine& i) {
            load_pair(reg::result, RoutingTable::result, i);
            const Affine to = value_of(reg::result) * (plan_.model.hidden * 2) + piece.first_unit * (kBlockEdge * 2) +
                              plan_.csram.results;
            tile_.issue(queue::kStore, {},
                        raw(emit_.tsram(i * row + emit_.memory.expert_results.base), emit_.group_csram(to), row), {},
                        "store a row");
        });
        tile_.fence(queue::kStore, {}, {{own_tile_sem(tile_sem::expert_results_free), 1}},
                    "results of an expert stored");
    }

    Emitter& emit_;
    ControlBuilder& tile_;
    const DecoderPlan& plan_;
    const ExpertsWork& work_;
    Format act_;
    std::int64_t hidden_blocks_;
};

}  // namespace

void emit_gates(Emitter& emit, const DecoderPlan& plan, const ExpertsShape& shape, const Product& product,
                const Piece& piece, std::int64_t rows) {
    const std::int64_t row = shape.count * kGateBytes;
    emit.memory.out.check_fits(rows * row, "a piece of gates");
    VectorMacro macro;
    macro.program = emit.vectors.add(route_program(shape.chosen));
    macro.rows = rows;
    macro.cols = shape.count;
    macro.operands = {accumulator_operand(piece, 0, 1), VectorOperand{emit.memory.out.at(), row, 0}};
    const Affine to = piece.first_row_block * (kBlockEdge * row) + plan.csram.gates;
    emit_epilogue(emit, product, piece, macro, {}, {},
                  {raw(emit.tsram(emit.memory.out.at()), emit.group_csram(to), rows * row)});
}

void emit_experts(Emitter& emit, const DecoderPlan& plan, const ExpertsWork& work, std::int64_t route_count) {
    emit.release_tiles(cluster_sem::ready_route, route_count, tile_sem::routed, "experts chosen");
    TileExperts(emit, plan, work).emit();
}

std::int64_t combine_fit(const DecoderPlan& plan, const ExpertsShape& shape) {
    const std::int64_t row = plan.model.hidden * 2;
    return std::min(plan.tile.memory.in.slot_bytes / ((shape.chosen + 1) * row), plan.tile.memory.out.slot_bytes / row);
}

std::int64_t combine_count(const RowDeal& rows) {
    return 1 + (rows.row_blocks == 0 ? 0 : row_units(rows));
}

void emit_combine(Emitter& emit, const DecoderPlan& plan, const ExpertsWork& work) {
    const std::int64_t chosen = work.shape.experts.chosen;
    const std::int64_t blocks = plan.hidden_blocks();
    const std::int64_t row_bytes = plan.model.hidden * 2;
    // The cluster's own signal: a chunk of a group may have no token at all.
    emit.cluster.fence(
        queue::kCluster, {{own_cluster_sem(cluster_sem::ready_experts), emit.grouping.tiles_per_group()}},
        {{tiles_of_cluster_sem(emit.grouping, tile_sem::go), 1}, {own_cluster_sem(cluster_sem::ready_x), 1}},
        "experts complete");
    emit.tile.fence(queue::kLoad, {{own_tile_sem(tile_sem::go), 1}}, {}, "experts complete");
    if (work.rows.row_blocks == 0) {
        return;
    }
    deal_rows(emit, work.rows, [&](const Affine& row_block, const Affine& row, std::int64_t rows) {
        const std::int64_t residual = rows * row_bytes;
        emit.memory.in.check_fits(residual * (chosen + 1), "results to combine");
        emit.memory.out.check_fits(residual, "combined rows");
        BlockRows x;
        x.src = emit.own_csram(row_block * (blocks * block(Format::bf16)) + plan.csram.x);
        x.dst = emit.tsram(emit.memory.in.at());
        x.blocks = blocks;
        x.rows = rows;
        x.src_first_row = row;
        x.dst_rows = rows;
        std::vector<DmaMacro> loads = copy_block_rows(x);
        const Affine results = (row_block * kBlockEdge + row) * (chosen * row_bytes) + plan.csram.results;
        loads.push_back(
            raw(emit.own_csram(results), emit.tsram(emit.memory.in.at(residual)), rows * chosen * row_bytes));
        issue_all(emit.tile, queue::kLoad, {{own_tile_sem(tile_sem::in_free), 1}}, loads,
                  {{own_tile_sem(tile_sem::in_full), 1}}, "load results of experts");
        VectorMacro macro;
        macro.program = emit.vectors.add(combine_program(chosen));
        macro.rows = rows;
        macro.cols = plan.model.hidden;
        const VectorOperand packed{emit.memory.in.at(), residual, rows * kBlockEdge * 2, rows};
        macro.operands = {packed};
        for (std::int64_t i = 0; i < chosen; ++i) {
            macro.operands.push_back({emit.memory.in.at(residual + i * row_bytes), chosen * row_bytes, 0});
        }
        macro.operands.push_back({emit.memory.out.at(), packed.row_stride, packed.block_stride, rows});
        emit.tile.issue(queue::kVector, {{own_tile_sem(tile_sem::in_full), 1}, {own_tile_sem(tile_sem::out_free), 1}},
                        macro, {{own_tile_sem(tile_sem::in_free), 1}, {own_tile_sem(tile_sem::out_full), 1}},
                        "combine experts");
        BlockRows out;
        out.src = emit.tsram(emit.memory.out.at());
        out.dst = x.src;
        out.blocks = blocks;
        out.rows = rows;
        out.src_rows = rows;
        out.dst_first_row = row;
        issue_all(emit.tile, queue::kStore, {{own_tile_sem(tile_sem::out_full), 1}}, copy_block_rows(out),
                  {{own_cluster_sem(cluster_sem::ready_x), 1}, {own_tile_sem(tile_sem::out_free), 1}},
                  "store combined rows");
        emit.advance(emit.tile, reg::in);
        emit.advance(emit.tile, reg::out);
    });
}

}  // namespace sluice::kernels
