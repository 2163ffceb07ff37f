// SPDX-License-Identifier: Apache-2.0
#pragma once
// One in-order queue of an engine: a DMA channel, or a context of a compute engine. Holds the tasks that have not
// started, makes the head wait for its semaphores, and keeps the lane's account. An entry leaves the queue when it
// starts.
#include <string>

#include "sim/core/account.hpp"
#include "sim/engine/context.hpp"

namespace sluice::sim {

/// The engine that a lane belongs to. Called whenever the lane's head may be able to start.
class LaneOwner {
public:
    virtual void on_lane(std::size_t lane) = 0;

protected:
    ~LaneOwner() = default;
};

/// A control processor that found a queue full. Called when `task` has left it.
class SlotWaiter {
public:
    virtual void on_slot(Cause cause) = 0;

protected:
    ~SlotWaiter() = default;
};

class Lane final : public SemWaiter {
public:
    Lane(std::string path, EngineContext& context, LaneOwner& owner, std::size_t number)
        : path_(std::move(path)), context_(context), owner_(owner), number_(number) {}

    [[nodiscard]] bool full() const {
        return queue_.size() >= static_cast<std::size_t>(context_.chip.control.queue_depth);
    }
    void push(Task* task);
    void wait_for_slot(SlotWaiter& waiter) { slot_waiter_ = &waiter; }

    /// The head if its waits are satisfied (they are taken), with its start recorded; else null, and the owner is
    /// called again when that may have changed. `resource` is what its cycles count as.
    Task* begin(Resource resource);
    /// What the lane did before let go of it now: the next task's start may be owed to that.
    void released(RecordId record);

    void on_semaphore(Cause cause) override;

    /// To busy, or another state that the engine knows of.
    template <class State>
    void enter(State state) {
        account_.enter(state, context_.scheduler.now());
    }
    /// So many of the busy cycles until now were stalls for banks.
    void reassign(Cycle stalls) { account_.reassign(stalls, context_.scheduler.now()); }
    /// To the state of a lane whose engine does nothing for it: waiting for semaphores, for its control, or idle.
    void rest();
    void control_started() { control_running_ = true; }
    void control_finished();

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const TaskQueue& queue() const { return queue_; }
    [[nodiscard]] bool has_work() const { return !queue_.empty(); }
    [[nodiscard]] EngineAccount finish(Cycle end) { return account_.finish(path_, end); }

private:
    [[nodiscard]] Cause start_cause(const Task& task, Resource& gap) const;

    std::string path_;
    EngineContext& context_;
    LaneOwner& owner_;
    std::size_t number_;
    TaskQueue queue_;
    SlotWaiter* slot_waiter_ = nullptr;
    LaneAccount account_;
    Cause released_;
    Cause signalled_;
    Cycle signalled_at_ = 0;
    bool head_waited_ = false;  // the present head has waited for a semaphore
    bool enlisted_ = false;
    bool used_ = false;
    bool control_running_ = false;
};

}  // namespace sluice::sim
