// SPDX-License-Identifier: Apache-2.0
// Do addresses and semaphore ids pack into the fields that every part of the chip agrees on?
#include "isa/program.hpp"

#include <catch2/catch.hpp>

using namespace sluice::isa;

TEST_CASE("an address is chip : 13 | space : 3 | unit : 8 | offset : 40") {
    const Address highest{(1 << 13) - 1, Space::tsram, 255, (std::uint64_t{1} << 40) - 1};
    CHECK(unpack_address(pack(highest)) == highest);
    CHECK(pack({1, Space::hbm, 0, 0}) == std::uint64_t{1} << 51);
    CHECK(pack({0, Space::csram, 0, 0}) == std::uint64_t{1} << 48);
    CHECK(pack({0, Space::hbm, 1, 0}) == std::uint64_t{1} << 40);
    CHECK(pack({0, Space::hbm, 0, 1}) == 1);
}

TEST_CASE("a semaphore is chip : 13 | level : 3 | unit : 8 | index : 16") {
    const SemId highest{(1 << 13) - 1, Level::chip, 255, 65535};
    CHECK(unpack_sem(pack(highest)) == highest);
    CHECK(pack({1, Level::tile, 0, 0}) == std::uint64_t{1} << 27);
    CHECK(pack({0, Level::cluster, 0, 0}) == std::uint64_t{1} << 24);
    CHECK(pack({0, Level::tile, 1, 0}) == std::uint64_t{1} << 16);
    CHECK(pack({0, Level::tile, 0, 1}) == 1);
}
