// SPDX-License-Identifier: Apache-2.0
// Is the chip's side the same in front of another TLM-2.0 memory as in front of the HBM? Written to be read as an
// example: `FixedMemory` stands behind `HbmInitiator`.
#include "sim/mem/hbm_initiator.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "sim/core/scheduler.hpp"
#include "sim/mem/hbm.hpp"
#include "sim/mem/hbm_socket.hpp"
#include "tests/sim/fixed_memory.hpp"
#include "tests/sim/one_stack.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// The chip's side of a memory, which keeps the cycles in which packets were done.
struct Side final : sim::DataPort, sim::PostedWrites, sim::EventTarget {
    void read_done(sim::PacketId id, Cycle cycle) override { done[id] = cycle; }
    void write_done(sim::PacketId id, Cycle cycle) override { done[id] = cycle; }
    void written(sim::NodeId, sim::RecordId, std::uint64_t, Cycle) override { ++written_count; }
    void on_event(std::uint32_t write, std::uint64_t id) override {
        write != 0 ? memory->write(static_cast<sim::PacketId>(id)) : memory->read(static_cast<sim::PacketId>(id));
    }

    void send(sim::Scheduler& scheduler, Cycle at, bool write, std::uint64_t address, std::uint32_t bytes) {
        const sim::PacketId id = packets.take();
        sim::Packet& packet = packets[id];
        packet.transfer = &transfer;
        (write ? packet.dst_offset : packet.src_offset) = address;
        (write ? packet.dst_bytes : packet.src_bytes) = bytes;
        (write ? packet.dst_place : packet.src_place) = memory->decode(address, bytes);
        done.resize(std::max<std::size_t>(done.size(), id + 1));
        scheduler.at(at, sim::Phase::arbitrate, *this, write ? 1 : 0, id);
    }

    sim::MemoryPort* memory = nullptr;
    sim::PacketPool packets;
    sim::Transfer transfer;
    std::vector<Cycle> done;
    int written_count = 0;
};

}  // namespace

TEST_CASE("a memory from elsewhere in the place of the HBM: packets are done at the exact cycle") {
    const isa::ChipSpec chip = one_stack();
    const sim::SimulationContext simulation;
    sim::Scheduler scheduler("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(chip.clock.core_hz)));
    Side side;
    sim::HbmInitiator initiator("initiator", chip, side.packets, side, side);
    FixedMemory memory("memory", nanoseconds(80.1));
    initiator.socket.bind(memory.socket);
    side.memory = &initiator;
    const std::vector<Cycle> asked{0, 5, 5, 1000};
    const std::vector<Cycle> begun{0, 5, 7, 1000};  // at 2 GHz, two cycles after the one before
    for (std::size_t i = 0; i < asked.size(); ++i) {
        side.send(scheduler, asked[i], i == 2, i << 20, kGranule);
    }
    scheduler.run();
    for (std::size_t i = 0; i < asked.size(); ++i) {
        CHECK(side.done[i] == begun[i] + 161);  // 160.2, rounded up
    }
    CHECK(side.written_count == 1);
    CHECK(side.transfer.read_beats == 3 * 32);
    CHECK(side.transfer.written_beats == 32);
    CHECK(side.transfer.hbm_cycles == 4 * 161 + 2);
}

TEST_CASE("HbmSocket behind HbmInitiator is the HBM itself, to the cycle") {
    const isa::ChipSpec chip = one_stack("per_bank");
    const sim::SimulationContext simulation;
    sim::Scheduler scheduler("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(chip.clock.core_hz)));
    Side direct;
    sim::Hbm hbm(chip, scheduler, direct.packets, direct, direct, false);
    direct.memory = &hbm;
    Side through;
    sim::HbmInitiator initiator("initiator", chip, through.packets, through, through);
    sim::HbmSocket target("target", chip);
    initiator.socket.bind(target.socket);
    through.memory = &initiator;
    std::mt19937_64 random(5);
    Cycle at = 0;
    for (int i = 0; i < 3000; ++i) {
        at += random() % 8;
        const bool write = random() % 3 == 0;
        const std::uint64_t address = random() % isa::hbm_bytes(chip) / kGranule * kGranule + random() % 16 * 32;
        const auto bytes = static_cast<std::uint32_t>(1 + random() % 512);
        direct.send(scheduler, at, write, address, bytes);
        through.send(scheduler, at, write, address, bytes);
    }
    scheduler.run();
    CHECK(through.done == direct.done);
    CHECK(through.written_count == direct.written_count);
    CHECK(std::count(direct.done.begin(), direct.done.end(), 0) == 0);
}
