// SPDX-License-Identifier: Apache-2.0
// Does the HBM deliver what its timing allows: streams near peak, refresh at its closed-form cost, random accesses at
// the four-activate limit?
#include <catch2/catch.hpp>
#include <random>

#include "sim/mem/hbm.hpp"
#include "sim/run.hpp"
#include "tests/sim/hbm_checker.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

double fraction_of_peak(const isa::ChipSpec& chip, const isa::Program& p) {
    const sim::RunResult result = sim::run(chip, p);
    return static_cast<double>(result.hbm_read + result.hbm_written) / static_cast<double>(result.cycles) /
           isa::hbm_bytes_per_cycle(chip);
}

/// Pseudo-channel 0 alone, fed with requests; counts what comes back and when.
struct Feed final : sim::EventTarget, sim::DataPort {
    explicit Feed(const isa::ChipSpec& spec)
        : chip(spec),
          scheduler("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(spec.clock.core_hz))),
          context(chip, scheduler, packets, *this),
          channel("pc0", context, 0) {}
    void ask(Cycle at, std::uint32_t row, std::uint8_t set, std::uint8_t beats, bool write = false,
             std::uint8_t first_beat = 0) {
        sim::PacketId id = packets.take();
        packets[id].transfer = &transfer;
        packets[id].src_place = packets[id].dst_place = {row, 0, 0, set, first_beat, beats};
        scheduler.at(at, sim::Phase::arrive, *this, write ? 1 : 0, id);
        ++outstanding;
    }
    void on_event(std::uint32_t kind, std::uint64_t payload) override {
        channel.push(static_cast<sim::PacketId>(payload), kind == 1);
    }
    void read_done(sim::PacketId, Cycle cycle) override { done(cycle); }
    void write_done(sim::PacketId, Cycle cycle) override { done(cycle); }
    void done(Cycle cycle) {
        --outstanding;
        last = std::max(last, cycle);
    }

    isa::ChipSpec chip;
    sim::Scheduler scheduler;
    sim::PacketPool packets;
    sim::HbmContext context;
    sim::PseudoChannel channel;
    sim::Transfer transfer;
    std::size_t outstanding = 0;
    Cycle last = 0;
};

/// Data bus use of one pseudo-channel under a backlog of random accesses of `beats`.
double random_use(std::uint8_t beats, const std::string& refresh) {
    isa::ChipSpec chip = maia200();
    chip.hbm.refresh = refresh;
    const sim::SimulationContext simulation;
    Feed feed(chip);
    std::mt19937_64 random(beats);
    constexpr int kAccesses = 20'000;
    for (int i = 0; i < kAccesses; ++i) {
        feed.ask(static_cast<Cycle>(i) / 4, static_cast<std::uint32_t>(random() % 1000),
                 static_cast<std::uint8_t>(random() % 12), beats, false,
                 static_cast<std::uint8_t>(random() % (33U - beats)));
    }
    feed.scheduler.run();
    CHECK(feed.outstanding == 0);
    const double bus_cycles = 2.0 * kAccesses * beats;
    return bus_cycles / (static_cast<double>(feed.last) * 9.115e9 / 4 / 2e9);
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

TEST_CASE("all-bank refresh costs its share of every interval") {
    // nREFI less what a refresh takes from the data bus: closing the rows after the last read, nRFC, opening again.
    isa::ChipSpec chip = maia200();
    const auto cycles = [&](const std::string& refresh) {
        chip.hbm.refresh = refresh;
        const sim::SimulationContext simulation;
        Feed feed(chip);
        for (std::uint32_t i = 0; i < 20'000; ++i) {
            feed.ask(i / 4, i / 48, static_cast<std::uint8_t>(i / 4 % 12), 32);
        }
        feed.scheduler.run();
        return static_cast<double>(feed.last);
    };
    const double none = cycles("none");
    const double all = cycles("all_bank");
    const isa::HbmTimingSpec& t = chip.hbm.timing;
    const double lost = static_cast<double>(t.nrtp + t.nrp + t.nrfc + t.nrcdrd) / static_cast<double>(t.nrefi);
    CHECK(none * 9.115e9 / 4 / 2e9 == Approx(20'000 * 64.0).epsilon(0.005));
    CHECK(none / all == Approx(1 - lost).epsilon(0.01));
    CHECK(none / cycles("per_bank") > 0.97);
}

TEST_CASE("random accesses of one row buffer each are bound by four activates per nFAW") {
    // One beat an ACT: 4 x 2 CK of data per 35 CK. Known figures: 22.9 % (closed form and Ramulator 2.1).
    CHECK(random_use(1, "none") == Approx(4 * 2 / 35.0).epsilon(0.02));
    // A whole granule opens four rows for 64 CK of data: the bus is the limit.
    CHECK(random_use(32, "none") > 0.97);
    CHECK(random_use(32, "per_bank") > 0.93);
    // Half a granule: four ACTs in 35 CK against 32 CK of data.
    CHECK(random_use(16, "none") == Approx(32 / 35.0).epsilon(0.03));
}

TEST_CASE("reads and writes together keep the bus busy by turning it seldom") {
    const sim::SimulationContext simulation;
    isa::ChipSpec chip = maia200();
    chip.hbm.refresh = "none";
    Feed feed(chip);
    std::mt19937_64 random(9);
    constexpr int kAccesses = 10'000;
    for (int i = 0; i < kAccesses; ++i) {
        feed.ask(static_cast<Cycle>(i) / 4, static_cast<std::uint32_t>(random() % 1000),
                 static_cast<std::uint8_t>(random() % 12), 32, random() % 3 == 0);
    }
    feed.scheduler.run();
    const double use = 64.0 * kAccesses / (static_cast<double>(feed.last) * 9.115e9 / 4 / 2e9);
    // A pair of turns loses nRTW - 2 and nCWL + 2 + nWTRS - 2 CK; batches of half a window of 32 packets would give 95
    // %.
    CHECK(use > 0.88);
    CHECK(feed.channel.counts().read_beats + feed.channel.counts().written_beats == kAccesses * 32ULL);
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
