// SPDX-License-Identifier: Apache-2.0
// Does the wheel deliver in the order of (cycle, phase, first in first out), near and far?
#include "sim/core/wheel.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <tuple>

#include "isa/errors.hpp"

using namespace sluice;
using sim::Phase;

namespace {

struct Recorder : sim::EventTarget {
    explicit Recorder(sim::TimingWheel& owner) : wheel(owner) {}
    void on_event(std::uint32_t kind, std::uint64_t payload) override { seen.emplace_back(wheel.now(), kind, payload); }
    sim::TimingWheel& wheel;
    std::vector<std::tuple<Cycle, std::uint32_t, std::uint64_t>> seen;
};

void drain(sim::TimingWheel& wheel) {
    while (!wheel.empty()) {
        wheel.run_cycle(wheel.next_cycle());
    }
}

}  // namespace

TEST_CASE("events of a cycle come in the order in which they were put, arrivals before arbitration") {
    sim::TimingWheel wheel;
    Recorder recorder(wheel);
    wheel.push(5, Phase::arbitrate, recorder, 0, 1);
    wheel.push(5, Phase::arrive, recorder, 0, 2);
    wheel.push(5, Phase::arbitrate, recorder, 0, 3);
    wheel.push(5, Phase::arrive, recorder, 0, 4);
    wheel.push(2, Phase::arbitrate, recorder, 0, 5);
    drain(wheel);
    const std::vector<std::uint64_t> order{5, 2, 4, 1, 3};
    REQUIRE(recorder.seen.size() == order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        CHECK(std::get<2>(recorder.seen[i]) == order[i]);
    }
    CHECK(wheel.delivered() == order.size());
}

TEST_CASE("an event for the present cycle runs in it, in the present phase if its own is over") {
    struct Chain : sim::EventTarget {
        explicit Chain(sim::TimingWheel& owner) : wheel(owner) {}
        void on_event(std::uint32_t, std::uint64_t payload) override {
            order.push_back(payload);
            if (payload == 0) {
                wheel.push(wheel.now(), Phase::arrive, *this, 0, 1);
                wheel.push(wheel.now(), Phase::arbitrate, *this, 0, 2);
            } else if (payload == 2) {
                wheel.push(wheel.now(), Phase::arrive, *this, 0, 3);
            }
        }
        sim::TimingWheel& wheel;
        std::vector<std::uint64_t> order;
    };
    sim::TimingWheel wheel;
    Chain chain(wheel);
    wheel.push(7, Phase::arrive, chain, 0, 0);
    wheel.push(7, Phase::arbitrate, chain, 0, 9);
    wheel.run_cycle(7);
    CHECK(chain.order == std::vector<std::uint64_t>{0, 1, 9, 2, 3});
    CHECK(wheel.empty());
}

TEST_CASE("an event beyond the wheel keeps its place before those put later") {
    sim::TimingWheel wheel;
    Recorder recorder(wheel);
    const Cycle far = 3 * sim::TimingWheel::kBuckets + 17;
    wheel.push(far, Phase::arrive, recorder, 0, 1);
    wheel.push(far - 1, Phase::arrive, recorder, 0, 0);
    wheel.run_cycle(wheel.next_cycle());  // far is now within reach
    wheel.push(far, Phase::arrive, recorder, 0, 2);
    drain(wheel);
    REQUIRE(recorder.seen.size() == 3);
    CHECK(recorder.seen[1] == std::make_tuple(far, 0U, std::uint64_t{1}));
    CHECK(recorder.seen[2] == std::make_tuple(far, 0U, std::uint64_t{2}));
}

TEST_CASE("random events come out as a stable sort would put them") {
    std::mt19937_64 random(1);
    sim::TimingWheel wheel;
    Recorder recorder(wheel);
    std::vector<std::tuple<Cycle, int, std::uint64_t>> expected;
    for (std::uint64_t i = 0; i < 20000; ++i) {
        const Cycle cycle = random() % 3 == 0 ? random() % 100000 : random() % 5000;
        const int phase = static_cast<int>(random() % 2);
        wheel.push(cycle, static_cast<Phase>(phase), recorder, static_cast<std::uint32_t>(phase), i);
        expected.emplace_back(cycle, phase, i);
    }
    drain(wheel);
    std::sort(expected.begin(), expected.end());  // i makes it stable
    REQUIRE(recorder.seen.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(std::get<0>(recorder.seen[i]) == std::get<0>(expected[i]));
        REQUIRE(std::get<2>(recorder.seen[i]) == std::get<2>(expected[i]));
    }
}

TEST_CASE("an event in the past is an invariant error") {
    sim::TimingWheel wheel;
    Recorder recorder(wheel);
    wheel.push(10, Phase::arrive, recorder, 0, 0);
    wheel.run_cycle(10);
    CHECK_THROWS_AS(wheel.push(9, Phase::arrive, recorder, 0, 0), InvariantError);
}
