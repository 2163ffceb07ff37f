// SPDX-License-Identifier: Apache-2.0
#pragma once
// The global network: a 2-D mesh of FIFO links with XY routing, and the ports that stand on it. Holds the resources;
// `RouteTable` strings them together and `Transport` moves packets.
#include <systemc>
#include <vector>

#include "sim/core/link.hpp"
#include "sim/core/stats.hpp"
#include "sim/noc/floorplan.hpp"

namespace sluice::sim {

/// Both directions of a port, seen from the network: `in` leads off the mesh.
struct GnocPort {
    Link in, out;
};

class Gnoc : public sc_core::sc_module {
public:
    Gnoc(const sc_core::sc_module_name& name, const isa::ChipSpec& chip);

    [[nodiscard]] const Floorplan& floorplan() const { return floorplan_; }
    [[nodiscard]] GnocPort& cluster_port(std::size_t i) { return cluster_ports_[i]; }
    [[nodiscard]] GnocPort& stack_port(std::size_t i) { return stack_ports_[i]; }

    /// The links from one position to another: along x first, then along y.
    [[nodiscard]] std::vector<Link*> links(MeshPosition from, MeshPosition to);

    /// Bytes that crossed links of the mesh, over all links.
    [[nodiscard]] std::uint64_t link_bytes() const;
    void report(StatSheet& sheet) const;

private:
    enum Direction : std::size_t { kEast, kWest, kNorth, kSouth, kDirections };
    [[nodiscard]] Link& link(MeshPosition at, Direction direction) {
        return links_[static_cast<std::size_t>(at.y * Floorplan::kColumns + at.x) * kDirections + direction];
    }

    Floorplan floorplan_;
    std::vector<Link> links_;
    std::vector<GnocPort> cluster_ports_, stack_ports_;
};

}  // namespace sluice::sim
