// SPDX-License-Identifier: Apache-2.0
#pragma once
// run.json (schema sluice.run/1, configs/schemas/run-1.schema.json): figures as plain JSON numbers in the unit of their
// name. Everything outside "simulator" is the same from run to run.
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tools {

struct Outcome;
struct Figures;

/// Of everything in `outcome` but its `run`.
[[nodiscard]] nlohmann::ordered_json make_run_json(const Outcome& outcome, double wall_seconds);

/// The operators of run.json as a table, one a line.
[[nodiscard]] std::string operators_csv(const Figures& figures);

}  // namespace sluice::tools
