// SPDX-License-Identifier: Apache-2.0
#pragma once
// Events in time order: 4,096 buckets of one cycle each under an occupancy bitmap, and a heap for what lies further
// ahead. First in, first out within a phase of a cycle, also across the heap: an event moves from the heap to its
// bucket at the moment the bucket comes into reach, before anything can be put there directly. Pure C++; `Scheduler`
// drives it.
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "isa/units.hpp"
#include "sim/core/event.hpp"

namespace sluice::sim {

class TimingWheel {
public:
    static constexpr std::size_t kBuckets = 4096;

    TimingWheel();

    /// `cycle` must not lie in the past. An event for the present cycle's arrive phase that comes when this phase is
    /// over runs in the arbitrate phase.
    void push(Cycle cycle, Phase phase, EventTarget& target, std::uint32_t kind, std::uint64_t payload);

    [[nodiscard]] bool empty() const { return near_ == 0 && overflow_.empty(); }
    [[nodiscard]] Cycle now() const { return now_; }
    [[nodiscard]] std::uint64_t delivered() const { return delivered_; }

    /// The earliest cycle that holds an event; only if not empty.
    [[nodiscard]] Cycle next_cycle() const;

    /// Moves to `cycle` (nothing may lie before it) and delivers all of its events, those added meanwhile included.
    void run_cycle(Cycle cycle);

    void clear();

private:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    struct Event {
        EventTarget* target;
        std::uint64_t payload;
        std::uint32_t kind;
        std::uint32_t next;
    };
    struct List {
        std::uint32_t head = kNone;
        std::uint32_t tail = kNone;
    };
    struct Far {
        Cycle cycle;
        std::uint64_t order;
        EventTarget* target;
        std::uint64_t payload;
        std::uint32_t kind;
        Phase phase;
    };

    static bool later(const Far& a, const Far& b) { return a.cycle != b.cycle ? a.cycle > b.cycle : a.order > b.order; }
    void append(Cycle cycle, Phase phase, EventTarget* target, std::uint32_t kind, std::uint64_t payload);
    void drain(List& list);

    std::array<std::array<List, 2>, kBuckets> buckets_;
    std::array<std::uint64_t, kBuckets / 64> occupied_{};
    std::uint64_t occupied_words_ = 0;  // bit i: occupied_[i] != 0
    std::vector<Event> pool_;
    std::uint32_t free_ = kNone;
    std::vector<Far> overflow_;
    std::uint64_t order_ = 0;
    std::uint64_t near_ = 0;
    std::uint64_t delivered_ = 0;
    Cycle now_ = 0;
    Phase phase_ = Phase::arrive;
    bool running_ = false;
};

}  // namespace sluice::sim
