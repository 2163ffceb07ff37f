// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one facade: a Request -> a program that is verified for its chip -> a simulated run -> figures and run.json.
// Every subcommand and test goes through it. One simulation per process.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "isa/chip_spec_reader.hpp"
#include "isa/energy_table.hpp"
#include "isa/program.hpp"
#include "kernels/compile.hpp"
#include "models/graph.hpp"
#include "sim/run.hpp"
#include "tools/figures.hpp"
#include "tools/output.hpp"
#include "tools/request.hpp"
#include "tools/values.hpp"

namespace sluice::tools {

/// All that a run needs, checked.
struct Prepared {
    std::string name;  ///< "llama-3.1-8b-decode-b32-c4096": fit for a folder
    isa::ResolvedChip chip;
    isa::EnergyTable energy;
    isa::Program program;
    std::vector<kernels::PlanNode> plan;  ///< by node id; empty for a program of the user's own
    std::vector<std::string> notes;       ///< the compiler's mapping
    models::Graph graph;                  ///< what was compiled; of a program: its regions that hold matrices
    kernels::Placement placement;         ///< where the graph's tensors lie
    std::vector<Place> inputs;            ///< files that it was read from
    double tokens = 0;                    ///< that the step processes; 0 where there are none
    nlohmann::ordered_json workload;      ///< as in run.json
};

/// Reads the chip, builds and compiles (or reads) the program, verifies it. Throws InputError, and InvariantError for a
/// compiled program that does not verify.
[[nodiscard]] Prepared prepare(const Request& request);

struct Outcome {
    Prepared job;
    sim::RunResult result;
    Figures figures;
    ValueOutcome values;         ///< empty without a run on values
    nlohmann::ordered_json run;  ///< run.json, schema sluice.run/1
};

/// Throws InputError, DeadlockError, InvariantError.
[[nodiscard]] Outcome simulate(Prepared job, const sim::RunOptions& options = {}, ValueOutcome values = {});
[[nodiscard]] Outcome simulate(const Request& request, const sim::RunOptions& options = {});

}  // namespace sluice::tools
