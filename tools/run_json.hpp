// SPDX-License-Identifier: Apache-2.0
#pragma once
// run.json (schema sluice.run/1, configs/schemas/run-1.schema.json): figures as plain JSON numbers in the unit of their
// name. Everything outside "simulator" is the same from run to run.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/report.hpp"

namespace sluice::tools {

struct Outcome;
struct Figures;

/// Of everything in `outcome` but its `run`.
[[nodiscard]] nlohmann::ordered_json make_run_json(const Outcome& outcome, double wall_seconds);

/// The operators of run.json as a table, one a line.
[[nodiscard]] std::string operators_csv(const Figures& figures);
/// hbm_commands.csv: one line a command, by time.
[[nodiscard]] std::string hbm_commands_csv(const std::vector<sim::HbmCommand>& commands, const isa::HbmSpec& hbm);

}  // namespace sluice::tools
