// SPDX-License-Identifier: Apache-2.0
#include "sim/run.hpp"

#include <chrono>
#include <map>
#include <memory>

#include "sim/chip/chip.hpp"

namespace sluice::sim {

namespace {

constexpr std::uint64_t kMaxCountedSteps = 10'000'000;  // about 0.1 s of host time

/// Instructions that the control programs will issue; 0 if counting would take too long.
std::uint64_t count_instructions(const isa::ChipSpec& chip, const isa::Program& program) {
    std::uint64_t instructions = 0;
    std::uint64_t steps = 0;
    std::map<std::string, const isa::IndexTable*> tables;
    for (const isa::IndexTable& table : program.tables) {
        tables.emplace(table.name, &table);
    }
    for (const isa::ControlProgram& control : program.controls) {
        for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
            isa::ControlWalker walker(control, isa::processor_ids(control.level, unit, chip.soc.tiles_per_cluster));
            while (const isa::Statement* statement = walker.next()) {
                if (steps + walker.steps() > kMaxCountedSteps) {
                    return 0;
                }
                if (const auto* load = std::get_if<isa::LoadIndex>(&statement->body)) {
                    const auto it = tables.find(load->table);
                    if (it == tables.end()) {
                        return 0;  // the run itself will say so
                    }
                    walker.set_register(load->reg,
                                        isa::index_value(*it->second, load->element.evaluate(walker.environment())));
                } else if (std::holds_alternative<isa::Instruction>(statement->body)) {
                    ++instructions;
                }
            }
            steps += walker.steps() + 1;
        }
    }
    return instructions;
}

/// Calls the user's function every few 100 ms of host time.
class ProgressReporter {
public:
    ProgressReporter(const std::function<void(const Progress&)>& report, std::uint64_t total, const TaskPool& tasks)
        : report_(report), total_(total), tasks_(tasks), last_(Clock::now()) {}

    void operator()(Cycle cycle) {
        const Clock::time_point now = Clock::now();
        if (now - last_ >= std::chrono::milliseconds(200)) {
            last_ = now;
            report_({cycle, tasks_.retired(), total_});
        }
    }

private:
    using Clock = std::chrono::steady_clock;
    const std::function<void(const Progress&)>& report_;
    std::uint64_t total_;
    const TaskPool& tasks_;
    Clock::time_point last_;
};

RunResult collect(Chip& chip, const Scheduler& scheduler, const Ledger& ledger, Cycle end) {
    RunResult result;
    result.cycles = end;
    result.seconds = static_cast<double>(scheduler.clock().time_of(end)) / static_cast<double>(kFemtosecondsPerSecond);
    result.events = scheduler.events();
    result.engines = chip.accounts(end);
    result.nodes = ledger.nodes();
    for (const NodeAccount& node : result.nodes) {
        result.hbm_read += node.hbm_read;
        result.hbm_written += node.hbm_written;
    }
    result.critical_path = chip.context().path.walk(chip.context().end);
    result.power_interval_cycles = ledger.interval_cycles();
    result.intervals = ledger.intervals();
    result.energy = ledger.total();
    if (chip.hbm() != nullptr) {
        result.hbm_commands = chip.hbm()->commands();
    }
    StatSheet sheet(end);
    chip.report(sheet);
    result.stats = sheet.take();
    return result;
}

}  // namespace

RunResult run(const isa::ChipSpec& spec, const isa::Program& program, const RunOptions& options) {
    const SimulationContext simulation;
    Ledger ledger(options.power_interval_cycles);
    ledger.reserve_nodes(isa::node_names(program).size());
    Scheduler scheduler("scheduler", ClockDomain(static_cast<std::uint64_t>(spec.clock.core_hz)));
    scheduler.limit_cycles(options.max_cycles);
    Chip chip("chip", spec, program, scheduler, ledger, options);
    if (options.on_progress) {
        const std::uint64_t total = count_instructions(spec, program);
        scheduler.on_pulse(ProgressReporter(options.on_progress, total, chip.context().tasks));
    }
    chip.start();
    scheduler.run();
    chip.check_finished();
    const Cycle end = chip.context().end.at;
    chip.finish(end);
    chip.check_conserved(end);
    return collect(chip, scheduler, ledger, end);
}

}  // namespace sluice::sim
