// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which events of a run come before which others in *every* legal interleaving of its program.
//
// Order within a thread: a processor executes in order; a queue starts in order and ends in order, and starts an
// instruction after the end of the one before it, unless it is a DMA channel, whose instructions overlap. Order between
// threads: an instruction starts after it was issued, and a wait comes after the signals that it cannot do without. The
// depth of a queue orders nothing: a full one holds its processor up in a run, but a program may not rely on it.
//
// Which those are is counted, not observed. A wait that brings the units taken from a semaphore to T needs T units from
// its initial value and its signals. It cannot do without a signal if all others that come neither after that signal
// nor after the wait itself are too few. Who comes after whom is known only once order is, so the whole is repeated
// until nothing is added. Every step uses proven order alone: the result never claims too much. It may claim too
// little: counting looks at one semaphore at a time. reachability.hpp decides what is left, and add_order() takes that
// in.
//
// The set of events is the same in every interleaving because control flow does not depend on data, if every
// interleaving ends. It does if no wait can overtake another one of its semaphore: waits then stay enabled once they
// are. possible_overtakings() lists those of which counting does not show that they cannot.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isa/execute/reachability.hpp"
#include "isa/execute/trace.hpp"

namespace sluice::isa {

/// Of every thread, how many of its ticks are known to be over. A queue ticks once a part of an instruction is visible,
/// a processor once it has taken a wait or given a signal.
using Clock = std::vector<std::uint32_t>;

/// Two waits of different threads for one semaphore, as events of the trace. The run has them in this order; perhaps
/// the second can come first.
struct PossibleOvertaking {
    std::uint32_t semaphore = 0;
    std::uint32_t first = 0, second = 0;
};

class HappensBefore {
public:
    /// Passes of one solve(). Order that takes more of them to find stays unknown, which errs on the safe side: more
    /// accesses and waits look unordered, and semaphores fuller, than they are, never less.
    static constexpr int kMostPasses = 64;

    explicit HappensBefore(const Trace& trace);

    /// Works the order out, from what is known already, until a pass adds nothing or kMostPasses are done.
    void solve();
    /// What a replay without that end has shown (see reachability.hpp): these come after the end of the part.
    void add_order(std::uint32_t instruction, std::uint32_t part, const std::vector<Reachability::Stuck>& later);
    /// Calls on_start(instruction, what is over when it starts) in an order that agrees with all others.
    void replay(const std::function<void(std::uint32_t, const Clock&)>& on_start);

    /// Part `part` of the instruction is over when its queue has ticked this often.
    [[nodiscard]] std::uint32_t end_tick(std::uint32_t instruction, std::int64_t part) const {
        return first_tick_[instruction] + static_cast<std::uint32_t>(part) + 1;
    }
    /// All that cannot be ruled out as far as solve() knows, of each semaphore in the order of the second waits,
    /// nearest first waits first.
    [[nodiscard]] std::vector<PossibleOvertaking> possible_overtakings() const;
    /// The most that a semaphore can hold in any interleaving, as far as solve() knows: with every signal, all others
    /// that need not come after it, less what was certainly taken before it. Never too low.
    [[nodiscard]] std::int64_t highest_value(std::uint32_t semaphore) const;
    [[nodiscard]] int passes() const { return passes_; }

private:
    using SharedClock = std::shared_ptr<const Clock>;
    /// Signals of one thread to one semaphore, in its order.
    struct Producer {
        std::int64_t total = 0;
        struct Given {
            std::int64_t units;  ///< with all before it
            SharedClock clock;
        };
        std::deque<Given> given;
        /// From the pass before: units so far, and of every watched thread the ticks that the signal comes after.
        struct Known {
            std::int64_t units;
            std::vector<std::uint32_t> ticks;
        };
        std::vector<Known> known, learning;
    };
    struct Take {
        std::uint32_t thread = 0;
        std::uint32_t event = 0;
        std::uint32_t tick = 0;
        std::int64_t units = 0;
        std::int64_t own_units = 0;                  ///< with all that its thread took before
        std::vector<std::uint32_t> known, learning;  ///< ticks of each consumer that this wait comes after
    };
    struct Semaphore {
        std::map<std::uint32_t, Producer> producers;
        std::vector<std::uint32_t> consumers;
        std::vector<std::uint32_t> watched;              ///< consumers, then producers in their order
        std::vector<std::vector<std::size_t>> takes_of;  ///< each consumer's, as indices into `takes`
        std::vector<Take> takes;                         ///< in the order of the run
        std::size_t next_take = 0;
    };
    struct ThreadState {
        SharedClock processor;  ///< of a processor
        Clock started, ended;   ///< of a queue
        std::deque<SharedClock> issued;
        std::deque<Clock> running;  ///< start clocks of instructions that have not ended
        std::uint32_t ticks = 0;
    };

    using End = std::pair<std::uint32_t, std::uint32_t>;  ///< instruction, part

    void prepare();
    void join_shown(const std::vector<End>& ends, Clock& clock) const;
    void count_signals(const std::vector<SemCount>& counts, std::uint32_t thread);
    void add_takes(const std::vector<SemCount>& counts, std::uint32_t event, std::uint32_t tick);
    void pass(const std::function<void(std::uint32_t, const Clock&)>* on_start);
    void start(const TraceEvent& event, const std::function<void(std::uint32_t, const Clock&)>* on_start);
    void part_done(const TraceEvent& event);
    void take(const std::vector<SemCount>& counts, Clock& clock);
    void join_needed(Semaphore& semaphore, Take& take, std::int64_t initial, Clock& clock);
    [[nodiscard]] static std::size_t needed_signals(const Semaphore& semaphore, std::size_t producer,
                                                    std::size_t consumer, std::uint32_t tick, std::int64_t wanted);
    [[nodiscard]] static std::int64_t units_without(const Semaphore& semaphore, std::size_t producer,
                                                    std::size_t signal, std::size_t consumer, std::uint32_t tick);
    void learn(const std::vector<SemCount>& counts, const Clock& clock);
    void give(const std::vector<SemCount>& counts, std::uint32_t thread, const SharedClock& clock);
    [[nodiscard]] static std::int64_t value_after(const Semaphore& semaphore, std::size_t producer, std::size_t signal);
    [[nodiscard]] std::int64_t units_taken(const Semaphore& semaphore, const Take& take) const;

    const Trace& trace_;
    std::vector<std::uint32_t> first_tick_;
    std::vector<Semaphore> semaphores_;
    std::vector<ThreadState> threads_;
    std::vector<std::size_t> taken_now_;
    std::int64_t needs_ = 0;  ///< sum over all waits and producers, of this pass: it only grows
    int passes_ = 0;
    std::map<End, SharedClock> shown_;                        ///< ends that order was added for
    std::map<std::uint32_t, std::vector<End>> starts_after_;  ///< by instruction
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<End>> waits_after_;  ///< by thread and number
};

}  // namespace sluice::isa
