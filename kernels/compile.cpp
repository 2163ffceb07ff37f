// SPDX-License-Identifier: Apache-2.0
#include "kernels/compile.hpp"

#include "kernels/bare_attention.hpp"
#include "kernels/decoder.hpp"
#include "kernels/frame.hpp"
#include "kernels/gemm.hpp"

namespace sluice::kernels {

namespace {

Compiled compile_bare(const models::Graph& graph, const isa::ChipSpec& chip) {
    const bool attention = std::holds_alternative<models::Attention>(graph.operators.at(0).body);
    return attention ? compile_attention(graph, chip) : compile_gemm(graph, chip);
}

}  // namespace

Compiled compile(const models::Graph& graph, const isa::ChipSpec& chip) {
    Compiled compiled = graph.bare_operator ? compile_bare(graph, chip) : compile_decoder(graph, chip);
    check_semaphore_width(compiled.program, chip);
    return compiled;
}

}  // namespace sluice::kernels
