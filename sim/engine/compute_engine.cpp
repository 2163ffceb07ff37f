// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/compute_engine.hpp"

#include <fmt/format.h>

namespace sluice::sim {

namespace {

BankClient client_of(Resource engine) {
    switch (engine) {
        case Resource::ttu: return BankClient::ttu;
        case Resource::tvp: return BankClient::tvp;
        default: return BankClient::reshaper;
    }
}

}  // namespace

ComputeEngine::ComputeEngine(const sc_core::sc_module_name& name, EngineContext& context, Location location,
                             Resource resource, std::int64_t contexts)
    : sc_module(name), context_(context), location_(location), resource_(resource), client_(client_of(resource)) {
    const std::string path = this->name();
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(contexts, 1));
    for (std::size_t i = 0; i < count; ++i) {
        lanes_.emplace_back(contexts == 0 ? path : fmt::format("{}{}", path, i), context, *this, i);
    }
    ready_.resize(count);
}

void ComputeEngine::request_arbitration() {
    if (!arbitration_pending_ && running_ == nullptr) {
        arbitration_pending_ = true;
        context_.scheduler.after(0, Phase::arbitrate, *this, kArbitrate);
    }
}

void ComputeEngine::on_lane(std::size_t i) {
    Lane& lane = lanes_[i];
    const bool runs = running_ != nullptr && running_lane_ == i;
    if (runs || ready_[i].task != nullptr) {
        return;
    }
    Task* task = lane.begin(resource_);
    if (task == nullptr) {
        lane.rest();
        return;
    }
    ready_[i] = {task, context_.scheduler.now()};
    lane.enter(WaitKind::engine);
    request_arbitration();
}

void ComputeEngine::arbitrate() {
    if (running_ != nullptr) {
        return;
    }
    std::size_t best = ready_.size();
    for (std::size_t i = 0; i < ready_.size(); ++i) {
        if (ready_[i].task != nullptr && (best == ready_.size() || ready_[i].since < ready_[best].since)) {
            best = i;
        }
    }
    if (best < ready_.size()) {
        start(best);
    }
}

void ComputeEngine::start(std::size_t i) {
    const Cycle now = context_.scheduler.now();
    Task* task = ready_[i].task;
    if (ready_[i].since < now) {
        // It waited for the other context's macro, which has just left the array.
        task->record = context_.path.add(now, array_free_, resource_, Resource::control);
    }
    ready_[i].task = nullptr;
    running_ = task;
    running_lane_ = i;
    task->start = now;
    lanes_[i].enter(LaneAccount::State::busy);
    banks().start(client_, task->streams, task->cycles, now);
    rows_done_ = 0;
    wait_for(task->rows > 1 ? task->first_row : task->cycles);
}

SramBanks& ComputeEngine::banks() const {
    return *context_.banks[location_.unit];
}

/// Looks again when the macro's clock can be there at the earliest.
void ComputeEngine::wait_for(Cycle clock) {
    awaited_ = clock;
    const Cycle left = clock - banks().clock(client_);
    // At the end of its clock, lines may still wait for their banks.
    context_.scheduler.after(left == 0 ? 1 : left, Phase::arrive, *this, kLook);
}

void ComputeEngine::look() {
    banks().advance(context_.scheduler.now());
    const bool last = awaited_ == running_->cycles;
    if (last ? !banks().finished(client_) : banks().clock(client_) < awaited_) {
        wait_for(awaited_);
    } else if (last) {
        done();
    } else {
        finish_row();
    }
}

void ComputeEngine::finish_row() {
    const Cycle now = context_.scheduler.now();
    context_.semaphores.signal(location_, running_->row_signal, {running_->record, now}, running_->where);
    ++rows_done_;
    wait_for(rows_done_ + 1 < running_->rows ? awaited_ + running_->row_cycles : running_->cycles);
}

void ComputeEngine::done() {
    Task* task = running_;
    const Cycle now = context_.scheduler.now();
    const Cycle stalls = banks().stalls(client_);
    banks().end(client_);
    lanes_[running_lane_].reassign(stalls);
    context_.path.stalled(task->record, stalls);
    const Cause cause{task->record, now};
    if (task->rows > 0) {
        context_.semaphores.signal(location_, task->row_signal, cause, task->where);
    }
    for (std::size_t s = 0; s < task->signal_count; ++s) {
        context_.semaphores.signal(location_, task->signals[s], cause, task->where);
    }
    const bool computes = !std::holds_alternative<isa::FenceMacro>(task->text->macro);
    context_.ledger.book(task->node, task->energy, task->start, now);
    context_.ledger.traffic(task->node,
                            {0, 0, 0, task->tsram.operand_read + task->tsram.read + task->tsram.written, 0});
    context_.ledger.instruction(task->node, false, computes, task->start, now);
    *context_.tsram[location_.unit] += task->tsram;
    context_.ended(task->record, now);
    busy_cycles_ += now - task->start;
    ++macros_;
    lanes_[running_lane_].released(task->record);
    array_free_ = cause;
    const std::size_t lane = running_lane_;
    running_ = nullptr;
    context_.tasks.give_back(task);
    on_lane(lane);
    request_arbitration();
}

void ComputeEngine::on_event(std::uint32_t kind, std::uint64_t /*payload*/) {
    switch (kind) {
        case kArbitrate:
            arbitration_pending_ = false;
            arbitrate();
            return;
        case kLook: look(); return;
    }
}

void ComputeEngine::report(StatSheet& sheet) const {
    const std::string path = name();
    sheet.add(path + ".macros", "macros", "macros executed", macros_);
    sheet.add(path + ".utilization", "fraction", "cycles in which a macro occupied the array / cycles of the run",
              sheet.cycles() > 0 ? static_cast<double>(busy_cycles_) / static_cast<double>(sheet.cycles()) : 0.0);
}

}  // namespace sluice::sim
