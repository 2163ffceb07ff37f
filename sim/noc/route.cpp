// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/route.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "sim/core/conservation.hpp"

namespace sluice::sim {

RouteTable::RouteTable(const isa::ChipSpec& chip, Gnoc& gnoc, std::vector<ClusterNoc*> cluster_nocs,
                       std::vector<Link*> csram_ports, std::vector<SramBanks*> banks)
    : chip_(chip),
      gnoc_(gnoc),
      cluster_nocs_(std::move(cluster_nocs)),
      csram_ports_(std::move(csram_ports)),
      banks_(std::move(banks)),
      tiles_(static_cast<std::size_t>(isa::tile_count(chip))),
      clusters_(static_cast<std::size_t>(chip.soc.clusters)),
      stacks_(static_cast<std::size_t>(chip.hbm.stacks)),
      tiles_per_cluster_(static_cast<std::size_t>(chip.soc.tiles_per_cluster)),
      unicast_(endpoints() * endpoints(), kUnbuilt),
      request_latency_(endpoints() * endpoints(), 0) {
    learn_feeders();
}

MeshPosition RouteTable::position(Endpoint e) const {
    return in_cluster(e) ? gnoc_.floorplan().clusters[cluster_of(e)] : gnoc_.floorplan().stacks[e - tiles_ - clusters_];
}

RouteTable::Step RouteTable::source_step(Endpoint from) const {
    if (is_tile(from)) {
        return {.link = &cluster_nocs_[cluster_of(from)]->egress(from % tiles_per_cluster_),
                .lead = chip_.tsram.latency_cycles,
                .banks = banks_[from]};
    }
    if (in_cluster(from)) {
        return {.link = csram_ports_[cluster_of(from)],
                .memory_latency = chip_.csram.latency_cycles,
                .bytes = ByteKind::source,
                .banks = banks_[from]};
    }
    return {.link = &gnoc_.stack_port(from - tiles_ - clusters_).out};
}

RouteTable::Step RouteTable::sram_step(Endpoint to) const {
    if (is_tile(to)) {
        return {.link = &cluster_nocs_[cluster_of(to)]->ingress(to % tiles_per_cluster_),
                .memory_latency = chip_.tsram.latency_cycles,
                .end = RouteEnd::sram,
                .banks = banks_[to]};
    }
    return {.link = csram_ports_[cluster_of(to)],
            .memory_latency = chip_.csram.latency_cycles,
            .bytes = ByteKind::destination,
            .end = RouteEnd::sram,
            .banks = banks_[to]};
}

void RouteTable::append_mesh_way(Endpoint from, Endpoint to, std::vector<Step>& steps) const {
    const isa::NocSpec& noc = chip_.noc;
    steps.back().wire_latency += noc.router_latency_cycles;
    for (Link* link : cluster_nocs_[cluster_of(from)]->links(from % tiles_per_cluster_, to % tiles_per_cluster_)) {
        steps.push_back({.link = link, .wire_latency = noc.link_latency_cycles + noc.router_latency_cycles});
        steps.back().cnoc_crossings = 1;
    }
}

void RouteTable::append_global_way(Endpoint from, Endpoint to, std::vector<Step>& steps) const {
    const isa::NocSpec& noc = chip_.noc;
    if (in_cluster(from)) {
        steps.back().wire_latency += noc.crossbar_latency_cycles;
        steps.back().cnoc_crossings = 1;
        steps.push_back({.link = &gnoc_.cluster_port(cluster_of(from)).out});
    }
    steps.back().wire_latency += chip_.gnoc.interface_latency_cycles + noc.router_latency_cycles;
    steps.back().gnoc_routers = 1;
    for (Link* link : gnoc_.links(position(from), position(to))) {
        steps.push_back({.link = link, .wire_latency = noc.link_latency_cycles + noc.router_latency_cycles});
        steps.back().gnoc_links = 1;
        steps.back().gnoc_routers = 1;
    }
    steps.back().wire_latency += chip_.gnoc.interface_latency_cycles;
    if (in_cluster(to)) {
        steps.push_back({.link = &gnoc_.cluster_port(cluster_of(to)).in, .wire_latency = noc.crossbar_latency_cycles});
        steps.back().cnoc_crossings = 1;
    } else {
        steps.push_back({.link = &gnoc_.stack_port(to - tiles_ - clusters_).in, .end = RouteEnd::hbm});
    }
}

std::vector<RouteTable::Step> RouteTable::way(Endpoint from, Endpoint to) const {
    std::vector<Step> steps{source_step(from)};
    if (!in_cluster(from) || !in_cluster(to) || cluster_of(from) != cluster_of(to)) {
        append_global_way(from, to, steps);
    } else if (is_tile(from) && is_tile(to)) {
        append_mesh_way(from, to, steps);
    } else {
        steps.back().wire_latency += chip_.noc.crossbar_latency_cycles;
        steps.back().cnoc_crossings = 1;
    }
    if (in_cluster(to)) {
        steps.push_back(sram_step(to));
    }
    return steps;
}

void RouteTable::learn_feeders() {
    const auto count = static_cast<Endpoint>(endpoints());
    for (Endpoint from = 0; from < count; ++from) {
        for (Endpoint to = 0; to < count; ++to) {
            const std::vector<Step> steps = way(from, to);
            const Link* parent = nullptr;
            std::int64_t latency = 0;
            Cycle request = 0;
            for (const Step& step : steps) {
                const auto [it, first] = feeders_.try_emplace(step.link, Feeder{parent, latency, false});
                if (first) {
                    step.link->number = static_cast<std::uint32_t>(links_.size());
                    links_.push_back(step.link);
                }
                if (!first && (it->second.parent != parent || it->second.latency != latency)) {
                    it->second.several = true;
                }
                parent = step.link;
                latency = step.wire_latency + step.memory_latency;
                request += static_cast<Cycle>(step.wire_latency);
            }
            request_latency_[from * count + to] = from == to ? 0 : request;
        }
    }
}

Credits* RouteTable::credits(Link& from, const Link& to, std::int64_t latency, bool lands) {
    std::unique_ptr<Credits>& found = credits_[{&from, &to}];
    if (!found) {
        const auto there_and_back = static_cast<std::uint64_t>(2 * latency);
        const std::int64_t packets = lands ? chip_.noc.landing_packets : chip_.noc.buffer_packets;
        const auto kept = static_cast<std::uint64_t>(packets * chip_.noc.packet_bytes);
        found = std::make_unique<Credits>(from, from.width() * there_and_back + kept, static_cast<Cycle>(latency));
    }
    return found.get();
}

void RouteTable::check_conserved() const {
    for (const auto& [ends, credits] : credits_) {
        require_conserved(ends.second->path() + ".credits", "bytes", credits->missing(), 0);
    }
}

std::uint32_t RouteTable::build(const std::vector<std::vector<Step>>& ways) {
    Route route;
    route.root = static_cast<std::uint32_t>(nodes_.size());
    route.copies = static_cast<std::uint32_t>(ways.size());
    std::vector<RouteNode>& nodes = nodes_;
    for (const std::vector<Step>& steps : ways) {
        std::uint32_t at = RouteNode::kNone;
        std::int64_t wire_latency = 0;  // from the step before
        for (const Step& step : steps) {
            std::uint32_t next = at == RouteNode::kNone ? route.root : nodes[at].first_child;
            next = next == nodes.size() ? RouteNode::kNone : next;  // the very first step
            while (next != RouteNode::kNone && (nodes[next].link != step.link || nodes[next].end != step.end)) {
                next = nodes[next].next_sibling;
            }
            if (next == RouteNode::kNone) {
                next = static_cast<std::uint32_t>(nodes.size());
                RouteNode node;
                node.link = step.link;
                node.banks = step.banks;
                node.lead = static_cast<std::uint32_t>(step.lead);
                node.latency = static_cast<std::uint32_t>(step.wire_latency + step.memory_latency);
                node.bytes = step.bytes;
                node.end = step.end;
                node.csram = step.bytes != ByteKind::wire;
                const Feeder& feeder = feeders_.at(step.link);
                node.chained = at != RouteNode::kNone && !feeder.several && feeder.parent == nodes[at].link;
                if (at != RouteNode::kNone) {
                    node.credits = credits(*nodes[at].link, *step.link, wire_latency, step.end == RouteEnd::sram);
                    node.next_sibling = nodes[at].first_child;
                    nodes[at].first_child = next;
                }
                nodes.push_back(node);
                route.gnoc_links += step.gnoc_links;
                route.gnoc_routers += step.gnoc_routers;
                route.cnoc_crossings += step.cnoc_crossings;
            }
            at = next;
            wire_latency = step.wire_latency;
        }
    }
    routes_.push_back(route);
    return static_cast<std::uint32_t>(routes_.size() - 1);
}

std::uint32_t RouteTable::unicast(Endpoint from, Endpoint to) {
    std::uint32_t& index = unicast_[from * endpoints() + to];
    if (index == kUnbuilt) {
        index = build({way(from, to)});
    }
    return index;
}

std::uint32_t RouteTable::multicast(Endpoint from, const TransferEnd& to) {
    const bool tiles = to.space == isa::Space::tsram;
    const Endpoint first = tiles ? tile(to.unit) : csram(to.unit);
    const auto [it, fresh] = multicast_.try_emplace({from, first, to.mask}, 0);
    if (fresh) {
        std::vector<std::vector<Step>> ways;
        for (std::uint32_t bit = 0; bit < 64; ++bit) {
            if ((to.mask >> bit & 1U) != 0) {
                ways.push_back(way(from, first + bit));
            }
        }
        it->second = build(ways);
    }
    return it->second;
}

}  // namespace sluice::sim
