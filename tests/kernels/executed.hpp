// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles a graph, runs the program on values, and holds the outputs against the reference executor.
#include <catch2/catch.hpp>
#include <string>

#include "isa/execute/machine.hpp"
#include "isa/verifier.hpp"
#include "kernels/compile.hpp"
#include "models/reference/executor.hpp"
#include "tests/kernels/compiled.hpp"

namespace sluice::test {

inline isa::MachineOptions seeded(std::uint64_t seed) {
    isa::MachineOptions options;
    options.seed = seed;
    return options;
}

/// The outputs of the compiled program.
inline models::Values run_values(const models::Graph& graph, const isa::ChipSpec& chip, const models::Values& inputs,
                                 kernels::Compiled& compiled, const isa::MachineOptions& options = {}) {
    isa::verify(compiled.program, chip);
    isa::Memories memories(chip);
    isa::Program program = compiled.program;
    kernels::write_inputs(compiled.placement, graph, inputs, memories.hbm(), program);
    isa::Machine machine(program, chip, memories, options);
    machine.run();
    CHECK(machine.unbalanced().empty());
    return kernels::read_outputs(compiled.placement, graph, memories.hbm());
}

/// Every output equals the reference's, bit by bit (zeros of either sign are equal).
inline void check_equal(const models::Graph& graph, const models::Values& found, const models::Values& wanted) {
    REQUIRE(!found.empty());
    for (const auto& [index, matrix] : found) {
        const models::Tensor& tensor = graph.tensors[static_cast<std::size_t>(index)];
        const models::Matrix& reference = wanted.at(index);
        std::int64_t different = 0;
        std::string first;
        for (std::int64_t row = 0; row < matrix.rows; ++row) {
            for (std::int64_t col = 0; col < matrix.cols; ++col) {
                if (matrix.at(row, col) != reference.at(row, col) && different++ == 0) {
                    first = tensor.name + " [" + std::to_string(row) + ", " + std::to_string(col) + "]: found " +
                            std::to_string(matrix.at(row, col)) + ", reference " +
                            std::to_string(reference.at(row, col));
                }
            }
        }
        INFO(first);
        CHECK(different == 0);
    }
}

/// Compiles, runs and compares; returns the outputs.
inline models::Values check_values(const models::Graph& graph, const isa::ChipSpec& chip, const models::Values& inputs,
                                   const isa::MachineOptions& options = {},
                                   kernels::Schedule schedule = kernels::Schedule::fused) {
    kernels::Compiled compiled = kernels::compile(graph, chip, schedule);
    models::Values found = run_values(graph, chip, inputs, compiled, options);
    check_equal(graph, found, models::execute(graph, inputs, {compiled.placement.attention_chunk}));
    return found;
}

}  // namespace sluice::test
