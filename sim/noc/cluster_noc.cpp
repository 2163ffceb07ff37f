// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/cluster_noc.hpp"

#include <fmt/format.h>

namespace sluice::sim {

ClusterNoc::ClusterNoc(const sc_core::sc_module_name& name, const isa::ChipSpec& chip)
    : sc_module(name),
      disabled_(static_cast<std::size_t>(chip.soc.tiles_per_cluster_physical - chip.soc.tiles_per_cluster)),
      first_disabled_(static_cast<std::size_t>(chip.soc.disabled_slot)) {
    const std::string path = this->name();
    for (std::int64_t i = 0; i < chip.soc.tiles_per_cluster; ++i) {
        ingress_.emplace_back(fmt::format("{}.tile{}.ingress", path, i), chip.noc.tile_port_bytes_per_cycle);
        egress_.emplace_back(fmt::format("{}.tile{}.egress", path, i), chip.noc.tile_port_bytes_per_cycle);
    }
    for (std::int64_t i = 0; i + 1 < chip.soc.tiles_per_cluster_physical; ++i) {
        up_.emplace_back(fmt::format("{}.mesh{}_{}", path, i, i + 1), chip.noc.tile_mesh_bytes_per_cycle);
        down_.emplace_back(fmt::format("{}.mesh{}_{}", path, i + 1, i), chip.noc.tile_mesh_bytes_per_cycle);
    }
}

std::size_t ClusterNoc::slot(std::size_t tile) const {
    return tile < first_disabled_ ? tile : tile + disabled_;
}

std::vector<Link*> ClusterNoc::links(std::size_t from, std::size_t to) {
    std::vector<Link*> result;
    const std::size_t last = slot(to);
    for (std::size_t at = slot(from); at < last; ++at) {
        result.push_back(&up_[at]);
    }
    for (std::size_t at = slot(from); at > last; --at) {
        result.push_back(&down_[at - 1]);
    }
    return result;
}

void ClusterNoc::report(StatSheet& sheet) const {
    for (const auto* links : {&ingress_, &egress_}) {
        for (const Link& link : *links) {
            sheet.link(link);
        }
    }
    for (const auto* links : {&up_, &down_}) {
        for (const Link& link : *links) {
            if (link.bytes() > 0) {
                sheet.link(link);
            }
        }
    }
}

}  // namespace sluice::sim
