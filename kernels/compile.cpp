// SPDX-License-Identifier: Apache-2.0
#include "kernels/compile.hpp"

#include "kernels/decoder.hpp"
#include "kernels/gemm.hpp"

namespace sluice::kernels {

Compiled compile(const models::Graph& graph, const isa::ChipSpec& chip) {
    return graph.bare_operator ? compile_gemm(graph, chip) : compile_decoder(graph, chip);
}

}  // namespace sluice::kernels
