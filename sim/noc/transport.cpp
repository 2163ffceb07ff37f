// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/transport.hpp"

#include <algorithm>

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
        case isa::Space::csram: cross(id, packet.root, scheduler_.now()); return;
        case isa::Space::tsram: cross(id, packet.root, scheduler_.now() + tsram_latency_); return;
    }
}

void Transport::cross(PacketId id, std::uint32_t index, Cycle ready) {
    Packet& packet = packets_[id];
    const RouteNode& node = routes_->node(index);
    Crossing crossing = node.server->reserve(ready, bytes_of(packet, node.bytes));
    if (node.banks != nullptr) {
        const Cycle held = pass_banks(packet, node, crossing.head);
        node.server->hold(held);
        crossing.tail += held;
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
        const RouteNode& next = routes_->node(child);
        const Cycle tail = crossing.tail + node.latency;
        const Cycle needed = next.server->cycles(bytes_of(packet, next.bytes));
        const Cycle next_ready = std::max(crossing.head + node.latency, tail > needed ? tail - needed : 0);
        if (next.chained) {
            cross(id, child, next_ready);
        } else {
            scheduler_.at(next_ready, Phase::arrive, *this, kEnter, std::uint64_t{child} << 32 | id);
        }
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
    const std::uint64_t width = std::max<std::uint64_t>(node.server->width() * bytes / carried, 1);
    const Cycle lead = written || node.csram ? 0 : tsram_latency_;
    return node.banks->reserve(written ? BankClient::written : BankClient::read,
                               written ? packet.dst_offset : packet.src_offset, bytes, head - lead, width,
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
        case kEnter: cross(id, static_cast<std::uint32_t>(payload >> 32), scheduler_.now()); return;
        case kHbmWrite: hbm_->write(id); return;
    }
}

}  // namespace sluice::sim
