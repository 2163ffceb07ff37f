// SPDX-License-Identifier: Apache-2.0
// The simulator counts events that an energy table prices; the two never include each other, so the names are compared
// here.
#include <catch2/catch.hpp>

#include "isa/energy_table.hpp"
#include "sim/core/energy.hpp"

TEST_CASE("the simulator's events and those of the energy tables are the same, in the same order") {
    const auto& counted = sluice::sim::energy_events();
    const auto& priced = sluice::isa::energy_event_names();
    REQUIRE(counted.size() == priced.size());
    for (std::size_t i = 0; i < counted.size(); ++i) {
        CHECK(counted[i].name == priced[i]);
        CHECK(static_cast<std::size_t>(counted[i].event) == i);
    }
    CHECK(static_cast<std::size_t>(sluice::sim::EnergyEvent::nic_byte) + 1 == sluice::sim::kEnergyEventCount);
}
