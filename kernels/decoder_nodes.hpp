// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plan nodes of a decoder: ids, names, useful work and lower bounds.
#include <vector>

#include "kernels/compile.hpp"
#include "kernels/decoder_plan.hpp"

namespace sluice::kernels {

constexpr std::int64_t kEmbeddingNode = 0;

/// Plan nodes of each layer of a run.
[[nodiscard]] std::int64_t nodes_of_layer(const LayerRun& run);
/// Id of a node of a run's first layer; layers follow nodes_of_layer() apart.
[[nodiscard]] std::int64_t first_node(const DecoderPlan& plan, std::size_t run, LayerNode node);
[[nodiscard]] std::int64_t final_norm_node(const DecoderPlan& plan);
[[nodiscard]] std::int64_t head_node(const DecoderPlan& plan);

[[nodiscard]] std::vector<isa::NodeRange> node_ranges(const DecoderPlan& plan);
[[nodiscard]] std::vector<PlanNode> plan_nodes(const DecoderPlan& plan, const isa::ChipSpec& chip);

}  // namespace sluice::kernels
