// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "kernels/frame.hpp"
#include "kernels/product.hpp"
#include "kernels/tile_memory.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::Format;
using isa::kBlockEdge;
using isa::Space;

namespace {

constexpr std::int64_t kStagingShare = 4;  ///< at most a quarter of TSRAM stages results

struct GemmPlan {
    std::int64_t m = 0, n = 0, k = 0;
    Format a = Format::bf16, b = Format::bf16, out = Format::bf16;
    Grouping grouping;
    ProductShape shape;  ///< of the largest group
    TilePlan tile;
    std::int64_t a_base = 0, b_base = 0, c_base = 0;  ///< HBM
    std::int64_t panel = -1;                          ///< CSRAM

    [[nodiscard]] std::int64_t row_blocks() const { return ceil_div(m, kBlockEdge); }
    [[nodiscard]] std::int64_t column_blocks() const { return ceil_div(n, kBlockEdge); }
    [[nodiscard]] std::int64_t k_blocks() const { return ceil_div(k, kBlockEdge); }
};

/// Tries every grouping; the cheapest by the mapper's cost wins.
void choose_grouping(GemmPlan& plan, const isa::ChipSpec& chip) {
    double best = -1;
    StagingNeeds needs;
    needs.out_bytes = piece_blocks(chip) * block(plan.out);
    // Staging for a whole output region of results: the TVP empties the region at its own pace while the tile's egress,
    // slower, works through the staging; else the next macro would wait for the stores.
    needs.out_slots =
        std::min(ceil_div(chip.tsram.output_region_bytes * block(plan.out) / block(Format::fp32), needs.out_bytes),
                 chip.tsram.bytes / kStagingShare / needs.out_bytes);
    needs.in_bytes = 0;
    needs.stream_bytes = block(plan.b);
    for (const std::int64_t groups : group_counts(chip)) {
        if (groups > plan.row_blocks()) {
            continue;
        }
        const Grouping grouping{groups, chip.soc.clusters / groups, chip.soc.tiles_per_cluster};
        const ProductShape shape{ceil_div(plan.row_blocks(), groups),
                                 plan.column_blocks(),
                                 1,
                                 plan.k_blocks(),
                                 plan.a,
                                 plan.b,
                                 grouping.tiles_per_group(),
                                 true,
                                 chip.csram.bytes};
        TilePlan tile = plan_tile(chip, {shape}, needs);
        if (best < 0 || tile.tilings[0].cycles < best) {
            best = tile.tilings[0].cycles;
            plan.grouping = grouping;
            plan.shape = shape;
            plan.tile = std::move(tile);
        }
    }
}

void emit_group(Emitter& emit, const GemmPlan& plan) {
    launch_operator(emit);
    const Split rows{plan.row_blocks(), plan.grouping.groups};
    const std::int64_t first_row = emit.group * rows.least() + std::min(emit.group, rows.remainder());
    Product product;
    product.name = "gemm";
    product.shape = plan.shape;
    product.shape.row_blocks = rows.least() + (emit.group < rows.remainder() ? 1 : 0);
    product.tiling = plan.tile.tilings[0];
    product.tiling.m = std::min(product.tiling.m, product.shape.row_blocks);
    product.piece_blocks = piece_blocks(emit.chip);
    product.valid_rows = plan.row_blocks() == 1 ? plan.m : kBlockEdge;
    product.position = isa::variable(isa::Var::self) - emit.first_tile();
    product.a = {Space::hbm, 0, 0, plan.a_base + first_row * plan.k_blocks() * block(plan.a)};
    product.weights = plan.b_base;
    product.panel = plan.panel;
    const std::int64_t c_row_stride = plan.column_blocks() * block(plan.out);
    product.epilogue = [&, first_row](const Piece& piece) {
        const std::string program = emit.vectors.add(convert_program(plan.out));
        emit.memory.out.check_fits(piece.row_blocks * piece.units * block(plan.out), "a piece of results");
        BlockRows store;
        store.src = emit.tsram(emit.memory.out.at());
        store.dst = {
            Space::hbm, 0, 0,
            (piece.first_row_block + first_row) * c_row_stride + piece.first_unit * block(plan.out) + plan.c_base};
        store.format = plan.out;
        store.blocks = piece.units;
        store.row_blocks = piece.row_blocks;
        store.src_row_stride = piece.units * block(plan.out);
        store.dst_row_stride = c_row_stride;
        store.rows = product.valid_rows;
        isa::VectorMacro macro;
        macro.program = program;
        macro.rows = (piece.row_blocks - 1) * kBlockEdge + product.valid_rows;
        macro.cols = piece.units * kBlockEdge;
        macro.operands = {accumulator_operand(piece, 0, 1),
                          isa::VectorOperand{emit.memory.out.at(), store.src_row_stride, block(plan.out)}};
        emit_epilogue(emit, product, piece, macro, {}, {}, copy_block_rows(store));
    };
    emit_product_tile(emit, product);
    emit_product_cluster(emit, product);
}

PlanNode plan_node(const models::Graph& graph, const GemmPlan& plan, const isa::ChipSpec& chip) {
    PlanNode node;
    const models::OperatorCost cost = models::cost(graph, graph.operators[0]);
    node.name = graph.operators[0].name;
    node.kind = "gemm";
    node.format = fmt::format("{} x {}", name(plan.a), name(plan.b));
    node.rate = isa::tensor_rate(plan.a, plan.b, "gemm");
    node.flops = cost.flops;
    node.tensor_flops = cost.tensor_flops;
    node.hbm_bytes = cost.weight_bytes + cost.activation_bytes;
    const double slots = static_cast<double>(slots_per_element(convert_program(plan.out), chip.tvp)) *
                         static_cast<double>(plan.m) * static_cast<double>(plan.n);
    set_bounds(node, slots, chip);
    return node;
}

/// A and C in blocks, row by row of blocks; B as its tiles stream it.
Placement placement(const models::Linear& linear, const GemmPlan& plan) {
    const auto rows_of_blocks = [](models::TensorIndex tensor, std::int64_t rows, Format format, std::int64_t base,
                                   std::int64_t columns) {
        return MatrixPlace{tensor,
                           0,
                           rows,
                           format,
                           [=](std::int64_t r, std::int64_t c) { return base + (r * columns + c) * block(format); },
                           0};
    };
    Placement out;
    out.inputs = {rows_of_blocks(linear.in, plan.m, plan.a, plan.a_base, plan.k_blocks()),
                  {linear.weight, 0, plan.n, plan.b,
                   [shape = plan.shape, tiling = plan.tile.tilings[0], base = plan.b_base](
                       std::int64_t r, std::int64_t c) { return base + weight_offset(shape, tiling, r, 0, c); },
                   0}};
    out.outputs = {rows_of_blocks(linear.out, plan.m, plan.out, plan.c_base, plan.column_blocks())};
    return out;
}

}  // namespace

Compiled compile_gemm(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule) {
    check_chip(chip);
    const auto& linear = std::get<models::Linear>(graph.operators.at(0).body);
    const models::Tensor& a = graph.tensors.at(static_cast<std::size_t>(linear.in));
    const models::Tensor& b = graph.tensors.at(static_cast<std::size_t>(linear.weight));
    const models::Tensor& c = graph.tensors.at(static_cast<std::size_t>(linear.out));
    GemmPlan plan;
    plan.m = a.rows;
    plan.n = b.rows;
    plan.k = a.cols;
    plan.a = linear.operand_format;
    plan.b = b.format;
    plan.out = c.format;
    (void)isa::tensor_rate(plan.a, plan.b, "gemm");
    choose_grouping(plan, chip);

    Allocator hbm(Space::hbm, 1, isa::hbm_bytes(chip));
    plan.a_base = hbm.take("a", plan.row_blocks() * plan.k_blocks() * block(plan.a), 4096);
    hbm.mark_last(true, false);
    plan.b_base = hbm.take("b", plan.column_blocks() * plan.k_blocks() * block(plan.b), 4096);
    hbm.mark_last(true, false);
    plan.c_base = hbm.take("c", plan.row_blocks() * plan.column_blocks() * block(plan.out), 4096);
    hbm.mark_last(false, true);

    Allocator csram(Space::csram, chip.soc.clusters, static_cast<Bytes>(chip.csram.bytes));
    if (keeps_panel(plan.shape, plan.tile.tilings[0], chip)) {
        plan.panel =
            csram.take("panel of b", panel_slot_bytes(plan.shape, plan.tile.tilings[0]) * chip.soc.tiles_per_cluster);
    }

    Compiled out;
    out.program.name = graph.name;
    out.program.chip = chip.name;
    out.program.nodes = {{0, 1, 1, 0, graph.operators[0].name}};
    out.program.regions = hbm.regions();
    out.program.regions.insert(out.program.regions.end(), csram.regions().begin(), csram.regions().end());
    out.program.regions.insert(out.program.regions.end(), plan.tile.regions.begin(), plan.tile.regions.end());
    emit_groups(out.program, chip, plan.grouping, plan.tile.memory, graph.workload.scale_rounding, schedule,
                [&plan](Emitter& emit) { emit_group(emit, plan); });
    out.nodes = {plan_node(graph, plan, chip)};
    out.placement = placement(linear, plan);
    const Tiling& tiling = plan.tile.tilings[0];
    out.notes.push_back(
        fmt::format("{} groups of {} clusters; macro of {} row blocks x {} column blocks, k in steps of {} "
                    "blocks; b streams from {}; stream ring {} x {} bytes",
                    plan.grouping.groups, plan.grouping.clusters_per_group, tiling.m,
                    ceil_div(Split{plan.shape.units, plan.shape.tiles}.most(), tiling.n_chunks), tiling.k_step,
                    plan.panel >= 0 ? "a panel in CSRAM" : "HBM", plan.tile.memory.stream.slots,
                    plan.tile.memory.stream.slot_bytes));
    return out;
}

}  // namespace sluice::kernels
