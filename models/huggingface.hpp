// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads an unmodified Hugging Face config.json (Llama family) and builds the operator graph of one step.
#include <filesystem>
#include <optional>
#include <string>

#include "models/graph.hpp"

namespace sluice::models {

/// The fields of a config.json that shape the computation; each is checked (range, divisibility) when read.
struct LlamaConfig {
    std::string name;  ///< the file's stem
    std::string model_type;
    std::int64_t hidden_size = 0;
    std::int64_t intermediate_size = 0;
    std::int64_t num_hidden_layers = 0;
    std::int64_t num_attention_heads = 0;
    std::int64_t num_key_value_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t vocab_size = 0;
    double rms_norm_eps = 0;
    double rope_theta = 0;
    RopeScaling rope_scaling;
    std::int64_t max_position_embeddings = 0;
    bool tie_word_embeddings = false;
};

/// Throws InputError naming file and field: not JSON, unsupported model_type (lists the supported ones), missing
/// field, wrong type, value out of range, a feature that is not modelled (attention_bias, mlp_bias, hidden_act other
/// than silu, quantization_config), a key that is neither read nor known to leave the computation alone.
/// A missing head_dim is hidden_size / num_attention_heads; a missing num_key_value_heads is num_attention_heads; a
/// missing rms_norm_eps, rope_theta, tie_word_embeddings is LlamaConfig's default (1e-6, 10000, false).
[[nodiscard]] LlamaConfig read_llama_config(const std::filesystem::path& file);

[[nodiscard]] std::int64_t parameter_count(const LlamaConfig& config);

/// One step of the model: embedding, layers, last token (prefill), final norm, LM head. Residual stream, norms and
/// embedding table are BF16; a tied LM head is a second copy of the table in the format of the weights. Throws
/// InputError for a workload that makes no sense (batch < 1, context beyond max_position_embeddings, formats that do
/// not multiply, ...), naming the flag.
[[nodiscard]] Graph build_graph(const LlamaConfig& config, const Workload& workload);

/// C[m x n] = A[m x k] * B[n x k]^T as a graph of one Linear with a_format, b_format, out_format. Throws InputError for
/// a size outside 1..2^20, or formats that do not multiply.
[[nodiscard]] Graph build_gemm(std::int64_t m, std::int64_t n, std::int64_t k, Format a_format, Format b_format,
                               Format out_format);

}  // namespace sluice::models
