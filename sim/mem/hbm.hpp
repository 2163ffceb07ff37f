// SPDX-License-Identifier: Apache-2.0
#pragma once
// The HBM of a chip: stacks of channels behind one address map, between the network and `DramChannel`.
//
// A request is seen at the first CK at or after its core cycle; data leave at the first core cycle at or after their
// last CK plus controller and PHY latency (rounded up to CK). Writes are posted: one is done, for the engine that sent
// it, a controller latency after it has entered the write queue. A channel is woken seldom: data arrive so long after
// the column command that asked for them (`DramChannel::notice` and those latencies) that its decisions may be taken
// that much later than they happen, when all requests that could have mattered are known. One wake-up performs all that
// was due.
#include <memory>
#include <systemc>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/clock.hpp"
#include "sim/core/report.hpp"
#include "sim/core/scheduler.hpp"
#include "sim/core/stats.hpp"
#include "sim/core/transfer.hpp"
#include "sim/mem/address_map.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

/// What all channels of a chip share.
struct HbmContext {
    HbmContext(const isa::ChipSpec& chip, Scheduler& scheduler, PacketPool& packets, DataPort& network,
               PostedWrites& writes);

    const isa::HbmSpec& spec;
    AddressMap map;
    DramTable table;
    ClockCrossing to_ck, to_core;
    Ck controller_ck, latency_ck;   ///< controller; controller and PHY
    std::uint64_t pseudo_channels;  ///< of the chip
    Scheduler& scheduler;
    PacketPool& packets;
    DataPort& network;
    PostedWrites& writes;
};

class HbmChannel final : public sc_core::sc_module, public EventTarget, public DramClient {
public:
    /// `number` on the chip.
    HbmChannel(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number);

    /// A packet arrives now. Its place is src_place of a read, dst_place of a write.
    void push(PacketId packet, bool write);
    void on_event(std::uint32_t kind, std::uint64_t payload) override;
    void accepted(std::uint64_t tag, Ck arrival, Ck at) override;
    void served(const DramServed& served) override;

    /// Keeps the commands given at CKs [from, to).
    void record_commands(Ck from, Ck to);
    [[nodiscard]] const std::vector<DramTraceEntry>& commands() const { return kept_; }

    /// At the end of a run every burst asked for has been served.
    void check_conserved() const;

    /// Catches up with what was due before the end of the run.
    void finish(Cycle end);
    [[nodiscard]] const DramChannel& controller() const { return controller_; }
    [[nodiscard]] DramChannel& controller() { return controller_; }
    void report(StatSheet& sheet) const;

private:
    /// For whom a posted write is done.
    struct Posted {
        NodeId node;
        RecordId record;
        std::uint32_t next_free;
    };
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    void perform(Ck end);
    void keep_commands();
    void wake_for(Ck action);
    [[nodiscard]] std::uint32_t post(const Transfer& transfer);

    HbmContext& context_;
    std::vector<Posted> posted_;
    std::uint32_t free_posted_ = kNone;
    DramChannel controller_;
    Cycle wake_ = ~Cycle{0};
    std::array<std::uint64_t, 2> asked_{};      ///< bursts to read, to write
    std::vector<DramTraceEntry> given_, kept_;  ///< commands: since the last look, of the window
    Ck keep_from_ = 0, keep_to_ = 0;
};

class HbmStack : public sc_core::sc_module {
public:
    HbmStack(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number, bool reverse);

    [[nodiscard]] HbmChannel& channel(std::size_t i) { return *channels_[i]; }

private:
    std::vector<std::unique_ptr<HbmChannel>> channels_;
};

class Hbm final : public MemoryPort {
public:
    /// Stacks become children of the module that is under construction.
    Hbm(const isa::ChipSpec& chip, Scheduler& scheduler, PacketPool& packets, DataPort& network, PostedWrites& writes,
        bool reverse);

    [[nodiscard]] HbmPlace decode(std::uint64_t address, std::uint32_t bytes) const override {
        return context_.map.decode(address, bytes);
    }
    void read(PacketId packet) override;
    void write(PacketId packet) override;

    /// Commands given in core cycles [from, to), by time, then by channel.
    void record_commands(Cycle from, Cycle to);
    [[nodiscard]] std::vector<HbmCommand> commands() const;

    void finish(Cycle end);
    void check_conserved() const;
    void report(StatSheet& sheet) const;

    [[nodiscard]] std::uint64_t pseudo_channels() const { return context_.pseudo_channels; }
    /// Bank refreshes, or refreshes of whole pseudo-channels.
    [[nodiscard]] std::uint64_t refreshes() const { return counts().refreshes; }
    [[nodiscard]] Bytes read_bytes() const;
    [[nodiscard]] Bytes written_bytes() const;

private:
    [[nodiscard]] DramCounts counts() const;

    HbmContext context_;
    PacketPool& packets_;
    std::vector<std::unique_ptr<HbmStack>> stacks_;
    std::vector<HbmChannel*> channels_;
};

}  // namespace sluice::sim
