// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/transport.hpp"

#include <algorithm>
#include <iterator>

namespace sluice::sim {

namespace {

std::uint32_t bytes_of(const Packet& packet, ByteKind kind) {
    switch (kind) {
        case ByteKind::wire: return packet.wire_bytes;
        case ByteKind::source: return packet.src_bytes;
        case ByteKind::destination: return packet.dst_bytes;
    }
    return 0;
}

}  // namespace

Packet& Transport::prepare(PacketId& id) {
    id = packets_.take();
    return packets_[id];
}

Endpoint Transport::endpoint(const TransferEnd& end, const HbmPlace& place) const {
    switch (end.space) {
        case isa::Space::hbm: return routes_->stack(place.stack);
        case isa::Space::csram: return routes_->csram(end.unit);
        case isa::Space::tsram: return routes_->tile(end.unit);
    }
    return 0;
}

void Transport::launch(PacketId id) {
    Packet& packet = packets_[id];
    Transfer& transfer = *packet.transfer;
    if (transfer.src.space == isa::Space::hbm) {
        packet.src_place = hbm_->decode(packet.src_offset, std::max(packet.src_bytes, 1U));
    }
    if (transfer.dst.space == isa::Space::hbm) {
        packet.dst_place = hbm_->decode(packet.dst_offset, std::max(packet.dst_bytes, 1U));
    }
    const Endpoint from = endpoint(transfer.src, packet.src_place);
    const std::uint32_t index = transfer.dst.mask != 0
                                    ? routes_->multicast(from, transfer.dst)
                                    : routes_->unicast(from, endpoint(transfer.dst, packet.dst_place));
    const Route& route = routes_->route(index);
    packet.root = route.root;
    packet.copies = route.copies;
    packet.launched = scheduler_.now();
    packet.landed = 0;
    carried_.bytes += std::uint64_t{packet.wire_bytes} * route.copies;
    carried_.gnoc_link_bytes += std::uint64_t{packet.wire_bytes} * route.gnoc_links;
    transfer.wire_bytes += packet.wire_bytes;
    transfer.src_bytes += packet.src_bytes;
    transfer.dst_bytes += std::uint64_t{packet.dst_bytes} * route.copies;
    transfer.cnoc_bytes += std::uint64_t{packet.wire_bytes} * route.cnoc_crossings;
    transfer.gnoc_link_bytes += std::uint64_t{packet.wire_bytes} * route.gnoc_links;
    transfer.gnoc_router_bytes += std::uint64_t{packet.wire_bytes} * route.gnoc_routers;
    if (from == transfer.issuer) {
        at_source(id);
    } else {
        messages_.send(transfer.issuer, from, routes_->request_latency(transfer.issuer, from), *this, id);
    }
}

void Transport::at_source(PacketId id) {
    const Packet& packet = packets_[id];
    switch (packet.transfer->src.space) {
        case isa::Space::hbm: hbm_->read(id); return;
        case isa::Space::csram:
        case isa::Space::tsram: enter(id, packet.root); return;
    }
}

/// The packet is ready to cross now.
void Transport::enter(PacketId id, std::uint32_t index) {
    const RouteNode& node = routes_->node(index);
    const Packet& packet = packets_[id];
    const Cycle now = scheduler_.now();
    Link& link = *node.link;
    if (!sram_first_ && link.waiting == 0 && room(packet, node, start_cycle(node, now))) {
        cross(id, index, now);
        return;
    }
    const Credits* next = node.first_child == RouteNode::kNone ? nullptr : routes_->node(node.first_child).credits;
    const bool first = goes_first(packet);
    auto flow = std::find_if(link.flows.begin(), link.flows.end(),
                             [&](const Flow& each) { return each.next == next && each.first == first; });
    if (flow == link.flows.end()) {
        flow = link.flows.insert(flow, Flow{next, first});
    }
    flow->packets.push_back({link.came++, id, index, now});
    ++link.waiting;
    look_at(link, now);
}

/// The packet will be ready in a cycle to come, at a resource that nobody else feeds.
void Transport::enter_next(PacketId id, std::uint32_t index, Cycle ready) {
    const RouteNode& node = routes_->node(index);
    Link& link = *node.link;
    const std::uint64_t payload = std::uint64_t{index} << 32 | id;
    if (!node.chained) {
        scheduler_.at(ready, Phase::arrive, *this, kEnter, payload);
    } else if (!sram_first_ && link.waiting == 0 && link.expected == 0 &&
               room(packets_[id], node, start_cycle(node, ready))) {
        cross(id, index, ready);
    } else {
        ++link.expected;
        scheduler_.at(ready, Phase::arrive, *this, kEnterExpected, payload);
    }
}

Cycle Transport::start_cycle(const RouteNode& node, Cycle grant) const {
    return std::max(grant + node.lead, node.link->free_cycle());
}

bool Transport::goes_first(const Packet& packet) const {
    const Transfer& transfer = *packet.transfer;
    return sram_first_ && transfer.src.space != isa::Space::hbm && transfer.dst.space != isa::Space::hbm;
}

/// In front of everything that follows.
bool Transport::room(const Packet& packet, const RouteNode& node, Cycle start) const {
    for (std::uint32_t child = node.first_child; child != RouteNode::kNone; child = routes_->node(child).next_sibling) {
        if (!routes_->node(child).credits->room(packet.wire_bytes, start)) {
            return false;
        }
    }
    return true;
}

Cycle Transport::room_from(const Packet& packet, const RouteNode& node) const {
    Cycle from = 0;
    for (std::uint32_t child = node.first_child; child != RouteNode::kNone; child = routes_->node(child).next_sibling) {
        from = std::max(from, routes_->node(child).credits->room_from(packet.wire_bytes));
    }
    return from;
}

/// Of the flows' first packets that may start now, the one whose turn it is.
Flow* Transport::choose(Link& link) const {
    Flow* chosen = nullptr;
    for (Flow& flow : link.flows) {
        if (flow.packets.empty()) {
            continue;
        }
        const Flow::Waiting& head = flow.packets.front();
        const RouteNode& node = routes_->node(head.node);
        const Cycle start = scheduler_.now() + node.lead;
        if (link.free_cycle() > start || !room(packets_[head.packet], node, start)) {
            continue;
        }
        if (chosen == nullptr || flow.first > chosen->first ||
            (flow.first == chosen->first && head.order < chosen->packets.front().order)) {
            chosen = &flow;
        }
    }
    return chosen;
}

/// The resource takes what it can of those that wait.
void Transport::look(Link& link) {
    while (Flow* flow = choose(link)) {
        const Flow::Waiting head = flow->packets.front();
        flow->packets.pop_front();
        --link.waiting;
        link.kept += scheduler_.now() - head.since;
        link.kept_back += scheduler_.now() > head.since ? 1U : 0U;
        cross(head.packet, head.node, scheduler_.now());
    }
    plan_look(link);
}

/// Unless it looks sooner.
void Transport::look_at(Link& link, Cycle cycle) {
    if (cycle >= link.wake_at) {
        return;
    }
    link.wake_at = cycle;
    looks_.emplace(cycle, link.number);
    // One event will do for all that look in a cycle.
    if (Cycle& planned = planned_[cycle % planned_.size()]; planned != cycle) {
        planned = cycle;
        scheduler_.at(cycle, Phase::arbitrate, *this, kLook);
    }
}

void Transport::look_at_all() {
    while (!looks_.empty() && looks_.top().first <= scheduler_.now()) {
        const auto [cycle, number] = looks_.top();
        looks_.pop();
        Link& link = routes_->link(number);
        if (link.wake_at != cycle) {
            continue;  // it looked earlier
        }
        link.wake_at = Credits::kNever;
        looking_ = link.number;
        look(link);
    }
    looking_.reset();
    planned_[scheduler_.now() % planned_.size()] = Credits::kNever;
}

void Transport::plan_look(Link& link) {
    if (link.waiting == 0) {
        return;
    }
    Cycle next = Credits::kNever;
    for (const Flow& flow : link.flows) {
        if (!flow.packets.empty()) {
            const Flow::Waiting& head = flow.packets.front();
            const RouteNode& node = routes_->node(head.node);
            const Cycle start = std::max(link.free_cycle(), room_from(packets_[head.packet], node));
            next = std::min(next, start == Credits::kNever || start < node.lead ? start : start - node.lead);
        }
    }
    if (next != Credits::kNever) {
        // Links look once a cycle, in the order of their numbers.
        const bool over = looking_ && link.number <= *looking_;
        look_at(link, std::max(next, scheduler_.now() + (over ? 1 : 0)));
    }
}

void Transport::cross(PacketId id, std::uint32_t index, Cycle grant) {
    Packet& packet = packets_[id];
    const RouteNode& node = routes_->node(index);
    const Cycle ready = grant + node.lead;
    Crossing crossing = node.link->reserve(ready, bytes_of(packet, node.bytes));
    if (node.banks != nullptr) {
        const Cycle held = pass_banks(packet, node, crossing.head);
        node.link->hold(held);
        crossing.tail += held;
    }
    if (node.credits != nullptr) {
        node.credits->give_back(packet.wire_bytes, crossing.tail);
        plan_look(*node.credits->link());
    }
    if (node.csram) {
        packet.transfer->csram_cycles += crossing.tail - ready + node.latency;
    }
    if (node.end == RouteEnd::sram) {
        land(id, crossing.tail + node.latency);
        return;
    }
    if (node.end == RouteEnd::hbm) {
        scheduler_.at(crossing.tail + node.latency, Phase::arrive, *this, kHbmWrite, id);
        return;
    }
    for (std::uint32_t child = node.first_child; child != RouteNode::kNone; child = routes_->node(child).next_sibling) {
        routes_->node(child).credits->take(packet.wire_bytes);
    }
    for (std::uint32_t child = node.first_child; child != RouteNode::kNone; child = routes_->node(child).next_sibling) {
        const RouteNode& next = routes_->node(child);
        const Cycle tail = crossing.tail + node.latency;
        const Cycle needed = next.link->cycles(bytes_of(packet, next.bytes));
        enter_next(id, child, std::max(crossing.head + node.latency, tail > needed ? tail - needed : 0));
    }
}

/// A port passes a packet's lines to or from the banks of its SRAM. A TSRAM's are read a latency ahead.
Cycle Transport::pass_banks(const Packet& packet, const RouteNode& node, Cycle head) {
    const bool written = node.end == RouteEnd::sram;
    const std::uint64_t bytes = written ? packet.dst_bytes : packet.src_bytes;
    if (bytes == 0) {
        return 0;
    }
    const std::uint64_t carried = bytes_of(packet, node.bytes);
    const std::uint64_t width = std::max<std::uint64_t>(node.link->width() * bytes / carried, 1);
    return node.banks->reserve(written ? BankClient::written : BankClient::read,
                               written ? packet.dst_offset : packet.src_offset, bytes, head - node.lead, width,
                               scheduler_.now());
}

void Transport::land(PacketId id, Cycle cycle) {
    Packet& packet = packets_[id];
    packet.landed = std::max(packet.landed, cycle);
    carried_.landed_bytes += packet.wire_bytes;
    if (--packet.copies > 0) {
        return;
    }
    packet.transfer->total_cycles += packet.landed - packet.launched;
    packet.owner->on_landing(packet, packet.landed);
    packets_.give_back(id);
}

void Transport::read_done(PacketId id, Cycle cycle) {
    scheduler_.at(cycle, Phase::arrive, *this, kEnter, std::uint64_t{packets_[id].root} << 32 | id);
}

void Transport::write_done(PacketId id, Cycle cycle) {
    land(id, cycle);
}

void Transport::on_event(std::uint32_t kind, std::uint64_t payload) {
    const auto id = static_cast<PacketId>(payload);
    switch (kind) {
        case kEnterExpected: --routes_->node(static_cast<std::uint32_t>(payload >> 32)).link->expected; [[fallthrough]];
        case kEnter: enter(id, static_cast<std::uint32_t>(payload >> 32)); return;
        case kHbmWrite: hbm_->write(id); return;
        // Behind everything else that was planned for this cycle.
        case kLook: scheduler_.after(0, Phase::arbitrate, *this, kLookNow); return;
        case kLookNow: look_at_all(); return;
    }
}

}  // namespace sluice::sim
