// SPDX-License-Identifier: Apache-2.0
#include "isa/control_walker.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

/// A program that needs more of them in a row has lost its way; about 10 ms of host time.
constexpr std::uint64_t kMaxFreeStatements = 1'000'000;

}  // namespace

Environment processor_ids(Level level, std::int64_t unit, std::int64_t tiles_per_cluster) {
    Environment ids{};
    const auto set = [&ids](Var var, std::int64_t value) { ids[static_cast<std::size_t>(var)] = value; };
    if (level == Level::tile) {
        set(Var::tile, unit % tiles_per_cluster);
        set(Var::cluster, unit / tiles_per_cluster);
        set(Var::self, unit);
    } else if (level == Level::cluster) {
        set(Var::cluster, unit);
        set(Var::self, unit * tiles_per_cluster);
    }
    return ids;
}

ControlWalker::ControlWalker(const ControlProgram& program, const Environment& ids) : program_(program), env_(ids) {
    stack_.push_back({&program.body, 0, 0, 1, false});
}

void ControlWalker::set_register(std::uint8_t reg, std::int64_t value) {
    if (reg >= kRegisterCount) {
        throw InputError("control program " + program_.name, fmt::format("no register r{}", reg));
    }
    env_[static_cast<std::size_t>(register_var(reg))] = value;
}

void ControlWalker::assign(const SetRegister& assignment) {
    const bool counts = assignment.add && assignment.reg < kRegisterCount;
    const std::int64_t old = counts ? env_[static_cast<std::size_t>(register_var(assignment.reg))] : 0;
    const std::int64_t value = old + assignment.value.evaluate(env_);
    if (value < assignment.lowest || value > assignment.highest) {
        throw InputError("control program " + program_.name,
                         fmt::format("register r{} becomes {}, outside its declared range {}..{}", assignment.reg,
                                     value, assignment.lowest, assignment.highest));
    }
    set_register(assignment.reg, value);
}

std::int64_t ControlWalker::cycles(const DelayStatement& delay) const {
    const std::int64_t cycles = delay.cycles.evaluate(env_);
    if (cycles < 0 || cycles > kMaxDelayCycles) {
        throw InputError("control program " + program_.name,
                         fmt::format("a delay of {} cycles, allowed is 0..{}", cycles, kMaxDelayCycles));
    }
    return cycles;
}

void ControlWalker::enter(const Loop& loop) {
    const std::int64_t count = loop.count.evaluate(env_);
    if (count <= 0 || !loop.body || loop.body->empty()) {
        return;
    }
    if (depth_ >= kMaxLoopDepth) {
        throw InputError("control program " + program_.name,
                         fmt::format("loops are nested deeper than {}", kMaxLoopDepth));
    }
    env_[static_cast<std::size_t>(loop_var(depth_))] = 0;
    ++depth_;
    stack_.push_back({loop.body.get(), 0, 0, count, true});
}

void ControlWalker::enter(const If& branch) {
    const auto& body = branch.value.evaluate(env_) >= 0 ? branch.then_body : branch.else_body;
    if (body && !body->empty()) {
        stack_.push_back({body.get(), 0, 0, 1, false});
    }
}

void ControlWalker::leave_frame() {
    Frame& frame = stack_.back();
    if (++frame.iteration < frame.count) {
        frame.at = 0;
        env_[static_cast<std::size_t>(loop_var(depth_ - 1))] = frame.iteration;
        return;
    }
    if (frame.loop) {
        --depth_;
    }
    stack_.pop_back();
}

const Statement* ControlWalker::next() {
    const std::uint64_t most = steps_ + kMaxFreeStatements;
    while (!stack_.empty()) {
        if (++steps_ > most) {
            throw InputError("control program " + program_.name,
                             fmt::format("loops without issuing anything: {} statements in a row that take no time",
                                         kMaxFreeStatements));
        }
        Frame& frame = stack_.back();
        if (frame.at == frame.block->size()) {
            leave_frame();
            continue;
        }
        const Statement& statement = (*frame.block)[frame.at++];
        if (const auto* loop = std::get_if<Loop>(&statement.body)) {
            enter(*loop);
        } else if (const auto* branch = std::get_if<If>(&statement.body)) {
            enter(*branch);
        } else if (const auto* assignment = std::get_if<SetRegister>(&statement.body)) {
            assign(*assignment);
        } else if (const auto* delay = std::get_if<DelayStatement>(&statement.body); !delay || cycles(*delay) > 0) {
            return &statement;
        }
    }
    return nullptr;
}

}  // namespace sluice::isa
