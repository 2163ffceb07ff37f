// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work on the rows of a chunk, dealt to the tiles of each cluster a few rows at a time: every cluster of a group does
// all rows of the group for itself.
#include <functional>

#include "kernels/emitter.hpp"

namespace sluice::kernels {

struct RowDeal {
    std::int64_t row_blocks = 1;
    std::int64_t rows = 32;          ///< of the last row block
    std::int64_t rows_per_unit = 1;  ///< divides 32
};

/// Rows that a tile takes at a time: few enough that all tiles work, and at most `fit`.
[[nodiscard]] std::int64_t choose_rows_per_unit(std::int64_t row_blocks, std::int64_t rows, std::int64_t tiles,
                                                std::int64_t fit);
/// Units of one cluster.
[[nodiscard]] std::int64_t row_units(const RowDeal& deal);
/// For the tiles of a cluster that have rows.
void where_rows_are(Emitter& emit, const RowDeal& deal, const std::function<void()>& body);
/// body(row block, first row in it, rows) for each unit of this tile.
void deal_rows(Emitter& emit, const RowDeal& deal,
               const std::function<void(const isa::Affine&, const isa::Affine&, std::int64_t)>& body);

}  // namespace sluice::kernels
