// SPDX-License-Identifier: Apache-2.0
// Are times and clock crossings exact at frequencies that do not divide each other?
#include "sim/core/clock.hpp"

#include <catch2/catch.hpp>

using namespace sluice;

namespace {
constexpr std::uint64_t kCk = 9'115'000'000 / 4;
using sim::Wide;
}  // namespace

TEST_CASE("a cycle begins at the floor of cycle x 10^15 / hertz") {
    CHECK(sim::ClockDomain(2'000'000'000).time_of(3) == 1'500'000);
    const sim::ClockDomain fast(2'150'000'000);
    CHECK(fast.time_of(1) == 465'116);  // 10^6 / 2.15 = 465,116.27...
    // No drift: 2.15e9 cycles are one second, and a day of them is a day.
    CHECK(fast.time_of(2'150'000'000) == sim::kFemtosecondsPerSecond);
    CHECK(fast.time_of(std::uint64_t{2'150'000'000} * 3600) == sim::kFemtosecondsPerSecond * 3600);
}

TEST_CASE("a crossing lands on the receiver's first edge at or after the sender's") {
    for (const std::uint64_t core : {2'000'000'000ULL, 2'150'000'000ULL}) {
        const sim::ClockCrossing to_ck(core, kCk);
        const sim::ClockCrossing to_core(kCk, core);
        for (std::uint64_t start : {std::uint64_t{0}, std::uint64_t{1} << 40, (std::uint64_t{1} << 50) + 12345}) {
            for (std::uint64_t cycle = start; cycle < start + 3000; ++cycle) {
                const std::uint64_t edge = to_ck(cycle);
                // edge / kCk >= cycle / core > (edge - 1) / kCk
                REQUIRE(Wide{edge} * core >= Wide{cycle} * kCk);
                REQUIRE((edge == 0 || Wide{edge - 1} * core < Wide{cycle} * kCk));
                const std::uint64_t back = to_core(edge);
                REQUIRE(Wide{back} * kCk >= Wide{edge} * core);
                REQUIRE((back == 0 || Wide{back - 1} * kCk < Wide{edge} * core));
                REQUIRE(back >= cycle);
                REQUIRE(back <= cycle + 1);
            }
        }
    }
}

TEST_CASE("equal clocks cross at once") {
    const sim::ClockCrossing same(2'000'000'000, 2'000'000'000);
    CHECK(same(0) == 0);
    CHECK(same(123456789) == 123456789);
}
