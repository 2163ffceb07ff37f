// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operator graphs of one step of a decoder-only model, and of single operators.
#include "models/graph.hpp"
#include "models/model_config.hpp"

namespace sluice::models {

/// One step of the model: embedding, layers, last token (prefill), final norm, LM head. Residual stream, norms and
/// embedding table are BF16; a tied LM head is a second copy of the table in the format of the weights. Throws
/// InputError for a part of a layer that has no operators yet, and for a workload that makes no sense (batch < 1,
/// context beyond max_position_embeddings, formats that do not multiply, ...), naming the flag.
[[nodiscard]] Graph build_graph(const ModelConfig& config, const Workload& workload);

/// C[m x n] = A[m x k] * B[n x k]^T as a graph of one Linear with a_format, b_format, out_format. Throws InputError for
/// a size outside 1..2^20, or formats that do not multiply.
[[nodiscard]] Graph build_gemm(std::int64_t m, std::int64_t n, std::int64_t k, Format a_format, Format b_format,
                               Format out_format);

}  // namespace sluice::models
