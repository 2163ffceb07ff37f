// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/reachability.hpp"

#include <algorithm>

namespace sluice::isa {

Reachability::Reachability(const Trace& trace)
    : trace_(trace),
      lanes_(trace.threads.size()),
      turns_(trace.events.size()),
      taken_(trace.initial.size(), 0),
      waiters_(trace.initial.size()) {
    for (std::uint32_t number = 0; number < trace.events.size(); ++number) {
        const TraceEvent& event = trace.events[number];
        Lane& lane = lanes_[event.thread];
        (event.kind == EventKind::part_done ? lane.ends : lane.steps).push_back(number);
        if (event.kind == EventKind::wait || event.kind == EventKind::start) {
            for (const SemCount& wait : waits_of(event)) {
                turns_[number].push_back(taken_[wait.semaphore]++);
            }
        }
    }
}

const std::vector<SemCount>& Reachability::waits_of(const TraceEvent& event) const {
    return event.kind == EventKind::wait ? trace_.sem_counts[event.item]
                                         : trace_.instructions[event.item].operation.waits;
}

void Reachability::run_without(std::uint32_t instruction, std::uint32_t part) {
    blocked_instruction_ = instruction;
    blocked_part_ = part;
    blocked_waits_.clear();
    run();
}

bool Reachability::can_take_without(const std::vector<std::uint32_t>& earlier, std::uint32_t later) {
    blocked_instruction_ = kNone;
    blocked_waits_ = earlier;
    run();
    const TraceEvent& event = trace_.events[later];
    const Lane& lane = lanes_[event.thread];
    if (lane.next_step == lane.steps.size() || lane.steps[lane.next_step] != later ||
        (event.kind == EventKind::start && !may_start(event.thread, event))) {
        return false;
    }
    const std::vector<SemCount>& waits = waits_of(event);
    return std::all_of(waits.begin(), waits.end(),
                       [this](const SemCount& wait) { return values_[wait.semaphore] >= wait.count; });
}

void Reachability::run() {
    values_ = trace_.initial;
    taken_.assign(trace_.initial.size(), 0);
    issued_.assign(trace_.instructions.size(), 0);
    started_.assign(trace_.instructions.size(), 0);
    for (std::vector<std::uint32_t>& waiters : waiters_) {
        waiters.clear();
    }
    ready_.clear();
    for (std::uint32_t thread = 0; thread < lanes_.size(); ++thread) {
        Lane& lane = lanes_[thread];
        lane.next_step = lane.next_end = lane.ended = 0;
        lane.waits_and_signals = 0;
        lane.queued = true;
        ready_.push_back(thread);
    }
    while (!ready_.empty()) {
        const std::uint32_t thread = ready_.back();
        ready_.pop_back();
        lanes_[thread].queued = false;
        while (advance(thread)) {
        }
    }
}

void Reachability::wake(std::uint32_t thread) {
    if (!lanes_[thread].queued) {
        lanes_[thread].queued = true;
        ready_.push_back(thread);
    }
}

bool Reachability::advance(std::uint32_t thread) {
    const bool ended = end(thread);
    return step(thread) || ended;
}

bool Reachability::step(std::uint32_t thread) {
    Lane& lane = lanes_[thread];
    if (lane.next_step == lane.steps.size()) {
        return false;
    }
    const std::uint32_t number = lane.steps[lane.next_step];
    const TraceEvent& event = trace_.events[number];
    switch (event.kind) {
        case EventKind::issue:
            issued_[event.item] = 1;
            wake(trace_.instructions[event.item].queue);
            break;
        case EventKind::wait:
            if (!take(number, thread)) {
                return false;
            }
            ++lane.waits_and_signals;
            break;
        case EventKind::signal:
            give(trace_.sem_counts[event.item]);
            ++lane.waits_and_signals;
            break;
        case EventKind::start:
            if (!may_start(thread, event) || !take(number, thread)) {
                return false;
            }
            started_[event.item] = 1;
            break;
        case EventKind::part_done: return false;
    }
    ++lane.next_step;
    return true;
}

/// All but its waits lets the queue's next instruction start.
bool Reachability::may_start(std::uint32_t thread, const TraceEvent& event) const {
    const Lane& lane = lanes_[thread];
    return issued_[event.item] != 0 && (trace_.threads[thread].overlaps || lane.ended == lane.next_step);
}

bool Reachability::end(std::uint32_t thread) {
    Lane& lane = lanes_[thread];
    if (lane.next_end == lane.ends.size()) {
        return false;
    }
    const TraceEvent& event = trace_.events[lane.ends[lane.next_end]];
    if (started_[event.item] == 0 || (event.item == blocked_instruction_ && event.part == blocked_part_)) {
        return false;
    }
    ++lane.next_end;
    const Operation& operation = trace_.instructions[event.item].operation;
    if (const auto* tensor = std::get_if<TensorOperation>(&operation.body)) {
        give(tensor->row_signal);
    }
    if (event.part + 1 == operation.parts()) {
        ++lane.ended;
        give(operation.signals);
    }
    return true;
}

bool Reachability::take(std::uint32_t event, std::uint32_t thread) {
    if (std::find(blocked_waits_.begin(), blocked_waits_.end(), event) != blocked_waits_.end()) {
        return false;
    }
    const std::vector<SemCount>& waits = waits_of(trace_.events[event]);
    for (std::size_t i = 0; i < waits.size(); ++i) {
        const std::uint32_t semaphore = waits[i].semaphore;
        if (taken_[semaphore] != turns_[event][i] || values_[semaphore] < waits[i].count) {
            waiters_[semaphore].push_back(thread);
            return false;
        }
    }
    for (const SemCount& wait : waits) {
        values_[wait.semaphore] -= wait.count;
        ++taken_[wait.semaphore];
        wake_waiters(wait.semaphore);
    }
    return true;
}

void Reachability::wake_waiters(std::uint32_t semaphore) {
    for (const std::uint32_t waiter : waiters_[semaphore]) {
        wake(waiter);
    }
    waiters_[semaphore].clear();
}

void Reachability::give(const std::vector<SemCount>& counts) {
    for (const SemCount& count : counts) {
        values_[count.semaphore] += count.count;
        wake_waiters(count.semaphore);
    }
}

std::vector<Reachability::Stuck> Reachability::stuck() const {
    std::vector<Stuck> out;
    for (std::uint32_t thread = 0; thread < lanes_.size(); ++thread) {
        const Lane& lane = lanes_[thread];
        if (lane.next_step == lane.steps.size()) {
            continue;
        }
        const TraceEvent& event = trace_.events[lane.steps[lane.next_step]];
        if (event.kind == EventKind::start) {
            out.push_back({thread, event.item});
        } else if (event.kind == EventKind::wait) {
            out.push_back({thread, lane.waits_and_signals});
        }
    }
    return out;
}

}  // namespace sluice::isa
