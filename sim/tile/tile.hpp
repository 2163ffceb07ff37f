// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tile: TSRAM, DMA engine, tensor, vector and reshape engines, and the control processor that feeds their queues.
#include <systemc>
#include <vector>

#include "sim/engine/compute_engine.hpp"
#include "sim/engine/control_processor.hpp"
#include "sim/engine/dma_engine.hpp"
#include "sim/mem/sram.hpp"

namespace sluice::sim {

class Tile final : public sc_core::sc_module {
public:
    Tile(const sc_core::sc_module_name& name, EngineContext& context, std::uint32_t number);

    [[nodiscard]] ControlProcessor& control() { return control_; }
    [[nodiscard]] std::vector<Lane*> lanes();
    void report(StatSheet& sheet) const;
    void check_conserved(Cycle end) const { tdma_.check_conserved(end); }

private:
    [[nodiscard]] LaneSet lane_set();

    Tsram tsram_;
    DmaEngine tdma_;
    ComputeEngine ttu_, tvp_, reshaper_;
    ControlProcessor control_;
};

}  // namespace sluice::sim
