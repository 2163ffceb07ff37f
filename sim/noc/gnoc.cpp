// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/gnoc.hpp"

#include <fmt/format.h>

namespace sluice::sim {

Gnoc::Gnoc(const sc_core::sc_module_name& name, const isa::ChipSpec& chip) : sc_module(name), floorplan_(chip) {
    const std::string path = this->name();
    static constexpr const char* kNames[] = {"east", "west", "north", "south"};
    for (std::int64_t y = 0; y < floorplan_.rows; ++y) {
        for (std::int64_t x = 0; x < Floorplan::kColumns; ++x) {
            for (const char* direction : kNames) {
                links_.emplace_back(fmt::format("{}.router_{}_{}.{}", path, x, y, direction),
                                    chip.gnoc.link_bytes_per_cycle);
            }
        }
    }
    for (std::size_t i = 0; i < floorplan_.clusters.size(); ++i) {
        const std::int64_t width = chip.noc.cluster_port_bytes_per_cycle;
        cluster_ports_.push_back({Link(fmt::format("{}.cluster{}.in", path, i), width),
                                  Link(fmt::format("{}.cluster{}.out", path, i), width)});
    }
    for (std::size_t i = 0; i < floorplan_.stacks.size(); ++i) {
        const std::int64_t width = chip.gnoc.hbm_port_bytes_per_cycle;
        stack_ports_.push_back(
            {Link(fmt::format("{}.hbm{}.in", path, i), width), Link(fmt::format("{}.hbm{}.out", path, i), width)});
    }
}

std::vector<Link*> Gnoc::links(MeshPosition from, MeshPosition to) {
    std::vector<Link*> result;
    while (from.x != to.x) {
        const Direction direction = from.x < to.x ? kEast : kWest;
        result.push_back(&link(from, direction));
        from.x += direction == kEast ? 1 : -1;
    }
    while (from.y != to.y) {
        const Direction direction = from.y < to.y ? kSouth : kNorth;
        result.push_back(&link(from, direction));
        from.y += direction == kSouth ? 1 : -1;
    }
    return result;
}

std::uint64_t Gnoc::link_bytes() const {
    std::uint64_t bytes = 0;
    for (const Link& link : links_) {
        bytes += link.bytes();
    }
    return bytes;
}

void Gnoc::report(StatSheet& sheet) const {
    for (const Link& link : links_) {
        if (link.bytes() > 0) {
            sheet.link(link);
        }
    }
    for (const auto* ports : {&cluster_ports_, &stack_ports_}) {
        for (const GnocPort& port : *ports) {
            sheet.link(port.in);
            sheet.link(port.out);
        }
    }
}

}  // namespace sluice::sim
