// SPDX-License-Identifier: Apache-2.0
#include "sim/core/scheduler.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "isa/errors.hpp"

// libsystemc brings a `main` that calls sc_main; ours never runs it, but the library does not link without one.
int sc_main(int, char**) {
    return 0;
}

namespace sluice::sim {

Scheduler::Scheduler(const sc_core::sc_module_name& name, ClockDomain core) : sc_module(name), core_(std::move(core)) {
    SC_METHOD(dispatch);
    sensitive << wake_;
}

void Scheduler::run_next_cycle() {
    const Cycle cycle = wheel_.next_cycle();
    const Femtoseconds due = core_.time_of(cycle);
    const Femtoseconds present = sc_core::sc_time_stamp().value();
    if (due > present) {
        wake_.notify(sc_core::sc_time::from_value(due - present));
        return;
    }
    if (limit_ != 0 && cycle > limit_) {
        throw InputError("max_cycles", fmt::format("the run passed the limit of {} cycles", limit_));
    }
    wheel_.run_cycle(cycle);
    if (pulse_ && wheel_.delivered() >= next_pulse_) {
        next_pulse_ = wheel_.delivered() + kPulseEvents;
        pulse_(cycle);
    }
    if (!wheel_.empty()) {
        wake_.notify(sc_core::sc_time::from_value(core_.time_of(wheel_.next_cycle()) - due));
    }
}

void Scheduler::dispatch() {
    if (error_ || wheel_.empty()) {
        return;
    }
    try {
        run_next_cycle();
    } catch (...) {
        // The kernel would keep the text and lose the type. With nothing notified the simulation starves and ends.
        error_ = std::current_exception();
        wheel_.clear();
    }
}

void Scheduler::run() {
    sc_core::sc_start();
    if (error_) {
        std::rethrow_exception(error_);
    }
}

SimulationContext::SimulationContext() {
    ::setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 1);
    first_ = sc_core::sc_get_curr_simcontext();
    own_ = new sc_core::sc_simcontext;
    sc_core::sc_curr_simcontext = own_;
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
}

SimulationContext::~SimulationContext() {
    sc_core::sc_curr_simcontext = first_;
    delete own_;
}

}  // namespace sluice::sim
