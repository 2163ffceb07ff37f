// SPDX-License-Identifier: Apache-2.0
#pragma once
// The HBM of a chip: stacks of pseudo-channels behind one address map.
#include <memory>
#include <systemc>
#include <vector>

#include "sim/core/energy.hpp"
#include "sim/mem/pseudo_channel.hpp"

namespace sluice::sim {

class HbmStack : public sc_core::sc_module {
public:
    HbmStack(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number, bool reverse);

    [[nodiscard]] MemoryController& pseudo_channel(std::size_t i) { return *pseudo_channels_[i]; }

private:
    std::vector<std::unique_ptr<MemoryController>> pseudo_channels_;
};

class Hbm final : public MemoryPort {
public:
    /// Stacks become children of the module that is under construction.
    Hbm(const isa::ChipSpec& chip, Scheduler& scheduler, PacketPool& packets, DataPort& network, bool reverse);

    [[nodiscard]] HbmPlace decode(std::uint64_t address, std::uint32_t bytes) const override;
    void read(PacketId packet) override;
    void write(PacketId packet) override;

    void finish(Cycle end);
    void report(StatSheet& sheet) const;

    [[nodiscard]] const HbmGeometry& geometry() const { return context_.map.geometry(); }
    /// Bank refreshes, or refreshes of whole pseudo-channels.
    [[nodiscard]] std::uint64_t refreshes() const;
    [[nodiscard]] Bytes read_bytes() const;
    [[nodiscard]] Bytes written_bytes() const;

private:
    [[nodiscard]] MemoryCounts counts() const;

    HbmContext context_;
    PacketPool& packets_;
    std::vector<std::unique_ptr<HbmStack>> stacks_;
    std::vector<MemoryController*> pseudo_channels_;
};

}  // namespace sluice::sim
