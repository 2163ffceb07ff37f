// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a run can happen although one thing in it never does: a replay of the trace by its waits and signals alone,
// in which the waits for a semaphore take their units in the order of the run.
//
// In that order a wait stays enabled once it is, so nothing that happens keeps anything else from happening: whatever
// cannot happen without an end comes after it in every interleaving that keeps the order, and whatever can, need not.
// All interleavings keep it if no wait can overtake another. The first one that did would have kept it until then, so
// it is enough to ask, of such interleavings alone, whether a wait can have its units while an earlier one has not.
#include <cstdint>
#include <vector>

#include "isa/execute/trace.hpp"

namespace sluice::isa {

class Reachability {
public:
    explicit Reachability(const Trace& trace);

    /// Part `part` of `instruction` never becomes visible; everything else goes on as far as it can.
    void run_without(std::uint32_t instruction, std::uint32_t part);

    /// Whether a wait can have all its units although some that the run has before it never take theirs. Waits are
    /// events of the trace: starts of instructions, or processors' waits.
    [[nodiscard]] bool can_take_without(const std::vector<std::uint32_t>& earlier, std::uint32_t later);

    [[nodiscard]] bool started(std::uint32_t instruction) const { return started_[instruction]; }
    /// The first instruction of every queue that did not start, and the first wait of every processor that it did not
    /// get (by number among its waits and signals).
    struct Stuck {
        std::uint32_t thread;
        std::uint32_t item;  ///< instruction, or number
    };
    [[nodiscard]] std::vector<Stuck> stuck() const;

private:
    /// What a thread does, in order. Of a queue, the starts; its ends are kept apart.
    struct Lane {
        std::vector<std::uint32_t> steps;  ///< events of the trace
        std::vector<std::uint32_t> ends;
        std::size_t next_step = 0, next_end = 0;
        std::size_t ended = 0;  ///< instructions that have ended
        std::uint32_t waits_and_signals = 0;
        bool queued = false;
    };

    static constexpr std::uint32_t kNone = ~0U;

    void run();
    [[nodiscard]] const std::vector<SemCount>& waits_of(const TraceEvent& event) const;
    [[nodiscard]] bool may_start(std::uint32_t thread, const TraceEvent& event) const;
    bool advance(std::uint32_t thread);
    bool step(std::uint32_t thread);
    bool end(std::uint32_t thread);
    bool take(std::uint32_t event, std::uint32_t thread);
    void give(const std::vector<SemCount>& counts);
    void wake(std::uint32_t thread);
    void wake_waiters(std::uint32_t semaphore);

    const Trace& trace_;
    std::vector<Lane> lanes_;
    std::vector<std::vector<std::uint32_t>> turns_;  ///< of an event's waits: how many took from the semaphore before
    std::vector<std::int64_t> values_;
    std::vector<std::uint32_t> taken_;  ///< how often, of each semaphore
    std::vector<std::vector<std::uint32_t>> waiters_;
    std::vector<char> issued_, started_;
    std::vector<std::uint32_t> ready_;
    std::uint32_t blocked_instruction_ = kNone, blocked_part_ = 0;
    std::vector<std::uint32_t> blocked_waits_;
};

}  // namespace sluice::isa
