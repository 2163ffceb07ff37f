// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/cluster.hpp"

#include <fmt/format.h>

namespace sluice::sim {

Cluster::Cluster(const sc_core::sc_module_name& name, EngineContext& context, std::uint32_t number, bool reverse)
    : sc_module(name),
      csram_("csram", context.chip.csram),
      noc_("noc", context.chip),
      cdma_("cdma", context, {isa::Level::cluster, number}, context.chip.cdma),
      control_("control", context, {isa::Level::cluster, number}, lane_set()) {
    const auto count = static_cast<std::size_t>(context.chip.soc.tiles_per_cluster);
    tiles_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t t = reverse ? count - 1 - i : i;
        tiles_[t] = std::make_unique<Tile>(fmt::format("tile{}", t).c_str(), context,
                                           static_cast<std::uint32_t>(number * count + t));
    }
}

LaneSet Cluster::lane_set() {
    LaneSet set;
    for (Lane& lane : cdma_.lanes()) {
        set[static_cast<std::size_t>(isa::Engine::cdma)].push_back(&lane);
    }
    return set;
}

std::vector<Lane*> Cluster::lanes() {
    return lane_set()[static_cast<std::size_t>(isa::Engine::cdma)];
}

void Cluster::check_conserved(Cycle end) const {
    cdma_.check_conserved(end);
    for (const auto& tile : tiles_) {
        tile->check_conserved(end);
    }
}

void Cluster::report(StatSheet& sheet) const {
    csram_.report(sheet);
    noc_.report(sheet);
    cdma_.report(sheet);
    for (const auto& tile : tiles_) {
        tile->report(sheet);
    }
}

}  // namespace sluice::sim
