// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every derived figure of a run, computed once; the table and run.json only print them. Figures that cannot be (more
// than a peak, faster than a lower bound) throw InvariantError here.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/energy_table.hpp"
#include "isa/program.hpp"
#include "kernels/compile.hpp"
#include "sim/run.hpp"

namespace sluice::tools {

/// The fewest cycles that each part needs for useful work and compulsory bytes.
struct LowerBounds {
    double ttu_cycles = 0;
    double tvp_cycles = 0;
    double hbm_cycles = 0;

    [[nodiscard]] double longest() const;
    /// "ttu", "tvp" or "hbm"; "none" if all are 0.
    [[nodiscard]] const char* binding() const;
    LowerBounds& operator+=(const LowerBounds& other);
};

/// One plan node. What needs a plan is absent for a program of the user's own.
struct OperatorFigures {
    std::string name;    ///< "layers.3.qkv"
    std::string group;   ///< "qkv": the name without its layer
    std::string kind;    ///< "gemm", ...; "" without a plan
    std::string format;  ///< "mxfp8 x mxfp4"
    sim::NodeAccount account;
    Cycle cycles = 0;     ///< from its first fetch or compute to its end; never fewer than its lower bound
    double energy_j = 0;  ///< of its events; static power is nobody's
    // With a plan:
    double flops = 0, tensor_flops = 0, hbm_compulsory_bytes = 0;
    LowerBounds bounds;
    std::optional<double> tflops;       ///< flops / cycles
    std::optional<double> intensity;    ///< flops / compulsory HBM bytes
    std::optional<double> roof_tflops;  ///< flops at its longest lower bound
};

/// Operators of one name over all layers. Spans are unions over its operators, so a rate is never above a peak.
struct GroupFigures {
    std::string name;
    std::size_t count = 0;
    Cycle cycles = 0;  ///< in which one of them was between its first fetch or compute and its end
    double flops = 0, hbm_bytes = 0, energy_j = 0;
    LowerBounds bounds;
    double tflops = 0, hbm_tbps = 0;  ///< over cycles
};

/// Lanes of one kind of engine ("ttu", "tdma", ...) over the whole chip, in lane cycles.
struct EngineFigures {
    std::string kind;
    std::size_t lanes = 0;
    Cycle busy = 0, idle = 0, total = 0;
    std::array<Cycle, sim::kWaitKindCount> waiting{};
};

struct Summary {
    Cycle cycles = 0;
    double seconds = 0;
    std::optional<double> flops, tflops, peak_tflops, utilization;  ///< with a plan
    std::string peak_rate;                                          ///< "fp8": the rate with the most flops
    double hbm_bytes = 0, hbm_tbps = 0, hbm_peak_tbps = 0, hbm_utilization = 0;
    double energy_j = 0, mean_power_w = 0, peak_power_w = 0, tdp_w = 0;
    std::optional<double> tokens_per_second, joules_per_token;
    LowerBounds bounds;
    std::optional<double> bound_fraction;  ///< longest bound / cycles; with a plan
};

struct Figures {
    Summary summary;
    std::vector<OperatorFigures> operators;  ///< by node id
    std::vector<GroupFigures> groups;        ///< in order of first appearance
    std::vector<EngineFigures> engines;
    std::map<std::string, double> component_j;  ///< events by component
    double static_j = 0;
    Cycle power_interval_cycles = 0;
    std::vector<double> watts;  ///< mean of each interval, static power included; the last interval may be short
};

/// `tokens`: that the run processes, 0 if none. `plan` may be empty.
[[nodiscard]] Figures make_figures(const isa::ChipSpec& chip, const isa::EnergyTable& energy,
                                   const isa::Program& program, const std::vector<kernels::PlanNode>& plan,
                                   double tokens, const sim::RunResult& result);

}  // namespace sluice::tools
