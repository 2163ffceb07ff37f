// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cluster: tiles, the CSRAM they share, the networks between them, the cluster's DMA engine and control processor.
#include <memory>
#include <systemc>
#include <vector>

#include "sim/noc/cluster_noc.hpp"
#include "sim/tile/tile.hpp"

namespace sluice::sim {

class Cluster final : public sc_core::sc_module {
public:
    Cluster(const sc_core::sc_module_name& name, EngineContext& context, std::uint32_t number, bool reverse);

    [[nodiscard]] Csram& csram() { return csram_; }
    [[nodiscard]] ClusterNoc& noc() { return noc_; }
    [[nodiscard]] ControlProcessor& control() { return control_; }
    [[nodiscard]] Tile& tile(std::size_t i) { return *tiles_[i]; }
    [[nodiscard]] std::size_t tiles() const { return tiles_.size(); }
    /// Of the cluster itself, not of its tiles.
    [[nodiscard]] std::vector<Lane*> lanes();
    void report(StatSheet& sheet) const;
    void check_conserved(Cycle end) const;

private:
    [[nodiscard]] LaneSet lane_set();

    Csram csram_;
    ClusterNoc noc_;
    DmaEngine cdma_;
    ControlProcessor control_;
    std::vector<std::unique_ptr<Tile>> tiles_;
};

}  // namespace sluice::sim
