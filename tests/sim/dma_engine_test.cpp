// SPDX-License-Identifier: Apache-2.0
// Does a DMA engine send, complete and account for its cycles as its rule says? Its network is the test's: a packet
// lands when the test says so.
#include "sim/engine/dma_engine.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <initializer_list>
#include <map>
#include <random>

#include "sim/engine/resolve.hpp"
#include "tests/sim/dma_reference.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

// ---- the engine -----------------------------------------------------------------------------------------------------

/// A job's own semaphore, which tells of its completion; those below are for waits.
constexpr std::int64_t kCompletion = 40;

/// Two clusters of two tiles.
isa::ChipSpec chip_of(const Case& life) {
    static const isa::ChipSpec kToy = toy();
    isa::ChipSpec chip = kToy;
    chip.soc.clusters = 2;
    chip.noc.packet_bytes = life.packet_bytes;
    chip.control.queue_depth = life.queue_depth;
    chip.control.max_waits = chip.control.max_signals = 8;
    chip.semaphores.latency_local_cycles = chip.semaphores.latency_cluster_cycles =
        static_cast<std::int64_t>(life.signal_latency);
    return chip;
}

/// One engine, with a control processor, a data network and a network for signals that do what the case says.
class Bench final : public sim::EventTarget,
                    public sim::PacketNetwork,
                    public sim::MessageNetwork,
                    public sim::SlotWaiter {
public:
    explicit Bench(const Case& life)
        : case_(life),
          chip_(chip_of(life)),
          scheduler_("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(chip_.clock.core_hz))),
          context_(chip_, program_, scheduler_, *this, *this, ledger_),
          engine_("dma", context_, life.location, life.dma),
          waiters_(life.jobs.size()),
          sent_of_(life.jobs.size()) {
        context_.tsram.assign(static_cast<std::size_t>(isa::tile_count(chip_)), &traffic_);
    }

    Life run() {
        found_.completed.assign(case_.jobs.size(), 0);
        for (std::size_t i = 0; i < case_.jobs.size(); ++i) {
            waiters_[i].bench = this;
            waiters_[i].job = i;
            context_.semaphores.enlist(semaphore(static_cast<std::size_t>(kCompletion) + i), waiters_[i]);
        }
        for (sim::Lane& lane : engine_.lanes()) {
            lane.control_started();
        }
        for (std::size_t i = 0; i < case_.outside.size(); ++i) {
            scheduler_.at(case_.outside[i].sent, sim::Phase::arrive, *this, kOutside, i);
        }
        scheduler_.at(0, sim::Phase::arrive, *this, kIssue);
        scheduler_.run();
        check_end();
        return found_;
    }

    sim::Packet& prepare(sim::PacketId& id) override {
        id = static_cast<sim::PacketId>(packets_.size());
        return packets_.emplace_back();
    }
    void launch(sim::PacketId id) override {
        sim::Packet& packet = packets_[id];
        const std::size_t job = job_of_.at(packet.transfer);
        found_.sent.push_back({scheduler_.now(), job, piece_of(packet)});
        const Flight times = flight(case_, case_.jobs[job], sent_of_[job]++);
        packet.landed = scheduler_.now() + times.landing;
        if (times.certain == 0) {
            packet.owner->on_landing(packet, packet.landed);
        } else {
            const bool late = times.certain < times.landing && id % 2 == 0;  // in its cycle; ahead of time in any phase
            scheduler_.after(times.certain, late ? sim::Phase::arbitrate : sim::Phase::arrive, *this, kCertain, id);
        }
    }
    void send(sim::Endpoint, sim::Endpoint, Cycle latency, sim::MessageReceiver& receiver,
              std::uint64_t payload) override {
        messages_.push_back({&receiver, payload});
        scheduler_.after(latency, sim::Phase::arrive, *this, kMessage, messages_.size() - 1);
    }
    void on_slot(sim::Cause) override { scheduler_.after(0, sim::Phase::arrive, *this, kIssue); }

    void on_event(std::uint32_t kind, std::uint64_t payload) override {
        const auto index = static_cast<std::size_t>(payload);
        switch (kind) {
            case kIssue: issue(); return;
            case kCertain: packets_[index].owner->on_landing(packets_[index], packets_[index].landed); return;
            case kMessage: messages_[index].receiver->on_message(messages_[index].payload); return;
            case kOutside: signal(case_.outside[index]); return;
        }
    }

private:
    enum Kind : std::uint32_t { kIssue, kCertain, kMessage, kOutside };
    struct Message {
        sim::MessageReceiver* receiver;
        std::uint64_t payload;
    };
    struct Waiter final : sim::SemWaiter {
        void on_semaphore(sim::Cause) override {
            bench->found_.completed[job] = bench->scheduler_.now() - bench->case_.signal_latency;
        }
        Bench* bench = nullptr;
        std::size_t job = 0;
    };

    static Piece piece_of(const sim::Packet& packet) {
        return {packet.src_offset, packet.dst_offset, packet.src_bytes, packet.dst_bytes, packet.wire_bytes};
    }
    [[nodiscard]] sim::SemIndex semaphore(std::size_t number) const {
        return context_.semaphores.index(case_.location.level, case_.location.unit, static_cast<std::int64_t>(number),
                                         "test");
    }
    void signal(const Outside& outside) {
        const auto index = static_cast<std::uint32_t>(outside.semaphore);
        context_.semaphores.signal(case_.location, {case_.location.level, case_.location.unit, 0, index, outside.count},
                                   {}, &where_);
    }

    /// One after the other; waits for a place in a queue.
    void issue() {
        for (; next_ < case_.jobs.size(); ++next_) {
            const Job& job = case_.jobs[next_];
            if (job.issued > scheduler_.now()) {
                scheduler_.at(job.issued, sim::Phase::arrive, *this, kIssue);
                return;
            }
            sim::Lane& lane = engine_.lanes()[job.channel];
            if (lane.full()) {
                lane.wait_for_slot(*this);
                return;
            }
            sim::Task* task = sim::resolve(job.instruction, {}, case_.location, where_, context_);
            job_of_[task] = next_;
            lane.push(task);
        }
        for (sim::Lane& lane : engine_.lanes()) {
            lane.control_finished();
        }
    }

    void check_end() {
        CHECK(context_.tasks.in_use() == 0);
        const Cycle end = context_.end.at;
        engine_.check_conserved(end);
        for (sim::Lane& lane : engine_.lanes()) {
            const sim::EngineAccount account = lane.finish(end);
            const auto waiting = [&](sim::WaitKind kind) { return account.waiting[static_cast<std::size_t>(kind)]; };
            found_.accounts.push_back({account.busy, waiting(sim::WaitKind::memory), waiting(sim::WaitKind::semaphore),
                                       waiting(sim::WaitKind::control), account.idle});
        }
    }

    const Case& case_;
    isa::ChipSpec chip_;
    isa::Program program_;
    sim::Scheduler scheduler_;
    sim::Ledger ledger_{0};
    sim::EngineContext context_;
    sim::DmaEngine engine_;
    sim::TsramTraffic traffic_;
    std::deque<sim::Packet> packets_;
    std::vector<Message> messages_;
    std::deque<Waiter> waiters_;
    std::map<const sim::Transfer*, std::size_t> job_of_;  // of the tasks that are alive
    std::vector<std::size_t> sent_of_;                    // packets, by job
    std::size_t next_ = 0;
    std::string where_ = "test";
    Life found_;
};

// ---- random lives ---------------------------------------------------------------------------------------------------

struct Random {
    std::mt19937_64 source;
    std::int64_t operator()(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(source);
    }
    bool one_in(std::int64_t n) { return (*this)(1, n) == 1; }
    template <class Value>
    Value one_of(std::initializer_list<Value> values) {
        return *(values.begin() + (*this)(0, static_cast<std::int64_t>(values.size()) - 1));
    }
};

isa::MemRef own(const sim::Location& location, std::int64_t offset) {
    return location.level == isa::Level::tile ? tsram_at(location.unit, offset) : csram_at(location.unit, offset);
}

isa::MemRef random_end(Random& random, const sim::Location& location, bool destination) {
    const std::int64_t offset = random(100'000, 110'000);
    const std::uint64_t mask = destination && random.one_in(3) ? static_cast<std::uint64_t>(random(1, 3)) : 0;
    switch (random(0, 4)) {
        case 0: return hbm_at(offset);
        case 1: return mask != 0 ? csram_at(0, offset, mask) : csram_at(random(0, 1), offset);
        case 2: return mask != 0 ? tsram_at(2 * random(0, 1), offset, mask) : tsram_at(random(0, 3), offset);
        default: return own(location, offset);
    }
}

isa::DmaMacro random_copy(Random& random, const sim::Location& location, std::int64_t longest_run) {
    const isa::MemRef src = random_end(random, location, false);
    const isa::MemRef dst = random_end(random, location, true);
    isa::DmaMacro macro = copy(src, dst, random.one_in(20) ? 0 : random(1, longest_run));
    for (std::int64_t i = random.one_of({0, 0, 1, 2}); i > 0; --i) {
        macro.dims.push_back({random(random.one_in(20) ? 0 : 1, 3), random(-4000, 4000), random(-4000, 4000)});
    }
    const bool within_hbm = macro.src.space == isa::Space::hbm && macro.dst.space == isa::Space::hbm;
    if (!within_hbm && random.one_in(3)) {
        using isa::Format;
        macro.src_format = random.one_of({Format::e4m3, Format::bf16, Format::fp32});
        macro.dst_format = random.one_of({Format::e4m3, Format::bf16, Format::fp32});
        macro.run_bytes.base = (macro.run_bytes.base + 3) / 4 * 4;  // whole elements
    }
    return macro;
}

isa::SemUse use(const Case& life, std::size_t semaphore, std::int64_t count) {
    return {{life.location.level, life.location.unit, 0, static_cast<std::int64_t>(semaphore)}, count};
}

/// Waits for what jobs before it and others signal. Each channel has semaphores of its own, so that none takes what
/// another one waits for.
void add_waits(Random& random, Case& life, std::size_t i) {
    for (std::size_t s = 0; s < 2; ++s) {
        if (!random.one_in(5)) {
            continue;
        }
        const std::size_t semaphore = 2 * life.jobs[i].channel + s;
        const std::int64_t count = random(1, 3);
        life.jobs[i].instruction.waits.push_back(use(life, semaphore, count));
        for (std::int64_t missing = count; missing > 0;) {
            const std::int64_t part = random(1, missing);
            missing -= part;
            const auto from = static_cast<std::size_t>(random(0, static_cast<std::int64_t>(i)));
            if (from == i || life.jobs[from].instruction.signals.size() == 8) {
                life.outside.push_back({static_cast<Cycle>(random(0, 300)), semaphore, part});
            } else {
                life.jobs[from].instruction.signals.push_back(use(life, semaphore, part));
            }
        }
    }
}

Case random_case(std::uint64_t seed) {
    Random random{std::mt19937_64(seed)};
    Case life;
    life.location = random.one_in(2) ? sim::Location{isa::Level::tile, static_cast<std::uint32_t>(random(0, 3))}
                                     : sim::Location{isa::Level::cluster, static_cast<std::uint32_t>(random(0, 1))};
    life.dma.channels = random(1, 8);
    life.dma.setup_cycles = random.one_of({std::int64_t{1}, random(1, 40)});
    life.dma.bytes_per_cycle = random.one_of({std::int64_t{128}, random(1, 60), random(1, 2000)});
    life.dma.max_inflight_bytes = random.one_of({random(32, 300), random(300, 5000), std::int64_t{100'000}});
    life.queue_depth = random.one_of({1, 2, 16});
    life.packet_bytes = random.one_of({std::int64_t{64}, std::int64_t{1024}, random(1, 1500)});
    life.signal_latency = static_cast<Cycle>(random(1, 10));
    life.longest_flight = static_cast<Cycle>(random.one_of({1, 20, 20, 200}));
    life.shortest_flight = static_cast<Cycle>(random(1, static_cast<std::int64_t>(life.longest_flight)));
    const std::int64_t longest_run = std::min<std::int64_t>(random.one_of({20, 500, 3000}),
                                                            std::min(life.dma.bytes_per_cycle, life.packet_bytes) * 30);
    life.jobs.resize(static_cast<std::size_t>(random(1, 8)));
    Cycle at = 0;
    for (std::size_t i = 0; i < life.jobs.size(); ++i) {
        Job& job = life.jobs[i];
        at += static_cast<Cycle>(random.one_in(2) ? 0 : random(0, 100));
        job.issued = at;
        job.channel = static_cast<std::size_t>(random(0, life.dma.channels - 1));
        job.seed = random.source();
        job.instruction.signals.push_back(use(life, static_cast<std::size_t>(kCompletion) + i, 1));
        if (random.one_in(8)) {
            job.instruction.macro = isa::FenceMacro{};
        } else {
            job.instruction.macro = random_copy(random, life.location, longest_run);
        }
        add_waits(random, life, i);
    }
    return life;
}

Life run(const Case& life) {
    const sim::SimulationContext simulation;
    return Bench(life).run();
}

void check_same(const Life& found, const Life& expected) {
    for (std::size_t i = 0; i < std::min(found.sent.size(), expected.sent.size()); ++i) {
        INFO("packet " << i << " of job " << expected.sent[i].job << " at " << expected.sent[i].at << ", found job "
                       << found.sent[i].job << " at " << found.sent[i].at);
        REQUIRE(found.sent[i] == expected.sent[i]);
    }
    REQUIRE(found.sent.size() == expected.sent.size());
    REQUIRE(found.completed == expected.completed);
    REQUIRE(found.accounts == expected.accounts);
}

}  // namespace

TEST_CASE("random descriptors are sent, completed and accounted for as by the reference") {
    for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
        INFO("seed " << seed);
        const Case life = random_case(seed);
        check_same(run(life), DmaReference(life).run());
    }
}

// ---- closed forms ---------------------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kPacket = 1024;
constexpr std::int64_t kWidth = 128;
constexpr Cycle kCross = kPacket / kWidth;
constexpr Cycle kSetup = 16;

Case plain(Cycle flight_cycles = 1) {
    Case life;
    life.dma.channels = 2;
    life.dma.setup_cycles = kSetup;
    life.dma.bytes_per_cycle = kWidth;
    life.dma.max_inflight_bytes = 1 << 20;
    life.shortest_flight = life.longest_flight = flight_cycles;
    return life;
}

void add(Case& life, std::size_t channel, isa::Macro macro) {
    const std::size_t own_semaphore = static_cast<std::size_t>(kCompletion) + life.jobs.size();
    Job job;
    job.channel = channel;
    job.instruction.macro = std::move(macro);
    job.instruction.signals.push_back(use(life, own_semaphore, 1));
    life.jobs.push_back(job);
}
isa::DmaMacro inward(std::int64_t packets) {
    return copy(hbm_at(0), tsram_at(0, 0), packets * kPacket);
}
isa::DmaMacro outward(std::int64_t packets) {
    return copy(tsram_at(0, 0), hbm_at(0), packets * kPacket);
}

}  // namespace

TEST_CASE("a channel streams at the width of its path, without a gap between descriptors") {
    for (const std::uint64_t width : {1, 100, 128, 1000, 1024, 2000}) {
        Case life = plain();
        life.dma.bytes_per_cycle = static_cast<std::int64_t>(width);
        for (int i = 0; i < 3; ++i) {
            add(life, 0, inward(40));
        }
        const Life found = run(life);
        REQUIRE(found.sent.size() == 120);
        for (std::size_t i = 0; i < 120; ++i) {
            CHECK(found.sent[i].at == kSetup + i * kPacket / width);
        }
    }
}

TEST_CASE("a set-up hides behind a descriptor that takes as long") {
    for (const std::size_t packets : {1, 2, 3}) {  // 8, 16 and 24 cycles
        Case life = plain();
        for (int i = 0; i < 10; ++i) {
            add(life, 0, inward(static_cast<std::int64_t>(packets)));
        }
        const Life found = run(life);
        REQUIRE(found.sent.size() == 10 * packets);
        for (std::size_t i = 0; i < 10; ++i) {
            CHECK(found.sent[i * packets].at == kSetup + i * std::max(packets * kCross, kSetup));
        }
    }
}

TEST_CASE("two channels have half of a path each, and the paths do not know of each other") {
    Case shared = plain();
    Case apart = plain();
    for (Case* life : {&shared, &apart}) {
        add(*life, 0, inward(10));
        add(*life, 1, life == &shared ? inward(10) : outward(10));
    }
    const Life in_turn = run(shared);
    const Life side_by_side = run(apart);
    for (std::size_t i = 0; i < 20; ++i) {
        CHECK(in_turn.sent.at(i).job == i % 2);
        CHECK(in_turn.sent[i].at == kSetup + i * kCross);
        CHECK(side_by_side.sent.at(i).at == kSetup + i / 2 * kCross);
    }
}

TEST_CASE("bytes under way are bandwidth times latency") {
    constexpr Cycle kFlight = 100;
    for (const std::size_t bound : {1, 2, 5, 12, 13, 20}) {  // packets; 13 take longer to send than one takes to land
        Case life = plain(kFlight);
        life.dma.max_inflight_bytes = static_cast<std::int64_t>(bound) * kPacket + kPacket - 1;
        add(life, 0, inward(100));
        const Life found = run(life);
        const Cycle round = std::max(kFlight, bound * kCross);
        REQUIRE(found.sent.size() == 100);
        for (std::size_t i = 0; i < 100; ++i) {
            CHECK(found.sent[i].at == kSetup + i / bound * round + i % bound * kCross);
        }
        CHECK(found.completed[0] == found.sent.back().at + kFlight);
    }
}

TEST_CASE("the bound is over both paths, and what is larger goes alone") {
    constexpr Cycle kFlight = 100;
    Case both = plain(kFlight);
    both.dma.max_inflight_bytes = 2 * kPacket;
    Case alone = plain(kFlight);
    alone.dma.max_inflight_bytes = kPacket - 1;
    for (Case* life : {&both, &alone}) {
        add(*life, 0, outward(10));
        add(*life, 1, inward(10));
    }
    const Life pairs = run(both);
    const Life one_by_one = run(alone);
    for (std::size_t i = 0; i < 20; ++i) {
        CHECK(pairs.sent.at(i).at == kSetup + i / 2 * kFlight);
        CHECK(one_by_one.sent.at(i).at == kSetup + i * kFlight);
        CHECK(one_by_one.sent[i].job == i / 10);  // in a cycle the outbound path goes first
    }
}

TEST_CASE("a conversion takes the larger of its two sides of a path") {
    Case life = plain();
    isa::DmaMacro narrows = outward(10);
    narrows.src_format = isa::Format::fp32;
    narrows.dst_format = isa::Format::bf16;
    isa::DmaMacro widens = inward(10);
    widens.src_format = isa::Format::bf16;
    widens.dst_format = isa::Format::fp32;
    add(life, 0, narrows);
    add(life, 1, widens);
    const Life found = run(life);
    std::array<std::size_t, 2> sent{};
    for (const Sent& packet : found.sent) {
        // Both are cut in HBM, where the bf16 side is: 1024 bytes there, 2048 in the SRAM.
        CHECK(packet.at == kSetup + sent.at(packet.job)++ * 2 * kCross);
        CHECK(packet.piece.src_bytes == (packet.job == 0 ? 2 : 1) * kPacket);
        CHECK(packet.piece.dst_bytes == (packet.job == 0 ? 1 : 2) * kPacket);
    }
    CHECK(sent == std::array<std::size_t, 2>{5, 10});
}

TEST_CASE("a descriptor completes when it and those before it in its channel have landed") {
    Case life = plain();
    life.longest_flight = 500;
    for (std::uint64_t i = 0; i < 20; ++i) {
        add(life, 0, inward(2));
        life.jobs.back().seed = i * 1000;
    }
    const Life found = run(life);
    for (std::size_t i = 0; i < 20; ++i) {
        Cycle landed = i == 0 ? 0 : found.completed[i - 1];
        for (std::size_t packet = 0; packet < 2; ++packet) {
            landed = std::max(landed, found.sent.at(2 * i + packet).at + flight(life, life.jobs[i], packet).landing);
        }
        CHECK(found.completed[i] == landed);
    }
}

TEST_CASE("a fence completes after those before it and holds up nobody but for its cycle") {
    constexpr Cycle kFlight = 100;
    Case life = plain(kFlight);
    add(life, 0, inward(1));
    add(life, 0, isa::FenceMacro{});
    add(life, 0, inward(1));
    add(life, 1, isa::FenceMacro{});
    const Life found = run(life);
    const Cycle second = kSetup + 1 + kSetup;  // one begins to be prepared when the one before it goes
    CHECK(found.sent.at(1).at == second);
    CHECK(found.completed == std::vector<Cycle>{kSetup + kFlight, kSetup + kFlight, second + kFlight, 1});
}

TEST_CASE("a multicast is one packet for all of its destinations") {
    Case life = plain(100);
    add(life, 0, copy(tsram_at(0, 0), tsram_at(2, 0, 0b11), 3 * kPacket));
    const Life found = run(life);
    CHECK(found.sent.size() == 3);
    CHECK(found.completed[0] == kSetup + 2 * kCross + 100);
}

TEST_CASE("a channel waits for its semaphores, is busy with its set-up, then waits for its packet to land") {
    constexpr Cycle kFlight = 100;
    Case life = plain(kFlight);
    add(life, 0, inward(1));
    life.jobs[0].instruction.waits.push_back(use(life, 0, 3));
    life.outside = {{10, 0, 2}, {30, 0, 1}};
    const Life found = run(life);
    const Cycle start = 30 + life.signal_latency;
    CHECK(found.sent.at(0).at == start + kSetup);
    CHECK(found.completed[0] == start + kSetup + kFlight);
    const std::array<Cycle, 5> first{kSetup, kFlight, start, 0, 0};
    const std::array<Cycle, 5> second{0, 0, 0, 0, start + kSetup + kFlight};
    CHECK(found.accounts == std::vector<std::array<Cycle, 5>>{first, second});
}
