// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/control_processor.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"
#include "sim/engine/resolve.hpp"

namespace sluice::sim {

ControlProcessor::ControlProcessor(const sc_core::sc_module_name& name, EngineContext& context, Location location,
                                   LaneSet lanes)
    : sc_module(name), context_(context), location_(location), lanes_(std::move(lanes)), path_(this->name()) {
    ids_ = isa::processor_ids(location.level, location.unit, context.chip.soc.tiles_per_cluster);
}

void ControlProcessor::load(const isa::ControlProgram& program) {
    if (program_ != nullptr) {
        throw InputError("control program " + program.name,
                         fmt::format("{} already runs control program {}", path_, program_->name));
    }
    program_ = &program;
    where_ = "control program " + program.name;
}

void ControlProcessor::start() {
    if (program_ == nullptr) {
        return;
    }
    for (const std::vector<Lane*>& lanes : lanes_) {
        for (Lane* lane : lanes) {
            lane->control_started();
        }
    }
    record_ = context_.path.add(0, {}, Resource::control, Resource::control);
    walker_.emplace_back(*program_, ids_);
    context_.scheduler.at(0, Phase::arbitrate, *this, kResume);
}

const std::string& ControlProcessor::where_of(const isa::Instruction& instruction) const {
    return instruction.label.empty() ? where_ : instruction.label;
}

Lane& ControlProcessor::lane_of(const isa::Instruction& instruction) const {
    const std::vector<Lane*>& lanes = lanes_[static_cast<std::size_t>(instruction.queue.engine)];
    if (instruction.queue.lane >= lanes.size()) {
        throw InputError(where_of(instruction),
                         fmt::format("{} cannot issue to {} {}: it has {} of them", path_,
                                     isa::name(instruction.queue.engine), instruction.queue.lane, lanes.size()));
    }
    return *lanes[instruction.queue.lane];
}

void ControlProcessor::advance() {
    const Cycle now = context_.scheduler.now();
    statement_ = walker_.back().next();
    if (statement_ == nullptr) {
        finish_program();
        return;
    }
    if (const auto* delay = std::get_if<isa::DelayStatement>(&statement_->body)) {
        stand(*delay);
        return;
    }
    account_.enter(LaneAccount::State::busy, now);
    const isa::ControlSpec& spec = context_.chip.control;
    const bool load = std::holds_alternative<isa::LoadIndex>(statement_->body);
    const std::int64_t cycles = load ? spec.load_index_cycles : spec.issue_cycles;
    context_.scheduler.after(static_cast<Cycle>(cycles), Phase::arbitrate, *this, kExecute);
}

void ControlProcessor::finish_program() {
    const Cycle now = context_.scheduler.now();
    account_.enter(LaneAccount::State::idle, now);
    finished_ = true;
    context_.ended(record_, now);
    for (const std::vector<Lane*>& lanes : lanes_) {
        for (Lane* lane : lanes) {
            lane->control_finished();
        }
    }
}

void ControlProcessor::execute() {
    if (const auto* instruction = std::get_if<isa::Instruction>(&statement_->body)) {
        issue(*instruction);
    } else if (const auto* waiting = std::get_if<isa::WaitStatement>(&statement_->body)) {
        wait(*waiting);
    } else if (const auto* signal = std::get_if<isa::SignalStatement>(&statement_->body)) {
        give(*signal);
    } else if (const auto* load = std::get_if<isa::LoadIndex>(&statement_->body)) {
        look_up(*load);
    } else {
        end_delay();
    }
}

void ControlProcessor::issue(const isa::Instruction& instruction) {
    const Cycle now = context_.scheduler.now();
    lane_ = &lane_of(instruction);
    if (lane_->full()) {
        state_ = State::queue_full;
        account_.enter(WaitKind::queue_full, now);
        lane_->wait_for_slot(*this);
        return;
    }
    Task* task = resolve(instruction, walker_.back().environment(), location_, where_of(instruction), context_);
    task->issued = {record_, now};
    task->energy.add(EnergyEvent::control_instruction, 1);
    lane_->push(task);
    advance();
}

void ControlProcessor::wait(const isa::WaitStatement& statement) {
    const Cycle now = context_.scheduler.now();
    if (state_ != State::semaphore) {
        wait_ = resolve_wait(statement.use, walker_.back().environment(), where_, context_);
        EnergyList energy;
        energy.add(EnergyEvent::control_instruction, 1);
        energy.add(EnergyEvent::semaphore_operation, 1);
        context_.ledger.book(kNoNode, energy, now, now);
    }
    if (context_.semaphores.try_take(&wait_, 1) != SemaphoreFile::kTaken) {
        state_ = State::semaphore;
        account_.enter(WaitKind::semaphore, now);
        context_.semaphores.enlist(wait_.semaphore, *this);
        return;
    }
    advance();
}

void ControlProcessor::give(const isa::SignalStatement& statement) {
    const Cycle now = context_.scheduler.now();
    const SemGive signal = resolve_signal(statement.use, walker_.back().environment(), where_, context_);
    EnergyList energy;
    energy.add(EnergyEvent::control_instruction, 1);
    energy.add(EnergyEvent::semaphore_operation, 1);
    context_.ledger.book(kNoNode, energy, now, now);
    context_.semaphores.signal(location_, signal, {record_, now}, &where_);
    advance();
}

void ControlProcessor::stand(const isa::DelayStatement& delay) {
    const Cycle now = context_.scheduler.now();
    account_.enter(WaitKind::launch, now);
    record_ = context_.path.add(now, {record_, now}, Resource::launch, Resource::launch);
    const std::int64_t cycles = delay.cycles.evaluate(walker_.back().environment());
    context_.scheduler.after(static_cast<Cycle>(cycles), Phase::arbitrate, *this, kExecute);
}

void ControlProcessor::end_delay() {
    const Cycle now = context_.scheduler.now();
    record_ = context_.path.add(now, {record_, now}, Resource::control, Resource::control);
    EnergyList energy;
    energy.add(EnergyEvent::control_instruction, 1);
    context_.ledger.book(kNoNode, energy, now, now);
    advance();
}

void ControlProcessor::look_up(const isa::LoadIndex& load) {
    const auto it = context_.tables.find(load.table);
    if (it == context_.tables.end()) {
        throw InputError(where_, fmt::format("no index table \"{}\"", load.table));
    }
    const std::int64_t element = load.element.evaluate(walker_.back().environment());
    if (element < 0 || element >= it->second->count) {
        throw InputError(where_, fmt::format("element {} of index table \"{}\", which has {}", element, load.table,
                                             it->second->count));
    }
    EnergyList energy;
    energy.add(EnergyEvent::control_instruction, 1);
    context_.ledger.book(kNoNode, energy, context_.scheduler.now(), context_.scheduler.now());
    walker_.back().set_register(load.reg, isa::index_value(*it->second, element));
    advance();
}

void ControlProcessor::stalled_until_now(Cause cause, Resource gap) {
    record_ = context_.path.add(context_.scheduler.now(), cause, Resource::control, gap);
}

void ControlProcessor::on_semaphore(Cause cause) {
    if (context_.semaphores.try_take(&wait_, 1) != SemaphoreFile::kTaken) {
        context_.semaphores.enlist(wait_.semaphore, *this);
        return;
    }
    state_ = State::running;
    stalled_until_now(cause, Resource::semaphore);
    context_.scheduler.after(0, Phase::arbitrate, *this, kResume);
}

void ControlProcessor::on_slot(Cause cause) {
    state_ = State::running;
    stalled_until_now(cause, Resource::control);
    context_.scheduler.after(0, Phase::arbitrate, *this, kExecute);
}

void ControlProcessor::on_event(std::uint32_t kind, std::uint64_t) {
    if (kind == kResume) {
        advance();
    } else {
        execute();
    }
}

std::string ControlProcessor::stall() const {
    switch (state_) {
        case State::semaphore:
            return fmt::format("waits until {} >= {} (is {})", context_.semaphores.describe(wait_.semaphore),
                               wait_.count, context_.semaphores.value(wait_.semaphore));
        case State::queue_full: return fmt::format("its queue {} is full", lane_->path());
        case State::running: break;
    }
    return {};
}

}  // namespace sluice::sim
