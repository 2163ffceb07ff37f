// SPDX-License-Identifier: Apache-2.0
// Does a DMA engine send, land and complete in the cycles that its rule gives? Its network is the test's: a packet
// lands when the test says so.
#include "sim/engine/dma_engine.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>

#include "sim/noc/control_plane.hpp"
#include "tests/sim/dma_reference.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

// ---- the engine -----------------------------------------------------------------------------------------------------

/// Messages arrive at once: a signal a fixed time after its job has completed.
isa::ChipSpec spec_with(const isa::DmaSpec& dma) {
    isa::ChipSpec chip = toy();
    chip.noc.control_port_bytes_per_cycle = 1 << 20;
    chip.control.queue_depth = 1000;
    chip.tdma = dma;
    return chip;
}

class Bench final : public sim::EventTarget, public sim::PacketNetwork {
public:
    Bench(const isa::DmaSpec& dma, const std::vector<Job>& jobs, std::int64_t longest_flight)
        : jobs_(jobs),
          longest_flight_(longest_flight),
          chip_(spec_with(dma)),
          scheduler_("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(chip_.clock.core_hz))),
          messages_("control_plane", chip_, scheduler_),
          ledger_(0),
          context_(chip_, program_, scheduler_, *this, messages_, ledger_),
          engine_("dma", context_, {isa::Level::tile, 0}, dma),
          waiters_(jobs.size()) {
        context_.tsram.assign(2, &traffic_);
        ledger_.reserve_nodes(1);
    }

    Life run() {
        life_.completed.assign(jobs_.size(), 0);
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            waiters_[i].bench = this;
            waiters_[i].job = i;
            context_.semaphores.enlist(semaphore(i), waiters_[i]);
            scheduler_.at(jobs_[i].pushed, sim::Phase::arrive, *this, kPush, i);
        }
        scheduler_.run();
        CHECK(context_.tasks.in_use() == 0);
        engine_.check_conserved(end_);
        for (sim::Lane& lane : engine_.lanes()) {
            const sim::EngineAccount account = lane.finish(end_);
            CHECK(account.waiting[static_cast<std::size_t>(sim::WaitKind::semaphore)] == 0);
            life_.accounts.push_back(
                {account.busy, account.waiting[static_cast<std::size_t>(sim::WaitKind::memory)], account.idle});
        }
        return life_;
    }

    sim::Packet& prepare(sim::PacketId& id) override {
        id = packets_.take();
        return packets_[id];
    }
    void launch(sim::PacketId id) override {
        const sim::Packet& packet = packets_[id];
        const std::size_t job = job_of_.at(packet.transfer);
        life_.sent.push_back(
            {scheduler_.now(), job, {packet.src_offset, packet.dst_offset, packet.src_bytes, packet.dst_bytes}});
        const Flight times = flight(jobs_[job], pieces_[job]++, longest_flight_);
        landings_[id] = scheduler_.now() + times.landing;
        scheduler_.after(times.certain, sim::Phase::arrive, *this, kCertain, id);
    }
    void on_event(std::uint32_t kind, std::uint64_t payload) override {
        if (kind == kPush) {
            push(payload);
        } else {
            const auto id = static_cast<sim::PacketId>(payload);
            packets_[id].owner->on_landing(packets_[id], landings_.at(id));
            packets_.give_back(id);
        }
    }

private:
    enum Kind : std::uint32_t { kPush, kCertain };
    struct Waiter final : sim::SemWaiter {
        void on_semaphore(sim::Cause cause) override {
            bench->life_.completed[job] = cause.at;
            bench->end_ = std::max(bench->end_, cause.at);
        }
        Bench* bench = nullptr;
        std::size_t job = 0;
    };

    [[nodiscard]] sim::SemIndex semaphore(std::size_t job) const {
        return context_.semaphores.index(isa::Level::tile, 0, static_cast<std::int64_t>(job), "test");
    }
    void push(std::size_t i) {
        const Job& job = jobs_[i];
        sim::Task* task = context_.tasks.take();
        task->text = job.fence ? &fence_ : &copy_;
        task->where = &where_;
        task->signals[task->signal_count++] = {isa::Level::tile, 0, 0, static_cast<std::uint32_t>(i), 1};
        if (!job.fence) {
            task->src.space = job.outward ? isa::Space::tsram : isa::Space::hbm;
            task->dst.space = job.outward ? isa::Space::hbm : isa::Space::tsram;
            task->outward = job.outward;
            task->walk.start(job.shape);
        }
        job_of_[task] = i;
        engine_.lanes()[job.channel].push(task);
    }

    const std::vector<Job>& jobs_;
    std::int64_t longest_flight_;
    isa::ChipSpec chip_;
    isa::Program program_;
    sim::Scheduler scheduler_;
    sim::ControlPlane messages_;
    sim::Ledger ledger_;
    sim::EngineContext context_;
    sim::DmaEngine engine_;
    sim::TsramTraffic traffic_;
    sim::PacketPool packets_;
    std::deque<Waiter> waiters_;
    std::map<const sim::Transfer*, std::size_t> job_of_;  // of the tasks that are alive
    std::map<std::size_t, std::size_t> pieces_;           // sent, by job
    std::map<sim::PacketId, Cycle> landings_;
    isa::Instruction copy_{tdma(), {}, isa::DmaMacro{}, {}, 0, "copy"};
    isa::Instruction fence_{tdma(), {}, isa::FenceMacro{}, {}, 0, "fence"};
    std::string where_ = "test";
    Life life_;
    Cycle end_ = 0;
};

// ---- random lives ---------------------------------------------------------------------------------------------------

struct Random {
    std::mt19937_64 source;
    std::int64_t operator()(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(source);
    }
};

sim::DmaWalk::Shape random_shape(Random& random) {
    sim::DmaWalk::Shape shape;
    shape.src_offset = static_cast<std::uint64_t>(random(100'000, 110'000));
    shape.dst_offset = static_cast<std::uint64_t>(random(100'000, 110'000));
    shape.run_bytes = random(1, random(0, 1) == 0 ? 100 : 3000);
    for (std::size_t i = 0; i < 2; ++i) {
        shape.counts[i] = random(0, 2) == 0 ? random(2, 4) : 1;
        shape.src_strides[i] = random(-4000, 4000);
        shape.dst_strides[i] = random(-4000, 4000);
    }
    shape.cut_src = random(0, 1) == 0;
    shape.cut_dst = !shape.cut_src || random(0, 1) == 0;
    if (random(0, 3) == 0) {  // conversion: whole elements of both sides
        shape.src_bits = random(0, 1) == 0 ? 8 : 32;
        shape.dst_bits = 16;
        shape.run_bytes = (shape.run_bytes + 3) / 4 * 4;
        shape.src_offset = shape.src_offset / 4 * 4;
        shape.dst_offset = shape.dst_offset / 4 * 4;
        for (std::size_t i = 0; i < 2; ++i) {
            shape.src_strides[i] = shape.src_strides[i] / 4 * 4;
            shape.dst_strides[i] = shape.dst_strides[i] / 4 * 4;
        }
        shape.cut_dst = !shape.cut_src;
    }
    return shape;
}

void check_same(const isa::DmaSpec& dma, const std::vector<Job>& jobs, std::int64_t longest_flight) {
    const Life expected = DmaReference(dma, jobs, longest_flight).run();
    const sim::SimulationContext simulation;
    const Life found = Bench(dma, jobs, longest_flight).run();
    REQUIRE(found.sent.size() == expected.sent.size());
    for (std::size_t i = 0; i < found.sent.size(); ++i) {
        INFO("packet " << i << " of job " << expected.sent[i].job << " at " << expected.sent[i].at << ", found job "
                       << found.sent[i].job << " at " << found.sent[i].at);
        REQUIRE(found.sent[i] == expected.sent[i]);
    }
    REQUIRE(found.completed == expected.completed);
    REQUIRE(found.accounts == expected.accounts);
}

}  // namespace

TEST_CASE("random descriptors are sent, completed and accounted for as by the reference") {
    for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
        INFO("seed " << seed);
        Random random{std::mt19937_64(seed)};
        isa::DmaSpec dma;
        dma.channels = random(1, 8);
        dma.setup_cycles = random(0, 40);
        dma.bytes_per_cycle = random(0, 1) == 0 ? 128 : random(1, 2000);
        dma.max_inflight_bytes = random(0, 1) == 0 ? random(1, 4000) : random(4000, 100'000);
        std::vector<Job> jobs(static_cast<std::size_t>(random(1, 6)));
        Cycle at = 0;
        for (Job& job : jobs) {
            at += static_cast<Cycle>(random(0, 1) == 0 ? 0 : random(0, 200));
            job.channel = static_cast<std::size_t>(random(0, dma.channels - 1));
            job.pushed = at;
            job.fence = random(0, 9) == 0;
            job.outward = random(0, 2) == 0;
            job.shape = random_shape(random);
            job.seed = random.source();
        }
        check_same(dma, jobs, random(0, 1) == 0 ? 20 : 1000);
    }
}

namespace {

/// So many bytes, in granules of 1 KiB.
Job stream(std::size_t channel, std::int64_t bytes, bool outward = false) {
    Job job;
    job.channel = channel;
    job.outward = outward;
    job.shape.run_bytes = bytes;
    return job;
}

isa::DmaSpec plain() {
    isa::DmaSpec dma;
    dma.channels = 2;
    dma.setup_cycles = 16;
    dma.bytes_per_cycle = 128;
    dma.max_inflight_bytes = 1 << 20;
    return dma;
}

Life run(const isa::DmaSpec& dma, const std::vector<Job>& jobs) {
    const sim::SimulationContext simulation;
    return Bench(dma, jobs, 1).run();  // every packet lands in the next cycle
}

}  // namespace

TEST_CASE("a channel streams at the width of its path, without a gap between descriptors") {
    const Life life = run(plain(), {stream(0, 40 * 1024), stream(0, 40 * 1024), stream(0, 40 * 1024)});
    REQUIRE(life.sent.size() == 120);
    for (std::size_t i = 0; i < 120; ++i) {
        CHECK(life.sent[i].at == 16 + i * 1024 / 128);
    }
}

TEST_CASE("two channels take turns on a path, and two paths do not know of each other") {
    const Life shared = run(plain(), {stream(0, 10 * 1024), stream(1, 10 * 1024)});
    for (std::size_t i = 0; i < 20; ++i) {
        CHECK(shared.sent[i].job == i % 2);
        CHECK(shared.sent[i].at == 16 + i * 8);
    }
    const Life apart = run(plain(), {stream(0, 10 * 1024), stream(1, 10 * 1024, true)});
    for (std::size_t i = 0; i < 20; ++i) {
        CHECK(apart.sent[i].at == 16 + i / 2 * 8);
    }
}

TEST_CASE("the bound on bytes under way is bandwidth times latency") {
    isa::DmaSpec dma = plain();
    dma.bytes_per_cycle = 1024;
    dma.max_inflight_bytes = 1024;
    // One packet under way at a time, each for one cycle: a packet a cycle.
    const Life one = run(dma, {stream(0, 50 * 1024)});
    for (std::size_t i = 0; i < 50; ++i) {
        CHECK(one.sent[i].at == 16 + i);
    }
    CHECK(one.completed[0] == 16 + 50);
}

TEST_CASE("a descriptor completes when it and those before it in its channel have landed") {
    isa::DmaSpec dma = plain();
    std::vector<Job> jobs;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        jobs.push_back(stream(0, 2048));
        jobs.back().seed = seed * 1000;
    }
    const sim::SimulationContext simulation;
    const Life life = Bench(dma, jobs, 500).run();
    CHECK(std::is_sorted(life.completed.begin(), life.completed.end()));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        Cycle landed = 0;
        for (std::size_t piece = 0; piece < 2; ++piece) {
            landed = std::max(landed, life.sent[2 * i + piece].at + flight(jobs[i], piece, 500).landing);
        }
        CHECK(life.completed[i] == std::max(landed, i == 0 ? 0 : life.completed[i - 1]));
    }
}
