// SPDX-License-Identifier: Apache-2.0
#pragma once
// The numbering of what stands at the ends of ways through the chip: tiles (TSRAM) first, then clusters (CSRAM), then
// HBM stacks, then the chip's control processor, which only sends and receives messages.
#include <cstdint>

#include "isa/chip_spec.hpp"

namespace sluice::sim {

using Endpoint = std::uint32_t;

class Endpoints {
public:
    explicit Endpoints(const isa::ChipSpec& chip)
        : tiles_(static_cast<std::size_t>(isa::tile_count(chip))),
          clusters_(static_cast<std::size_t>(chip.soc.clusters)),
          stacks_(static_cast<std::size_t>(chip.hbm.stacks)) {}

    [[nodiscard]] static Endpoint tile(std::size_t i) { return static_cast<Endpoint>(i); }
    [[nodiscard]] Endpoint cluster(std::size_t i) const { return static_cast<Endpoint>(tiles_ + i); }
    [[nodiscard]] Endpoint stack(std::size_t i) const { return static_cast<Endpoint>(tiles_ + clusters_ + i); }
    [[nodiscard]] Endpoint chip() const { return static_cast<Endpoint>(count() - 1); }
    [[nodiscard]] std::size_t count() const { return tiles_ + clusters_ + stacks_ + 1; }

private:
    std::size_t tiles_, clusters_, stacks_;
};

}  // namespace sluice::sim
