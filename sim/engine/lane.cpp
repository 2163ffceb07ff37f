// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/lane.hpp"

namespace sluice::sim {

void Lane::push(Task* task) {
    SLUICE_CHECK(!full(), path_ + ": push into a full queue");
    queue_.push(task);
    used_ = true;
    if (queue_.size() == 1) {
        owner_.on_lane(number_);
    }
}

Cause Lane::start_cause(const Task& task, Resource& gap) const {
    // What came last let it start.
    gap = Resource::control;
    Cause cause = task.issued;
    Cycle last = task.issued.at;
    if (released_.record != kNoRecord && released_.at >= last) {
        cause = released_;
        last = released_.at;
    }
    if (head_waited_ && signalled_at_ >= last) {
        cause = signalled_;
        gap = Resource::semaphore;
    }
    return cause;
}

Task* Lane::begin(Resource resource) {
    if (queue_.empty() || enlisted_) {
        return nullptr;
    }
    Task* task = queue_.front();
    const std::size_t missing = context_.semaphores.try_take(task->waits.data(), task->wait_count);
    if (missing != SemaphoreFile::kTaken) {
        context_.semaphores.enlist(task->waits[missing].semaphore, *this);
        enlisted_ = true;
        head_waited_ = true;
        return nullptr;
    }
    queue_.pop();
    Resource gap = Resource::control;
    const Cause cause = start_cause(*task, gap);
    const Cycle now = context_.scheduler.now();
    task->record = context_.path.add(now, cause, resource, gap);
    task->start = now;
    head_waited_ = false;
    if (slot_waiter_ != nullptr) {
        SlotWaiter* waiter = slot_waiter_;
        slot_waiter_ = nullptr;
        waiter->on_slot({task->record, now});
    }
    return task;
}

void Lane::released(RecordId record) {
    released_ = {record, context_.scheduler.now()};
}

void Lane::on_semaphore(Cause cause) {
    enlisted_ = false;
    signalled_ = cause;
    signalled_at_ = context_.scheduler.now();
    owner_.on_lane(number_);
}

void Lane::rest() {
    if (!queue_.empty()) {
        enter(WaitKind::semaphore);
    } else if (used_ && control_running_) {
        enter(WaitKind::control);
    } else {
        enter(LaneAccount::State::idle);
    }
}

void Lane::control_finished() {
    control_running_ = false;
    owner_.on_lane(number_);
}

}  // namespace sluice::sim
