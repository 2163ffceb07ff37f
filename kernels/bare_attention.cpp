// SPDX-License-Identifier: Apache-2.0
#include "kernels/bare_attention.hpp"

#include <fmt/format.h>

#include "kernels/frame.hpp"
#include "kernels/interleaved_attention.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::kBlockEdge;
using isa::Space;

namespace {

InterleavedShape shape_of(const models::Graph& graph, const models::Attention& op) {
    const models::Workload& work = graph.workload;
    InterleavedShape shape;
    shape.q_heads = op.q_heads;
    shape.kv_heads = op.kv_heads;
    shape.head_dim = op.head_dim;
    shape.kv = graph.tensors.at(static_cast<std::size_t>(op.k_cache)).format;
    shape.out = graph.tensors.at(static_cast<std::size_t>(op.out)).format;
    shape.causal = op.causal;
    shape.sequences = work.batch;
    shape.query_blocks = ceil_div(work.tokens, kBlockEdge);
    shape.past_blocks = (work.context - work.tokens) / kBlockEdge;
    shape.context = work.context;
    return shape;
}

PlanNode plan_node(const models::Graph& graph, const models::Attention& op, const InterleavedShape& shape,
                   const isa::ChipSpec& chip) {
    PlanNode node;
    const models::OperatorCost cost = models::cost(graph, graph.operators[0]);
    node.name = graph.operators[0].name;
    node.kind = "attention";
    node.format = fmt::format("{} x {}", name(shape.kv), name(shape.kv));
    node.rate = isa::tensor_rate(shape.kv, shape.kv, "attention");
    node.flops = cost.flops;
    node.tensor_flops = cost.tensor_flops;
    node.hbm_bytes = cost.kv_bytes + cost.activation_bytes;
    const auto slots = [&chip](const isa::VectorProgram& program) {
        return static_cast<double>(slots_per_element(program, chip.tvp));
    };
    const double values = static_cast<double>(graph.workload.batch * graph.workload.tokens * op.q_heads) *
                          static_cast<double>(op.head_dim);
    const double scores = models::attention_pairs(graph, op) * static_cast<double>(op.q_heads);
    set_bounds(node,
               scores * slots(softmax_step_program(shape.kv, shape.head_dim, false)) +
                   values * slots(attention_finish_program(shape.out)),
               chip);
    return node;
}

/// Writes where tensors lie, part by part; what a part's last unit reads beyond it is zero.
class Placer {
public:
    Placer(const InterleavedAttention& attention, Placement& placement)
        : attention_(attention), shape_(attention.shape), placement_(placement) {}

    /// Q or O.
    void rows(models::TensorIndex tensor, isa::Format format, std::int64_t base, std::int64_t tokens, bool input) {
        const std::int64_t columns = shape_.q_heads * shape_.dim_blocks();
        const std::int64_t padded = attention_.cut.padded_query_blocks(shape_);
        for (std::int64_t s = 0; s < shape_.sequences; ++s) {
            part(tensor, format, base + s * padded * columns * block(format), s * tokens, tokens, columns, padded,
                 input);
        }
    }
    /// K or V.
    void cache(models::TensorIndex tensor, std::int64_t base) {
        const std::int64_t padded = attention_.cut.cache_blocks(shape_);
        for (std::int64_t i = 0; i < shape_.sequences * shape_.kv_heads; ++i) {
            part(tensor, shape_.kv, base + i * padded * shape_.dim_blocks() * block(shape_.kv), i * shape_.context,
                 shape_.context, shape_.dim_blocks(), padded, true);
        }
    }

private:
    void part(models::TensorIndex tensor, isa::Format format, std::int64_t base, std::int64_t first_row,
              std::int64_t row_count, std::int64_t columns, std::int64_t padded, bool input) {
        const std::int64_t row_bytes = columns * block(format);
        (input ? placement_.inputs : placement_.outputs)
            .push_back({tensor, first_row, row_count, format,
                        [=](std::int64_t r, std::int64_t c) { return base + r * row_bytes + c * block(format); }, 0});
        const std::int64_t used = ceil_div(row_count, kBlockEdge);
        if (input && padded > used) {
            placement_.constants.push_back({base + used * row_bytes, [bytes = (padded - used) * row_bytes] {
                                                return std::vector<std::byte>(static_cast<std::size_t>(bytes));
                                            }});
        }
    }

    const InterleavedAttention& attention_;
    const InterleavedShape& shape_;
    Placement& placement_;
};

}  // namespace

Compiled compile_attention(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule) {
    check_chip(chip);
    const auto& op = std::get<models::Attention>(graph.operators.at(0).body);
    InterleavedAttention attention;
    attention.shape = shape_of(graph, op);
    const InterleavedShape& shape = attention.shape;
    (void)isa::tensor_rate(shape.kv, shape.kv, "attention");
    attention.cut = choose_interleaving(shape, chip);
    const Interleaving& cut = attention.cut;
    const InterleavedMemory tile = plan_interleaved_memory(shape, cut, chip);

    Allocator hbm(Space::hbm, 1, isa::hbm_bytes(chip));
    const auto take = [&hbm](const char* name, std::int64_t bytes, bool input) {
        const std::int64_t base = hbm.take(name, bytes, 4096);
        hbm.mark_last(input, !input);
        return base;
    };
    const std::int64_t row_blocks = shape.sequences * cut.padded_query_blocks(shape);
    const std::int64_t row_columns = shape.q_heads * shape.dim_blocks();
    const std::int64_t cache =
        shape.sequences * shape.kv_heads * cut.cache_blocks(shape) * shape.dim_blocks() * block(shape.kv);
    attention.q_base = take("q", row_blocks * row_columns * block(shape.kv), true);
    attention.k_base = take("k", cache, true);
    attention.v_base = take("v", cache, true);
    attention.o_base = take("o", row_blocks * row_columns * block(shape.out), false);

    Compiled out;
    out.program.name = graph.name;
    out.program.chip = chip.name;
    out.program.nodes = {{0, 1, 1, 0, graph.operators[0].name}};
    out.program.regions = hbm.regions();
    out.program.regions.insert(out.program.regions.end(), tile.regions.begin(), tile.regions.end());
    const Grouping grouping{1, chip.soc.clusters, chip.soc.tiles_per_cluster};
    emit_groups(out.program, chip, grouping, tile.memory, graph.workload.scale_rounding, schedule,
                [&attention](Emitter& emit) {
                    launch_operator(emit);
                    emit_interleaved_tile(emit, attention);
                });
    out.nodes = {plan_node(graph, op, shape, chip)};
    Placer placer(attention, out.placement);
    placer.rows(op.q, shape.kv, attention.q_base, graph.workload.tokens, true);
    placer.cache(op.k_cache, attention.k_base);
    placer.cache(op.v_cache, attention.v_base);
    placer.rows(op.out, shape.out, attention.o_base, graph.workload.tokens, false);
    out.placement.attention_chunk = cut.chunk_blocks * kBlockEdge;
    out.notes.push_back(
        fmt::format("{} units of {} position blocks x {} heads; {} steps of {} row blocks on chunks of "
                    "{} positions",
                    cut.units(shape), cut.unit_blocks, shape.heads_per_kv(), cut.steps(shape), cut.step_heads,
                    cut.chunk_blocks * kBlockEdge));
    return out;
}

}  // namespace sluice::kernels
