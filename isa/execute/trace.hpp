// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happened in one run of a program, in the order in which it did: enough to work out which of it had to happen in
// that order.
#include <cstdint>
#include <string>
#include <vector>

#include "isa/execute/operation.hpp"

namespace sluice::isa {

/// A thread is what executes in order: a control processor, or one queue of an engine.
struct Thread {
    Place place;
    bool is_queue = false;
    QueueId queue;
    /// A queue whose next instruction may start before the one before it has ended (they end in order).
    bool overlaps = false;
};

enum class EventKind : std::uint8_t {
    issue,      ///< a processor sends instruction `item`
    wait,       ///< a processor takes sem_counts[item]
    signal,     ///< a processor gives sem_counts[item]
    start,      ///< a queue starts instruction `item`, having taken its waits
    part_done,  ///< part `part` of instruction `item` is visible; the last one gives its signals
};

struct TraceEvent {
    EventKind kind;
    std::uint32_t thread;
    std::uint32_t item;
    std::uint32_t part = 0;
};

struct TracedInstruction {
    Operation operation;
    std::uint32_t queue = 0;      ///< thread
    std::uint32_t processor = 0;  ///< thread
    std::uint32_t number = 0;     ///< among those that the processor issued, from 0
};

struct Trace {
    std::vector<Thread> threads;
    std::vector<TraceEvent> events;
    std::vector<TracedInstruction> instructions;
    std::vector<std::vector<SemCount>> sem_counts;
    std::vector<std::int64_t> initial;  ///< of every semaphore
};

/// " at i0 = 3, i1 = 0": the loop indices when the processor at `place` issued its instruction `number`; "" outside
/// loops.
[[nodiscard]] std::string loop_indices(const Program& program, const ChipSpec& chip, const Place& place,
                                       std::uint32_t number);

}  // namespace sluice::isa
