// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one process of a simulation: an SC_METHOD that runs the timing wheel, one kernel notification per active core
// cycle. Components ask for events; SystemC's time advances with them. An exception thrown by a component in an event
// ends the simulation and is rethrown, with its type, by `run`; of one from another process (TLM) SystemC keeps the
// text alone.
#include <exception>
#include <functional>
#include <systemc>

#include "isa/units.hpp"
#include "sim/core/clock.hpp"
#include "sim/core/wheel.hpp"

namespace sluice::sim {

class Scheduler : public sc_core::sc_module {
public:
    SC_HAS_PROCESS(Scheduler);
    Scheduler(const sc_core::sc_module_name& name, ClockDomain core);

    [[nodiscard]] Cycle now() const { return wheel_.now(); }
    [[nodiscard]] const ClockDomain& clock() const { return core_; }
    [[nodiscard]] std::uint64_t events() const { return wheel_.delivered(); }

    void at(Cycle cycle, Phase phase, EventTarget& target, std::uint32_t kind, std::uint64_t payload = 0) {
        wheel_.push(cycle, phase, target, kind, payload);
    }
    void after(Cycle delay, Phase phase, EventTarget& target, std::uint32_t kind, std::uint64_t payload = 0) {
        wheel_.push(wheel_.now() + delay, phase, target, kind, payload);
    }

    /// For who asked for an event from outside an event: a process of another model. The wheel may be waiting for a
    /// later one.
    void wake() { wake_.notify(sc_core::SC_ZERO_TIME); }

    /// Called after every kPulseEvents events (host-side progress and limits); may throw.
    void on_pulse(std::function<void(Cycle)> pulse) { pulse_ = std::move(pulse); }
    void limit_cycles(Cycle cycles) { limit_ = cycles; }

    /// Runs until no event is left; rethrows what a component threw.
    void run();

private:
    static constexpr std::uint64_t kPulseEvents = 1 << 17;

    void dispatch();
    void run_next_cycle();

    ClockDomain core_;
    TimingWheel wheel_;
    sc_core::sc_event wake_;
    std::exception_ptr error_;
    std::function<void(Cycle)> pulse_;
    std::uint64_t next_pulse_ = kPulseEvents;
    Cycle limit_ = 0;
};

/// SystemC's global state for one simulation: a fresh kernel context at 1 fs resolution, without the banner. The first
/// context of the process is kept for ever because SystemC's global events point at it.
class SimulationContext {
public:
    SimulationContext();
    ~SimulationContext();
    SimulationContext(const SimulationContext&) = delete;
    SimulationContext& operator=(const SimulationContext&) = delete;

private:
    sc_core::sc_simcontext* first_ = nullptr;
    sc_core::sc_simcontext* own_ = nullptr;
};

}  // namespace sluice::sim
