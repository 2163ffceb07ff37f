// SPDX-License-Identifier: Apache-2.0
#pragma once
// Index tables that say which tokens chose which experts: what `load_index` reads once a router is done. They stand for
// the router's choice: drawn for a run for time, computed by the reference for a run on values.
//
// Each run of layers has tables of its own, in segments of equal size: one for every layer, sequence of a prefill,
// group and chunk, in this order.
#include <functional>
#include <string>
#include <vector>

#include "isa/program.hpp"
#include "models/values.hpp"

namespace sluice::kernels {

struct DecoderPlan;

enum class RoutingTable : std::uint8_t {
    units,      ///< [tile of the group]: how many units it has
    expert,     ///< [unit]: of every unit; tile t has units t, t + tiles, ...
    rows,       ///< its tokens, 1 to 32
    first,      ///< its first pair
    row_block,  ///< [pair of a token and a chosen expert, by expert]: the token's place in the chunk
    row,
    result,  ///< the pair's place in the results
};

/// Sizes of a segment, and how many of them there are.
struct RoutingShape {
    std::int64_t tiles = 1;  ///< of a group
    std::int64_t units = 0;  ///< at most, a multiple of `tiles`
    std::int64_t pairs = 0;  ///< at most
    std::int64_t row_blocks = 1;
    std::int64_t experts = 0;
    std::int64_t sequences = 1, groups = 1, chunks = 1;
};

[[nodiscard]] std::string routing_table_name(std::size_t run, RoutingTable table);

/// Sizes for a run whose experts have this shape; all zero without experts.
[[nodiscard]] RoutingShape routing_shape(const DecoderPlan& plan, std::size_t run);

/// tokens x chosen experts of a layer, row by row.
using Routes = std::function<std::vector<std::int32_t>(std::int64_t layer)>;
/// All tables. Throws InputError for an expert that is not there.
[[nodiscard]] std::vector<isa::IndexTable> routing_tables(const DecoderPlan& plan, const Routes& routes);
/// What models::Route::drawn says.
[[nodiscard]] Routes drawn_routes(const DecoderPlan& plan);
/// What the reference executor finds for these inputs. Throws InputError if a token chooses two experts of equal score:
/// the vector unit finds the largest scores by leaving out what is not below the last one, so it would count them once.
[[nodiscard]] Routes computed_routes(const DecoderPlan& plan, const models::Values& inputs);

}  // namespace sluice::kernels
