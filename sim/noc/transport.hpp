// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves packets along routes, resource by resource.
//
// The rule (buffered cut-through): a packet may start to cross the next resource when its first byte is there, when, at
// that resource's width, it will not run out of bytes (FifoServer's ready cycle), and when there is room for it in
// front of all resources that follow (Credits); it then crosses without gaps. Packets that go on to the same resource
// keep their order (Flow); of their first ones that may start, a free resource takes that which was ready first, those
// of one cycle in the order of their events. With `noc.sram_first`, packets between SRAMs come before those from or to
// HBM. Buffers hold whole packets.
//
// One event per contended resource; a resource that only one other one feeds is booked along with it. A packet is
// booked ahead of time if nobody waits and the room it needs is known to be there (with `noc.sram_first`, never);
// otherwise it waits, and the resource looks again, behind all else in the arbitrate phase, in the cycle in which it is
// free and room is known; those of one cycle by their numbers.
//
// An SRAM's port is held up while a line of its packet needs a bank that another port has taken (core/sram_banks.hpp).
//
// Reads: a request travels to the source on the control plane, the data come back with contention. Writes: the
// data go out with contention. A TSRAM or CSRAM has a packet one memory latency after its last byte crossed the port;
// HBM when its write is posted.
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <systemc>
#include <utility>
#include <vector>

#include "sim/core/message.hpp"
#include "sim/core/scheduler.hpp"
#include "sim/core/transfer.hpp"
#include "sim/noc/route.hpp"

namespace sluice::sim {

class Transport final : public EventTarget, public PacketNetwork, public DataPort, public MessageReceiver {
public:
    Transport(Scheduler& scheduler, PacketPool& packets, const isa::ChipSpec& chip, MessageNetwork& messages)
        : scheduler_(scheduler), packets_(packets), messages_(messages), sram_first_(chip.noc.sram_first != 0) {
        planned_.fill(Credits::kNever);
    }

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
    enum Kind : std::uint32_t { kEnter, kEnterExpected, kHbmWrite, kLook, kLookNow };

    [[nodiscard]] Endpoint endpoint(const TransferEnd& end, const HbmPlace& place) const;
    void at_source(PacketId id);
    void enter(PacketId id, std::uint32_t node);
    void enter_next(PacketId id, std::uint32_t node, Cycle ready);
    [[nodiscard]] Cycle start_cycle(const RouteNode& node, Cycle grant) const;
    [[nodiscard]] bool room(const Packet& packet, const RouteNode& node, Cycle start) const;
    [[nodiscard]] Cycle room_from(const Packet& packet, const RouteNode& node) const;
    [[nodiscard]] bool goes_first(const Packet& packet) const;
    [[nodiscard]] Flow* choose(Link& link) const;
    void look(Link& link);
    void look_at(Link& link, Cycle cycle);
    void look_at_all();
    void plan_look(Link& link);
    void cross(PacketId id, std::uint32_t node, Cycle grant);
    [[nodiscard]] Cycle pass_banks(const Packet& packet, const RouteNode& node, Cycle head);
    void land(PacketId id, Cycle cycle);

    Scheduler& scheduler_;
    PacketPool& packets_;
    MessageNetwork& messages_;
    RouteTable* routes_ = nullptr;
    MemoryPort* hbm_ = nullptr;
    bool sram_first_;
    using Look = std::pair<Cycle, std::uint32_t>;
    /// When which links look, as Link::wake_at says; others are out of date.
    std::priority_queue<Look, std::vector<Look>, std::greater<>> looks_;
    std::array<Cycle, 64> planned_;         ///< cycles with an event for looks, by their last digit
    std::optional<std::uint32_t> looking_;  ///< the link that looks now
    Carried carried_;
};

}  // namespace sluice::sim
