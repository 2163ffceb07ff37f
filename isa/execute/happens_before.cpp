// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/happens_before.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

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
    for (std::uint32_t number = 0; number < trace_.events.size(); ++number) {
        const TraceEvent& event = trace_.events[number];
        switch (event.kind) {
            case EventKind::issue: break;
            case EventKind::wait:
                add_takes(trace_.sem_counts[event.item], number, ++processor_ticks[event.thread]);
                break;
            case EventKind::signal:
                ++processor_ticks[event.thread];
                count_signals(trace_.sem_counts[event.item], event.thread);
                break;
            case EventKind::start: {
                const Operation& operation = trace_.instructions[event.item].operation;
                std::uint32_t& ticks = queue_ticks[event.thread];
                first_tick_[event.item] = ticks;
                add_takes(operation.waits, number, ticks + 1);
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
        semaphore.watched = semaphore.consumers;
        for (const auto& [thread, producer] : semaphore.producers) {
            semaphore.watched.push_back(thread);
        }
    }
}

void HappensBefore::count_signals(const std::vector<SemCount>& counts, std::uint32_t thread) {
    for (const SemCount& count : counts) {
        semaphores_[count.semaphore].producers[thread].total += count.count;
    }
}

void HappensBefore::add_takes(const std::vector<SemCount>& counts, std::uint32_t event, std::uint32_t tick) {
    const std::uint32_t thread = trace_.events[event].thread;
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
        semaphore.takes.push_back({thread, event, tick, count.count, before + count.count, {}, {}});
    }
}

void HappensBefore::add_order(std::uint32_t instruction, std::uint32_t part,
                              const std::vector<Reachability::Stuck>& later) {
    const End end{instruction, part};
    shown_[end] = nullptr;
    for (const Reachability::Stuck& stuck : later) {
        if (trace_.threads[stuck.thread].is_queue) {
            starts_after_[stuck.item].push_back(end);
        } else {
            waits_after_[{stuck.thread, stuck.item}].push_back(end);
        }
    }
}

void HappensBefore::join_shown(const std::vector<End>& ends, Clock& clock) const {
    for (const End& end : ends) {
        SLUICE_CHECK(shown_.at(end) != nullptr, "order was added that the run itself does not keep");
        join(clock, *shown_.at(end));
    }
}

void HappensBefore::solve() {
    std::int64_t before = -1;
    for (int count = 0; needs_ != before && count < kMostPasses; ++count) {
        before = needs_;
        pass(nullptr);
        ++passes_;
    }
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
                if (const auto found = waits_after_.find({event.thread, thread.ticks}); found != waits_after_.end()) {
                    join_shown(found->second, clock);
                }
                take(trace_.sem_counts[event.item], clock);
                clock[event.thread] = ++thread.ticks;
                learn(trace_.sem_counts[event.item], clock);
                thread.processor = std::make_shared<const Clock>(std::move(clock));
                break;
            }
            case EventKind::signal: {
                Clock clock = *thread.processor;
                clock[event.thread] = ++thread.ticks;
                thread.processor = std::make_shared<const Clock>(std::move(clock));
                give(trace_.sem_counts[event.item], event.thread, thread.processor);
                break;
            }
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
    if (const auto found = starts_after_.find(event.item); found != starts_after_.end()) {
        join_shown(found->second, queue.started);
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
    if (const auto found = shown_.find({event.item, event.part}); found != shown_.end()) {
        found->second = clock = std::make_shared<const Clock>(queue.ended);
    }
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

/// Units that can be given without signal number `signal` of a producer and without the wait at the consumer's tick.
std::int64_t HappensBefore::units_without(const Semaphore& semaphore, std::size_t producer, std::size_t signal,
                                          std::size_t consumer, std::uint32_t tick) {
    const std::size_t own = semaphore.consumers.size() + producer;
    std::int64_t units = 0;
    std::size_t i = 0;
    const auto at = std::next(semaphore.producers.begin(), static_cast<std::ptrdiff_t>(producer));
    const std::uint32_t signal_tick = at->second.known[signal].ticks[own];
    for (const auto& [thread, other] : semaphore.producers) {
        const bool same = i++ == producer;
        const auto end = same ? other.known.begin() + static_cast<std::ptrdiff_t>(signal) : other.known.end();
        const auto after = std::partition_point(other.known.begin(), end, [&](const Producer::Known& known) {
            return known.ticks[consumer] < tick && (same || known.ticks[own] < signal_tick);
        });
        units += after == other.known.begin() ? 0 : std::prev(after)->units;
    }
    return units;
}

/// How many of a producer's signals the wait cannot do without: a beginning of its sequence.
std::size_t HappensBefore::needed_signals(const Semaphore& semaphore, std::size_t producer, std::size_t consumer,
                                          std::uint32_t tick, std::int64_t wanted) {
    const auto at = std::next(semaphore.producers.begin(), static_cast<std::ptrdiff_t>(producer));
    std::size_t low = 0;
    std::size_t high = at->second.known.size();
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (units_without(semaphore, producer, middle, consumer, tick) < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void HappensBefore::join_needed(Semaphore& semaphore, Take& take, std::int64_t initial, Clock& clock) {
    const std::int64_t wanted = units_taken(semaphore, take) - initial;
    if (wanted <= 0) {
        return;
    }
    const auto consumer = static_cast<std::size_t>(
        std::find(semaphore.consumers.begin(), semaphore.consumers.end(), take.thread) - semaphore.consumers.begin());
    std::int64_t total = 0;
    for (const auto& [thread, producer] : semaphore.producers) {
        total += producer.total;
    }
    std::size_t number = 0;
    for (auto& [thread, producer] : semaphore.producers) {
        const std::size_t own = number++;
        std::int64_t need = 0;
        if (passes_ == 0 || semaphore.producers.size() == 1) {
            need = wanted - (total - producer.total);
        } else if (const std::size_t signals = needed_signals(semaphore, own, consumer, take.tick, wanted);
                   signals > 0) {
            need = producer.known[signals - 1].units;
        }
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
        for (const std::uint32_t each : semaphore.watched) {
            known.ticks.push_back((*clock)[each]);
        }
        producer.learning.push_back(std::move(known));
        producer.given.push_back({before + count.count, clock});
    }
}

std::vector<PossibleOvertaking> HappensBefore::possible_overtakings() const {
    std::vector<PossibleOvertaking> out;
    for (std::uint32_t s = 0; s < semaphores_.size(); ++s) {
        const Semaphore& semaphore = semaphores_[s];
        for (std::size_t later = 1; later < semaphore.takes.size() && semaphore.consumers.size() > 1; ++later) {
            const Take& second = semaphore.takes[later];
            for (std::size_t earlier = later; earlier-- > 0;) {
                const Take& first = semaphore.takes[earlier];
                const auto consumer = std::find(semaphore.consumers.begin(), semaphore.consumers.end(), first.thread);
                const auto known = second.known[static_cast<std::size_t>(consumer - semaphore.consumers.begin())];
                if (first.thread != second.thread && known < first.tick) {
                    out.push_back({s, first.event, second.event});
                }
            }
        }
    }
    return out;
}

/// Units given less units taken, at most, once a producer's signal number `signal` has come.
std::int64_t HappensBefore::value_after(const Semaphore& semaphore, std::size_t producer, std::size_t signal) {
    const std::size_t own = semaphore.consumers.size() + producer;
    const auto at = std::next(semaphore.producers.begin(), static_cast<std::ptrdiff_t>(producer));
    const Producer::Known& given = at->second.known[signal];
    std::int64_t value = given.units;
    std::size_t number = 0;
    for (const auto& [thread, other] : semaphore.producers) {
        if (number++ == producer) {
            continue;
        }
        const auto after =
            std::partition_point(other.known.begin(), other.known.end(),
                                 [&](const Producer::Known& known) { return known.ticks[own] < given.ticks[own]; });
        value += after == other.known.begin() ? 0 : std::prev(after)->units;
    }
    for (std::size_t c = 0; c < semaphore.consumers.size(); ++c) {
        const std::vector<std::size_t>& takes = semaphore.takes_of[c];
        const auto after = std::partition_point(
            takes.begin(), takes.end(), [&](std::size_t take) { return semaphore.takes[take].tick <= given.ticks[c]; });
        value -= after == takes.begin() ? 0 : semaphore.takes[*std::prev(after)].own_units;
    }
    return value;
}

std::int64_t HappensBefore::highest_value(std::uint32_t number) const {
    const Semaphore& semaphore = semaphores_[number];
    const std::int64_t initial = trace_.initial[number];
    std::int64_t most = 0;
    std::size_t producer = 0;
    for (const auto& [thread, each] : semaphore.producers) {
        if (semaphore.consumers.empty()) {
            most += each.total;
            continue;
        }
        for (std::size_t signal = 0; signal < each.known.size(); ++signal) {
            most = std::max(most, value_after(semaphore, producer, signal));
        }
        ++producer;
    }
    return initial + most;
}

}  // namespace sluice::isa
