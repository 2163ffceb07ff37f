// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "isa/errors.hpp"
#include "kernels/decoder_balance.hpp"
#include "kernels/decoder_memory.hpp"
#include "kernels/frame.hpp"
#include "kernels/norm.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Format;
using isa::kBlockEdge;
using models::Phase;

namespace {

constexpr std::int64_t kMostChunkBlocks = 16;  // 512 positions of K or V per step

void check_shape(const DecoderModel& model) {
    const auto need = [](bool condition, const std::string& where, const std::string& what) {
        if (!condition) {
            throw InputError(where, what);
        }
    };
    need(!model.runs.empty(), "num_hidden_layers", "a model needs at least one layer");
    need(model.hidden % kBlockEdge == 0, "hidden_size", fmt::format("{} is not a multiple of 32", model.hidden));
    for (const LayerRun& run : model.runs) {
        const LayerShape& shape = run.shape;
        need(shape.head_dim % 64 == 0, "head_dim",
             fmt::format("{}: the attention kernel takes multiples of 64", shape.head_dim));
        need(shape.q_heads / shape.kv_heads <= kBlockEdge, "num_key_value_heads",
             fmt::format("{} query heads per KV head; the attention kernel takes at most 32",
                         shape.q_heads / shape.kv_heads));
        need(shape.ffn % kBlockEdge == 0, "intermediate_size", fmt::format("{} is not a multiple of 32", shape.ffn));
        need(shape.experts.chosen <= kMostChosen, "num_experts_per_tok",
             fmt::format("{} experts of a token; the router's kernel takes at most {}", shape.experts.chosen,
                         kMostChosen));
        need(shape.experts.width % kBlockEdge == 0, "moe_intermediate_size",
             fmt::format("{} is not a multiple of 32", shape.experts.width));
        need(shape.qkv_bias == model.runs[0].shape.qkv_bias && shape.o_bias == model.runs[0].shape.o_bias &&
                 shape.head_norms == model.runs[0].shape.head_norms,
             "layers", "all layers must have the same biases and norms of heads");
        need(shape.q_heads == model.runs[0].shape.q_heads && shape.kv_heads == model.runs[0].shape.kv_heads &&
                 shape.head_dim == model.runs[0].shape.head_dim && shape.kv == model.runs[0].shape.kv,
             "layers", "all layers must have the same attention heads and KV format");
    }
}

/// Prefill: rows of one sequence, the same for every sequence. Position block j * groups + group is row block j.
void chunk_prefill(DecoderPlan& plan, std::int64_t room) {
    const std::int64_t groups = plan.grouping.groups;
    const std::int64_t tokens = plan.graph->workload.tokens;
    const std::int64_t set = plan.attention.set_row_blocks;
    const std::int64_t rows = round_up(ceil_div(ceil_div(tokens, kBlockEdge), groups), set);
    const std::int64_t each = std::max(set, room / set * set);
    const std::int64_t count = ceil_div(rows, each);
    const std::int64_t even = round_up(ceil_div(rows, count), set);
    plan.logits_blocks = ceil_div(plan.graph->workload.batch, kBlockEdge);
    plan.most_row_blocks = std::min(even, rows);
    plan.chunks.assign(static_cast<std::size_t>(groups), {});
    for (std::int64_t group = 0; group < groups; ++group) {
        for (std::int64_t first = 0; first < rows; first += even) {
            Chunk chunk{std::min(even, rows - first), kBlockEdge, first, 0, 0};
            for (std::int64_t j = 0; j < chunk.row_blocks; ++j) {
                const std::int64_t position = ((first + j) * groups + group) * kBlockEdge;
                chunk.tokens += std::clamp<std::int64_t>(tokens - position, 0, kBlockEdge);
            }
            plan.chunks[static_cast<std::size_t>(group)].push_back(chunk);
        }
    }
}

/// Decode: sequences are dealt to the groups in consecutive ranges.
void chunk_decode(DecoderPlan& plan, std::int64_t room) {
    const std::int64_t groups = plan.grouping.groups;
    const Split split{plan.graph->workload.batch, groups};
    const std::int64_t count = ceil_div(ceil_div(split.most(), kBlockEdge), room);
    plan.logits_blocks = 0;
    plan.chunks.assign(static_cast<std::size_t>(groups), {});
    for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t first = group * split.least() + std::min(group, split.remainder());
        const std::int64_t sequences = split.least() + (group < split.remainder() ? 1 : 0);
        const Split parts{sequences, count};
        std::int64_t done = 0;
        for (std::int64_t part = 0; part < count; ++part) {
            const std::int64_t rows = parts.least() + (part < parts.remainder() ? 1 : 0);
            const std::int64_t row_blocks = ceil_div(rows, kBlockEdge);
            plan.chunks[static_cast<std::size_t>(group)].push_back(
                {row_blocks, rows - (row_blocks - 1) * kBlockEdge, first + done, rows, plan.logits_blocks});
            plan.logits_blocks += row_blocks;
            plan.most_row_blocks = std::max(plan.most_row_blocks, row_blocks);
            done += rows;
        }
    }
}

void plan_attention(DecoderPlan& plan, const isa::ChipSpec& chip, std::int64_t stream_slot) {
    const LayerShape& shape = plan.model.runs[0].shape;
    AttentionShape& attention = plan.attention;
    attention.q_heads = shape.q_heads;
    attention.kv_heads = shape.kv_heads;
    attention.head_dim = shape.head_dim;
    attention.kv = shape.kv;
    attention.out = shape.activations;
    attention.causal = plan.prefill();
    attention.context = plan.graph->workload.context;
    const std::int64_t groups = plan.prefill() ? plan.grouping.groups : 1;
    const std::int64_t positions = ceil_div(attention.context, kBlockEdge);
    attention.chunk_blocks = choose_chunk_blocks(attention, groups, chip.tsram.output_region_bytes, stream_slot,
                                                 std::max(groups, std::min(kMostChunkBlocks, positions)));
    attention.set_row_blocks = std::max<std::int64_t>(1, attention.chunk_blocks / groups);
    attention.cache_blocks = round_up(positions, attention.chunk_blocks);
}

StagingNeeds staging_needs(const DecoderPlan& plan, const isa::ChipSpec& chip) {
    const LayerShape& shape = plan.model.runs[0].shape;
    const std::int64_t piece = piece_blocks(chip);
    const std::int64_t dim_blocks = shape.head_dim / kBlockEdge;
    const std::int64_t queries = plan.attention.query_blocks() * dim_blocks;
    // A norm unit is at least one row; more rows per unit where they fit in a piece-sized slot.
    const std::int64_t norm_in = plan.model.hidden * 2;
    StagingNeeds needs;
    // Besides pieces (with their biases), queries and rows: the rotary table of one row block and what else a piece of
    // q, k and v needs, in; one unit of them out.
    const std::int64_t biases = shape.o_bias ? piece * kBiasBytes : 0;
    needs.in_bytes = std::max(
        {piece * block(Format::bf16) + biases, queries * block(shape.kv), norm_in,
         rotary_row_bytes(shape.head_dim) + qkv_vector_bytes(shape, ceil_div(piece, 2 * qkv_unit_pairs(shape)))});
    needs.out_bytes = std::max({piece * block(Format::bf16), queries * block(shape.activations), norm_in,
                                2 * qkv_unit_pairs(shape) * block(shape.kv)});
    for (const LayerRun& run : plan.model.runs) {
        const ExpertsShape& experts = run.shape.experts;
        if (experts.count == 0) {
            continue;
        }
        // Where results are combined, a row of every chosen expert with its residual, in; a piece of gates out.
        const std::int64_t act = block(run.shape.activations);
        needs.in_bytes = std::max(needs.in_bytes, (experts.chosen + 1) * plan.model.hidden * 2);
        needs.out_bytes = std::max(needs.out_bytes, kBlockEdge * experts.count * 4);
        needs.expert_rows_bytes = std::max(needs.expert_rows_bytes, expert_rows_bytes(plan, run.shape));
        needs.expert_hidden_bytes = std::max(needs.expert_hidden_bytes, experts.width / kBlockEdge * act);
        needs.expert_results_bytes = piece * block(Format::bf16);
    }
    needs.factor_rows = shape.head_norms ? piece * kBlockEdge : 0;
    needs.probability_bytes = plan.attention.query_blocks() * plan.attention.chunk_blocks * block(shape.kv);
    needs.attention_rows = plan.attention.query_blocks() * kBlockEdge;
    needs.norm_width = plan.model.hidden;
    needs.deep_stream = true;
    needs.stream_bytes = plan.attention.chunk_blocks * dim_blocks * block(shape.kv);
    return needs;
}

/// Of an even choice of experts: of every `32 rows of an expert` one unit.
double expert_units_per_tile(const DecoderPlan& plan, const ExpertsShape& experts) {
    const auto pairs = static_cast<double>(plan.most_row_blocks * kBlockEdge * experts.chosen);
    const auto count = static_cast<double>(experts.count);
    const double hit = count * (1 - std::pow(1 - 1 / count, pairs));
    const double units = std::max(hit, pairs / static_cast<double>(kBlockEdge));
    return std::ceil(units / static_cast<double>(plan.grouping.tiles_per_group()));
}

void plan_products(DecoderPlan& plan, const isa::ChipSpec& chip, const StagingNeeds& needs) {
    std::vector<ProductShape> products;
    for (const LayerRun& run : plan.model.runs) {
        for (const std::vector<ProductIndex>& some : {shared_products(run.shape), expert_products(run.shape)}) {
            for (const ProductIndex product : some) {
                products.push_back(product_shape(plan, run.shape, product, plan.most_row_blocks));
            }
        }
    }
    plan.head_shape = ProductShape{plan.most_row_blocks,
                                   ceil_div(plan.model.vocab, kBlockEdge),
                                   1,
                                   plan.hidden_blocks(),
                                   plan.model.head_activations,
                                   plan.model.head_weights,
                                   plan.grouping.tiles_per_group(),
                                   false};
    if (plan.prefill()) {
        // The last token of every sequence, by all tiles of the chip together.
        plan.head_shape.row_blocks = ceil_div(plan.graph->workload.batch, kBlockEdge);
        plan.head_shape.tiles = isa::tile_count(chip);
    }
    products.push_back(plan.head_shape);
    plan.tile = plan_tile(chip, products, needs);

    const auto passes = static_cast<double>(plan.chunks[0].size()) *
                        static_cast<double>(plan.prefill() ? plan.graph->workload.batch : 1);
    plan.cycles = plan.tile.tilings.back().cycles * (plan.prefill() ? 1.0 : passes);
    std::size_t next = 0;
    for (const LayerRun& run : plan.model.runs) {
        std::array<Tiling, kProducts> tilings;
        const auto take = [&](const std::vector<ProductIndex>& some, double times) {
            for (const ProductIndex product : some) {
                tilings[product] = plan.tile.tilings[next++];
                plan.cycles += tilings[product].cycles * static_cast<double>(run.count) * passes * times;
            }
        };
        take(shared_products(run.shape), 1);
        take(expert_products(run.shape), expert_units_per_tile(plan, run.shape.experts));
        plan.tilings.push_back(tilings);
    }
    plan.head_tiling = plan.tile.tilings.back();
}

std::optional<DecoderPlan> try_grouping(const models::Graph& graph, const DecoderModel& model,
                                        const isa::ChipSpec& chip, std::int64_t groups) {
    DecoderPlan plan;
    plan.graph = &graph;
    plan.model = model;
    plan.grouping = {groups, chip.soc.clusters / groups, chip.soc.tiles_per_cluster};
    const std::int64_t row_units = plan.prefill() ? ceil_div(graph.workload.tokens, kBlockEdge) : graph.workload.batch;
    if (groups > row_units) {
        return std::nullopt;
    }
    const std::int64_t room = room_in_csram(plan, chip);
    if (room < 1) {
        throw InputError("csram",
                         fmt::format("activations of 32 rows need {} bytes, but a cluster has {}",
                                     csram_bytes_per_row_block(plan) + last_rows_bytes(plan), chip.csram.bytes));
    }
    // The attention chunk must fit a stream slot, and the slot is at least as large as the chunk: start from what the
    // products would take.
    StagingNeeds probe;
    probe.in_bytes = probe.out_bytes = piece_blocks(chip) * block(Format::bf16);
    plan_attention(plan, chip, stream_slot_bytes(chip, probe));
    if (plan.prefill()) {
        if (plan.attention.set_row_blocks > room) {
            return std::nullopt;
        }
        chunk_prefill(plan, room);
    } else {
        chunk_decode(plan, room);
    }
    plan_products(plan, chip, staging_needs(plan, chip));
    plan.wide_from.assign(plan.model.runs.size(), {});
    if (!plan.prefill()) {
        plan.wide_from.clear();
        balance_streams(plan);
    }
    return plan;
}

}  // namespace

isa::Affine position_block(const DecoderPlan& plan, const Chunk& chunk, std::int64_t group,
                           const isa::Affine& row_block) {
    return (row_block + chunk.first_row) * plan.grouping.groups + group;
}

TokenRows token_rows(const DecoderPlan& plan, const Chunk& chunk, std::int64_t group) {
    if (!plan.prefill()) {
        return {chunk.row_blocks, chunk.rows};
    }
    TokenRows out{0, kBlockEdge};
    for (std::int64_t j = 0; j < chunk.row_blocks; ++j) {
        const std::int64_t position = ((chunk.first_row + j) * plan.grouping.groups + group) * kBlockEdge;
        if (position < plan.graph->workload.tokens) {
            out = {j + 1, std::min(plan.graph->workload.tokens - position, kBlockEdge)};
        }
    }
    return out;
}

std::int64_t head_pairs(const LayerShape& shape) {
    return shape.head_dim / (2 * kBlockEdge);
}

std::int64_t qkv_unit_pairs(const LayerShape& shape) {
    return shape.head_norms ? head_pairs(shape) : 1;
}

std::int64_t qkv_blocks(const LayerShape& shape) {
    return (shape.q_heads + 2 * shape.kv_heads) * shape.head_dim / kBlockEdge;
}

std::int64_t qkv_units(const LayerShape& shape) {
    return qkv_blocks(shape) / (2 * qkv_unit_pairs(shape));
}

std::int64_t rotary_row_bytes(std::int64_t head_dim) {
    return head_dim / 64 * 2 * block(Format::bf16);
}

std::int64_t qkv_vector_bytes(const LayerShape& shape, std::int64_t units) {
    const std::int64_t norms = shape.head_norms ? 2 * shape.head_dim * 2 : 0;
    return norms + (shape.qkv_bias ? units * 2 * qkv_unit_pairs(shape) * kBiasBytes : 0);
}

std::int64_t qkv_piece_blocks(const DecoderPlan& plan, const LayerShape& shape, const isa::ChipSpec& chip) {
    const std::int64_t unit = 2 * qkv_unit_pairs(shape);
    // A piece has at least as many units as rows are left to share its blocks with.
    std::int64_t blocks = piece_blocks(chip);
    const std::int64_t units = std::max<std::int64_t>(1, blocks / unit);
    const std::int64_t rows =
        (plan.tile.memory.in.slot_bytes - qkv_vector_bytes(shape, units)) / rotary_row_bytes(plan.attention.head_dim);
    return std::min(blocks, std::max<std::int64_t>(1, rows) * unit);
}

std::vector<ProductIndex> shared_products(const LayerShape& shape) {
    if (shape.experts.count > 0) {
        return {kQkv, kO, kRouter};
    }
    return {kQkv, kO, kGateUp, kDown};
}

std::vector<ProductIndex> expert_products(const LayerShape& shape) {
    if (shape.experts.count > 0) {
        return {kExpertUp, kExpertDown};
    }
    return {};
}

std::int64_t expert_up_bytes(const DecoderPlan& plan, const LayerShape& shape) {
    return 2 * shape.experts.width / kBlockEdge * plan.hidden_blocks() * block(shape.weights);
}

std::int64_t expert_rows_bytes(const DecoderPlan& plan, const LayerShape& shape) {
    return plan.hidden_blocks() * block(shape.activations) + kBlockEdge * 4;
}

std::int64_t expert_bytes(const DecoderPlan& plan, const LayerShape& shape) {
    return expert_up_bytes(plan, shape) / 2 * 3;
}

namespace {

/// A block row of tokens of one expert, on one tile.
ProductShape expert_product(ProductShape base, std::int64_t units, std::int64_t k_blocks) {
    base.row_blocks = 1;
    base.units = units;
    base.k_blocks = k_blocks;
    base.tiles = 1;
    base.a_local = true;
    return base;
}

}  // namespace

ProductShape product_shape(const DecoderPlan& plan, const LayerShape& shape, ProductIndex product,
                           std::int64_t row_blocks) {
    ProductShape out{row_blocks, 1, 1, 1, shape.activations, shape.weights, plan.grouping.tiles_per_group(), false};
    const std::int64_t hidden = plan.hidden_blocks();
    switch (product) {
        case kQkv:
            out.units = qkv_units(shape);
            out.unit_blocks = 2 * qkv_unit_pairs(shape);
            out.k_blocks = hidden;
            break;
        case kO:
            out.units = hidden;
            out.k_blocks = shape.q_heads * shape.head_dim / kBlockEdge;
            break;
        case kGateUp:
            out.units = shape.ffn / kBlockEdge;
            out.unit_blocks = 2;
            out.k_blocks = hidden;
            break;
        case kDown:
            out.units = hidden;
            out.k_blocks = shape.ffn / kBlockEdge;
            break;
        case kRouter:
            // Whoever has a token's scores finds the largest ones.
            out.unit_blocks = ceil_div(shape.experts.count, kBlockEdge);
            out.k_blocks = hidden;
            break;
        case kExpertUp:
            out = expert_product(out, shape.experts.width / kBlockEdge, hidden);
            out.unit_blocks = 2;
            break;
        case kExpertDown: out = expert_product(out, hidden, shape.experts.width / kBlockEdge); break;
        case kProducts: SLUICE_CHECK(false, "not a product");
    }
    return out;
}

DecoderPlan plan_decoder(const models::Graph& graph, const isa::ChipSpec& chip) {
    const DecoderModel model = fuse_decoder(graph);
    check_shape(model);
    std::optional<DecoderPlan> best;
    for (const std::int64_t groups : group_counts(chip)) {
        std::optional<DecoderPlan> plan = try_grouping(graph, model, chip, groups);
        if (plan && (!best || plan->cycles < best->cycles)) {
            best = std::move(plan);
        }
    }
    if (!best) {
        throw InputError("csram.bytes",
                         fmt::format("{}: too small for the activations of any division of the clusters; "
                                     "prefill needs room for a whole attention step of rows",
                                     chip.csram.bytes));
    }
    for (std::size_t run = 0; run < model.runs.size(); ++run) {
        best->routing.push_back(routing_shape(*best, run));
    }
    place_hbm(*best, chip);
    place_csram(*best, chip);
    return std::move(*best);
}

}  // namespace sluice::kernels
