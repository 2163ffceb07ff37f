// SPDX-License-Identifier: Apache-2.0
#pragma once
// The controller of one pseudo-channel. Its policy, at the granularity of packets:
//   A decision is taken whenever something is queued and the committed work on the data bus is less than kHorizonCk
//   ahead (enough to hide PRE + ACT behind the data of others). Among the oldest `hbm.window_packets` packets it picks
//   the one whose data can start first by the ready times of its bank set, the oldest of those that tie; the oldest of
//   all once it has been passed over 2 x window times. All commands of the packet are then committed in closed form.
//   Reads and writes share the queue: turning the bus round costs time, so equal directions go together by themselves.
//   Refresh "per_bank": each bank set every nREFI, evenly staggered, as soon as it is due and idle; "all_bank":
//   everything every nREFI; "none". Rows stay open. Refreshes of an idle channel are caught up with when it is next
//   used.
// A request is seen at the first CK at or after its core cycle; data leave at the first core cycle at or after their
// last CK plus controller and PHY latency (rounded up to CK).
#include <systemc>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/clock.hpp"
#include "sim/core/scheduler.hpp"
#include "sim/core/stats.hpp"
#include "sim/core/transfer.hpp"
#include "sim/mem/hbm_timing.hpp"
#include "sim/mem/memory_controller.hpp"

namespace sluice::sim {

/// What all pseudo-channels of a chip share.
struct HbmContext {
    HbmContext(const isa::ChipSpec& chip, Scheduler& scheduler, PacketPool& packets, DataPort& network);

    const isa::HbmSpec& spec;
    HbmAddressMap map;
    ClockCrossing to_ck, to_core;
    Ck latency_ck;  ///< controller and PHY
    Scheduler& scheduler;
    PacketPool& packets;
    DataPort& network;
};

class PseudoChannel final : public sc_core::sc_module, public EventTarget, public MemoryController {
public:
    PseudoChannel(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number);

    void push(PacketId packet, bool write) override;
    void on_event(std::uint32_t kind, std::uint64_t payload) override;

    void finish(Cycle end) override;
    [[nodiscard]] MemoryCounts counts() const override;
    void report(StatSheet& sheet) const override;

    static constexpr Ck kHorizonCk = 160;

private:
    struct Entry {
        Ck arrival;
        PacketId packet;
        HbmAccess access;
    };

    void schedule_decision();
    void decide(Ck now);
    [[nodiscard]] std::size_t choose(Ck now) const;
    void serve(std::size_t position, Ck now);
    void catch_up(Ck now);
    [[nodiscard]] Ck decision_time() const;

    HbmContext& context_;
    HbmTiming timing_;
    std::size_t window_size_;
    std::vector<Entry> window_;   // the oldest, by age
    std::vector<Entry> backlog_;  // the others; a ring would do, but they are few
    std::size_t backlog_head_ = 0;
    bool pending_ = false;
    Ck decision_ = 0;
    std::size_t passed_over_ = 0;  // times the oldest was passed over
    std::vector<Ck> refresh_due_;  // by set, or one
    Ck next_due_ = ~Ck{0};
    Ck refresh_interval_ = 0;
    bool refresh_sets_ = false;
    MemoryCounts counts_;
};

}  // namespace sluice::sim
