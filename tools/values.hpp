// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs on values: inputs from a seed or from .npy files, the functional machine, checks, outputs as .npy files.
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tools {

struct Prepared;

struct ValueOptions {
    std::string inputs = "1";  ///< a seed, or a folder of .npy files
    bool check_races = false;
    std::int64_t shuffles = 0;  ///< other interleavings whose results are compared
    /// Statements of all control programs, which take at least a cycle each; 0: no limit.
    std::uint64_t max_statements = 0;
    [[nodiscard]] bool from_folder() const;
};

struct ValueOutcome {
    std::map<std::string, std::string> files;  ///< "NAME.npy" -> its bytes
    nlohmann::ordered_json summary;            ///< "values" of run.json
    double wall_seconds = 0;
};

/// Inputs and outputs of a program of the user's own: its regions that hold matrices, as tensors of a graph without
/// operators, and where they lie.
void place_regions(Prepared& job);

/// Throws InputError: an input that is missing or does not fit, a byte that is read and that nobody wrote, an output
/// whose name makes no file name. Races, unbalanced semaphores and results that depend on the interleaving are the
/// user's fault in a program of the user's own (InputError), and ours in a compiled one (InvariantError). DeadlockError
/// if the run gets stuck.
/// `on_progress` is told often what the run is at.
[[nodiscard]] ValueOutcome run_values(const Prepared& job, const ValueOptions& options,
                                      const std::function<void(const std::string&)>& on_progress = {});

}  // namespace sluice::tools
