// SPDX-License-Identifier: Apache-2.0
#include "kernels/tile_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/errors.hpp"

namespace sluice::kernels {

namespace {

// How the rings share what is left: two fifths for activations in at least three slots (one in use, one full, one
// filling), the rest for the stream. Many stream slots keep HBM busy across operators, few let a macro be longer: the
// cheapest number by the mapper's cost is taken, the largest of those that tie.
constexpr std::int64_t kActivationShare = 2, kShares = 5;
constexpr std::int64_t kLeastActivationSlots = 3, kMostActivationSlots = 16;
constexpr std::array<std::int64_t, 4> kStreamSlots{12, 8, 6, 4};
constexpr std::int64_t kMostPieceBlocks = 32;

std::int64_t staging_bytes(const StagingNeeds& needs) {
    return needs.in_slots * needs.in_bytes + needs.out_slots * needs.out_bytes + 2 * needs.probability_bytes +
           3 * 4 * needs.attention_rows + 4 * needs.factor_rows + needs.expert_rows_bytes + needs.expert_hidden_bytes +
           needs.expert_results_bytes + 2 * needs.norm_width + 512;
}

std::int64_t free_bytes(const isa::ChipSpec& chip, const StagingNeeds& needs) {
    const std::int64_t left = chip.tsram.bytes - chip.tsram.output_region_bytes - staging_bytes(needs);
    if (left <= 0) {
        throw InputError("tsram", fmt::format("staging needs {} bytes beside the output region of {}, but the tile has "
                                              "{}",
                                              staging_bytes(needs), chip.tsram.output_region_bytes, chip.tsram.bytes));
    }
    return left;
}

}  // namespace

std::int64_t piece_blocks(const isa::ChipSpec& chip) {
    return std::clamp<std::int64_t>(chip.tsram.output_region_bytes / isa::kAccumulatorBlockBytes / 8, 1,
                                    kMostPieceBlocks);
}

std::int64_t stream_slot_bytes(const isa::ChipSpec& chip, const StagingNeeds& needs, std::int64_t slots) {
    const std::int64_t share = free_bytes(chip, needs) * (kShares - kActivationShare) / kShares;
    return std::max(needs.stream_bytes, share / slots / 64 * 64);
}
std::int64_t stream_slot_bytes(const isa::ChipSpec& chip, const StagingNeeds& needs) {
    return stream_slot_bytes(chip, needs, kStreamSlots.front());
}

namespace {

struct Choice {
    std::vector<Tiling> tilings;
    std::int64_t stream_slot = 0;
    double cycles = 0;
};

Choice choose_tilings(const isa::ChipSpec& chip, const std::vector<ProductShape>& products, const StagingNeeds& needs) {
    Choice best;
    const std::int64_t activation_share = free_bytes(chip, needs) * kActivationShare / kShares;
    for (const std::int64_t slots : kStreamSlots) {
        Choice choice;
        choice.stream_slot = stream_slot_bytes(chip, needs, slots);
        const TilingLimits limits{chip.tsram.output_region_bytes / isa::kAccumulatorBlockBytes,
                                  activation_share / kLeastActivationSlots, choice.stream_slot};
        for (const ProductShape& product : products) {
            choice.tilings.push_back(choose_tiling(product, limits, chip));
            choice.cycles += needs.deep_stream ? choice.tilings.back().longest : choice.tilings.back().cycles;
        }
        if (best.tilings.empty() || choice.cycles < best.cycles) {
            best = std::move(choice);
        }
    }
    return best;
}

}  // namespace

TilePlan plan_tile(const isa::ChipSpec& chip, const std::vector<ProductShape>& products, const StagingNeeds& needs) {
    Choice choice = choose_tilings(chip, products, needs);
    const std::int64_t activation_share = free_bytes(chip, needs) * kActivationShare / kShares;
    const std::int64_t stream_slot = choice.stream_slot;
    TilePlan plan;
    plan.tilings = std::move(choice.tilings);
    std::int64_t activation_slot = 64;
    for (std::size_t i = 0; i < products.size(); ++i) {
        const Tiling& tiling = plan.tilings[i];
        if (products[i].a_local) {
            continue;
        }
        const auto a_bytes = static_cast<std::int64_t>(block_bytes(products[i].a)) * tiling.m * tiling.k_step;
        activation_slot = std::max(activation_slot, round_up<std::int64_t>(a_bytes, 64));
    }
    const std::int64_t activation_slots =
        std::clamp(activation_share / activation_slot, kLeastActivationSlots, kMostActivationSlots);

    Allocator tsram(isa::Space::tsram, isa::tile_count(chip), static_cast<Bytes>(chip.tsram.bytes));
    TileMemory& memory = plan.memory;
    (void)tsram.take("output region", chip.tsram.output_region_bytes);
    const auto ring = [&tsram](const std::string& name, std::int64_t slot, std::int64_t slots, int cursor) {
        const std::int64_t bytes = round_up<std::int64_t>(slot, 64);
        return Ring{tsram.take(name, bytes * slots), bytes, slots, cursor};
    };
    memory.in = ring("staging in", needs.in_bytes, needs.in_slots, reg::in);
    memory.out = ring("staging out", needs.out_bytes, needs.out_slots, reg::out);
    memory.probabilities = ring("probabilities", needs.probability_bytes, 2, reg::step);
    memory.row_maximum = tsram.take("row maximum", 4 * needs.attention_rows);
    memory.row_sum = tsram.take("row sum", 4 * needs.attention_rows);
    memory.row_rescale = tsram.take("row rescale", 4 * needs.attention_rows);
    memory.head_factor = tsram.take("factors of heads", 4 * needs.factor_rows);
    const auto buffer = [&tsram](const std::string& name, std::int64_t bytes) {
        return Buffer{tsram.take(name, bytes), bytes};
    };
    memory.expert_rows = buffer("rows of an expert", needs.expert_rows_bytes);
    memory.expert_hidden = buffer("hidden of an expert", needs.expert_hidden_bytes);
    memory.expert_results = buffer("results of an expert", needs.expert_results_bytes);
    memory.norm_weights = tsram.take("norm weights", 2 * needs.norm_width);
    memory.activation = ring("activation ring", activation_slot, activation_slots, reg::activation);
    const std::int64_t stream_slots = tsram.left() / round_up<std::int64_t>(stream_slot, 64);
    if (stream_slots < 3) {
        throw InputError("tsram", fmt::format("the stream ring needs 3 slots of {} bytes, but {} bytes are left",
                                              stream_slot, tsram.left()));
    }
    memory.stream = ring("stream ring", stream_slot, stream_slots, reg::stream);
    plan.regions = tsram.regions();
    return plan;
}

}  // namespace sluice::kernels
