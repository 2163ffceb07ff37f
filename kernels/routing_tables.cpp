// SPDX-License-Identifier: Apache-2.0
#include "kernels/routing_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "isa/errors.hpp"
#include "kernels/decoder_plan.hpp"
#include "models/reference/executor.hpp"

namespace sluice::kernels {

using isa::IndexTable;
using isa::kBlockEdge;

namespace {

constexpr std::size_t kTables = 7;
constexpr std::array<const char*, kTables> kNames{"units", "expert", "rows", "first", "row block", "row", "result"};

/// A pair of a token and an expert that it chose.
struct Pair {
    std::int64_t row = 0;   ///< of the chunk
    std::int64_t slot = 0;  ///< which of the token's experts
};

/// The tables of one run while they are filled, segment by segment.
class RunTables {
public:
    RunTables(std::size_t run, const RoutingShape& shape, std::int64_t segments) : shape_(shape) {
        const auto make = [&](RoutingTable which, std::int64_t count, std::int64_t lowest, std::int64_t highest) {
            IndexTable& table = at(which);
            table.name = routing_table_name(run, which);
            table.count = count;
            table.lowest = lowest;
            table.highest = highest;
            table.values.assign(static_cast<std::size_t>(count), lowest);
        };
        // A loop over a unit's rows may point at 31 pairs behind the last one, for all that a verifier knows.
        const std::int64_t pairs = segments * shape.pairs + kBlockEdge;
        make(RoutingTable::units, segments * shape.tiles, 0, shape.units / shape.tiles);
        make(RoutingTable::expert, segments * shape.units, 0, shape.experts - 1);
        make(RoutingTable::rows, segments * shape.units, 1, kBlockEdge);
        make(RoutingTable::first, segments * shape.units, 0, shape.pairs - 1);
        make(RoutingTable::row_block, pairs, 0, shape.row_blocks - 1);
        make(RoutingTable::row, pairs, 0, kBlockEdge - 1);
        make(RoutingTable::result, pairs, 0, shape.pairs - 1);
    }

    /// `by_expert`: the pairs of each expert.
    void fill(std::int64_t segment, const std::vector<std::vector<Pair>>& by_expert, std::int64_t chosen) {
        std::int64_t unit = 0;
        std::int64_t pair = 0;
        for (std::size_t expert = 0; expert < by_expert.size(); ++expert) {
            const auto rows = static_cast<std::int64_t>(by_expert[expert].size());
            for (std::int64_t done = 0; done < rows; done += kBlockEdge, ++unit) {
                const std::int64_t place = segment * shape_.units + unit;
                set(RoutingTable::expert, place, static_cast<std::int64_t>(expert));
                set(RoutingTable::rows, place, std::min(kBlockEdge, rows - done));
                set(RoutingTable::first, place, pair + done);
            }
            for (const Pair& one : by_expert[expert]) {
                const std::int64_t place = segment * shape_.pairs + pair++;
                set(RoutingTable::row_block, place, one.row / kBlockEdge);
                set(RoutingTable::row, place, one.row % kBlockEdge);
                set(RoutingTable::result, place, one.row * chosen + one.slot);
            }
        }
        SLUICE_CHECK(unit <= shape_.units && pair <= shape_.pairs, "a segment of routing tables is too small");
        for (std::int64_t tile = 0; tile < shape_.tiles; ++tile) {
            set(RoutingTable::units, segment * shape_.tiles + tile,
                ceil_div(std::max<std::int64_t>(0, unit - tile), shape_.tiles));
        }
    }
    std::array<IndexTable, kTables> take() { return std::move(tables_); }

private:
    IndexTable& at(RoutingTable which) { return tables_.at(static_cast<std::size_t>(which)); }
    void set(RoutingTable which, std::int64_t place, std::int64_t value) {
        at(which).values.at(static_cast<std::size_t>(place)) = value;
    }

    RoutingShape shape_;
    std::array<IndexTable, kTables> tables_;
};

/// Token (of the whole step) in row `row` of a chunk; -1: none.
std::int64_t token_of_row(const DecoderPlan& plan, const Chunk& chunk, std::int64_t group, std::int64_t sequence,
                          std::int64_t row) {
    if (!plan.prefill()) {
        return row < chunk.tokens ? chunk.first_row + row : -1;
    }
    const std::int64_t tokens = plan.graph->workload.tokens;
    const std::int64_t position =
        ((row / kBlockEdge + chunk.first_row) * plan.grouping.groups + group) * kBlockEdge + row % kBlockEdge;
    return position < tokens ? sequence * tokens + position : -1;
}

const models::Route& route_of(const DecoderPlan& plan, const LayerRun& run, std::int64_t layer) {
    const std::size_t first = run.first_operator + static_cast<std::size_t>(layer - run.first_layer) * run.operators;
    for (std::size_t i = first; i < first + run.operators; ++i) {
        if (const auto* route = std::get_if<models::Route>(&plan.graph->operators.at(i).body)) {
            return *route;
        }
    }
    SLUICE_CHECK(false, "a layer of experts has a router");
}

const LayerRun& run_of(const DecoderPlan& plan, std::int64_t layer) {
    for (const LayerRun& run : plan.model.runs) {
        if (layer < run.first_layer + run.count) {
            return run;
        }
    }
    SLUICE_CHECK(false, "no such layer");
}

void fill_layer(RunTables& tables, const DecoderPlan& plan, const RoutingShape& shape, const ExpertsShape& experts,
                std::int64_t layer_of_run, const std::vector<std::int32_t>& routes) {
    for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
        for (std::int64_t group = 0; group < shape.groups; ++group) {
            const std::vector<Chunk>& chunks = plan.chunks[static_cast<std::size_t>(group)];
            for (std::int64_t i = 0; i < shape.chunks; ++i) {
                const Chunk& chunk = chunks.at(static_cast<std::size_t>(i));
                std::vector<std::vector<Pair>> by_expert(static_cast<std::size_t>(experts.count));
                for (std::int64_t row = 0; row < chunk.row_blocks * kBlockEdge; ++row) {
                    const std::int64_t token = token_of_row(plan, chunk, group, sequence, row);
                    for (std::int64_t slot = 0; token >= 0 && slot < experts.chosen; ++slot) {
                        const std::int32_t expert = routes.at(static_cast<std::size_t>(token * experts.chosen + slot));
                        by_expert.at(static_cast<std::size_t>(expert)).push_back({row, slot});
                    }
                }
                const std::int64_t segment =
                    ((layer_of_run * shape.sequences + sequence) * shape.groups + group) * shape.chunks + i;
                tables.fill(segment, by_expert, experts.chosen);
            }
        }
    }
}

}  // namespace

std::string routing_table_name(std::size_t run, RoutingTable table) {
    return fmt::format("experts {} {}", run, kNames.at(static_cast<std::size_t>(table)));
}

RoutingShape routing_shape(const DecoderPlan& plan, std::size_t run) {
    const ExpertsShape& experts = plan.model.runs[run].shape.experts;
    if (experts.count == 0) {
        return {};
    }
    RoutingShape shape;
    shape.tiles = plan.grouping.tiles_per_group();
    shape.row_blocks = plan.most_row_blocks;
    shape.pairs = plan.most_row_blocks * kBlockEdge * experts.chosen;
    // Every expert that has a token has at most one unit that is not full.
    shape.units = round_up(std::min(shape.pairs, experts.count + shape.pairs / kBlockEdge), shape.tiles);
    shape.experts = experts.count;
    shape.sequences = plan.prefill() ? plan.graph->workload.batch : 1;
    shape.groups = plan.grouping.groups;
    shape.chunks = static_cast<std::int64_t>(plan.chunks[0].size());
    return shape;
}

std::vector<IndexTable> routing_tables(const DecoderPlan& plan, const Routes& routes) {
    std::vector<IndexTable> all;
    for (std::size_t i = 0; i < plan.model.runs.size(); ++i) {
        const LayerRun& run = plan.model.runs[i];
        const RoutingShape& shape = plan.routing[i];
        if (run.shape.experts.count == 0) {
            continue;
        }
        RunTables tables(i, shape, run.count * shape.sequences * shape.groups * shape.chunks);
        for (std::int64_t layer = 0; layer < run.count; ++layer) {
            fill_layer(tables, plan, shape, run.shape.experts, layer, routes(run.first_layer + layer));
        }
        for (IndexTable& table : tables.take()) {
            all.push_back(std::move(table));
        }
    }
    return all;
}

Routes drawn_routes(const DecoderPlan& plan) {
    return [&plan](std::int64_t layer) { return route_of(plan, run_of(plan, layer), layer).drawn; };
}

Routes computed_routes(const DecoderPlan& plan, const models::Values& inputs) {
    const auto all = std::make_shared<models::Values>(
        models::execute(*plan.graph, inputs, {plan.attention.chunk_blocks * kBlockEdge}));
    return [&plan, all](std::int64_t layer) {
        const models::Route& route = route_of(plan, run_of(plan, layer), layer);
        const models::Matrix& experts = all->at(route.experts);
        const models::Matrix& scores = all->at(route.scores);
        std::vector<std::int32_t> routes;
        routes.reserve(experts.values.size());
        for (std::int64_t token = 0; token < experts.rows; ++token) {
            for (std::int64_t slot = 0; slot < experts.cols; ++slot) {
                const auto expert = static_cast<std::int32_t>(experts.at(token, slot));
                if (slot > 0 && scores.at(token, expert) == scores.at(token, routes.back())) {
                    throw InputError(fmt::format("layers.{}.router", layer),
                                     fmt::format("token {} gives experts {} and {} equal scores: not simulated", token,
                                                 routes.back(), expert));
                }
                routes.push_back(expert);
            }
        }
        return routes;
    };
}

}  // namespace sluice::kernels
