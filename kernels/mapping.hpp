// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses how a matrix product is tiled over a group of tiles. The cost of a tiling is the longest of four streams: the
// TTU, the tile's ingress and the group's share of HBM, each at its full rate, and the banks of TSRAM at the share of
// them that trains of accesses get on the simulator. It knows the ChipSpec and no published figure.
#include <cstdint>

#include "isa/chip_spec.hpp"
#include "kernels/layout.hpp"

namespace sluice::kernels {

/// C[row_blocks x units * unit_blocks] = A[row_blocks x k_blocks] * B^T, all in 32 x 32 blocks, on `tiles` tiles that
/// split the units.
struct ProductShape {
    std::int64_t row_blocks = 1;
    std::int64_t units = 1;        ///< what is split over tiles; a unit stays on one tile
    std::int64_t unit_blocks = 1;  ///< column blocks per unit
    std::int64_t k_blocks = 1;
    isa::Format a = isa::Format::mxfp8;
    isa::Format b = isa::Format::mxfp4;
    std::int64_t tiles = 1;
    bool a_from_hbm = false;
    std::int64_t panel_bytes = 0;  ///< CSRAM for a panel of B that several row steps read; 0: B always streams from HBM
    bool a_local = false;          ///< A lies as a whole in each tile's TSRAM
};

/// Rows in steps of m row blocks; the tile's units in n_chunks nearly equal chunks; k in nearly equal steps of at most
/// k_step blocks.
struct Tiling {
    std::int64_t m = 1;
    std::int64_t n_chunks = 1;
    std::int64_t k_step = 1;
    double cycles = 0;         ///< estimate: TilingCost::total
    double longest = 0;        ///< TilingCost::longest
    std::int64_t k_grain = 1;  ///< k steps are whole multiples of it, but for the last; divides k_step
};

/// The k steps of a tiling: `wide_count` of `wide` blocks, then narrow ones, which have k_grain blocks less; the last
/// may be shorter still. As equal as can be: a short one would cost its sums, and wait for banks, like a long one.
struct KSteps {
    std::int64_t count = 1;
    std::int64_t wide_count = 0, wide = 0;
    std::int64_t narrow = 1, last = 1;

    [[nodiscard]] std::int64_t first_block(std::int64_t step) const;
    [[nodiscard]] std::int64_t width(std::int64_t step) const;
    [[nodiscard]] std::int64_t step_of(std::int64_t block) const;
};
[[nodiscard]] KSteps k_steps(const ProductShape& shape, const Tiling& tiling);

/// Cycles of each stream of a tiling: at its full rate, but for the banks.
struct TilingCost {
    double compute = 0, ingress = 0, hbm = 0;
    double banks = 0;  ///< operands and sums of the TTU
    double sums = 0;   ///< accumulators to TSRAM and back, on ports of their own

    [[nodiscard]] double longest() const;
    /// The longest stream, and a hundredth of the traffic that hides behind it: it costs energy and delays others.
    [[nodiscard]] double total() const;
};

/// Room for one chunk of each operand and for the accumulators.
struct TilingLimits {
    std::int64_t accumulator_blocks = 0;  ///< 32 x 32 FP32 blocks in the output region
    std::int64_t a_slot_bytes = 0;
    std::int64_t b_slot_bytes = 0;
};

/// Throws InputError if not even one block fits.
[[nodiscard]] Tiling choose_tiling(const ProductShape& shape, const TilingLimits& limits, const isa::ChipSpec& chip);

/// Whether each cluster keeps one n chunk of B for all its tiles in CSRAM: worth it where rows take several steps, and
/// possible where it fits and every tile has a part of every chunk.
[[nodiscard]] bool keeps_panel(const ProductShape& shape, const Tiling& tiling, const isa::ChipSpec& chip);
/// Bytes of one tile's part of the panel.
[[nodiscard]] std::int64_t panel_slot_bytes(const ProductShape& shape, const Tiling& tiling);

[[nodiscard]] TilingCost tiling_cost(const ProductShape& shape, const Tiling& tiling, const isa::ChipSpec& chip);
/// Estimated cycles of `shape` tiled so: tiling_cost(...).total().
[[nodiscard]] double tiling_cycles(const ProductShape& shape, const Tiling& tiling, const isa::ChipSpec& chip);

}  // namespace sluice::kernels
