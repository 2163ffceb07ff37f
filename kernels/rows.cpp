// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows.hpp"

#include <algorithm>

namespace sluice::kernels {

using isa::Affine;
using isa::kBlockEdge;

namespace {

std::int64_t units_of_block(const RowDeal& deal, bool last) {
    return ceil_div(last ? deal.rows : kBlockEdge, deal.rows_per_unit);
}

}  // namespace

std::int64_t choose_rows_per_unit(std::int64_t row_blocks, std::int64_t rows, std::int64_t tiles, std::int64_t fit) {
    std::int64_t wanted = kBlockEdge;
    if (row_blocks < tiles) {
        wanted = ceil_div(row_blocks == 1 ? rows : kBlockEdge, ceil_div(tiles, row_blocks));
    }
    std::int64_t power = 1;
    while (power < wanted && power * 2 <= fit && power < kBlockEdge) {
        power *= 2;
    }
    return power;
}

std::int64_t row_units(const RowDeal& deal) {
    return (deal.row_blocks - 1) * units_of_block(deal, false) + units_of_block(deal, true);
}

void where_rows_are(Emitter& emit, const RowDeal& deal, const std::function<void()>& body) {
    const std::int64_t tiles = emit.grouping.tiles_per_cluster;
    std::int64_t busy = units_of_block(deal, true);
    if (deal.row_blocks > 1) {
        busy = std::max(busy, units_of_block(deal, false));
    }
    if (deal.row_blocks >= tiles || busy >= tiles) {
        body();
    } else {
        emit.tile.branch(Affine(busy - 1) - isa::variable(isa::Var::tile), body);
    }
}

void deal_rows(Emitter& emit, const RowDeal& deal,
               const std::function<void(const Affine&, const Affine&, std::int64_t)>& body) {
    ControlBuilder& tile = emit.tile;
    const auto one = [&](const Affine& row_block, const Affine& index, std::int64_t rows) {
        body(row_block, index * deal.rows_per_unit, rows);
    };
    // The last unit of a row block may hold fewer rows.
    const auto rows_of = [&](bool last_block) {
        const std::int64_t valid = last_block ? deal.rows : kBlockEdge;
        return valid - (units_of_block(deal, last_block) - 1) * deal.rows_per_unit;
    };
    const Affine position = isa::variable(isa::Var::tile);
    const std::int64_t tiles = emit.grouping.tiles_per_cluster;
    if (deal.row_blocks >= tiles) {
        // Whole row blocks are dealt to tiles.
        const auto block_units = [&](const Affine& row_block, bool last) {
            const std::int64_t units = units_of_block(deal, last);
            tile.loop(units - 1, [&](const Affine& i) { one(row_block, i, deal.rows_per_unit); });
            one(row_block, Affine(units - 1), rows_of(last));
        };
        tile.loop(ceil_div(deal.row_blocks, tiles), [&](const Affine& i) {
            const Affine row_block = i * tiles + position;
            tile.branch(
                Affine(deal.row_blocks - 2) - row_block, [&] { block_units(row_block, false); },
                [&] { tile.branch(Affine(deal.row_blocks - 1) - row_block, [&] { block_units(row_block, true); }); });
        });
        return;
    }
    const auto deal_block = [&](const Affine& row_block, bool last) {
        const std::int64_t units = units_of_block(deal, last);
        tile.loop(ceil_div(units, tiles), [&](const Affine& i) {
            const Affine index = i * tiles + position;
            tile.branch(
                Affine(units - 2) - index, [&] { one(row_block, index, deal.rows_per_unit); },
                [&] { tile.branch(Affine(units - 1) - index, [&] { one(row_block, index, rows_of(last)); }); });
        });
    };
    tile.loop(deal.row_blocks - 1, [&](const Affine& row_block) { deal_block(row_block, false); });
    deal_block(Affine(deal.row_blocks - 1), true);
}

}  // namespace sluice::kernels
