// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::kernels {

using isa::Format;
using isa::kBlockEdge;
using isa::Space;

namespace {

const LayerShape& widest(const DecoderModel& model) {
    return std::max_element(model.runs.begin(), model.runs.end(),
                            [](const LayerRun& a, const LayerRun& b) { return a.shape.ffn < b.shape.ffn; })
        ->shape;
}

/// Of 32 rows, of any layer at most.
std::int64_t gates_bytes(const DecoderModel& model) {
    std::int64_t most = 0;
    for (const LayerRun& run : model.runs) {
        most = std::max(most, kBlockEdge * run.shape.experts.count * 4);
    }
    return most;
}
std::int64_t results_bytes(const DecoderModel& model) {
    std::int64_t most = 0;
    for (const LayerRun& run : model.runs) {
        most = std::max(most, kBlockEdge * run.shape.experts.chosen * model.hidden * 2);
    }
    return most;
}

}  // namespace

std::int64_t csram_bytes_per_row_block(const DecoderPlan& plan) {
    const LayerShape& shape = widest(plan.model);
    const std::int64_t act = block(shape.activations);
    const std::int64_t heads = shape.q_heads * shape.head_dim / kBlockEdge;
    return plan.hidden_blocks() * (block(Format::bf16) + act) + heads * (block(shape.kv) + act) +
           shape.ffn / kBlockEdge * act + gates_bytes(plan.model) + results_bytes(plan.model);
}

std::int64_t last_rows_bytes(const DecoderPlan& plan) {
    return plan.prefill() ? ceil_div(plan.graph->workload.batch, kBlockEdge) * plan.hidden_blocks() *
                                block(plan.model.head_activations)
                          : 0;
}

/// Row blocks of one group that CSRAM holds.
std::int64_t room_in_csram(const DecoderPlan& plan, const isa::ChipSpec& chip) {
    const std::int64_t slack = 4096;  // alignment of the buffers
    return (chip.csram.bytes - last_rows_bytes(plan) - slack) / csram_bytes_per_row_block(plan);
}

void place_hbm(DecoderPlan& plan, const isa::ChipSpec& chip) {
    constexpr std::int64_t kAlign = 4096;
    const models::Workload& workload = plan.graph->workload;
    const DecoderModel& model = plan.model;
    Allocator hbm(Space::hbm, 1, isa::hbm_bytes(chip));
    const auto input = [&hbm](const std::string& name, std::int64_t bytes) {
        const std::int64_t at = hbm.take(name, bytes, kAlign);
        hbm.mark_last(true, false);
        return at;
    };
    // In prefill nothing is cached before.
    const auto cache = [&](const std::string& name, std::int64_t bytes) {
        const std::int64_t at = hbm.take(name, bytes, kAlign);
        hbm.mark_last(!plan.prefill(), true);
        return at;
    };
    plan.embedding = input("embedding", model.vocab * model.hidden * 2);
    for (const LayerRun& run : model.runs) {
        const LayerShape& shape = run.shape;
        const std::int64_t weight = block(shape.weights);
        LayerPlace place;
        std::int64_t next = 0;
        const auto inside = [&next](std::int64_t bytes) {
            const std::int64_t at = next;
            next = round_up(next + bytes, kAlign);
            return at;
        };
        const std::int64_t heads = shape.q_heads * shape.head_dim / kBlockEdge;
        place.norm1 = inside(model.hidden * 2);
        place.norm2 = inside(model.hidden * 2);
        place.head_norms = inside(shape.head_norms ? 2 * shape.head_dim * 2 : 0);
        place.qkv_bias = inside(shape.qkv_bias ? qkv_blocks(shape) * kBiasBytes : 0);
        place.o_bias = inside(shape.o_bias ? plan.hidden_blocks() * kBiasBytes : 0);
        place.qkv = inside(qkv_blocks(shape) * plan.hidden_blocks() * weight);
        place.o = inside(plan.hidden_blocks() * heads * weight);
        place.gate_up = inside(shape.ffn / kBlockEdge * 2 * plan.hidden_blocks() * weight);
        place.down = inside(plan.hidden_blocks() * shape.ffn / kBlockEdge * weight);
        if (shape.experts.count > 0) {
            place.router = inside(ceil_div(shape.experts.count, kBlockEdge) * plan.hidden_blocks() * weight);
            place.experts = inside(shape.experts.count * expert_bytes(plan, shape));
        }
        place.stride = next;
        const std::string name = fmt::format("layers {}..{}", run.first_layer, run.first_layer + run.count - 1);
        place.base = input(name + " weights", next * run.count);
        place.cache_stride = workload.batch * shape.kv_heads * plan.attention.cache_bytes();
        place.k_cache = cache(name + " K cache", place.cache_stride * run.count);
        place.v_cache = cache(name + " V cache", place.cache_stride * run.count);
        plan.layers.push_back(place);
    }
    plan.final_norm = input("final norm", model.hidden * 2);
    plan.head = input("LM head", plan.head_shape.units * plan.hidden_blocks() * block(model.head_weights));
    const std::int64_t positions =
        round_up(ceil_div(workload.context, kBlockEdge), plan.attention.chunk_blocks * plan.grouping.groups);
    plan.zeros = input("zeros", block(Format::bf16));
    plan.rope = input("rotary table", positions * plan.attention.head_dim / 64 * 2 * block(Format::bf16));
    plan.logits = hbm.take("logits", plan.logits_blocks * plan.head_shape.units * block(Format::bf16), kAlign);
    hbm.mark_last(false, true);
    plan.regions = hbm.regions();
}

void place_csram(DecoderPlan& plan, const isa::ChipSpec& chip) {
    const LayerShape& shape = widest(plan.model);
    const std::int64_t rows = plan.most_row_blocks;
    const std::int64_t act = block(shape.activations);
    const std::int64_t heads = shape.q_heads * shape.head_dim / kBlockEdge;
    Allocator csram(Space::csram, chip.soc.clusters, static_cast<Bytes>(chip.csram.bytes));
    plan.csram.x = csram.take("residual", rows * plan.hidden_blocks() * block(Format::bf16));
    plan.csram.norm = csram.take("normed", rows * plan.hidden_blocks() * act);
    plan.csram.q = csram.take("queries", rows * heads * block(shape.kv));
    plan.csram.attention = csram.take("attention out", rows * heads * act);
    plan.csram.ffn = csram.take("ffn", rows * shape.ffn / kBlockEdge * act);
    plan.csram.gates = csram.take("gates of experts", rows * gates_bytes(plan.model));
    plan.csram.results = csram.take("results of experts", rows * results_bytes(plan.model));
    plan.csram.last = csram.take("last rows", last_rows_bytes(plan));
    plan.regions.insert(plan.regions.end(), csram.regions().begin(), csram.regions().end());
    plan.regions.insert(plan.regions.end(), plan.tile.regions.begin(), plan.tile.regions.end());
}

}  // namespace sluice::kernels
