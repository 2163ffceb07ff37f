// SPDX-License-Identifier: Apache-2.0
#pragma once
// An engine whose macros take a time known at issue, and what conflicts for banks add to it: TTU, TVP and reshaper. Its
// contexts share one array: one macro at a time, the one that has been ready longest first, the lower context of those
// that tie. A macro is ready when its waits are taken; it ends, and signals, after its cycles; the next may start in
// the same cycle. One event per macro, one per block row that signals, and a few more while banks hold it up: the
// engine asks again when the macro's clock could be there at the earliest.
#include <algorithm>
#include <deque>
#include <systemc>

#include "sim/core/stats.hpp"
#include "sim/engine/lane.hpp"

namespace sluice::sim {

class ComputeEngine final : public sc_core::sc_module, public EventTarget, public LaneOwner {
public:
    /// `lane_path` + number is the path of a context's account; without contexts to tell apart (`contexts` 0), one lane
    /// has the plain path.
    ComputeEngine(const sc_core::sc_module_name& name, EngineContext& context, Location location, Resource resource,
                  std::int64_t contexts);

    [[nodiscard]] std::deque<Lane>& lanes() { return lanes_; }
    [[nodiscard]] const Task* running() const { return running_; }
    void report(StatSheet& sheet) const;

    void on_lane(std::size_t lane) override;
    void on_event(std::uint32_t kind, std::uint64_t payload) override;

private:
    enum Kind : std::uint32_t { kArbitrate, kLook };
    struct Ready {
        Task* task = nullptr;
        Cycle since = 0;
    };

    void arbitrate();
    void start(std::size_t lane);
    [[nodiscard]] SramBanks& banks() const;
    void look();
    void wait_for(Cycle clock);
    void finish_row();
    void done();
    void request_arbitration();

    EngineContext& context_;
    Location location_;
    Resource resource_;
    std::deque<Lane> lanes_;  // stable addresses: lanes stand in lists of semaphores
    std::vector<Ready> ready_;
    Task* running_ = nullptr;
    std::size_t running_lane_ = 0;
    BankClient client_;
    std::int64_t rows_done_ = 0;
    Cycle awaited_ = 0;  ///< on the macro's clock
    Cause array_free_;
    bool arbitration_pending_ = false;
    Cycle busy_cycles_ = 0;
    std::uint64_t macros_ = 0;
};

}  // namespace sluice::sim
