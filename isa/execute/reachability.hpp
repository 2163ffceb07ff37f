// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a run can happen although one instruction never ends: a replay of the trace by its waits and signals alone.
// Because waits stay enabled once they are (see happens_before.hpp), whatever cannot happen then comes after that end
// in every interleaving, and whatever can, need not.
#include <cstdint>
#include <vector>

#include "isa/execute/trace.hpp"

namespace sluice::isa {

class Reachability {
public:
    explicit Reachability(const Trace& trace);

    /// Part `part` of `instruction` never becomes visible; everything else goes on as far as it can.
    void run_without(std::uint32_t instruction, std::uint32_t part);

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
        std::vector<const TraceEvent*> steps;
        std::vector<const TraceEvent*> ends;
        std::size_t next_step = 0, next_end = 0;
        std::size_t ended = 0;  ///< instructions that have ended
        std::uint32_t waits_and_signals = 0;
        bool queued = false;
    };

    bool advance(std::uint32_t thread);
    bool step(std::uint32_t thread);
    bool end(std::uint32_t thread);
    bool take(const std::vector<SemCount>& counts, std::uint32_t thread);
    void give(const std::vector<SemCount>& counts);
    void wake(std::uint32_t thread);

    const Trace& trace_;
    std::vector<Lane> lanes_;
    std::vector<std::int64_t> values_;
    std::vector<std::vector<std::uint32_t>> waiters_;
    std::vector<char> issued_, started_;
    std::vector<std::uint32_t> ready_;
    std::uint32_t blocked_instruction_ = 0, blocked_part_ = 0;
};

}  // namespace sluice::isa
