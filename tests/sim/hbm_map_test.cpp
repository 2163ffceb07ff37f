// SPDX-License-Identifier: Apache-2.0
// Is the address map one-to-one, and does it keep strides from camping on few pseudo-channels?
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <tuple>
#include <vector>

#include "isa/errors.hpp"
#include "sim/mem/hbm_geometry.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;

namespace {

using Slot = std::tuple<unsigned, unsigned, unsigned, std::uint64_t>;

Slot slot(const sim::HbmAddressMap& map, std::uint64_t address) {
    const sim::HbmPlace place = map.decode(address, 1);
    return {place.pseudo_channel, place.set, place.row, map.slot_in_row(address)};
}

}  // namespace

TEST_CASE("every granule of a small memory has a place of its own, and every place is used") {
    isa::HbmSpec spec = test::hbm3e(3);
    spec.channels_per_stack = 5;
    spec.rows = 7;
    const sim::HbmAddressMap map(spec);
    const sim::HbmGeometry& g = map.geometry();
    std::set<Slot> seen;
    for (std::uint64_t address = 0; address < g.bytes; address += g.granule_bytes) {
        const Slot s = slot(map, address);
        REQUIRE(std::get<0>(s) < g.pseudo_channels);
        REQUIRE(std::get<1>(s) < g.sets);
        REQUIRE(std::get<2>(s) < g.rows);
        REQUIRE(seen.insert(s).second);
        REQUIRE(map.decode(address, 1).stack == std::get<0>(s) / g.pseudo_channels_per_stack);
    }
    CHECK(seen.size() == g.pseudo_channels * g.sets * g.rows * g.granules_per_row);
}

TEST_CASE("the shipped geometry holds what its spec says, and samples of it stay apart") {
    const isa::ChipSpec chip = test::maia200();
    const sim::HbmAddressMap map(chip.hbm);
    CHECK(map.geometry().bytes == isa::hbm_bytes(chip));
    CHECK(map.geometry().pseudo_channels == 192);
    CHECK(map.geometry().granules_per_row == 4);
    std::set<Slot> seen;
    std::size_t count = 0;
    for (std::uint64_t address = 0; address < map.geometry().bytes; address += 1024 * 1'000'003ULL, ++count) {
        seen.insert(slot(map, address));
    }
    for (std::uint64_t i = 0; i < 200'000; ++i, ++count) {
        seen.insert(slot(map, map.geometry().bytes - (i + 1) * 1024));
    }
    CHECK(seen.size() == count);
}

TEST_CASE("a packet touches the beats that hold its bytes") {
    const sim::HbmAddressMap map(test::hbm3e(6));
    CHECK(map.decode(4096, 1024).beats == 32);
    CHECK(map.decode(4096, 1).beats == 1);
    CHECK(map.decode(4096 + 31, 2).beats == 2);
    CHECK(map.decode(4096 + 64, 64).first_beat == 2);
    CHECK(map.decode(4096 + 64, 64).beats == 2);
}

TEST_CASE("power-of-two strides spread over the pseudo-channels") {
    const sim::HbmAddressMap map(test::hbm3e(6));
    for (int shift = 10; shift <= 24; ++shift) {
        std::vector<int> load(192, 0);
        constexpr int kPerChannel = 32;
        for (std::uint64_t i = 0; i < 192 * kPerChannel; ++i) {
            ++load[map.decode(i << shift, 1).pseudo_channel];
        }
        // A fair random throw of 32 a channel stays below 32 + 5 sigma = 60; camping would show hundreds.
        INFO("stride 2^" << shift);
        CHECK(*std::max_element(load.begin(), load.end()) < 60);
    }
}

TEST_CASE("a granule that does not fit the banks is refused") {
    isa::HbmSpec spec = test::hbm3e(1);
    spec.granule_bytes = 1000;
    CHECK_THROWS_AS(sim::HbmAddressMap(spec), InputError);
    spec.granule_bytes = 1024;
    spec.stacks = 0;
    CHECK_THROWS_AS(sim::HbmAddressMap(spec), InputError);
}
