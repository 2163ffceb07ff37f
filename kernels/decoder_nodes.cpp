// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/errors.hpp"
#include "kernels/qkv.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

namespace {

using isa::Format;

struct LayerNodeInfo {
    const char* name;
    const char* kind;
};
/// By LayerNode.
constexpr std::array<LayerNodeInfo, kCombineNode + 1> kLayerNodeInfos{{
    {"input_norm", "norm"},
    {"qkv", "gemm"},
    {"attention", "attention"},
    {"o", "gemm"},
    {"post_attention_norm", "norm"},
    {"gate_up", "gemm"},
    {"down", "gemm"},
    {"router", "gemm"},
    {"experts", "grouped_gemm"},
    {"combine", "elementwise"},
}};

/// Vector work of a layer's node in issue slots: elements times slots of the programs that the kernels run.
double vector_slots(const DecoderPlan& plan, const LayerShape& shape, LayerNode node, const isa::TvpSpec& tvp) {
    const models::Workload& workload = plan.graph->workload;
    const auto rows = static_cast<double>(workload.batch * (plan.prefill() ? workload.tokens : 1));
    const auto slots = [&tvp](const isa::VectorProgram& program) {
        return static_cast<double>(slots_per_element(program, tvp));
    };
    const auto hidden = static_cast<double>(plan.model.hidden);
    const auto dim = static_cast<double>(shape.head_dim);
    const auto q_heads = static_cast<double>(shape.q_heads);
    const auto kv_heads = static_cast<double>(shape.kv_heads);
    switch (node) {
        case kNorm1Node:
        case kNorm2Node:
            return rows * hidden * slots(rms_norm_program(shape.activations, plan.model.hidden, shape.epsilon));
        case kQkvNode: {
            const QkvPrograms programs = qkv_programs(shape, !plan.prefill());
            const double norms = shape.head_norms ? dim * slots(programs.head_factor) : 0;
            return rows * ((q_heads + kv_heads) * (dim / 2 * slots(programs.rotate) + norms) +
                           kv_heads * dim * slots(programs.convert));
        }
        case kAttentionNode: {
            const auto length = static_cast<double>(workload.context);
            const double pairs =
                plan.prefill() ? static_cast<double>(workload.batch) * length * (length + 1) / 2 : rows * length;
            return q_heads * (pairs * slots(softmax_program(shape.kv, shape.head_dim, false, false)) +
                              rows * dim * slots(attention_finish_program(shape.activations)));
        }
        case kONode:
        case kDownNode: return rows * hidden * slots(residual_program(node == kONode && shape.o_bias));
        case kRouterNode:
            return rows * static_cast<double>(shape.experts.count) * slots(route_program(shape.experts.chosen));
        case kExpertsNode:
            return rows * static_cast<double>(shape.experts.chosen) *
                   (static_cast<double>(shape.experts.width) * slots(swiglu_program(shape.activations)) +
                    hidden * slots(gated_program()));
        case kCombineNode: return rows * hidden * slots(combine_program(shape.experts.chosen));
        case kGateUpNode: return rows * static_cast<double>(shape.ffn) * slots(swiglu_program(shape.activations));
    }
    return 0;
}

std::string pair_name(Format a, Format b) {
    return fmt::format("{} x {}", name(a), name(b));
}

PlanNode layer_node(const DecoderPlan& plan, const LayerRun& run, std::int64_t layer, const LayerPart& part,
                    const isa::ChipSpec& chip) {
    const LayerNode which = part.node;
    const LayerNodeInfo& entry = kLayerNodeInfos[which];
    PlanNode node;
    node.layer = run.first_layer + layer;
    node.name = fmt::format("layers.{}.{}", node.layer, entry.name);
    node.kind = entry.kind;
    const std::size_t base = run.first_operator + static_cast<std::size_t>(layer) * run.operators;
    for (std::size_t i = 0; i < part.operators; ++i) {
        const models::OperatorCost cost =
            models::cost(*plan.graph, plan.graph->operators.at(base + part.first_operator + i));
        node.flops += cost.flops;
        node.tensor_flops += cost.tensor_flops;
        node.hbm_bytes += cost.weight_bytes + cost.kv_bytes;
    }
    const LayerShape& shape = run.shape;
    if (which == kAttentionNode) {
        node.format = pair_name(shape.kv, shape.kv);
        node.rate = isa::tensor_rate(shape.kv, shape.kv, "attention");
    } else if (node.tensor_flops > 0) {
        node.format = pair_name(shape.activations, shape.weights);
        node.rate = isa::tensor_rate(shape.activations, shape.weights, entry.name);
    } else {
        node.format = name(shape.activations);
    }
    set_bounds(node, vector_slots(plan, shape, which, chip.tvp), chip);
    return node;
}

}  // namespace

std::int64_t nodes_of_layer(const LayerRun& run) {
    return static_cast<std::int64_t>(run.parts.size());
}

namespace {

std::int64_t first_node_of_run(const DecoderPlan& plan, std::size_t run) {
    std::int64_t id = kEmbeddingNode + 1;
    for (std::size_t i = 0; i < run; ++i) {
        id += plan.model.runs[i].count * nodes_of_layer(plan.model.runs[i]);
    }
    return id;
}

}  // namespace

std::int64_t first_node(const DecoderPlan& plan, std::size_t run, LayerNode node) {
    const std::vector<LayerPart>& parts = plan.model.runs[run].parts;
    const auto found =
        std::find_if(parts.begin(), parts.end(), [node](const LayerPart& part) { return part.node == node; });
    SLUICE_CHECK(found != parts.end(), "a layer has no such node");
    return first_node_of_run(plan, run) + (found - parts.begin());
}

std::int64_t final_norm_node(const DecoderPlan& plan) {
    return first_node_of_run(plan, plan.model.runs.size());
}

std::int64_t head_node(const DecoderPlan& plan) {
    return final_norm_node(plan) + 1;
}

std::vector<isa::NodeRange> node_ranges(const DecoderPlan& plan) {
    std::vector<isa::NodeRange> ranges{{kEmbeddingNode, 1, 1, 0, "embedding"}};
    for (std::size_t i = 0; i < plan.model.runs.size(); ++i) {
        const LayerRun& run = plan.model.runs[i];
        for (const LayerPart& part : run.parts) {
            ranges.push_back({first_node(plan, i, part.node), run.count, nodes_of_layer(run), run.first_layer,
                              fmt::format("layers.{{}}.{}", kLayerNodeInfos[part.node].name)});
        }
    }
    ranges.push_back({final_norm_node(plan), 1, 1, 0, "final_norm"});
    ranges.push_back({head_node(plan), 1, 1, 0, "lm_head"});
    return ranges;
}

std::vector<PlanNode> plan_nodes(const DecoderPlan& plan, const isa::ChipSpec& chip) {
    const models::Workload& workload = plan.graph->workload;
    const auto tokens = static_cast<double>(workload.batch * (plan.prefill() ? workload.tokens : 1));
    const auto sequences = static_cast<double>(workload.batch);
    const auto hidden = static_cast<double>(plan.model.hidden);
    std::vector<PlanNode> nodes;

    PlanNode embedding;
    embedding.name = "embedding";
    embedding.kind = "embedding";
    embedding.format = "bf16";
    embedding.hbm_bytes = tokens * hidden * 2;
    set_bounds(embedding, 0, chip);
    nodes.push_back(embedding);

    for (const LayerRun& run : plan.model.runs) {
        for (std::int64_t layer = 0; layer < run.count; ++layer) {
            for (const LayerPart& part : run.parts) {
                nodes.push_back(layer_node(plan, run, layer, part, chip));
            }
        }
    }

    PlanNode norm;
    norm.name = "final_norm";
    norm.kind = "norm";
    norm.format = name(plan.model.head_activations);
    const models::OperatorCost norm_cost =
        models::cost(*plan.graph, plan.graph->operators.at(plan.model.final_norm_operator));
    norm.flops = norm_cost.flops;
    norm.hbm_bytes = norm_cost.weight_bytes;
    const auto norm_slots = static_cast<double>(slots_per_element(
        rms_norm_program(plan.model.head_activations, plan.model.hidden, plan.model.epsilon), chip.tvp));
    set_bounds(norm, sequences * hidden * norm_slots, chip);
    nodes.push_back(norm);

    PlanNode head;
    head.name = "lm_head";
    head.kind = "gemm";
    head.format = pair_name(plan.model.head_activations, plan.model.head_weights);
    head.rate = isa::tensor_rate(plan.model.head_activations, plan.model.head_weights, "lm_head");
    const models::OperatorCost head_cost =
        models::cost(*plan.graph, plan.graph->operators.at(plan.model.head_operator));
    head.flops = head_cost.flops;
    head.tensor_flops = head_cost.tensor_flops;
    head.hbm_bytes = head_cost.weight_bytes + sequences * static_cast<double>(plan.model.vocab) * 2;
    const auto head_slots = static_cast<double>(slots_per_element(convert_program(Format::bf16), chip.tvp));
    set_bounds(head, sequences * static_cast<double>(plan.model.vocab) * head_slots, chip);
    nodes.push_back(head);
    return nodes;
}

}  // namespace sluice::kernels
