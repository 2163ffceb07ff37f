// SPDX-License-Identifier: Apache-2.0
#include "kernels/builder.hpp"

#include "isa/errors.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::Block;
using isa::SemUse;

ControlBuilder::ControlBuilder(const isa::ControlSpec& limits, std::string name, isa::Level level, std::int64_t first,
                               std::int64_t count)
    : limits_(limits), program_{std::move(name), level, first, count, {}} {
    stack_.push_back(&program_.body);
}

Affine ControlBuilder::begin_loop(const Affine& count) {
    SLUICE_CHECK(loop_depth_ < isa::kMaxLoopDepth, "control program " + program_.name + " nests too many loops");
    auto body = std::make_shared<Block>();
    Block* inner = body.get();
    block().push_back({isa::Loop{count, std::move(body)}});
    stack_.push_back(inner);
    scopes_.push_back({true, count});
    return isa::variable(isa::loop_var(loop_depth_++));
}

void ControlBuilder::begin_if(const Affine& value) {
    auto then_body = std::make_shared<Block>();
    Block* inner = then_body.get();
    block().push_back({isa::If{value, std::move(then_body), std::make_shared<Block>()}});
    stack_.push_back(inner);
    scopes_.push_back({});
}

void ControlBuilder::begin_else() {
    SLUICE_CHECK(!scopes_.empty() && !scopes_.back().is_loop, "else without if");
    stack_.pop_back();
    stack_.push_back(std::get<isa::If>(block().back().body).else_body.get());
}

void ControlBuilder::end() {
    SLUICE_CHECK(!scopes_.empty(), "end without begin");
    if (scopes_.back().is_loop) {
        --loop_depth_;
    }
    scopes_.pop_back();
    stack_.pop_back();
}

void ControlBuilder::loop(const Affine& count, const std::function<void(const Affine&)>& body) {
    if (count.is_constant() && count.base <= 0) {
        return;
    }
    if (count.is_constant() && count.base == 1) {
        body(0);
        return;
    }
    const Affine index = begin_loop(count);
    body(index);
    end();
}

void ControlBuilder::branch(const Affine& value, const std::function<void()>& then_body,
                            const std::function<void()>& else_body) {
    if (value.is_constant()) {
        if (value.base >= 0) {
            then_body();
        } else if (else_body) {
            else_body();
        }
        return;
    }
    begin_if(value);
    then_body();
    if (else_body) {
        begin_else();
        else_body();
    }
    end();
}

void ControlBuilder::push_fence(isa::QueueId queue, std::vector<SemUse> waits, std::vector<SemUse> signals,
                                const std::string& label) {
    block().push_back({isa::Instruction{queue, std::move(waits), isa::FenceMacro{}, std::move(signals), node_, label}});
}

void ControlBuilder::issue(isa::QueueId queue, std::vector<SemUse> waits, isa::Macro macro, std::vector<SemUse> signals,
                           const std::string& label) {
    const auto max_waits = static_cast<std::size_t>(limits_.max_waits);
    const auto max_signals = static_cast<std::size_t>(limits_.max_signals);
    while (waits.size() > max_waits) {
        const auto split = waits.begin() + static_cast<std::ptrdiff_t>(max_waits);
        push_fence(queue, {waits.begin(), split}, {}, label + " (wait)");
        waits.erase(waits.begin(), split);
    }
    const auto kept = signals.begin() + static_cast<std::ptrdiff_t>(std::min(max_signals, signals.size()));
    std::vector<SemUse> rest(kept, signals.end());
    signals.erase(kept, signals.end());
    block().push_back({isa::Instruction{queue, std::move(waits), std::move(macro), std::move(signals), node_, label}});
    while (!rest.empty()) {
        const auto split = rest.begin() + static_cast<std::ptrdiff_t>(std::min(max_signals, rest.size()));
        push_fence(queue, {}, {rest.begin(), split}, label + " (signal)");
        rest.erase(rest.begin(), split);
    }
}

void ControlBuilder::fence(isa::QueueId queue, std::vector<SemUse> waits, std::vector<SemUse> signals,
                           const std::string& label) {
    issue(queue, std::move(waits), isa::FenceMacro{}, std::move(signals), label);
}

void ControlBuilder::set_register(int reg, const Affine& value, std::int64_t lowest, std::int64_t highest) {
    block().push_back({isa::SetRegister{static_cast<std::uint8_t>(reg), false, value, lowest, highest}});
}

void ControlBuilder::add_register(int reg, const Affine& value, std::int64_t lowest, std::int64_t highest) {
    block().push_back({isa::SetRegister{static_cast<std::uint8_t>(reg), true, value, lowest, highest}});
}

void ControlBuilder::wait(const SemUse& use) {
    block().push_back({isa::WaitStatement{use}});
}

void ControlBuilder::signal(const SemUse& use) {
    block().push_back({isa::SignalStatement{use}});
}

void ControlBuilder::delay(std::int64_t cycles) {
    block().push_back({isa::DelayStatement{cycles}});
}

std::int64_t ControlBuilder::repeats() const {
    std::int64_t times = 1;
    for (const Scope& scope : scopes_) {
        SLUICE_CHECK(scope.is_loop && scope.count.is_constant(),
                     "control program " + program_.name + ": how often a statement runs is not known here");
        times *= scope.count.base;
    }
    return times;
}

void ControlBuilder::load_index(int reg, const std::string& table, const Affine& element) {
    block().push_back({isa::LoadIndex{static_cast<std::uint8_t>(reg), table, element}});
}

isa::ControlProgram ControlBuilder::finish() {
    SLUICE_CHECK(scopes_.empty(), "control program " + program_.name + " has an open scope");
    return std::move(program_);
}

}  // namespace sluice::kernels
