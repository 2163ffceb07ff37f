// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/reachability.hpp"

namespace sluice::isa {

Reachability::Reachability(const Trace& trace)
    : trace_(trace), lanes_(trace.threads.size()), waiters_(trace.initial.size()) {
    for (const TraceEvent& event : trace.events) {
        Lane& lane = lanes_[event.thread];
        (event.kind == EventKind::part_done ? lane.ends : lane.steps).push_back(&event);
    }
}

void Reachability::run_without(std::uint32_t instruction, std::uint32_t part) {
    blocked_instruction_ = instruction;
    blocked_part_ = part;
    values_ = trace_.initial;
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
    const TraceEvent& event = *lane.steps[lane.next_step];
    switch (event.kind) {
        case EventKind::issue:
            issued_[event.item] = 1;
            wake(trace_.instructions[event.item].queue);
            break;
        case EventKind::wait:
            if (!take(trace_.sem_counts[event.item], thread)) {
                return false;
            }
            ++lane.waits_and_signals;
            break;
        case EventKind::signal:
            give(trace_.sem_counts[event.item]);
            ++lane.waits_and_signals;
            break;
        case EventKind::start: {
            const bool before_ended = trace_.threads[thread].overlaps || lane.ended == lane.next_step;
            if (issued_[event.item] == 0 || !before_ended ||
                !take(trace_.instructions[event.item].operation.waits, thread)) {
                return false;
            }
            started_[event.item] = 1;
            break;
        }
        case EventKind::part_done: return false;
    }
    ++lane.next_step;
    return true;
}

bool Reachability::end(std::uint32_t thread) {
    Lane& lane = lanes_[thread];
    if (lane.next_end == lane.ends.size()) {
        return false;
    }
    const TraceEvent& event = *lane.ends[lane.next_end];
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

bool Reachability::take(const std::vector<SemCount>& counts, std::uint32_t thread) {
    for (const SemCount& count : counts) {
        if (values_[count.semaphore] < count.count) {
            waiters_[count.semaphore].push_back(thread);
            return false;
        }
    }
    for (const SemCount& count : counts) {
        values_[count.semaphore] -= count.count;
    }
    return true;
}

void Reachability::give(const std::vector<SemCount>& counts) {
    for (const SemCount& count : counts) {
        values_[count.semaphore] += count.count;
        for (const std::uint32_t waiter : waiters_[count.semaphore]) {
            wake(waiter);
        }
        waiters_[count.semaphore].clear();
    }
}

std::vector<Reachability::Stuck> Reachability::stuck() const {
    std::vector<Stuck> out;
    for (std::uint32_t thread = 0; thread < lanes_.size(); ++thread) {
        const Lane& lane = lanes_[thread];
        if (lane.next_step == lane.steps.size()) {
            continue;
        }
        const TraceEvent& event = *lane.steps[lane.next_step];
        if (event.kind == EventKind::start) {
            out.push_back({thread, event.item});
        } else if (event.kind == EventKind::wait) {
            out.push_back({thread, lane.waits_and_signals});
        }
    }
    return out;
}

}  // namespace sluice::isa
