// SPDX-License-Identifier: Apache-2.0
#pragma once
// The compiler's one entry: operator graph + machine -> Program, with a plan that says what each node of the program
// stands for and how fast it could be.
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"
#include "kernels/placement.hpp"
#include "kernels/schedule.hpp"
#include "models/graph.hpp"

namespace sluice::kernels {

/// What the instructions of one node id do together: one operator or several fused ones, in one layer.
struct PlanNode {
    std::string name;    ///< "layers.3.gate_up"
    std::string kind;    ///< "embedding", "norm", "gemm", "attention"
    std::string format;  ///< operand formats, "mxfp8 x mxfp4"
    std::int64_t layer = -1;
    isa::TensorRate rate = isa::TensorRate::none;  ///< none: no tensor work
    double flops = 0;                              ///< useful, unpadded
    double tensor_flops = 0;                       ///< those of the TTU
    double hbm_bytes = 0;   ///< compulsory: weights, KV cache, and activations that come from or go to HBM
    double ttu_cycles = 0;  ///< lower bound: tensor_flops at peak
    double tvp_cycles = 0;  ///< lower bound: issue slots of the vector programs over all lanes
    double hbm_cycles = 0;  ///< lower bound: hbm_bytes at peak bandwidth
};

/// Sets the lower bounds from flops, bytes and `vector_slots`, issue slots times elements of its vector programs.
void set_bounds(PlanNode& node, double vector_slots, const isa::ChipSpec& chip);

struct Compiled {
    isa::Program program;
    std::vector<PlanNode> nodes;     ///< by node id
    std::vector<std::string> notes;  ///< the mapping, for people: one line each
    Placement placement;
};

/// Throws InputError: an operator or pattern that no kernel takes, a format the TTU does not take, a memory that is too
/// small (bytes needed, bytes there, what would fit).
[[nodiscard]] Compiled compile(const models::Graph& graph, const isa::ChipSpec& chip,
                               Schedule schedule = Schedule::fused);

}  // namespace sluice::kernels
