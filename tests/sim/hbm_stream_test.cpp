// SPDX-License-Identifier: Apache-2.0
// Does the HBM deliver what its timing allows: streams near peak, refresh at its closed-form cost, random accesses at
// the four-activate limit?
#include <catch2/catch.hpp>

#include "sim/run.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

double fraction_of_peak(const isa::ChipSpec& chip, const isa::Program& p) {
    const sim::RunResult result = sim::run(chip, p);
    return static_cast<double>(result.hbm_read + result.hbm_written) / static_cast<double>(result.cycles) /
           isa::hbm_bytes_per_cycle(chip);
}

}  // namespace

TEST_CASE("a stream over all pseudo-channels reaches 93 % of peak with per-bank refresh") {
    const isa::ChipSpec chip = maia200();
    const double reached = fraction_of_peak(chip, clusters_stream(chip, 96 << 20, 65536));
    CHECK(reached >= 0.93);
    CHECK(reached <= 1.0);
}

TEST_CASE("36 tiles that stream regions of their own reach 85 % of peak") {
    const isa::ChipSpec chip = maia200();
    const double reached = fraction_of_peak(chip, tiles_stream(chip, 2 << 20, 65536));
    CHECK(reached >= 0.85);
    CHECK(reached <= 1.0);
}

TEST_CASE("refreshes are counted whether the channel is busy or idle") {
    const isa::ChipSpec chip = toy();
    // 8 cycles each: about 11 refresh intervals.
    constexpr std::int64_t kSignals = 11'000;
    const isa::Statement signal{isa::SignalStatement{{{isa::Level::chip, 0, 0, 0}, 1}}};
    const sim::RunResult result =
        sim::run(chip, program({control(isa::Level::tile, 0, 1, {loop(kSignals, {signal})})}));
    const double intervals = static_cast<double>(kSignals) * 8 * 9.115e9 / 4 / 2e9 / 8887;
    const auto refreshes =
        static_cast<double>(result.energy[static_cast<std::size_t>(sim::EnergyEvent::hbm_refresh_bank)]);
    CHECK(refreshes / (32 * 48) == Approx(intervals).epsilon(0.01));
    CHECK(result.energy[static_cast<std::size_t>(sim::EnergyEvent::hbm_standby_cycle)] == 32 * result.cycles);
}
