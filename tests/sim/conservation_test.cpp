// SPDX-License-Identifier: Apache-2.0
// Every run of every test ends with these checks (Chip::check_conserved); here it is seen that they speak up.
#include "sim/core/conservation.hpp"

#include <catch2/catch.hpp>

#include "isa/errors.hpp"

using namespace sluice;

TEST_CASE("what goes in and does not come out is an error that names the resource and both figures") {
    CHECK_NOTHROW(sim::require_conserved("chip.hbm0.ch3.reads", "bursts", 7, 7));
    CHECK_THROWS_AS(sim::require_conserved("chip.hbm0.ch3.reads", "bursts", 7, 6), InvariantError);
    CHECK_THROWS_WITH(sim::require_conserved("chip.hbm0.ch3.reads", "bursts", 7, 6),
                      "chip.hbm0.ch3.reads: 7 bursts went in, 6 came out");
}
