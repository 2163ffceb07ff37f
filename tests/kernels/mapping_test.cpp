// SPDX-License-Identifier: Apache-2.0
// Does a tiling fit what it was given, and is its estimate never below what the arithmetic alone takes?
#include "kernels/mapping.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "tests/kernels/compiled.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::kernels;
using isa::Format;

namespace {

class Shapes {
public:
    std::int64_t pick(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
    }
    /// Small and large values alike.
    std::int64_t size(std::int64_t most) { return pick(1, pick(1, most)); }
    ProductShape shape() {
        constexpr Format kFormats[] = {Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::e4m3};
        ProductShape out;
        out.row_blocks = size(300);
        out.units = size(1000);
        out.unit_blocks = pick(1, 2);
        out.k_blocks = size(500);
        out.a = kFormats[pick(0, 3)];
        out.b = kFormats[pick(0, 3)];
        if (pick(0, 4) == 0) {
            out.a = out.b = Format::bf16;
        }
        out.tiles = pick(1, 4) * 9;
        out.a_from_hbm = pick(0, 1) == 1;
        out.panel_bytes = pick(0, 1) * (1 << 25);
        return out;
    }

private:
    std::mt19937 random_{7};
};

}  // namespace

TEST_CASE("a tiling stays within its limits and covers the product") {
    const isa::ChipSpec maia = test::chip("maia200");
    Shapes random;
    int found = 0;
    for (int i = 0; i < 2000; ++i) {
        const ProductShape shape = random.shape();
        const TilingLimits limits{random.size(256), random.size(1 << 19), random.size(1 << 19)};
        INFO(fmt::format("{} x {} x {} units of {} on {} tiles; {} blocks, {} and {} bytes", shape.row_blocks,
                         shape.units, shape.k_blocks, shape.unit_blocks, shape.tiles, limits.accumulator_blocks,
                         limits.a_slot_bytes, limits.b_slot_bytes));
        const auto a = static_cast<std::int64_t>(isa::block_bytes(shape.a));
        const auto b = static_cast<std::int64_t>(isa::block_bytes(shape.b));
        const bool fits = limits.accumulator_blocks >= shape.unit_blocks && limits.a_slot_bytes >= a &&
                          limits.b_slot_bytes >= b * shape.unit_blocks;
        Tiling tiling;
        const std::string error = test::input_error([&] { tiling = choose_tiling(shape, limits, maia); });
        CHECK(error.empty() == fits);
        if (!error.empty()) {
            continue;
        }
        ++found;
        const std::int64_t most = ceil_div(shape.units, shape.tiles);
        CHECK((tiling.m >= 1 && tiling.m <= shape.row_blocks));
        CHECK((tiling.n_chunks >= 1 && tiling.n_chunks <= most));
        CHECK((tiling.k_step >= 1 && tiling.k_step <= shape.k_blocks));
        const std::int64_t chunk = ceil_div(most, tiling.n_chunks) * shape.unit_blocks;
        CHECK(tiling.m * chunk <= limits.accumulator_blocks);
        CHECK(tiling.m * tiling.k_step * a <= limits.a_slot_bytes);
        CHECK(chunk * tiling.k_step * b <= limits.b_slot_bytes);
        CHECK(tiling.cycles == tiling_cycles(shape, tiling, maia));
    }
    CHECK(found > 500);
}

TEST_CASE("an estimate is never below the arithmetic or the bytes of the product") {
    const isa::ChipSpec maia = test::chip("maia200");
    Shapes random;
    for (int i = 0; i < 2000; ++i) {
        const ProductShape shape = random.shape();
        Tiling tiling;
        tiling.m = random.size(shape.row_blocks);
        tiling.n_chunks = random.size(ceil_div(shape.units, shape.tiles));
        tiling.k_step = random.size(shape.k_blocks);
        const double cycles = tiling_cycles(shape, tiling, maia);
        const auto products = static_cast<double>(shape.row_blocks * shape.units * shape.unit_blocks * shape.k_blocks);
        const auto rate = static_cast<double>(isa::macs_per_cycle(maia.ttu, isa::tensor_rate(shape.a, shape.b, "")));
        CHECK(cycles >= products * 32 * 32 * 32 / rate / static_cast<double>(shape.tiles));
        const double b_bytes = static_cast<double>(shape.units * shape.unit_blocks * shape.k_blocks) *
                               static_cast<double>(isa::block_bytes(shape.b));
        CHECK(cycles >= b_bytes / isa::hbm_bytes_per_cycle(maia));
    }
}

TEST_CASE("a panel is kept only where it fits and is read more than once") {
    const isa::ChipSpec maia = test::chip("maia200");
    ProductShape shape{8, 36, 1, 16, Format::mxfp8, Format::mxfp4, 36, true, 0};
    const Tiling two_steps{4, 1, 16, 0};
    const std::int64_t needed = 16 * 544 * maia.soc.tiles_per_cluster;  // one column of 16 blocks a tile
    shape.panel_bytes = needed;
    CHECK(keeps_panel(shape, two_steps, maia));
    shape.panel_bytes = needed - 1;
    CHECK_FALSE(keeps_panel(shape, two_steps, maia));
    shape.panel_bytes = needed;
    CHECK_FALSE(keeps_panel(shape, {8, 1, 16, 0}, maia));
    shape.units = 35;  // one tile would have no part
    CHECK_FALSE(keeps_panel(shape, two_steps, maia));
}
