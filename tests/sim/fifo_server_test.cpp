// SPDX-License-Identifier: Apache-2.0
// Does the closed form move the same bytes in the same cycles as a server that moves them cycle by cycle?
#include "sim/core/fifo_server.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace sluice;

namespace {

struct Offer {
    Cycle ready;
    std::uint64_t bytes;
};

/// Every cycle: as many bytes as the width allows from the oldest packets that are ready.
std::vector<sim::Crossing> cycle_by_cycle(const std::vector<Offer>& offers, std::uint64_t width) {
    std::vector<sim::Crossing> crossings(offers.size());
    std::size_t front = 0;
    std::uint64_t left = offers.empty() ? 0 : offers[0].bytes;
    bool started = false;
    for (Cycle cycle = 0; front < offers.size(); ++cycle) {
        std::uint64_t budget = width;
        while (budget > 0 && front < offers.size() && offers[front].ready <= cycle) {
            if (!started) {
                crossings[front].head = cycle;
                started = true;
            }
            const std::uint64_t moved = std::min(budget, left);
            left -= moved;
            budget -= moved;
            if (left == 0) {
                crossings[front].tail = cycle + 1;
                started = false;
                ++front;
                left = front < offers.size() ? offers[front].bytes : 0;
            }
        }
    }
    return crossings;
}

}  // namespace

TEST_CASE("random packets cross in the same cycles as byte by byte") {
    std::mt19937_64 random(7);
    for (const std::uint64_t width : {1ULL, 32ULL, 100ULL, 128ULL, 640ULL, 1024ULL, 2048ULL}) {
        for (const std::uint64_t density : {1ULL, 3ULL, 20ULL}) {
            std::vector<Offer> offers;
            Cycle ready = 0;
            for (int i = 0; i < 500; ++i) {
                ready += random() % (density * (1024 / width + 1));
                offers.push_back({ready, 1 + random() % 1024});
            }
            sim::FifoServer server("server", static_cast<std::int64_t>(width));
            const std::vector<sim::Crossing> expected = cycle_by_cycle(offers, width);
            std::uint64_t total = 0;
            for (std::size_t i = 0; i < offers.size(); ++i) {
                const sim::Crossing got = server.reserve(offers[i].ready, offers[i].bytes);
                REQUIRE(got.head == expected[i].head);
                REQUIRE(got.tail == expected[i].tail);
                total += offers[i].bytes;
            }
            CHECK(server.bytes() == total);
            CHECK(server.packets() == offers.size());
        }
    }
}

TEST_CASE("a packet waits from when it is ready to when the one before it has crossed") {
    sim::FifoServer server("port", 32);
    server.reserve(10, 64);   // cycles 10 and 11
    server.reserve(10, 16);   // waits for 2 cycles, crosses in the first half of cycle 12
    server.reserve(12, 16);   // waits for half a cycle
    server.reserve(100, 64);  // finds it free
    CHECK(server.waited_cycles() == 2.5);
}

TEST_CASE("no capacity is lost to rounding: 1 KiB packets through 640 bytes per cycle take 1.6 cycles") {
    sim::FifoServer server("port", 640);
    sim::Crossing last;
    for (int i = 0; i < 5; ++i) {
        last = server.reserve(0, 1024);
    }
    CHECK(last.tail == 8);  // 5 x 1.6
}
