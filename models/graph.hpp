// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model as an operator graph: what is computed, on which shapes and formats, with no idea of any machine. Operators
// stand in execution order; each reads and writes tensors by index. FLOPs count a multiply-accumulate as 2.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "isa/format.hpp"
#include "isa/number/block_scale.hpp"
#include "isa/units.hpp"
#include "models/routing.hpp"

namespace sluice::models {

using isa::Format;
using TensorIndex = std::int32_t;

enum class TensorRole : std::uint8_t {
    weight,
    operand,     ///< given, and no weight: of a single product, or a region that a program reads
    activation,  ///< made and used within the step
    kv_cache,
    token_ids,
    output,
    updated,  ///< given, and given back: a region that a program reads and writes
};

/// 2-D: rows x cols. Weights are [out x in]; activations [tokens x width]; a KV cache is [sequences * kv_heads *
/// context x head_dim]; token ids are [tokens x 1] 32-bit integers (format raw).
struct Tensor {
    std::string name;  ///< "model.layers.3.self_attn.q_proj.weight"
    TensorRole role = TensorRole::activation;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    Format format = Format::bf16;
    /// A weight that is stored a second time (a tied LM head, in another format and layout): the first one's index.
    TensorIndex same_values_as = -1;
};

/// out[t] = table[token_ids[t]]
struct Embedding {
    TensorIndex ids, table, out;
};
/// out = in / sqrt(mean(in^2) + epsilon) * weight
struct RmsNorm {
    TensorIndex in, weight, out;
    double epsilon = 1e-5;
};
/// RMSNorm of each head's dimensions for itself; the weight has one value for each dimension of a head.
struct HeadRmsNorm {
    TensorIndex in, weight, out;
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
    double epsilon = 1e-5;
};
constexpr TensorIndex kNoTensor = -1;
/// out = in * weight^T + bias; the activation enters the tensor unit in `operand_format`
struct Linear {
    TensorIndex in, weight, out;
    Format operand_format = Format::mxfp8;
    TensorIndex bias = kNoTensor;  ///< 1 x out
};
/// How the frequencies of a RoPE are stretched for long contexts. It changes the table of angles, not the work.
struct RopeScaling {
    enum class Kind : std::uint8_t { none, linear, llama3, yarn };
    Kind kind = Kind::none;
    double factor = 1.0;
    double low_freq_factor = 1.0;  ///< this and the next: llama3 alone
    double high_freq_factor = 1.0;
    std::int64_t original_max_position_embeddings = 0;  ///< llama3 and yarn
    double beta_fast = 0, beta_slow = 0;                ///< this and the next two: yarn alone; turns within it
    bool truncate = true;                               ///< dimensions between which frequencies are mixed are whole
    double attention_factor = 1;                        ///< of cosines and sines

    friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// rotary position embedding of heads x head_dim, in place of shape
struct Rope {
    TensorIndex in, out;
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
    double theta = 10000.0;
    RopeScaling scaling;
};
/// Appends k, v of this step's tokens to the caches (none, -1: they hold all positions already), then out =
/// softmax(q k^T / sqrt(d)) v over the cache. Causal: a token attends to the positions up to its own, else to all.
struct Attention {
    TensorIndex q, k, v, k_cache, v_cache, out;
    std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
    bool causal = true;
};
/// out = silu(gate) * up
struct Swiglu {
    TensorIndex gate, up, out;
};
struct Add {
    TensorIndex a, b, out;
};
/// experts[t] = the `chosen` largest scores of a token, best first, of equal ones the first; gates[t][e] =
/// exp(score e - best) / sum of exp(score - best) over the chosen, for every expert e.
struct Route {
    TensorIndex scores, experts, gates;
    std::int64_t chosen = 1;
    /// tokens x chosen: what stands for `experts` where nothing is computed.
    std::vector<std::int32_t> drawn;
};
/// out[t] = sum over t's experts e, in their order, of bf16(gates[t][e] * down_e(silu(gate_e(in[t])) * up_e(in[t]))).
/// Weights of all experts stand one behind another: gate and up are [count * width x hidden], down [count * hidden x
/// width].
struct Experts {
    TensorIndex in, experts, gates, gate, up, down, out;
    std::int64_t count = 1, chosen = 1, width = 0;
    std::int64_t hit = 1;  ///< experts that Route::drawn names
    Format operand_format = Format::mxfp8;
};
/// out = the last token's row of every sequence
struct LastToken {
    TensorIndex in, out;
};

using OperatorBody =
    std::variant<Embedding, RmsNorm, HeadRmsNorm, Linear, Rope, Attention, Swiglu, Add, Route, Experts, LastToken>;

struct Operator {
    std::string name;         ///< "layers.3.q_proj"
    std::int64_t layer = -1;  ///< -1: outside the layers
    OperatorBody body;
};

enum class Phase : std::uint8_t { prefill, decode };

/// What is asked of a model. Prefill: `batch` sequences of `tokens` new tokens each, nothing cached before.
/// Decode: one new token for each of `batch` sequences, the last of `context` positions.
struct Workload {
    Phase phase = Phase::decode;
    std::int64_t batch = 1;
    std::int64_t tokens = 1;             ///< per sequence; 1 in decode
    std::int64_t context = 1;            ///< positions attended to by the last token; == tokens in prefill
    Format weights = Format::mxfp4;      ///< all matrices and the LM head
    Format activations = Format::mxfp8;  ///< operands of Linear
    Format kv = Format::e4m3;            ///< KV cache; E4M3 with one FP32 scale per layer and head, or bf16
    isa::ScaleRounding scale_rounding = isa::ScaleRounding::floor;  ///< of block-scaled formats
    RoutingSource routing;                                          ///< of tokens to experts
};

struct Graph {
    std::string name;
    Workload workload;
    bool bare_operator = false;  ///< a single operator from and to HBM (`sluice run gemm`): no decoder
    std::vector<Tensor> tensors;
    std::vector<Operator> operators;
};

/// Work of one operator, unpadded. Attention counts its two matrix products alone, as published figures do.
struct OperatorCost {
    double flops = 0;             ///< all
    double tensor_flops = 0;      ///< those of the tensor unit (matrix products)
    double weight_bytes = 0;      ///< compulsory, in the weight's format, scales included
    double kv_bytes = 0;          ///< the past read, the new positions appended
    double activation_bytes = 0;  ///< inputs and outputs, in their formats
};
[[nodiscard]] OperatorCost cost(const Graph& graph, const Operator& op);

/// Pairs of a token and a position that it attends to, of one head.
[[nodiscard]] double attention_pairs(const Graph& graph, const Attention& op);

/// Elements of all weight tensors (each once, however often stored).
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);

}  // namespace sluice::models
