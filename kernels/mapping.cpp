// SPDX-License-Identifier: Apache-2.0
#include "kernels/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::kernels {

namespace {

double as_double(std::int64_t value) {
    return static_cast<double>(value);
}

/// Sets k steps of at most `most` blocks, in whole TTU cycles where there is room.
void set_k_steps(Tiling& tiling, std::int64_t most, std::int64_t blocks_per_cycle) {
    tiling.k_grain = most >= blocks_per_cycle ? blocks_per_cycle : 1;
    tiling.k_step = most / tiling.k_grain * tiling.k_grain;
}

/// Cycles in which the banks of a tile serve the TTU for a block of C and one k step: the lines of a run of A and of B,
/// which begin and end within a line, and the sums in and out.
double bank_cycles(const ProductShape& shape, std::int64_t k_step, const isa::TsramSpec& tsram) {
    // Trains of operands and sums meet at random in their banks: from about three quarters of their rate on, they wait
    // for each other for longer than they move (k steps of 4, 6 and 12 blocks of MXFP8 take 103, 86 and 69 % of it, and
    // 45, 16 and 1 % longer than without banks).
    constexpr double kShare = 0.75;
    const auto line = as_double(tsram.bank_bytes_per_cycle);
    const double operands = as_double(k_step) * static_cast<double>(block_bytes(shape.a) + block_bytes(shape.b)) / line;
    const double sums = 2 * as_double(isa::kAccumulatorBlockBytes) / line;
    return (operands + 2 + sums) / (kShare * as_double(tsram.banks));
}

}  // namespace

KSteps k_steps(const ProductShape& shape, const Tiling& tiling) {
    const std::int64_t grain = tiling.k_grain;
    KSteps steps;
    steps.count = ceil_div(shape.k_blocks, tiling.k_step);
    const Split grains{ceil_div(shape.k_blocks, grain), steps.count};
    steps.wide_count = grains.remainder();
    steps.wide = grains.most() * grain;
    steps.narrow = grains.least() * grain;
    steps.last = shape.k_blocks - steps.first_block(steps.count - 1);
    return steps;
}

std::int64_t KSteps::first_block(std::int64_t step) const {
    return std::min(step, wide_count) * wide + std::max<std::int64_t>(0, step - wide_count) * narrow;
}

std::int64_t KSteps::width(std::int64_t step) const {
    return step + 1 == count ? last : step < wide_count ? wide : narrow;
}

std::int64_t KSteps::step_of(std::int64_t block) const {
    const std::int64_t in_wide = wide_count * wide;
    return block < in_wide ? block / wide : std::min(count - 1, wide_count + (block - in_wide) / narrow);
}

double TilingCost::longest() const {
    return std::max({compute, ingress, hbm, banks});
}

double TilingCost::total() const {
    constexpr double kTieBreak = 0.01;
    return longest() + kTieBreak * (ingress + hbm + sums);
}

double tiling_cycles(const ProductShape& shape, const Tiling& tiling, const isa::ChipSpec& chip) {
    return tiling_cost(shape, tiling, chip).total();
}

TilingCost tiling_cost(const ProductShape& shape, const Tiling& tiling, const isa::ChipSpec& chip) {
    const Split split{shape.units, shape.tiles};
    const std::int64_t n_blocks = split.most() * shape.unit_blocks;
    const std::int64_t m_steps = ceil_div(shape.row_blocks, tiling.m);
    const KSteps steps = k_steps(shape, tiling);
    const std::int64_t macros = m_steps * tiling.n_chunks * steps.count;
    // A block's k run keeps its sums in the unit; between k steps they go to TSRAM and back, on ports of their own.
    const std::int64_t sums_cycles = ceil_div(isa::kAccumulatorBlockBytes, chip.ttu.accumulator_bytes_per_cycle);
    const std::int64_t k_rate = isa::k_per_cycle(chip.ttu, isa::tensor_rate(shape.a, shape.b, "product"));
    std::int64_t block_cycles = 0;  // of a block of C, over all k steps
    double block_banks = 0;
    const auto add = [&](std::int64_t count, std::int64_t width) {
        block_cycles += count * std::max(sums_cycles, ceil_div(width * isa::kBlockEdge, k_rate));
        block_banks += as_double(count) * bank_cycles(shape, width, chip.tsram);
    };
    add(steps.wide_count, steps.wide);
    add(steps.count - steps.wide_count - 1, steps.narrow);
    add(1, steps.last);
    const std::int64_t blocks = shape.row_blocks * n_blocks;
    const double compute = as_double(blocks * block_cycles) +
                           as_double(macros * (chip.ttu.macro_overhead_cycles + chip.ttu.pipeline_latency_cycles));
    const double b_bytes = as_double(shape.k_blocks * n_blocks * m_steps) * static_cast<double>(block_bytes(shape.b));
    const double a_bytes =
        as_double(shape.k_blocks * shape.row_blocks * tiling.n_chunks) * static_cast<double>(block_bytes(shape.a));
    const double ingress = ((shape.a_local ? 0.0 : a_bytes) + b_bytes) / as_double(chip.noc.tile_port_bytes_per_cycle);
    // Every tile streams its own B from HBM; A is read once per cluster.
    const double group_share =
        isa::hbm_bytes_per_cycle(chip) * as_double(shape.tiles) / as_double(isa::tile_count(chip));
    const double clusters = std::max(1.0, as_double(shape.tiles) / as_double(chip.soc.tiles_per_cluster));
    const double b_reads = keeps_panel(shape, tiling, chip) ? 1.0 : as_double(m_steps);
    const double all_b = as_double(shape.k_blocks * shape.units * shape.unit_blocks) * b_reads *
                         static_cast<double>(block_bytes(shape.b));
    const double hbm = (all_b + (shape.a_from_hbm ? a_bytes * clusters : 0.0)) / group_share;
    return {compute, ingress, hbm, as_double(blocks) * block_banks, as_double(blocks * steps.count * sums_cycles)};
}

std::int64_t panel_slot_bytes(const ProductShape& shape, const Tiling& tiling) {
    const Split split{shape.units, shape.tiles};
    return ceil_div(split.most(), tiling.n_chunks) * shape.unit_blocks * shape.k_blocks *
           static_cast<std::int64_t>(block_bytes(shape.b));
}

bool keeps_panel(const ProductShape& shape, const Tiling& tiling, const isa::ChipSpec& chip) {
    const Split split{shape.units, shape.tiles};
    return ceil_div(shape.row_blocks, tiling.m) > 1 && split.least() >= tiling.n_chunks &&
           panel_slot_bytes(shape, tiling) * chip.soc.tiles_per_cluster <= shape.panel_bytes;
}

Tiling choose_tiling(const ProductShape& shape, const TilingLimits& limits, const isa::ChipSpec& chip) {
    const Split split{shape.units, shape.tiles};
    const auto a_block = static_cast<std::int64_t>(block_bytes(shape.a));
    const auto b_block = static_cast<std::int64_t>(block_bytes(shape.b));
    const std::int64_t blocks_per_cycle = std::max<std::int64_t>(
        1, isa::k_per_cycle(chip.ttu, isa::tensor_rate(shape.a, shape.b, "product")) / isa::kBlockEdge);
    Tiling best;
    best.cycles = -1;
    for (std::int64_t m_steps = 1; m_steps <= shape.row_blocks; ++m_steps) {
        const std::int64_t m = ceil_div(shape.row_blocks, m_steps);
        const std::int64_t room_units = limits.accumulator_blocks / (m * shape.unit_blocks);
        const std::int64_t fewest = room_units < 1 ? split.most() + 1 : ceil_div(split.most(), room_units);
        // Wider and wider steps, and at last one unit a chunk: the only one that may fit.
        for (std::int64_t n_chunks = fewest; n_chunks <= split.most();
             n_chunks = n_chunks == split.most() ? n_chunks + 1 : std::min(n_chunks + 1 + n_chunks / 8, split.most())) {
            const std::int64_t chunk_blocks = ceil_div(split.most(), n_chunks) * shape.unit_blocks;
            const std::int64_t a_steps = shape.a_local ? shape.k_blocks : limits.a_slot_bytes / (m * a_block);
            const std::int64_t k_step =
                std::min({shape.k_blocks, a_steps, limits.b_slot_bytes / (chunk_blocks * b_block)});
            if (k_step < 1) {
                continue;
            }
            Tiling tiling;
            tiling.m = m;
            tiling.n_chunks = n_chunks;
            set_k_steps(tiling, k_step, blocks_per_cycle);
            const TilingCost cost = tiling_cost(shape, tiling, chip);
            tiling.cycles = cost.total();
            tiling.longest = cost.longest();
            if (best.cycles < 0 || tiling.cycles < best.cycles) {
                best = tiling;
            }
        }
        if (m == 1) {
            break;
        }
    }
    if (best.cycles < 0) {
        throw InputError("tsram",
                         fmt::format("no tiling fits: one unit of {} column blocks of {} needs an operand slot "
                                     "of {} bytes and {} accumulator blocks; there are {} bytes and {} blocks",
                                     shape.unit_blocks, name(shape.b), shape.unit_blocks * b_block, shape.unit_blocks,
                                     limits.b_slot_bytes, limits.accumulator_blocks));
    }
    return best;
}

}  // namespace sluice::kernels
