// SPDX-License-Identifier: Apache-2.0
#pragma once
// The simulator's one entry: a verified Program on a ChipSpec -> RunResult. One simulation per process (SystemC);
// tests run each case in its own process. Deterministic: the same inputs give the same result, whatever the order in
// which modules are constructed.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"
#include "isa/units.hpp"
#include "sim/core/energy.hpp"
#include "sim/core/report.hpp"

namespace sluice::sim {

class HbmInitiator;

struct Progress {
    Cycle cycle = 0;
    std::uint64_t instructions_done = 0;
    std::uint64_t instructions_total = 0;
};

/// Core cycles [from, to).
struct CycleWindow {
    Cycle from = 0, to = 0;
};

struct RunOptions {
    std::function<void(const Progress&)> on_progress;  ///< called every few 100 ms of host time
    Cycle max_cycles = 0;                              ///< 0: no limit; a run that passes it ends with an InputError
    Cycle power_interval_cycles = 0;                   ///< 0: chosen so that a run has at most 1,000 intervals
    CycleWindow hbm_commands;                          ///< in which commands of the HBM channels are recorded
    /// A memory of another model in the HBM's place: makes it, binds its TLM-2.0 target to the initiator's `socket`,
    /// and returns what owns it, which the run lets go of at its end. What the memory does beyond moving bytes
    /// (refreshes, activates, standby) is not in the run's energy then.
    std::function<std::shared_ptr<void>(HbmInitiator&)> bind_hbm;
    bool reverse_construction = false;  ///< for the test that order does not matter
};

struct RunResult {
    Cycle cycles = 0;    ///< core cycles until the last write is in its memory and the last control program has ended
    double seconds = 0;  ///< from femtoseconds
    std::uint64_t events = 0;  ///< events that the scheduler delivered
    Bytes hbm_read = 0, hbm_written = 0;
    std::vector<EngineAccount> engines;
    std::vector<NodeAccount> nodes;              ///< by node id
    std::vector<CriticalSegment> critical_path;  ///< cycles sum to `cycles`
    Cycle power_interval_cycles = 0;
    std::vector<EnergyCounts> intervals;   ///< sums to the totals of `energy`
    EnergyCounts energy{};                 ///< nodes' counts plus those that serve no node (refresh, standby)
    std::vector<HbmCommand> hbm_commands;  ///< of the window asked for, by time, then by channel
    std::vector<StatValue> stats;
};

/// Throws DeadlockError (who waits for whom), InputError (program does not fit the chip), InvariantError.
[[nodiscard]] RunResult run(const isa::ChipSpec& chip, const isa::Program& program, const RunOptions& options = {});

}  // namespace sluice::sim
