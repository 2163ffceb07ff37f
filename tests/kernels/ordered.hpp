// SPDX-License-Identifier: Apache-2.0
#pragma once
// A compiled program has no race, leaves its semaphores as it found them, and gives the same bytes in other
// interleavings.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "isa/execute/race_check.hpp"
#include "tests/kernels/executed.hpp"

namespace sluice::test {

constexpr std::uint64_t kShuffles = 2;

inline void check_order(const std::string& what, const models::Graph& graph, const isa::ChipSpec& chip,
                        kernels::Schedule schedule = kernels::Schedule::fused) {
    INFO(what << " on " << chip.name);
    const kernels::Compiled compiled = kernels::compile(graph, chip, schedule);
    const models::Values inputs = models::random_inputs(graph, 9);
    isa::Program program = compiled.program;
    const auto load = [&](isa::Memories& memories) {
        kernels::write_inputs(compiled.placement, graph, inputs, memories.hbm(), program);
    };
    isa::Memories memories(chip);
    load(memories);
    isa::MachineOptions options;
    options.record_trace = true;
    isa::Machine machine(program, chip, memories, options);
    machine.run();
    CHECK(machine.unbalanced().empty());
    const isa::RaceReport report = isa::check_races(program, chip, machine.trace());
    for (const std::vector<std::string>& faults : {report.races, report.self_conflicts}) {
        for (const std::string& fault : faults) {
            FAIL_CHECK(fault);
        }
    }
    for (std::uint64_t seed = 1; seed <= kShuffles; ++seed) {
        isa::Memories other(chip);
        load(other);
        isa::Machine(program, chip, other, seeded(seed)).run();
        CHECK_FALSE(memories.hbm().first_difference(other.hbm()));
    }
}

}  // namespace sluice::test
