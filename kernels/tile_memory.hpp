// SPDX-License-Identifier: Apache-2.0
#pragma once
// Divides a tile's TSRAM: accumulators (the output region), staging for the TVP, then the two operand rings. The rings
// share what is left: the stream ring (weights, KV cache) is deep so that HBM keeps running while the tiles exchange
// activations.
#include <vector>

#include "kernels/emitter.hpp"
#include "kernels/mapping.hpp"

namespace sluice::kernels {

struct StagingNeeds {
    std::int64_t in_bytes = 0, out_bytes = 0;  ///< one slot of each staging ring
    std::int64_t in_slots = 2, out_slots = 2;
    std::int64_t probability_bytes = 0;  ///< one slot; 0: no attention
    std::int64_t attention_rows = 0;     ///< rows of running maximum, sum and factor
    std::int64_t expert_rows_bytes = 0, expert_hidden_bytes = 0, expert_results_bytes = 0;  ///< 0: no experts
    std::int64_t factor_rows = 0;  ///< rows of the factors of heads' norms
    std::int64_t norm_width = 0;
    std::int64_t stream_bytes = 0;  ///< least size of a stream slot
    bool deep_stream =
        false;  ///< operators follow one another: slots are traded for longer macros only where that gains time
};

struct TilePlan {
    TileMemory memory;
    std::vector<Tiling> tilings;  ///< of the products, in order
    std::vector<isa::Region> regions;
};

/// Most 32 x 32 blocks of one epilogue piece: an eighth of the accumulators, at most 32.
[[nodiscard]] std::int64_t piece_blocks(const isa::ChipSpec& chip);
/// Bytes of a stream slot if the products alone decide.
[[nodiscard]] std::int64_t stream_slot_bytes(const isa::ChipSpec& chip, const StagingNeeds& needs);

[[nodiscard]] TilePlan plan_tile(const isa::ChipSpec& chip, const std::vector<ProductShape>& products,
                                 const StagingNeeds& needs);

}  // namespace sluice::kernels
