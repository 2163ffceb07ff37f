// SPDX-License-Identifier: Apache-2.0
#include "sim/tile/tile.hpp"

namespace sluice::sim {

namespace {
Location at(std::uint32_t tile) {
    return {isa::Level::tile, tile};
}
}  // namespace

Tile::Tile(const sc_core::sc_module_name& name, EngineContext& context, std::uint32_t number)
    : sc_module(name),
      tsram_("tsram", context.chip.tsram),
      tdma_("tdma", context, at(number), context.chip.tdma),
      ttu_("ttu", context, at(number), Resource::ttu, context.chip.ttu.contexts),
      tvp_("tvp", context, at(number), Resource::tvp, context.chip.tvp.contexts),
      reshaper_("reshaper", context, at(number), Resource::reshaper, 0),
      control_("control", context, at(number), lane_set()) {
    context.tsram[number] = &tsram_.traffic();
    context.banks[number] = &tsram_.banks();
}

LaneSet Tile::lane_set() {
    LaneSet set;
    const auto fill = [&set](isa::Engine engine, std::deque<Lane>& lanes) {
        for (Lane& lane : lanes) {
            set[static_cast<std::size_t>(engine)].push_back(&lane);
        }
    };
    fill(isa::Engine::tdma, tdma_.lanes());
    fill(isa::Engine::ttu, ttu_.lanes());
    fill(isa::Engine::tvp, tvp_.lanes());
    fill(isa::Engine::reshaper, reshaper_.lanes());
    return set;
}

std::vector<Lane*> Tile::lanes() {
    std::vector<Lane*> all;
    for (const std::vector<Lane*>& lanes : lane_set()) {
        all.insert(all.end(), lanes.begin(), lanes.end());
    }
    return all;
}

void Tile::report(StatSheet& sheet) const {
    tsram_.report(sheet);
    tdma_.report(sheet);
    ttu_.report(sheet);
    tvp_.report(sheet);
    reshaper_.report(sheet);
}

}  // namespace sluice::sim
