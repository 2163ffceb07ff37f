// SPDX-License-Identifier: Apache-2.0
// Do credits say what room there is, and when?
#include "sim/core/link.hpp"

#include <catch2/catch.hpp>

using namespace sluice;
using sim::Credits;

TEST_CASE("room is taken, and comes back a latency after the packet has left") {
    sim::Link link("link", 128);
    Credits credits(link, 3000, 5);
    CHECK(credits.room(3000, 0));
    CHECK_FALSE(credits.room_from(1000) > 0);
    for (int i = 0; i < 3; ++i) {
        CHECK(credits.room(1000, 10));
        credits.take(1000);
    }
    CHECK_FALSE(credits.room(1, 10));
    CHECK(credits.room_from(1) == Credits::kNever);
    CHECK(credits.missing() == 3000);
    credits.give_back(1000, 20);
    credits.give_back(1000, 28);
    CHECK(credits.room_from(1000) == 25);
    CHECK(credits.room_from(1500) == 33);
    CHECK(credits.room_from(2500) == Credits::kNever);
    CHECK_FALSE(credits.room(1000, 24));
    CHECK(credits.room(1000, 25));
    CHECK(credits.missing() == 1000);
}

TEST_CASE("a packet that is larger than the buffer goes alone") {
    sim::Link link("link", 128);
    Credits credits(link, 1024, 1);
    CHECK(credits.room(4096, 0));
    credits.take(4096);
    CHECK_FALSE(credits.room(1, 0));
    credits.give_back(4096, 40);
    CHECK(credits.room_from(4096) == 41);
    CHECK(credits.room(4096, 41));
    CHECK(credits.missing() == 0);
}
