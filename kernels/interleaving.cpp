// SPDX-License-Identifier: Apache-2.0
#include "kernels/interleaving.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::kAccumulatorBlockBytes;
using isa::kBlockEdge;
using isa::Space;

namespace {

constexpr std::int64_t kUnitSlots = 2;  ///< of Q, and of K and V: one in use, one on its way
constexpr std::int64_t kProbabilitySlots = 2;

/// How many steps the TTU's scores are ahead of the TVP's exponents.
std::int64_t steps_ahead(std::int64_t steps) {
    return std::min<std::int64_t>(2, steps);
}

std::int64_t score_slots(std::int64_t steps) {
    return steps_ahead(steps) + 1;
}

std::int64_t region_bytes(const InterleavedShape& shape, const Interleaving& cut) {
    const std::int64_t steps = cut.steps(shape);
    return (score_slots(steps) * cut.step_heads * cut.chunk_blocks + steps * cut.step_heads * shape.dim_blocks()) *
           kAccumulatorBlockBytes;
}

std::int64_t staging_bytes(const InterleavedShape& shape, const Interleaving& cut) {
    const std::int64_t row_blocks = cut.steps(shape) * cut.step_heads;
    const std::int64_t kv = block(shape.kv);
    return row_blocks * shape.dim_blocks() * (kUnitSlots * kv + block(shape.out)) +
           2 * kUnitSlots * cut.chunk_blocks * shape.dim_blocks() * kv +
           kProbabilitySlots * cut.step_heads * cut.chunk_blocks * kv + 4 * 4 * row_blocks * kBlockEdge;
}

bool fits(const InterleavedShape& shape, const Interleaving& cut, const isa::ChipSpec& chip) {
    return region_bytes(shape, cut) <= chip.tsram.output_region_bytes &&
           staging_bytes(shape, cut) <= chip.tsram.bytes - chip.tsram.output_region_bytes;
}

/// Cycles of a unit by the rates of its engines.
class UnitCost {
public:
    UnitCost(const InterleavedShape& shape, const Interleaving& cut, const isa::ChipSpec& chip)
        : shape_(shape), cut_(cut), chip_(chip) {}

    /// `blocks`: position blocks of K and V that its rows attend to.
    [[nodiscard]] double cycles(std::int64_t blocks) const {
        const std::int64_t whole = (blocks - 1) / cut_.chunk_blocks;
        const auto count = static_cast<double>(whole);
        const auto last = static_cast<double>(blocks - whole * cut_.chunk_blocks);
        const auto full = static_cast<double>(cut_.chunk_blocks);
        const auto steps = static_cast<double>(cut_.steps(shape_));
        const bool masked = shape_.causal || shape_.context % kBlockEdge != 0;
        const double vector =
            steps * (count * step(full, false) + step(last, masked) + count * on_accumulator() + on_accumulator()) +
            apart(last) * static_cast<double>(shape_.causal ? cut_.unit_blocks + 1 : 1);
        const double tensor = steps * (count * tensor_step(full) + tensor_step(last));
        return std::max({vector, tensor, stream(static_cast<double>(blocks))});
    }

private:
    [[nodiscard]] double scores(double blocks) const {
        return blocks * static_cast<double>(cut_.step_heads * kBlockEdge * kBlockEdge);
    }
    [[nodiscard]] double latency() const { return static_cast<double>(chip_.tvp.pipeline_latency_cycles); }
    [[nodiscard]] double port_cycles(double values) const {
        return values * 4 / static_cast<double>(chip_.tvp.port_bytes_per_cycle);
    }
    /// A pass with a reduction and one of rows.
    [[nodiscard]] double step(double blocks, bool masked) const {
        const isa::VectorProgram program = softmax_step_program(shape_.kv, shape_.head_dim, masked);
        const auto slots = static_cast<double>(slots_per_element(program, chip_.tvp));
        return std::max(scores(blocks) * slots / static_cast<double>(chip_.tvp.lanes_32b * chip_.tvp.issue_slots),
                        port_cycles(scores(blocks))) +
               3 * latency();
    }
    /// What a maximum costs that is not taken together with exponents.
    [[nodiscard]] double apart(double blocks) const { return port_cycles(scores(blocks)) + 3 * latency(); }
    /// Rescaling, and normalising.
    [[nodiscard]] double on_accumulator() const {
        return port_cycles(static_cast<double>(cut_.step_heads * kBlockEdge * shape_.head_dim)) + latency();
    }
    [[nodiscard]] double tensor_step(double blocks) const {
        const auto rate =
            static_cast<double>(isa::k_per_cycle(chip_.ttu, isa::tensor_rate(shape_.kv, shape_.kv, "attention")));
        const double products = blocks * static_cast<double>(cut_.step_heads * shape_.dim_blocks() * kBlockEdge) / rate;
        return 2 *
               (products + static_cast<double>(chip_.ttu.macro_overhead_cycles + chip_.ttu.pipeline_latency_cycles));
    }
    /// Through the tile's port, and its share of HBM.
    [[nodiscard]] double stream(double blocks) const {
        const double bytes = 2 * blocks * static_cast<double>(shape_.dim_blocks() * block(shape_.kv));
        const double share = isa::hbm_bytes_per_cycle(chip_) / static_cast<double>(isa::tile_count(chip_));
        return bytes / std::min(share, static_cast<double>(chip_.noc.tile_port_bytes_per_cycle));
    }

    const InterleavedShape& shape_;
    const Interleaving& cut_;
    const isa::ChipSpec& chip_;
};

/// Of the tile that takes the first unit of each round.
double busiest_tile(const InterleavedShape& shape, const Interleaving& cut, const isa::ChipSpec& chip) {
    const UnitCost cost(shape, cut, chip);
    const std::int64_t tiles = isa::tile_count(chip);
    const std::int64_t units = cut.units(shape);
    if (!shape.causal) {
        return static_cast<double>(ceil_div(units, tiles)) * cost.cycles(shape.context_blocks());
    }
    double total = 0;
    const std::int64_t units_of_set = shape.sequences * shape.kv_heads;
    for (std::int64_t set = cut.sets(shape) - 1; set >= 0; --set) {
        const std::int64_t before = (cut.sets(shape) - 1 - set) * units_of_set;
        const std::int64_t taken = ceil_div(before + units_of_set, tiles) - ceil_div(before, tiles);
        if (taken > 0) {
            total += static_cast<double>(taken) * cost.cycles(shape.past_blocks + (set + 1) * cut.unit_blocks);
        }
    }
    return total;
}

}  // namespace

Interleaving choose_interleaving(const InterleavedShape& shape, const isa::ChipSpec& chip) {
    constexpr std::int64_t kMostSteps = 32;   // a unit's steps stand in the program one by one
    constexpr std::int64_t kMostChunks = 64;  // more parts than that are tried by halves, below
    Interleaving best;
    bool found = false;
    const auto consider = [&](Interleaving cut) {
        if (!fits(shape, cut, chip)) {
            return;
        }
        cut.cycles = busiest_tile(shape, cut, chip);
        if (!found || cut.cycles < best.cycles) {
            best = cut;
            found = true;
        }
    };
    const std::int64_t heads = shape.heads_per_kv();
    const std::int64_t blocks = shape.past_blocks + (shape.causal ? shape.query_blocks : 0);
    const std::int64_t context = shape.causal ? blocks : shape.context_blocks();
    for (std::int64_t step_heads = 1; step_heads <= heads; ++step_heads) {
        for (std::int64_t unit = 1; heads % step_heads == 0 && unit <= shape.query_blocks; ++unit) {
            if (unit * heads / step_heads > kMostSteps || (shape.causal && shape.past_blocks % unit != 0)) {
                continue;
            }
            std::int64_t before = 0;
            for (std::int64_t chunks = 1; chunks <= std::min(context, kMostChunks); ++chunks) {
                std::int64_t chunk = ceil_div(context, chunks);
                chunk = shape.causal ? round_up(chunk, unit) : chunk;
                if (chunk != before) {
                    consider({step_heads, unit, chunk, 0});
                }
                before = chunk;
            }
            // Whatever the context: down to a chunk of a unit's own blocks.
            for (std::int64_t chunk = unit; chunk < before; chunk *= 2) {
                consider({step_heads, unit, shape.causal ? chunk : std::min(chunk, context), 0});
            }
        }
    }
    if (!found) {
        const Interleaving least;
        throw InputError(
            "tsram", fmt::format("attention with heads of {} needs {} bytes of output region and {} "
                                 "others, the tile has {} and {}",
                                 shape.head_dim, region_bytes(shape, least), staging_bytes(shape, least),
                                 chip.tsram.output_region_bytes, chip.tsram.bytes - chip.tsram.output_region_bytes));
    }
    return best;
}

InterleavedMemory plan_interleaved_memory(const InterleavedShape& shape, const Interleaving& cut,
                                          const isa::ChipSpec& chip) {
    InterleavedMemory plan;
    Allocator tsram(Space::tsram, isa::tile_count(chip), static_cast<Bytes>(chip.tsram.bytes));
    const auto ring = [&tsram](const std::string& name, std::int64_t bytes, std::int64_t slots, int cursor) {
        return Ring{tsram.take(name, bytes * slots), bytes, slots, cursor};
    };
    const std::int64_t steps = cut.steps(shape);
    const std::int64_t dim = shape.dim_blocks();
    const std::int64_t kv = block(shape.kv);
    const std::int64_t row_bytes = steps * cut.step_heads * kBlockEdge * 4;
    TileMemory& memory = plan.memory;
    (void)tsram.take("output region", chip.tsram.output_region_bytes);
    memory.score_slots = score_slots(steps);
    memory.in = ring("queries", steps * cut.step_heads * dim * kv, kUnitSlots, reg::in);
    memory.stream = ring("k", cut.chunk_blocks * dim * kv, kUnitSlots, reg::stream);
    memory.values = ring("v", cut.chunk_blocks * dim * kv, kUnitSlots, reg::stream);
    memory.probabilities = ring("probabilities", cut.step_heads * cut.chunk_blocks * kv, kProbabilitySlots, reg::step);
    memory.out = ring("staging out", cut.step_heads * dim * block(shape.out), steps, reg::out);
    memory.row_maximum = tsram.take("row maximum", row_bytes);
    memory.row_sum = tsram.take("row sum", row_bytes);
    memory.row_rescale = tsram.take("row rescale", row_bytes);
    memory.row_shift = tsram.take("row shift", row_bytes);
    plan.regions = tsram.regions();
    return plan;
}

}  // namespace sluice::kernels
