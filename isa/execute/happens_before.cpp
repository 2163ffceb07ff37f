// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/happens_before.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr int kMostPasses = 64;

void join(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < clock.size(); ++i) {
        clock[i] = std::max(clock[i], other[i]);
    }
}

/// The semaphores that a part's end signals.
void for_signals(const Operation& operation, std::int64_t part,
                 const std::function<void(const std::vector<SemCount>&)>& body) {
    if (const auto* tensor = std::get_if<TensorOperation>(&operation.body);
        tensor != nullptr && !tensor->row_signal.empty()) {
        body(tensor->row_signal);
    }
    if (part + 1 == operation.parts()) {
        body(operation.signals);
    }
}

}  // namespace

HappensBefore::HappensBefore(const Trace& trace)
    : trace_(trace), first_tick_(trace.instructions.size(), 0), semaphores_(trace.initial.size()) {
    prepare();
}

/// Ticks of instructions and waits, consumers and producers, and how much each producer gives in all.
void HappensBefore::prepare() {
    std::vector<std::uint32_t> queue_ticks(trace_.threads.size(), 0);
    std::vector<std::uint32_t> processor_ticks(trace_.threads.size(), 0);
    for (const TraceEvent& event : trace_.events) {
        switch (event.kind) {
            case EventKind::issue: break;
            case EventKind::wait:
                add_takes(trace_.sem_counts[event.item], event.thread, -1, ++processor_ticks[event.thread]);
                break;
            case EventKind::signal: count_signals(trace_.sem_counts[event.item], event.thread); break;
            case EventKind::start: {
                const Operation& operation = trace_.instructions[event.item].operation;
                std::uint32_t& ticks = queue_ticks[event.thread];
                first_tick_[event.item] = ticks;
                add_takes(operation.waits, event.thread, event.item, ticks + 1);
                ticks += static_cast<std::uint32_t>(operation.parts());
                break;
            }
            case EventKind::part_done:
                for_signals(trace_.instructions[event.item].operation, event.part,
                            [&](const std::vector<SemCount>& counts) { count_signals(counts, event.thread); });
                break;
        }
    }
    for (Semaphore& semaphore : semaphores_) {
        for (Take& take : semaphore.takes) {
            take.known.assign(semaphore.consumers.size(), 0);
        }
    }
}

void HappensBefore::count_signals(const std::vector<SemCount>& counts, std::uint32_t thread) {
    for (const SemCount& count : counts) {
        semaphores_[count.semaphore].producers[thread].total += count.count;
    }
}

void HappensBefore::add_takes(const std::vector<SemCount>& counts, std::uint32_t thread, std::int64_t item,
                              std::uint32_t tick) {
    for (const SemCount& count : counts) {
        Semaphore& semaphore = semaphores_[count.semaphore];
        const auto found = std::find(semaphore.consumers.begin(), semaphore.consumers.end(), thread);
        const auto consumer = static_cast<std::size_t>(found - semaphore.consumers.begin());
        if (found == semaphore.consumers.end()) {
            semaphore.consumers.push_back(thread);
            semaphore.takes_of.emplace_back();
        }
        std::vector<std::size_t>& own = semaphore.takes_of[consumer];
        const std::int64_t before = own.empty() ? 0 : semaphore.takes[own.back()].own_units;
        own.push_back(semaphore.takes.size());
        semaphore.takes.push_back({thread, item, tick, count.count, before + count.count, {}, {}});
    }
}

void HappensBefore::solve() {
    std::int64_t before = -1;
    needs_ = 0;
    while (needs_ != before && passes_ < kMostPasses) {
        before = needs_;
        pass(nullptr);
        ++passes_;
    }
    find_unordered();
}

void HappensBefore::replay(const std::function<void(std::uint32_t, const Clock&)>& on_start) {
    pass(&on_start);
}

void HappensBefore::pass(const std::function<void(std::uint32_t, const Clock&)>* on_start) {
    const std::size_t count = trace_.threads.size();
    threads_.assign(count, {});
    for (ThreadState& thread : threads_) {
        thread.processor = std::make_shared<const Clock>(count, 0);
        thread.started.assign(count, 0);
        thread.ended.assign(count, 0);
    }
    for (Semaphore& semaphore : semaphores_) {
        semaphore.next_take = 0;
        for (auto& [thread, producer] : semaphore.producers) {
            producer.given.clear();
            producer.learning.clear();
        }
    }
    needs_ = 0;
    for (const TraceEvent& event : trace_.events) {
        ThreadState& thread = threads_[event.thread];
        switch (event.kind) {
            case EventKind::issue:
                threads_[trace_.instructions[event.item].queue].issued.push_back(thread.processor);
                break;
            case EventKind::wait: {
                Clock clock = *thread.processor;
                take(trace_.sem_counts[event.item], clock);
                clock[event.thread] = ++thread.ticks;
                learn(trace_.sem_counts[event.item], clock);
                thread.processor = std::make_shared<const Clock>(std::move(clock));
                break;
            }
            case EventKind::signal: give(trace_.sem_counts[event.item], event.thread, thread.processor); break;
            case EventKind::start: start(event, on_start); break;
            case EventKind::part_done: part_done(event); break;
        }
    }
    for (Semaphore& semaphore : semaphores_) {
        for (Take& take : semaphore.takes) {
            std::swap(take.known, take.learning);
        }
        for (auto& [thread, producer] : semaphore.producers) {
            std::swap(producer.known, producer.learning);
        }
    }
}

void HappensBefore::start(const TraceEvent& event, const std::function<void(std::uint32_t, const Clock&)>* on_start) {
    ThreadState& queue = threads_[event.thread];
    const std::vector<SemCount>& waits = trace_.instructions[event.item].operation.waits;
    join(queue.started, *queue.issued.front());
    queue.issued.pop_front();
    if (!trace_.threads[event.thread].overlaps) {
        join(queue.started, queue.ended);
    }
    take(waits, queue.started);
    learn(waits, queue.started);
    queue.running.push_back(queue.started);
    if (on_start != nullptr) {
        (*on_start)(event.item, queue.started);
    }
}

void HappensBefore::part_done(const TraceEvent& event) {
    ThreadState& queue = threads_[event.thread];
    const Operation& operation = trace_.instructions[event.item].operation;
    join(queue.ended, queue.running.front());
    queue.ended[event.thread] = ++queue.ticks;
    SharedClock clock;
    for_signals(operation, event.part, [&](const std::vector<SemCount>& counts) {
        if (!counts.empty() && !clock) {
            clock = std::make_shared<const Clock>(queue.ended);
        }
        give(counts, event.thread, clock);
    });
    if (event.part + 1 == operation.parts()) {
        queue.running.pop_front();
    }
}

/// Joins what the waits cannot do without.
void HappensBefore::take(const std::vector<SemCount>& counts, Clock& clock) {
    taken_now_.clear();
    for (const SemCount& count : counts) {
        Semaphore& semaphore = semaphores_[count.semaphore];
        taken_now_.push_back(semaphore.next_take);
        join_needed(semaphore, semaphore.takes[semaphore.next_take++], trace_.initial[count.semaphore], clock);
    }
}

/// Units that this wait and those known to come before it have taken.
std::int64_t HappensBefore::units_taken(const Semaphore& semaphore, const Take& take) const {
    std::int64_t units = take.own_units;
    for (std::size_t c = 0; c < semaphore.consumers.size(); ++c) {
        if (semaphore.consumers[c] == take.thread) {
            continue;
        }
        const std::vector<std::size_t>& others = semaphore.takes_of[c];
        const auto after = std::partition_point(others.begin(), others.end(), [&](std::size_t other) {
            return semaphore.takes[other].tick <= take.known[c];
        });
        units += after == others.begin() ? 0 : semaphore.takes[*std::prev(after)].own_units;
    }
    return units;
}

void HappensBefore::join_needed(Semaphore& semaphore, Take& take, std::int64_t initial, Clock& clock) {
    const std::int64_t wanted = units_taken(semaphore, take) - initial;
    if (wanted <= 0) {
        return;
    }
    const auto own = static_cast<std::size_t>(
        std::find(semaphore.consumers.begin(), semaphore.consumers.end(), take.thread) - semaphore.consumers.begin());
    // What each producer can have given without this wait: all, or in a later pass the signals not known to follow it.
    std::int64_t most = 0;
    std::vector<std::int64_t> each;
    for (const auto& [thread, producer] : semaphore.producers) {
        std::int64_t units = producer.total;
        if (!producer.known.empty()) {
            const auto after = std::partition_point(
                producer.known.begin(), producer.known.end(),
                [&](const Producer::Known& known) { return known.consumer_ticks[own] < take.tick; });
            units = after == producer.known.begin() ? 0 : std::prev(after)->units;
        }
        each.push_back(units);
        most += units;
    }
    std::size_t i = 0;
    for (auto& [thread, producer] : semaphore.producers) {
        const std::int64_t need = wanted - (most - each[i++]);
        if (need <= 0) {
            continue;
        }
        needs_ += need;
        const auto given = std::partition_point(producer.given.begin(), producer.given.end(),
                                                [need](const Producer::Given& signal) { return signal.units < need; });
        SLUICE_CHECK(given != producer.given.end(), "a wait was granted without a signal that it needs");
        join(clock, *given->clock);
        if (semaphore.consumers.size() == 1) {
            producer.given.erase(producer.given.begin(), given);  // later waits need more
        }
    }
}

/// Remembers what a wait on a semaphore with several consumers comes after, for the next pass.
void HappensBefore::learn(const std::vector<SemCount>& counts, const Clock& clock) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
        Semaphore& semaphore = semaphores_[counts[i].semaphore];
        if (semaphore.consumers.size() > 1) {
            std::vector<std::uint32_t>& ticks = semaphore.takes[taken_now_[i]].learning;
            ticks.clear();
            for (const std::uint32_t consumer : semaphore.consumers) {
                ticks.push_back(clock[consumer]);
            }
        }
    }
}

void HappensBefore::give(const std::vector<SemCount>& counts, std::uint32_t thread, const SharedClock& clock) {
    for (const SemCount& count : counts) {
        Semaphore& semaphore = semaphores_[count.semaphore];
        if (semaphore.consumers.empty() || count.count == 0) {
            continue;
        }
        Producer& producer = semaphore.producers.at(thread);
        const std::int64_t before = producer.learning.empty() ? 0 : producer.learning.back().units;
        Producer::Known known{before + count.count, {}};
        for (const std::uint32_t consumer : semaphore.consumers) {
            known.consumer_ticks.push_back((*clock)[consumer]);
        }
        producer.learning.push_back(std::move(known));
        producer.given.push_back({before + count.count, clock});
    }
}

void HappensBefore::find_unordered() {
    for (std::uint32_t s = 0; s < semaphores_.size(); ++s) {
        const Semaphore& semaphore = semaphores_[s];
        if (semaphore.consumers.size() < 2) {
            continue;
        }
        for (std::size_t i = 1; i < semaphore.takes.size(); ++i) {
            const Take& first = semaphore.takes[i - 1];
            const Take& second = semaphore.takes[i];
            const auto consumer = std::find(semaphore.consumers.begin(), semaphore.consumers.end(), first.thread);
            const auto known = second.known[static_cast<std::size_t>(consumer - semaphore.consumers.begin())];
            if (first.thread != second.thread && known < first.tick) {
                unordered_.push_back({s, first.thread, second.thread, first.item, second.item});
                break;
            }
        }
    }
}

}  // namespace sluice::isa
