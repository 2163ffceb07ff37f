// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recognises the operator patterns that the kernels take, and groups equal consecutive layers into runs that become
// loops. Anything else is an error naming the operator.
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph.hpp"

namespace sluice::kernels {

/// Experts of a layer; none if `count` is 0.
struct ExpertsShape {
    std::int64_t count = 0, chosen = 0, width = 0;
    friend bool operator==(const ExpertsShape&, const ExpertsShape&) = default;
};

/// One decoder layer: norm, q/k/v (+ biases, norms of heads) + rope + cache append, attention, o (+ bias) + residual,
/// norm, gate/up + SwiGLU, down + residual; or, for the last two, router + choice, experts, their sum + residual.
struct LayerShape {
    std::int64_t hidden = 0;
    std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t ffn = 0;  ///< 0: experts
    ExpertsShape experts;
    double epsilon = 0;
    bool qkv_bias = false, o_bias = false;
    bool head_norms = false;  ///< of q and k, with weights, before RoPE
    double head_epsilon = 0;
    isa::Format weights = isa::Format::mxfp4;
    isa::Format activations = isa::Format::mxfp8;
    isa::Format kv = isa::Format::e4m3;
    friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

/// What a plan node of a layer stands for.
enum LayerNode : std::uint8_t {
    kNorm1Node,
    kQkvNode,
    kAttentionNode,
    kONode,
    kNorm2Node,
    kGateUpNode,
    kDownNode,
    kRouterNode,
    kExpertsNode,
    kCombineNode,
};

/// The operators that one plan node fuses.
struct LayerPart {
    LayerNode node = kNorm1Node;
    std::size_t first_operator = 0;  ///< from the layer's first one
    std::size_t operators = 0;
};

/// Consecutive equal layers.
struct LayerRun {
    std::int64_t first_layer = 0;
    std::int64_t count = 0;
    LayerShape shape;
    std::size_t first_operator = 0;  ///< in graph.operators
    std::vector<LayerPart> parts;    ///< in order: plan nodes of every layer
    std::size_t operators = 0;       ///< of a layer
};

struct DecoderModel {
    std::int64_t hidden = 0;
    std::int64_t vocab = 0;
    double epsilon = 0;  ///< of the final norm
    isa::Format head_weights = isa::Format::mxfp4;
    isa::Format head_activations = isa::Format::mxfp8;
    std::vector<LayerRun> runs;
    std::size_t embedding_operator = 0;
    std::size_t final_norm_operator = 0;
    std::size_t head_operator = 0;
};

[[nodiscard]] DecoderModel fuse_decoder(const models::Graph& graph);

}  // namespace sluice::kernels
