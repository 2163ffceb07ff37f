// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves packets along routes, resource by resource.
//
// The rule (buffered cut-through): a packet may start to cross the next resource when its first byte is there and when,
// at that resource's width, it will not run out of bytes (FifoServer's ready cycle); it then crosses without gaps. A
// resource takes packets in the order of their ready cycles, those of one cycle in the order of their events. Receivers
// hold whole packets. One event per contended resource; a resource that only one other one feeds is booked along with
// it.
//
// An SRAM's port is held up while a line of its packet needs a bank that another port has taken (core/sram_banks.hpp).
//
// Reads: a request travels to the source on the control plane, the data come back with contention. Writes: the
// data go out with contention. A TSRAM or CSRAM has a packet one memory latency after its last byte crossed the port;
// HBM when its last burst is written.
#include <systemc>

#include "sim/core/message.hpp"
#include "sim/core/scheduler.hpp"
#include "sim/core/transfer.hpp"
#include "sim/noc/route.hpp"

namespace sluice::sim {

class Transport final : public EventTarget, public PacketNetwork, public DataPort, public MessageReceiver {
public:
    Transport(Scheduler& scheduler, PacketPool& packets, const isa::ChipSpec& chip, MessageNetwork& messages)
        : scheduler_(scheduler),
          packets_(packets),
          messages_(messages),
          tsram_latency_(static_cast<Cycle>(chip.tsram.latency_cycles)) {}

    /// Elaboration order: the HBM needs a DataPort, the routes need the networks.
    void connect(RouteTable& routes, MemoryPort& hbm) {
        routes_ = &routes;
        hbm_ = &hbm;
    }

    Packet& prepare(PacketId& id) override;
    void launch(PacketId id) override;
    void read_done(PacketId id, Cycle cycle) override;
    void write_done(PacketId id, Cycle cycle) override;
    void on_event(std::uint32_t kind, std::uint64_t payload) override;
    /// A read request is at its source.
    void on_message(std::uint64_t payload) override { at_source(static_cast<PacketId>(payload)); }

    /// Of all packets, counted when they are launched: bytes that are to land, over all copies, and that are to cross
    /// mesh links. Multicast crosses a link once.
    struct Carried {
        std::uint64_t bytes = 0, landed_bytes = 0, gnoc_link_bytes = 0;
    };
    [[nodiscard]] const Carried& carried() const { return carried_; }

private:
    enum Kind : std::uint32_t { kEnter, kHbmWrite };

    [[nodiscard]] Endpoint endpoint(const TransferEnd& end, const HbmPlace& place) const;
    void at_source(PacketId id);
    void cross(PacketId id, std::uint32_t node, Cycle ready);
    [[nodiscard]] Cycle pass_banks(const Packet& packet, const RouteNode& node, Cycle head);
    void land(PacketId id, Cycle cycle);

    Scheduler& scheduler_;
    PacketPool& packets_;
    MessageNetwork& messages_;
    RouteTable* routes_ = nullptr;
    MemoryPort* hbm_ = nullptr;
    Cycle tsram_latency_;
    Carried carried_;
};

}  // namespace sluice::sim
