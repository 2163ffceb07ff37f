// SPDX-License-Identifier: Apache-2.0
#pragma once
// Experts: the router and its choice, the experts that tokens have chosen, and the sum of what they give.
//
// A unit is up to 32 tokens of one expert. Units are dealt in turn to the tiles of the group; a tile gathers the rows
// of its unit from CSRAM, streams the expert's matrices, keeps what is between the two products in its own TSRAM, and
// sends each row, times its gate, to the place of (token, chosen expert) in every cluster of the group. Which tokens an
// expert has is read from index tables once the router is done: before it, nobody knows which weights to fetch.
#include "kernels/decoder_plan.hpp"
#include "kernels/product.hpp"
#include "kernels/routing_tables.hpp"
#include "kernels/rows.hpp"

namespace sluice::kernels {

/// The experts of one layer, for one chunk of one group.
struct ExpertsWork {
    LayerShape shape;
    std::size_t run = 0;
    isa::Affine segment;  ///< of the run's tables (see routing_tables.hpp), as the tile program sees it
    isa::Affine experts;  ///< HBM offset of their weights, as the tile program sees it
    Product up, down;     ///< shapes and tilings of one unit's products
    RowDeal rows;         ///< rows with tokens; row_blocks == 0: none
};

/// Gates from a finished piece of the router's product (`product`), whose scores have `rows` valid rows.
void emit_gates(Emitter& emit, const DecoderPlan& plan, const ExpertsShape& shape, const Product& product,
                const Piece& piece, std::int64_t rows);

/// The tiles' and the clusters' parts, after the router's product. `route_count`: signals of ready_route.
void emit_experts(Emitter& emit, const DecoderPlan& plan, const ExpertsWork& work, std::int64_t route_count);
/// x += what the chosen experts gave, in every cluster for itself.
void emit_combine(Emitter& emit, const DecoderPlan& plan, const ExpertsWork& work);
/// Signals of ready_x that emit_combine makes in each cluster.
[[nodiscard]] std::int64_t combine_count(const RowDeal& rows);
/// Rows that a tile combines at a time must fit the staging slots.
[[nodiscard]] std::int64_t combine_fit(const DecoderPlan& plan, const ExpertsShape& shape);

}  // namespace sluice::kernels
