// SPDX-License-Identifier: Apache-2.0
#pragma once
// Single operators, from and to HBM, as graphs of one operator.
#include "models/graph.hpp"

namespace sluice::models {

/// Grouped-query attention of `batch` sequences: `tokens` new tokens each, behind `past` positions.
struct AttentionSizes {
    std::int64_t heads = 1, kv_heads = 1, head_dim = 64;
    std::int64_t tokens = 1, batch = 1;
    std::int64_t past = 0;
    bool causal = false;
    Format format = Format::e4m3;  ///< of Q, K, V and of the probabilities
    Format out = Format::bf16;
};

/// Tensors "q" [batch * tokens x heads * head_dim], "k" and "v" [batch * kv_heads * (past + tokens) x head_dim], "o"
/// as q. Throws InputError, naming the flag, for sizes outside 1..2^20, heads that do not divide into KV heads, a head
/// of part of a block of 32, a past that does not end with a block, or formats that do not multiply.
[[nodiscard]] Graph build_attention(const AttentionSizes& sizes);

}  // namespace sluice::models
