// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/floorplan.hpp"

#include <algorithm>

namespace sluice::sim {

Floorplan::Floorplan(const isa::ChipSpec& chip) {
    const std::int64_t upper = (chip.soc.clusters + 1) / 2;
    const std::int64_t lower = chip.soc.clusters - upper;
    rows = std::max((chip.hbm.stacks + 1) / 2, (upper + 1) / 2 + (lower + 1) / 2);
    rows = std::max<std::int64_t>(rows, 1);
    for (std::int64_t i = 0; i < upper; ++i) {
        clusters.push_back({1 + i % 2, i / 2});
    }
    for (std::int64_t i = 0; i < lower; ++i) {
        clusters.push_back({1 + i % 2, rows - 1 - i / 2});
    }
    for (std::int64_t i = 0; i < chip.hbm.stacks; ++i) {
        stacks.push_back({i % 2 == 0 ? 0 : kColumns - 1, i / 2});
    }
    for (std::int64_t i = 0; i < 2; ++i) {
        network_controllers.push_back({1 + i, rows / 2});
    }
    pcie = {1, rows / 2};
}

}  // namespace sluice::sim
