// SPDX-License-Identifier: Apache-2.0
#pragma once
// The networks of one cluster: a crossbar with a port each way for every tile, and a 1-D mesh of links between
// neighbouring physical slots. A tile's one ingress takes what comes by mesh, crossbar and broadcast.
#include <systemc>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/link.hpp"
#include "sim/core/stats.hpp"

namespace sluice::sim {

class ClusterNoc : public sc_core::sc_module {
public:
    ClusterNoc(const sc_core::sc_module_name& name, const isa::ChipSpec& chip);

    [[nodiscard]] Link& ingress(std::size_t tile) { return ingress_[tile]; }
    [[nodiscard]] Link& egress(std::size_t tile) { return egress_[tile]; }

    /// The mesh links from one logical tile to another. A disabled slot carries no tile but has its router.
    [[nodiscard]] std::vector<Link*> links(std::size_t from, std::size_t to);
    /// Physical slot of a logical tile.
    [[nodiscard]] std::size_t slot(std::size_t tile) const;

    void report(StatSheet& sheet) const;

private:
    std::size_t disabled_, first_disabled_;
    std::vector<Link> ingress_, egress_;
    std::vector<Link> up_, down_;  // link i joins slots i and i + 1
};

}  // namespace sluice::sim
