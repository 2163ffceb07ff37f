// SPDX-License-Identifier: Apache-2.0
#include "kernels/compile.hpp"

#include <fmt/format.h>

#include "kernels/bare_attention.hpp"
#include "kernels/decoder.hpp"
#include "kernels/frame.hpp"
#include "kernels/gemm.hpp"

namespace sluice::kernels {

namespace {

Compiled compile_bare(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule) {
    const bool attention = std::holds_alternative<models::Attention>(graph.operators.at(0).body);
    return attention ? compile_attention(graph, chip, schedule) : compile_gemm(graph, chip, schedule);
}

}  // namespace

void set_bounds(PlanNode& node, double slots, const isa::ChipSpec& chip) {
    if (node.rate != isa::TensorRate::none) {
        node.ttu_cycles =
            node.tensor_flops / isa::peak_flops(chip, node.rate) * static_cast<double>(chip.clock.core_hz);
    }
    node.tvp_cycles = slots / static_cast<double>(chip.tvp.issue_slots * chip.tvp.lanes_32b * isa::tile_count(chip));
    node.hbm_cycles = node.hbm_bytes / isa::hbm_bytes_per_cycle(chip);
}

Compiled compile(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule) {
    Compiled compiled =
        graph.bare_operator ? compile_bare(graph, chip, schedule) : compile_decoder(graph, chip, schedule);
    if (schedule == Schedule::eager) {
        compiled.notes.push_back(
            fmt::format("eager: each operator is launched when the one before is complete, which takes {} cycles",
                        chip.schedule.eager_launch_cycles));
    }
    check_semaphore_width(compiled.program, chip);
    return compiled;
}

}  // namespace sluice::kernels
