// SPDX-License-Identifier: Apache-2.0
// Are the HBM controllers the same behind a TLM-2.0 socket? Written to be read as an example: `Generator` and `Caller`
// drive `HbmSocket`.
#include "sim/mem/hbm_socket.hpp"

#include <tlm_utils/simple_initiator_socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <random>

#include "sim/core/scheduler.hpp"
#include "sim/mem/hbm_request.hpp"
#include "tests/sim/one_stack.hpp"

using namespace sluice;
using namespace sluice::test;
using sc_core::sc_time;
using sc_core::sc_time_stamp;
using sim::Ck;

namespace {

sim::ClockDomain ck_clock(const isa::HbmSpec& spec) {
    return sim::ClockDomain(static_cast<std::uint64_t>(spec.bits_per_second_per_pin / spec.transfers_per_ck));
}

/// Controller and PHY.
Ck latency_of(const isa::HbmSpec& spec) {
    const auto picoseconds = static_cast<std::uint64_t>(spec.controller_picoseconds + spec.phy_picoseconds);
    return sim::edge_at_or_after(ck_clock(spec), sc_time::from_value(1000 * picoseconds));
}

/// A request, and what became of it.
struct Shot final : tlm::tlm_generic_payload {
    sc_time earliest, annotated;
    sc_time begun, entered, answered;
};

void fill(tlm::tlm_generic_payload& payload, tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_length(bytes);
    payload.set_streaming_width(bytes);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
}

/// An initiator of the base protocol: sends requests in order, each as soon as the one before it has entered.
class Generator final : public sc_core::sc_module, public tlm::tlm_mm_interface {
public:
    SC_HAS_PROCESS(Generator);
    explicit Generator(const sc_core::sc_module_name& name) : sc_module(name), socket("socket") {
        socket.register_nb_transport_bw(this, &Generator::backward);
        SC_METHOD(send);
        sensitive << next_;
    }

    Shot& add(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes, const sc_time& earliest = {}) {
        Shot& shot = *shots.emplace_back(std::make_unique<Shot>());
        fill(shot, command, address, bytes);
        shot.set_mm(this);
        shot.acquire();
        shot.earliest = earliest;
        return shot;
    }

    tlm_utils::simple_initiator_socket<Generator> socket;
    std::vector<std::unique_ptr<Shot>> shots;
    sc_time response_takes;  ///< BEGIN_RESP to END_RESP

private:
    void send() {
        while (sent_ < shots.size()) {
            Shot& shot = *shots[sent_];
            if (sc_time_stamp() < shot.earliest) {
                next_.notify(shot.earliest - sc_time_stamp());
                return;
            }
            ++sent_;
            shot.begun = sc_time_stamp();
            tlm::tlm_phase phase = tlm::BEGIN_REQ;
            sc_time delay = shot.annotated;
            const tlm::tlm_sync_enum status = socket->nb_transport_fw(shot, phase, delay);
            if (status == tlm::TLM_ACCEPTED) {
                return;  // END_REQ will come
            }
            shot.entered = sc_time_stamp();
        }
    }

    tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_time& delay) {
        auto& shot = static_cast<Shot&>(payload);
        if (phase == tlm::END_REQ) {
            shot.entered = sc_time_stamp();
            next_.notify(sc_core::SC_ZERO_TIME);
            return tlm::TLM_ACCEPTED;
        }
        shot.answered = sc_time_stamp();
        phase = tlm::END_RESP;
        delay = response_takes;
        return tlm::TLM_UPDATED;
    }

    void free(tlm::tlm_generic_payload*) override {}

    std::size_t sent_ = 0;
    sc_core::sc_event next_;
};

/// A generator bound to the socket of a chip's HBM.
struct Driven {
    explicit Driven(const isa::ChipSpec& chip) : hbm("hbm", chip) { generator.socket.bind(hbm.socket); }

    sim::SimulationContext simulation;
    sim::HbmSocket hbm;
    Generator generator{"generator"};
};

/// Loosely timed: one read after the other.
class Caller final : public sc_core::sc_module {
public:
    SC_HAS_PROCESS(Caller);
    Caller(const sc_core::sc_module_name& name, std::vector<std::uint64_t> reads)
        : sc_module(name), socket("socket"), addresses(std::move(reads)) {
        SC_THREAD(call);
    }

    tlm_utils::simple_initiator_socket<Caller> socket;
    std::vector<std::uint64_t> addresses;
    std::vector<sc_time> begun, answered;

private:
    void call() {
        for (const std::uint64_t address : addresses) {
            tlm::tlm_generic_payload payload;
            fill(payload, tlm::TLM_READ_COMMAND, address, kGranule);
            sc_time delay = nanoseconds(3.7);
            begun.push_back(sc_time_stamp() + delay);
            socket->b_transport(payload, delay);
            answered.push_back(sc_time_stamp() + delay);
            wait(nanoseconds(100));
        }
    }
};

/// The time of the response to a read of a granule in closed rows: four ACTs at nRRDS, nRCDRD of the last, whose burst
/// comes fourth; the pseudo-channel's turn on the column bus; nCL; 32 bursts; controller and PHY.
sc_time lone_read(const isa::ChipSpec& chip, std::uint64_t address, const sc_time& asked) {
    const isa::HbmTimingSpec& t = chip.hbm.timing;
    const sim::ClockDomain clock = ck_clock(chip.hbm);
    const Ck latency = latency_of(chip.hbm);
    Ck column = sim::edge_at_or_after(clock, asked) + static_cast<Ck>(3 * t.nrrds + t.nrcdrd - 3 * t.nbl);
    column += (column + sim::AddressMap(chip.hbm).decode(address, kGranule).pseudo_channel) % 2;
    return sc_time::from_value(clock.time_of(column + static_cast<Ck>(t.ncl + 32 * t.nbl) + latency));
}

/// The first granules of channel 0.
std::vector<std::uint64_t> granules_of_channel(const sim::AddressMap& map, std::size_t count) {
    std::vector<std::uint64_t> addresses;
    for (std::uint64_t at = 0; addresses.size() < count; at += kGranule) {
        if (map.decode(at, kGranule).pseudo_channel < 2) {
            addresses.push_back(at);
        }
    }
    return addresses;
}

struct Client final : sim::DramClient {
    void accepted(std::uint64_t, Ck, Ck) override {}
    void served(const sim::DramServed& s) override { last = std::max(last, s.end); }
    Ck last = 0;
};

/// The end of reads that come to a controller as soon as its queue has room.
Ck alone(const isa::HbmSpec& spec, const std::vector<std::uint64_t>& addresses) {
    Client client;
    const sim::AddressMap map(spec);
    const sim::DramTable table(spec, map.interleave());
    sim::DramChannel channel(spec, table, 0, 32, client);
    Ck now = 0;
    for (const std::uint64_t address : addresses) {
        while (channel.queued(false) + channel.waiting(false) >= static_cast<std::size_t>(spec.read_queue)) {
            now = std::max(now + 1, channel.next_action());
            channel.run_until(now);
        }
        sim::DramRequest request = sim::request_at(map.decode(address, kGranule), spec, map.interleave());
        request.arrival = now;
        channel.push(request);
    }
    while (!channel.idle()) {
        channel.run_until(channel.next_action() + 1);
    }
    return client.last;
}

}  // namespace

TEST_CASE("a lone read through the socket takes the sum of its parts, AT or LT") {
    const isa::ChipSpec chip = one_stack();
    const sim::SimulationContext simulation;
    sim::HbmSocket hbm("hbm", chip);
    Generator generator("generator");
    Caller caller("caller", {std::uint64_t{1} << 30, 3 << 20, 5 << 20});
    generator.socket.bind(hbm.socket);
    caller.socket.bind(hbm.socket);
    int i = 0;
    for (const std::uint64_t address : {0, 7 << 20, 9 << 20, 123 << 20}) {
        Shot& shot = generator.add(tlm::TLM_READ_COMMAND, address, kGranule, nanoseconds(5000 + 1000.3 * i));
        shot.annotated = nanoseconds(0.9 * (i++ % 2));
    }
    sc_core::sc_start();
    for (const auto& shot : generator.shots) {
        CHECK(shot->get_response_status() == tlm::TLM_OK_RESPONSE);
        CHECK(shot->entered == shot->begun + shot->annotated);
        CHECK(shot->answered == lone_read(chip, shot->get_address(), shot->entered));
    }
    REQUIRE(caller.answered.size() == caller.addresses.size());
    for (std::size_t k = 0; k < caller.addresses.size(); ++k) {
        CHECK(caller.answered[k] == lone_read(chip, caller.addresses[k], caller.begun[k]));
    }
}

TEST_CASE("a lone burst in an open row takes a column command, the bus and the latency") {
    const isa::ChipSpec chip = one_stack();
    Driven driven(chip);
    Generator& generator = driven.generator;
    generator.add(tlm::TLM_READ_COMMAND, 0, kGranule);
    const Shot& hit = generator.add(tlm::TLM_READ_COMMAND, 64, 32, nanoseconds(1000));
    sc_core::sc_start();
    const sim::ClockDomain clock = ck_clock(chip.hbm);
    Ck column = sim::edge_at_or_after(clock, hit.begun);
    column += (column + sim::AddressMap(chip.hbm).decode(64, 32).pseudo_channel) % 2;
    const Ck end = column + static_cast<Ck>(chip.hbm.timing.ncl + chip.hbm.timing.nbl) + latency_of(chip.hbm);
    CHECK(hit.answered == sc_time::from_value(clock.time_of(end)));
}

TEST_CASE("a write is answered when it is posted, a long request when its last granule is read") {
    const isa::ChipSpec chip = one_stack();
    Driven driven(chip);
    Generator& generator = driven.generator;
    const Shot& write = generator.add(tlm::TLM_WRITE_COMMAND, 640, 32);
    const Shot& read = generator.add(tlm::TLM_READ_COMMAND, 0, 8 * kGranule, nanoseconds(10'000));
    sc_core::sc_start();
    const sim::ClockDomain clock = ck_clock(chip.hbm);
    const Ck controller = sim::edge_at_or_after(
        clock, sc_time::from_value(1000 * static_cast<std::uint64_t>(chip.hbm.controller_picoseconds)));
    CHECK(write.answered == sc_time::from_value(clock.time_of(controller)));
    CHECK(read.answered >= lone_read(chip, 2 * kGranule, read.begun));
    std::uint64_t bursts = 0;
    for (std::size_t c = 0; c < driven.hbm.channels(); ++c) {
        bursts += driven.hbm.controller(c).counts(0).read_bursts + driven.hbm.controller(c).counts(1).read_bursts;
    }
    CHECK(bursts == 8 * 32);
}

TEST_CASE("END_REQ comes when the request has entered the queue of its channel, and not before") {
    const isa::ChipSpec chip = one_stack();
    Driven driven(chip);
    Generator& generator = driven.generator;
    const sim::AddressMap map(chip.hbm);
    const auto room = static_cast<std::size_t>(chip.hbm.read_queue);
    Client client;
    const sim::DramTable table(chip.hbm, map.interleave());
    sim::DramChannel channel(chip.hbm, table, 0, 32, client);
    for (const std::uint64_t address : granules_of_channel(map, room + 1)) {
        generator.add(tlm::TLM_READ_COMMAND, address, kGranule);
        channel.push(sim::request_at(map.decode(address, kGranule), chip.hbm, map.interleave()));
    }
    generator.add(tlm::TLM_READ_COMMAND, granules_of_channel(map, room + 2).back(), kGranule);
    Ck entered = 0;
    while (channel.waiting(false) > 0) {
        channel.run_until(++entered);
    }
    sc_core::sc_start();
    CHECK(generator.shots[room - 1]->entered == sc_core::SC_ZERO_TIME);
    CHECK(generator.shots[room]->entered == sc_time::from_value(ck_clock(chip.hbm).time_of(entered)));
    CHECK(generator.shots[room + 1]->begun == generator.shots[room]->entered);
    for (const auto& shot : generator.shots) {
        CHECK(shot->entered < shot->answered);
        CHECK(shot->get_ref_count() == 1);
    }
}

TEST_CASE("room in a queue is seen in the CK after it has come about") {
    const isa::ChipSpec chip = one_stack();
    Driven driven(chip);
    Generator& generator = driven.generator;
    const sim::AddressMap map(chip.hbm);
    const auto room = static_cast<std::size_t>(chip.hbm.read_queue);
    Client client;
    const sim::DramTable table(chip.hbm, map.interleave());
    sim::DramChannel channel(chip.hbm, table, 0, 32, client);
    const std::vector<std::uint64_t> addresses = granules_of_channel(map, room + 1);
    for (std::size_t i = 0; i < room; ++i) {
        generator.add(tlm::TLM_READ_COMMAND, addresses[i], kGranule);
        channel.push(sim::request_at(map.decode(addresses[i], kGranule), chip.hbm, map.interleave()));
    }
    Ck free = 1;
    for (channel.run_until(free); channel.queued(false) == room; channel.run_until(free)) {
        ++free;
    }
    const sc_time at = sc_time::from_value(ck_clock(chip.hbm).time_of(free));
    const Shot& last = generator.add(tlm::TLM_READ_COMMAND, addresses[room], kGranule, at);
    sc_core::sc_start();
    CHECK(last.begun == at);
    CHECK(last.entered == at);
}

TEST_CASE("a response waits for the END_RESP of the one before, those of other initiators do not") {
    const isa::ChipSpec chip = one_stack();
    const sim::SimulationContext simulation;
    sim::HbmSocket hbm("hbm", chip);
    Generator slow("slow");
    Generator other("other");
    slow.socket.bind(hbm.socket);
    other.socket.bind(hbm.socket);
    slow.response_takes = nanoseconds(1000);
    for (int i = 0; i < 3; ++i) {
        slow.add(tlm::TLM_READ_COMMAND, static_cast<std::uint64_t>(i) * kGranule, kGranule);
    }
    other.add(tlm::TLM_READ_COMMAND, 5 * kGranule, kGranule);
    sc_core::sc_start();
    const sim::ClockDomain clock = ck_clock(chip.hbm);
    sc_time first = slow.shots[0]->answered;
    for (const auto& shot : slow.shots) {
        first = std::min(first, shot->answered);
    }
    sc_time expected = first;
    for (int i = 0; i < 3; ++i) {
        CHECK(std::count_if(slow.shots.begin(), slow.shots.end(),
                            [&](const auto& shot) { return shot->answered == expected; }) == 1);
        const sc_time free = expected + slow.response_takes;
        expected = sc_time::from_value(clock.time_of(sim::edge_at_or_after(clock, free)));
    }
    CHECK(other.shots[0]->answered == lone_read(chip, 5 * kGranule, sc_core::SC_ZERO_TIME));
}

TEST_CASE("a generator behind the socket gets the sequential bandwidth of the controller alone") {
    const isa::ChipSpec chip = one_stack("per_bank");
    Driven driven(chip);
    Generator& generator = driven.generator;
    const std::vector<std::uint64_t> addresses = granules_of_channel(sim::AddressMap(chip.hbm), 4000);
    for (const std::uint64_t address : addresses) {
        generator.add(tlm::TLM_READ_COMMAND, address, kGranule);
    }
    sc_core::sc_start();
    sc_time last;
    for (const auto& shot : generator.shots) {
        last = std::max(last, shot->answered);
    }
    const sim::ClockDomain clock = ck_clock(chip.hbm);
    const Ck latency = latency_of(chip.hbm);
    const auto end = static_cast<double>(sim::edge_at_or_after(clock, last) - latency);
    const double busy = static_cast<double>(addresses.size()) * 32 * static_cast<double>(chip.hbm.timing.nbl) / 2;
    const double expected = busy / static_cast<double>(alone(chip.hbm, addresses));
    CHECK(expected > 0.9);
    CHECK(busy / end == Approx(expected).margin(0.01));
}

// The requests of an initiator fill the queues of every channel; another's comes in every CK after that, at the edge at
// which pieces of the first enter.
TEST_CASE("when END_REQ comes does not depend on which of two initiators was there first") {
    const isa::ChipSpec chip = maia200({"soc.clusters=1", "soc.tiles_per_cluster_physical=2", "soc.tiles_per_cluster=2",
                                        "hbm.stacks=1", "network.anc_count=1", "hbm.refresh=none", "hbm.read_queue=2"});
    const sim::ClockDomain clock = ck_clock(chip.hbm);
    const auto run = [&](bool long_first, Ck at) {
        const sim::SimulationContext simulation;
        sim::HbmSocket hbm("hbm", chip);
        Generator one("one");
        Generator two("two");
        one.socket.bind(hbm.socket);
        two.socket.bind(hbm.socket);
        const Shot& whole = (long_first ? one : two).add(tlm::TLM_READ_COMMAND, 0, 96 * kGranule);
        // Anywhere: another channel for every CK.
        const Shot& lone =
            (long_first ? two : one)
                .add(tlm::TLM_READ_COMMAND, (1024 + at) * kGranule, kGranule, sc_time::from_value(clock.time_of(at)));
        sc_core::sc_start();
        return std::array{whole.entered, whole.answered, lone.entered, lone.answered};
    };
    for (Ck at = 1; at < 400; ++at) {
        INFO("the other at CK " << at);
        const auto first = run(true, at);
        CHECK(first == run(false, at));
        CHECK(first[0] > sc_core::SC_ZERO_TIME);  // it had to wait
    }
}

TEST_CASE("every request of two initiators that overrun the queues is answered once") {
    const isa::ChipSpec chip =
        maia200({"soc.clusters=1", "soc.tiles_per_cluster_physical=2", "soc.tiles_per_cluster=2", "hbm.stacks=1",
                 "network.anc_count=1", "hbm.read_queue=4", "hbm.write_queue=4", "hbm.write_high=3", "hbm.write_low=1",
                 "hbm.prepare=1", "hbm.controller_picoseconds=1"});
    const sim::SimulationContext simulation;
    sim::HbmSocket hbm("hbm", chip);
    Generator one("one");
    Generator two("two");
    one.socket.bind(hbm.socket);
    two.socket.bind(hbm.socket);
    std::mt19937_64 random(11);
    for (Generator* generator : {&one, &two}) {
        for (int i = 0; i < 2000; ++i) {
            const auto bytes = static_cast<std::uint32_t>(1 + random() % (6 * kGranule));
            const std::uint64_t address = random() % (1 << 24);
            const tlm::tlm_command command = random() % 2 == 0 ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND;
            generator->add(command, address, bytes).annotated = nanoseconds(0.1 * static_cast<double>(random() % 9));
        }
    }
    sc_core::sc_start();
    for (const Generator* generator : {&one, &two}) {
        for (const auto& shot : generator->shots) {
            CHECK(shot->answered > shot->entered);
            CHECK(shot->get_response_status() == tlm::TLM_OK_RESPONSE);
            CHECK(shot->get_ref_count() == 1);
        }
    }
}

TEST_CASE("what the socket does not serve it says") {
    const isa::ChipSpec chip = one_stack();
    const std::uint64_t bytes = isa::hbm_bytes(chip);
    Driven driven(chip);
    Generator& generator = driven.generator;
    const std::vector<tlm::tlm_response_status> expected{tlm::TLM_COMMAND_ERROR_RESPONSE,
                                                         tlm::TLM_BURST_ERROR_RESPONSE,
                                                         tlm::TLM_BURST_ERROR_RESPONSE,
                                                         tlm::TLM_ADDRESS_ERROR_RESPONSE,
                                                         tlm::TLM_ADDRESS_ERROR_RESPONSE,
                                                         tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE,
                                                         tlm::TLM_OK_RESPONSE};
    generator.add(tlm::TLM_IGNORE_COMMAND, 0, 32);
    generator.add(tlm::TLM_READ_COMMAND, 0, 0);
    generator.add(tlm::TLM_READ_COMMAND, 0, 64).set_streaming_width(32);
    generator.add(tlm::TLM_READ_COMMAND, bytes, 1);
    generator.add(tlm::TLM_WRITE_COMMAND, bytes - 32, 33);
    unsigned char enabled = TLM_BYTE_ENABLED;
    generator.add(tlm::TLM_WRITE_COMMAND, 0, 32).set_byte_enable_ptr(&enabled);
    generator.add(tlm::TLM_READ_COMMAND, bytes - 32, 32);
    sc_core::sc_start();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO(i);
        CHECK(generator.shots[i]->get_response_status() == expected[i]);
        CHECK(generator.shots[i]->get_ref_count() == 1);
    }
    tlm::tlm_dmi region;
    CHECK_FALSE(generator.socket->get_direct_mem_ptr(*generator.shots[0], region));
    CHECK(generator.socket->transport_dbg(*generator.shots[0]) == 0);
}
