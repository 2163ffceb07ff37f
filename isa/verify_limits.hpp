// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many units, bytes and semaphores of each kind a chip has.
#include <cstdint>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::isa {

class ChipLimits {
public:
    explicit ChipLimits(const ChipSpec& chip) : chip_(chip) {}

    [[nodiscard]] std::int64_t units(Level level) const {
        switch (level) {
            case Level::tile: return tile_count(chip_);
            case Level::cluster: return chip_.soc.clusters;
            case Level::chip: break;
        }
        return 1;
    }
    [[nodiscard]] std::int64_t units(Space space) const {
        switch (space) {
            case Space::tsram: return tile_count(chip_);
            case Space::csram: return chip_.soc.clusters;
            case Space::hbm: break;
        }
        return 1;
    }
    [[nodiscard]] std::int64_t bytes(Space space) const {
        switch (space) {
            case Space::tsram: return chip_.tsram.bytes;
            case Space::csram: return chip_.csram.bytes;
            case Space::hbm: break;
        }
        return static_cast<std::int64_t>(hbm_bytes(chip_));
    }
    [[nodiscard]] std::int64_t semaphores(Level level) const {
        switch (level) {
            case Level::tile: return chip_.semaphores.per_tile;
            case Level::cluster: return chip_.semaphores.per_cluster;
            case Level::chip: break;
        }
        return chip_.semaphores.per_chip;
    }
    /// The highest value of a semaphore.
    [[nodiscard]] std::int64_t semaphore_value() const { return (std::int64_t{1} << chip_.semaphores.width_bits) - 1; }
    [[nodiscard]] std::int64_t lanes(Engine engine) const {
        switch (engine) {
            case Engine::tdma: return chip_.tdma.channels;
            case Engine::cdma: return chip_.cdma.channels;
            case Engine::ttu: return chip_.ttu.contexts;
            case Engine::tvp: return chip_.tvp.contexts;
            case Engine::reshaper: break;
        }
        return 1;
    }
    [[nodiscard]] std::int64_t tiles_per_cluster() const { return chip_.soc.tiles_per_cluster; }
    [[nodiscard]] const ChipSpec& chip() const { return chip_; }

private:
    const ChipSpec& chip_;
};

}  // namespace sluice::isa
