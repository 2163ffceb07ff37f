// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways through the chip. A way is a chain of FIFO resources with constant latencies between them; a multicast way is
// the union of the chains to all destinations, a tree in which every resource stands once, so that each link is charged
// once and each destination books its own port.
//
// The endpoints of ways are those of core/endpoint.hpp without the chip's control processor.
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/endpoint.hpp"
#include "sim/core/fifo_server.hpp"
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
    FifoServer* server = nullptr;
    BankCalendar* banks = nullptr;  ///< of the SRAM whose port this is
    std::uint32_t latency = 0;      ///< after crossing, to the next resource or until the data are in memory
    std::uint32_t first_child = kNone;
    std::uint32_t next_sibling = kNone;
    ByteKind bytes = ByteKind::wire;
    RouteEnd end = RouteEnd::none;
    bool csram = false;
    /// Only the parent feeds this resource, so that packets can be booked at once, in order, without an event.
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
               std::vector<FifoServer*> csram_ports, std::vector<BankCalendar*> banks);

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

    /// Of a request message on its way to the source, on the control plane.
    [[nodiscard]] Cycle request_latency(Endpoint issuer, Endpoint source) const {
        return request_latency_[issuer * endpoints() + source];
    }

private:
    static constexpr std::uint32_t kUnbuilt = ~std::uint32_t{0};
    struct Step {
        FifoServer* server = nullptr;
        std::int64_t wire_latency = 0;
        std::int64_t memory_latency = 0;
        ByteKind bytes = ByteKind::wire;
        RouteEnd end = RouteEnd::none;
        BankCalendar* banks = nullptr;
        std::uint32_t gnoc_links = 0, gnoc_routers = 0, cnoc_crossings = 0;
    };
    struct Feeder {
        const FifoServer* parent = nullptr;
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

    const isa::ChipSpec& chip_;
    Gnoc& gnoc_;
    std::vector<ClusterNoc*> cluster_nocs_;
    std::vector<FifoServer*> csram_ports_;
    std::vector<BankCalendar*> banks_;
    std::size_t tiles_, clusters_, stacks_, tiles_per_cluster_;
    std::vector<Route> routes_;
    std::vector<RouteNode> nodes_;  ///< of all routes
    std::vector<std::uint32_t> unicast_;
    std::vector<Cycle> request_latency_;
    std::map<std::tuple<Endpoint, Endpoint, std::uint64_t>, std::uint32_t> multicast_;
    std::map<const FifoServer*, Feeder> feeders_;
};

}  // namespace sluice::sim
