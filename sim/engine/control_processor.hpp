// SPDX-License-Identifier: Apache-2.0
#pragma once
// A control processor runs one control program: `issue_cycles` for every instruction, wait and signal,
// `load_index_cycles` for a table look-up, its own cycles for a delay, nothing for loops, conditionals and registers.
// An instruction is evaluated and put into its queue at the end of its issue; if the queue is full the processor stalls
// until the queue's head starts.
#include <array>
#include <systemc>
#include <vector>

#include "isa/control_walker.hpp"
#include "sim/engine/lane.hpp"

namespace sluice::sim {

/// The queues that a control processor can reach, by engine.
using LaneSet = std::array<std::vector<Lane*>, 5>;

class ControlProcessor final : public sc_core::sc_module, public EventTarget, public SemWaiter, public SlotWaiter {
public:
    ControlProcessor(const sc_core::sc_module_name& name, EngineContext& context, Location location, LaneSet lanes);

    /// InputError if it has a program already.
    void load(const isa::ControlProgram& program);
    void start();

    [[nodiscard]] const Location& location() const { return location_; }
    [[nodiscard]] const isa::ControlProgram* program() const { return program_; }
    [[nodiscard]] const isa::Environment& ids() const { return ids_; }
    [[nodiscard]] bool finished() const { return program_ == nullptr || finished_; }
    /// Why it stands still; empty if it does not.
    [[nodiscard]] std::string stall() const;
    [[nodiscard]] const SemTake* awaited() const { return state_ == State::semaphore ? &wait_ : nullptr; }
    [[nodiscard]] const Lane* full_lane() const { return state_ == State::queue_full ? lane_ : nullptr; }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] EngineAccount finish(Cycle end) { return account_.finish(path_, end); }

    void on_event(std::uint32_t kind, std::uint64_t payload) override;
    void on_semaphore(Cause cause) override;
    void on_slot(Cause cause) override;

private:
    enum Kind : std::uint32_t { kExecute, kResume };
    enum class State : std::uint8_t { running, semaphore, queue_full };

    void advance();
    void execute();
    void issue(const isa::Instruction& instruction);
    void wait(const isa::WaitStatement& statement);
    void give(const isa::SignalStatement& statement);
    void look_up(const isa::LoadIndex& load);
    void stand(const isa::DelayStatement& delay);
    void end_delay();
    void finish_program();
    void stalled_until_now(Cause cause, Resource gap);
    [[nodiscard]] Lane& lane_of(const isa::Instruction& instruction) const;
    [[nodiscard]] const std::string& where_of(const isa::Instruction& instruction) const;

    EngineContext& context_;
    Location location_;
    LaneSet lanes_;
    std::string path_;
    isa::Environment ids_{};
    const isa::ControlProgram* program_ = nullptr;
    std::string where_;
    std::vector<isa::ControlWalker> walker_;  // none before the start
    const isa::Statement* statement_ = nullptr;
    Lane* lane_ = nullptr;
    SemTake wait_;
    State state_ = State::running;
    bool finished_ = false;
    RecordId record_ = kNoRecord;  // since it last stalled
    LaneAccount account_;
};

}  // namespace sluice::sim
