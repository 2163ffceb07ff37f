// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_balance.hpp"

#include <algorithm>
#include <utility>

namespace sluice::kernels {

using isa::kBlockEdge;

namespace {

/// Where `count` tiles in a row, round the end, have the smallest load: the most loaded of them least, then all of them
/// together; the first such place.
std::int64_t least_loaded(const std::vector<std::int64_t>& load, std::int64_t count) {
    const auto tiles = static_cast<std::int64_t>(load.size());
    std::int64_t best = 0;
    std::pair<std::int64_t, std::int64_t> least{-1, 0};
    for (std::int64_t from = 0; from < tiles; ++from) {
        std::pair<std::int64_t, std::int64_t> found{0, 0};
        for (std::int64_t k = 0; k < count; ++k) {
            const std::int64_t one = load[static_cast<std::size_t>((from + k) % tiles)];
            found = {std::max(found.first, one), found.second + one};
        }
        if (least.first < 0 || found < least) {
            least = found;
            best = from;
        }
    }
    return best;
}

}  // namespace

// The matrices of the largest units come first.
void balance_streams(DecoderPlan& plan) {
    const std::int64_t tiles = plan.grouping.tiles_per_group();
    for (const LayerRun& run : plan.model.runs) {
        const LayerShape& shape = run.shape;
        std::vector<std::int64_t> load(static_cast<std::size_t>(tiles));
        std::array<std::int64_t, kProducts> unit_bytes{};
        std::vector<ProductIndex> order = shared_products(shape);
        for (const ProductIndex i : order) {
            const ProductShape product = product_shape(plan, shape, i, 1);
            unit_bytes[i] = product.unit_blocks * product.k_blocks * block(product.b);
        }
        std::sort(order.begin(), order.end(),
                  [&](ProductIndex a, ProductIndex b) { return unit_bytes[a] > unit_bytes[b]; });
        // Attention deals its units in turn, from the first tile on (see emit_units).
        for (std::int64_t row = 0; row < plan.chunks[0][0].tokens; row += kBlockEdge) {
            const std::int64_t units = std::min(kBlockEdge, plan.chunks[0][0].tokens - row) * shape.kv_heads;
            for (std::int64_t t = 0; t < tiles; ++t) {
                load[static_cast<std::size_t>(t)] += ceil_div(std::max<std::int64_t>(0, units - t), tiles) * 2 *
                                                     plan.graph->workload.context * shape.head_dim *
                                                     isa::info(shape.kv).element_bits / 8;
            }
        }
        std::array<std::int64_t, kProducts>& wide_from = plan.wide_from.emplace_back();
        for (const ProductIndex i : order) {
            const Split split{product_shape(plan, shape, i, 1).units, tiles};
            wide_from[i] = least_loaded(load, split.remainder());
            for (std::int64_t k = 0; k < split.remainder(); ++k) {
                load[static_cast<std::size_t>((wide_from[i] + k) % tiles)] += unit_bytes[i];
            }
        }
    }
}

}  // namespace sluice::kernels
