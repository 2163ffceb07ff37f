// SPDX-License-Identifier: Apache-2.0
#include "kernels/compile.hpp"

#include "kernels/decoder.hpp"
#include "kernels/frame.hpp"
#include "kernels/gemm.hpp"

namespace sluice::kernels {

Compiled compile(const models::Graph& graph, const isa::ChipSpec& chip) {
    Compiled compiled = graph.bare_operator ? compile_gemm(graph, chip) : compile_decoder(graph, chip);
    check_semaphore_width(compiled.program, chip);
    return compiled;
}

}  // namespace sluice::kernels
