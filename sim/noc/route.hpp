// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways through the chip. A way is a chain of FIFO resources with constant latencies between them; a multicast way is
// the union of the chains to all destinations, a tree in which every resource stands once, so that each link is charged
// once and each destination books its own port.
//
// Every resource that packets enter over another one has a buffer for each such other one, so large that a packet which
// nothing holds up never waits for a credit: what crosses in the time there and back, and `noc.buffer_packets` more
// (`noc.landing_packets` in front of an SRAM).
//
// No deadlock: a packet waits for room in front of the next resource of its way. Order all resources: ports out of
// SRAMs and HBM; tile mesh links in each direction by position; clusters' ports out; mesh links that lead along x, in
// each direction by position; links along y, likewise; ports into clusters and stacks. A way visits them in ascending
// order, so nobody waits for itself in a circle, and its end, an SRAM or the HBM's controller, always takes a packet: a
// CSRAM's port, which stands at both ends of ways, is not held by packets that leave and wait for room; writes pass
// them. A multicast packet goes on along each branch by itself, and room for all of it is taken before it starts.
//
// The endpoints of ways are those of core/endpoint.hpp without the chip's control processor.
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/endpoint.hpp"
#include "sim/core/link.hpp"
#include "sim/core/sram_banks.hpp"
#include "sim/core/transfer.hpp"
#include "sim/noc/cluster_noc.hpp"
#include "sim/noc/gnoc.hpp"

namespace sluice::sim {

/// Which of a packet's sizes a resource carries: they differ if the transfer converts formats.
enum class ByteKind : std::uint8_t { wire, source, destination };
enum class RouteEnd : std::uint8_t { none, sram, hbm };

struct RouteNode {
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    Link* link = nullptr;
    Credits* credits = nullptr;  ///< of the buffer in front of it for what comes from its parent; none at a root
    SramBanks* banks = nullptr;  ///< of the SRAM whose port this is
    std::uint32_t lead = 0;      ///< from the grant until the first byte can cross: the reading of a TSRAM
    std::uint32_t latency = 0;   ///< after crossing, to the next resource or until the data are in memory
    std::uint32_t first_child = kNone;
    std::uint32_t next_sibling = kNone;
    ByteKind bytes = ByteKind::wire;
    RouteEnd end = RouteEnd::none;
    bool csram = false;
    /// Only the parent feeds this resource, so that packets can be booked at once, in order, without an event (if their
    /// credits allow it).
    bool chained = false;
};

struct Route {
    std::uint32_t root = 0;  ///< node of the source's own port
    std::uint32_t copies = 1;
    std::uint32_t gnoc_links = 0, gnoc_routers = 0, cnoc_crossings = 0;
};

class RouteTable {
public:
    /// `banks`: of the SRAMs, by endpoint (tiles, then clusters).
    RouteTable(const isa::ChipSpec& chip, Gnoc& gnoc, std::vector<ClusterNoc*> cluster_nocs,
               std::vector<Link*> csram_ports, std::vector<SramBanks*> banks);

    [[nodiscard]] Endpoint tile(std::size_t i) const { return static_cast<Endpoint>(i); }
    [[nodiscard]] Endpoint csram(std::size_t i) const { return static_cast<Endpoint>(tiles_ + i); }
    [[nodiscard]] Endpoint stack(std::size_t i) const { return static_cast<Endpoint>(tiles_ + clusters_ + i); }
    [[nodiscard]] std::size_t endpoints() const { return tiles_ + clusters_ + stacks_; }
    [[nodiscard]] bool is_tile(Endpoint e) const { return e < tiles_; }

    /// Index of the route; built at first use.
    [[nodiscard]] std::uint32_t unicast(Endpoint from, Endpoint to);
    [[nodiscard]] std::uint32_t multicast(Endpoint from, const TransferEnd& to);
    [[nodiscard]] const Route& route(std::uint32_t index) const { return routes_[index]; }
    [[nodiscard]] const RouteNode& node(std::uint32_t index) const { return nodes_[index]; }
    [[nodiscard]] Link& link(std::uint32_t number) const { return *links_[number]; }
    [[nodiscard]] std::size_t links() const { return links_.size(); }
    /// At the end of a run all credits are back.
    void check_conserved() const;

    /// Of a request message on its way to the source, on the control plane.
    [[nodiscard]] Cycle request_latency(Endpoint issuer, Endpoint source) const {
        return request_latency_[issuer * endpoints() + source];
    }

private:
    static constexpr std::uint32_t kUnbuilt = ~std::uint32_t{0};
    struct Step {
        Link* link = nullptr;
        std::int64_t lead = 0;
        std::int64_t wire_latency = 0;
        std::int64_t memory_latency = 0;
        ByteKind bytes = ByteKind::wire;
        RouteEnd end = RouteEnd::none;
        SramBanks* banks = nullptr;
        std::uint32_t gnoc_links = 0, gnoc_routers = 0, cnoc_crossings = 0;
    };
    struct Feeder {
        const Link* parent = nullptr;
        std::int64_t latency = 0;
        bool several = false;
    };

    [[nodiscard]] bool in_cluster(Endpoint e) const { return e < tiles_ + clusters_; }
    [[nodiscard]] std::size_t cluster_of(Endpoint e) const { return e < tiles_ ? e / tiles_per_cluster_ : e - tiles_; }
    [[nodiscard]] MeshPosition position(Endpoint e) const;
    [[nodiscard]] std::vector<Step> way(Endpoint from, Endpoint to) const;
    [[nodiscard]] Step source_step(Endpoint from) const;
    [[nodiscard]] Step sram_step(Endpoint to) const;
    void append_mesh_way(Endpoint from, Endpoint to, std::vector<Step>& steps) const;
    void append_global_way(Endpoint from, Endpoint to, std::vector<Step>& steps) const;
    std::uint32_t build(const std::vector<std::vector<Step>>& ways);
    void learn_feeders();
    Credits* credits(Link& from, const Link& to, std::int64_t latency, bool lands);

    const isa::ChipSpec& chip_;
    Gnoc& gnoc_;
    std::vector<ClusterNoc*> cluster_nocs_;
    std::vector<Link*> csram_ports_;
    std::vector<SramBanks*> banks_;
    std::size_t tiles_, clusters_, stacks_, tiles_per_cluster_;
    std::vector<Route> routes_;
    std::vector<RouteNode> nodes_;  ///< of all routes
    std::vector<std::uint32_t> unicast_;
    std::vector<Cycle> request_latency_;
    std::map<std::tuple<Endpoint, Endpoint, std::uint64_t>, std::uint32_t> multicast_;
    std::map<const Link*, Feeder> feeders_;
    std::vector<Link*> links_;  ///< by number
    std::map<std::pair<const Link*, const Link*>, std::unique_ptr<Credits>> credits_;
};

}  // namespace sluice::sim
