// SPDX-License-Identifier: Apache-2.0
// Do messages meet in their ports as a reference says that lets so many bytes cross in each cycle?
#include "sim/noc/control_plane.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "tests/sim/test_chip.hpp"

using namespace sluice;

namespace {

struct Letter {
    Cycle at = 0;
    sim::Endpoint from = 0, to = 0;
    Cycle latency = 1;
    Cycle delivered = 0;
};

struct Bench final : sim::EventTarget, sim::MessageReceiver {
    explicit Bench(const isa::ChipSpec& chip)
        : scheduler("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(chip.clock.core_hz))),
          plane("control_plane", chip, scheduler) {}
    void run(std::vector<Letter>& traffic) {
        letters = &traffic;
        for (std::size_t i = 0; i < traffic.size(); ++i) {
            scheduler.at(traffic[i].at, sim::Phase::arrive, *this, 0, i);
        }
        scheduler.run();
    }
    void on_event(std::uint32_t, std::uint64_t i) override {
        const Letter& letter = (*letters)[i];
        plane.send(letter.from, letter.to, letter.latency, *this, i);
    }
    void on_message(std::uint64_t i) override { (*letters)[i].delivered = scheduler.now(); }

    sim::Scheduler scheduler;
    sim::ControlPlane plane;
    std::vector<Letter>* letters = nullptr;
};

/// A port as a row of cycles with so many bytes left in each; a message takes what it finds, from `ready` on and not
/// before the one ahead of it. Returns the cycle of its first byte.
class Port {
public:
    Cycle cross(Cycle ready, std::int64_t bytes, std::int64_t width) {
        Cycle cycle = std::max(ready, last_);
        while (used_[cycle] == width) {
            ++cycle;
        }
        const Cycle first = cycle;
        for (std::int64_t left = bytes; left > 0; ++cycle) {
            const std::int64_t taken = std::min(left, width - used_[cycle]);
            used_[cycle] += taken;
            left -= taken;
            last_ = cycle;
        }
        return first;
    }

private:
    std::map<Cycle, std::int64_t> used_;
    Cycle last_ = 0;
};

std::vector<Cycle> reference(const std::vector<Letter>& letters, const isa::ChipSpec& chip) {
    const std::int64_t bytes = chip.noc.control_message_bytes;
    const std::int64_t width = chip.noc.control_port_bytes_per_cycle;
    std::map<sim::Endpoint, Port> out, in;
    std::multimap<Cycle, std::size_t> sends, arrivals;
    std::vector<Cycle> delivered(letters.size());
    for (std::size_t i = 0; i < letters.size(); ++i) {
        sends.emplace(letters[i].at, i);
    }
    for (const auto& [at, i] : sends) {
        const Letter& letter = letters[i];
        if (letter.from == letter.to) {
            delivered[i] = at + letter.latency;
        } else {
            arrivals.emplace(out[letter.from].cross(at, bytes, width) + letter.latency, i);
        }
    }
    for (const auto& [at, i] : arrivals) {
        delivered[i] = in[letters[i].to].cross(at, bytes, width);
    }
    return delivered;
}

}  // namespace

TEST_CASE("a message alone takes the latency of its way") {
    const sim::SimulationContext simulation;
    Bench bench(test::maia200());
    std::vector<Letter> letters{{10, 0, 1, 24, 0}, {50, 3, 3, 4, 0}, {90, 0, 40, 80, 0}};
    bench.run(letters);
    for (const Letter& letter : letters) {
        CHECK(letter.delivered == letter.at + letter.latency);
    }
    CHECK(bench.plane.under_way() == 0);
}

TEST_CASE("messages that leave one endpoint, or reach one, in one cycle follow each other") {
    const sim::SimulationContext simulation;
    Bench bench(test::maia200());
    std::vector<Letter> letters;
    for (sim::Endpoint to = 1; to <= 5; ++to) {
        letters.push_back({100, 0, to, 24, 0});
    }
    for (sim::Endpoint from = 11; from <= 15; ++from) {
        letters.push_back({500, from, 10, 24, 0});
    }
    bench.run(letters);
    for (std::size_t i = 0; i < 5; ++i) {
        CHECK(letters[i].delivered == 100 + 24 + i);
        CHECK(letters[5 + i].delivered == 500 + 24 + i);
    }
}

TEST_CASE("random messages are delivered in the cycles of the reference") {
    std::mt19937_64 random(4);
    for (int round = 0; round < 200; ++round) {
        isa::ChipSpec chip = test::maia200();
        chip.noc.control_port_bytes_per_cycle = static_cast<std::int64_t>(1 + random() % 48);
        chip.noc.control_message_bytes = static_cast<std::int64_t>(1 + random() % 48);
        std::vector<Letter> letters;
        // Latencies depend on the ends alone, so that messages of one sender to one receiver do not overtake.
        for (int i = 0; i < 60; ++i) {
            const auto from = static_cast<sim::Endpoint>(random() % 6);
            const auto to = static_cast<sim::Endpoint>(random() % 6);
            letters.push_back({random() % 40, from, to, 1 + (from * 7 + to * 3) % 30, 0});
        }
        std::stable_sort(letters.begin(), letters.end(), [](const Letter& a, const Letter& b) { return a.at < b.at; });
        const sim::SimulationContext simulation;
        Bench bench(chip);
        bench.run(letters);
        const std::vector<Cycle> expected = reference(letters, chip);
        std::vector<Cycle> delivered;
        delivered.reserve(letters.size());
        for (const Letter& letter : letters) {
            delivered.push_back(letter.delivered);
        }
        REQUIRE(delivered == expected);
    }
}
