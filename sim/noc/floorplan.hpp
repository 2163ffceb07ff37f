// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the GNoC's ports stand on its 2-D mesh: four columns; HBM stacks alternate between the left and the right edge,
// row by row; clusters in the two middle columns, the first half from the top row down, the others from the bottom row
// up; network controllers and PCIe in the middle row. Derived from the counts, so any chip has one.
#include <cstdint>
#include <vector>

#include "isa/chip_spec.hpp"

namespace sluice::sim {

struct MeshPosition {
    std::int64_t x = 0, y = 0;
    friend bool operator==(const MeshPosition&, const MeshPosition&) = default;
};

struct Floorplan {
    explicit Floorplan(const isa::ChipSpec& chip);

    static constexpr std::int64_t kColumns = 4;
    std::int64_t rows = 1;
    std::vector<MeshPosition> clusters, stacks, network_controllers;
    MeshPosition pcie;
};

}  // namespace sluice::sim
