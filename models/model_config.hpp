// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a config.json says of a decoder-only model, in terms that no family owns: a list of layers, each with a mixer,
// which relates positions to each other, and a feed-forward part, which works on each position for itself. Every part
// reads its own norm of the residual stream and adds to it.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/graph.hpp"

namespace sluice::models {

/// Rotary position embedding of the first `dims` of a head's dimensions.
struct RotaryConfig {
    double theta = 10'000;
    std::int64_t dims = 0;
    /// Pairs are neighbours (2i, 2i + 1) instead of halves (i, i + dims / 2).
    bool interleaved = false;
    RopeScaling scaling;

    friend bool operator==(const RotaryConfig&, const RotaryConfig&) = default;
};

/// Norm of each head of q and k.
enum class HeadNorm : std::uint8_t {
    none,
    weighted,  ///< RMSNorm with a weight for each dimension of a head, before RoPE
    plain,     ///< RMSNorm without weights, after RoPE
};

/// Grouped-query attention.
struct AttentionConfig {
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    double scale = 0;                    ///< of scores
    std::optional<RotaryConfig> rotary;  ///< none: positions are not told apart
    std::int64_t window = 0;             ///< positions that one attends to, itself included; 0: all before it
    std::int64_t chunk = 0;              ///< attends within its own chunk of so many positions; 0: no chunks
    HeadNorm head_norm = HeadNorm::none;
    bool qkv_bias = false, out_bias = false;
    bool sinks = false;  ///< a learned score for each head takes its share of the softmax
    /// Llama 4: queries are scaled by 1 + scale ln(1 + floor((position + 1) / floor)); 0: they are not.
    double temperature_scale = 0;
    std::int64_t temperature_floor = 0;

    friend bool operator==(const AttentionConfig&, const AttentionConfig&) = default;
};

/// Multi-head latent attention: keys and values of all heads are projections of one latent vector, which is cached
/// together with one rotated key.
struct LatentAttentionConfig {
    std::int64_t heads = 0;
    std::int64_t q_rank = 0;  ///< 0: queries are projected directly
    std::int64_t kv_rank = 0;
    std::int64_t nope_dim = 0, rope_dim = 0, value_dim = 0;  ///< of a head
    double scale = 0;                                        ///< of scores
    bool bias = false;                                       ///< of the projections into the latents, and out
    RotaryConfig rotary;

    friend bool operator==(const LatentAttentionConfig&, const LatentAttentionConfig&) = default;
};

/// Mamba-2.
struct MambaConfig {
    std::int64_t heads = 0, head_dim = 0, state = 0, groups = 0;
    std::int64_t conv = 0;   ///< taps of the causal convolution
    std::int64_t chunk = 0;  ///< positions that prefill takes at once
    bool conv_bias = false, bias = false;

    friend bool operator==(const MambaConfig&, const MambaConfig&) = default;
};

enum class Activation : std::uint8_t {
    silu_gated,     ///< silu(gate) * up: three matrices, as the next two
    gelu_gated,     ///< gelu(gate) * up, in its tanh form
    clamped_gated,  ///< gate sigmoid(1.702 gate) (up + 1), both clamped (gpt-oss)
    relu_squared,   ///< relu(up)^2: two matrices
};

struct MlpConfig {
    std::int64_t width = 0;
    Activation activation = Activation::silu_gated;
    bool bias = false;

    friend bool operator==(const MlpConfig&, const MlpConfig&) = default;
};

/// How a token chooses its experts, and what their results weigh.
struct RouterConfig {
    enum class Score : std::uint8_t { softmax, sigmoid } score = Score::softmax;
    bool normalised = false;  ///< weights of the chosen add up to one
    double scale = 1;         ///< of the weights
    std::int64_t groups = 1;  ///< of experts, of which the best `chosen_groups` are looked at
    std::int64_t chosen_groups = 1;
    bool correction = false;     ///< a learned number for each expert is added for the choice alone
    bool bias = false;           ///< of the router's matrix
    bool weighs_inputs = false;  ///< weights multiply what experts read, not what they give

    friend bool operator==(const RouterConfig&, const RouterConfig&) = default;
};

struct ExpertsConfig {
    std::int64_t count = 0;
    std::int64_t chosen = 0;        ///< by each token
    std::int64_t width = 0;         ///< of one
    std::int64_t shared_width = 0;  ///< of a dense part beside them, which every token passes; 0: there is none
    Activation activation = Activation::silu_gated;
    double clamp = 0;  ///< of Activation::clamped_gated
    bool bias = false;
    RouterConfig router;

    friend bool operator==(const ExpertsConfig&, const ExpertsConfig&) = default;
};

struct LayerConfig {
    std::variant<std::monostate, AttentionConfig, LatentAttentionConfig, MambaConfig> mixer;
    std::variant<std::monostate, MlpConfig, ExpertsConfig> feed_forward;
    bool output_norms = false;  ///< what each part gives is normed too, before it is added

    friend bool operator==(const LayerConfig&, const LayerConfig&) = default;
};

/// Formats in which the file says that weights are stored.
struct StoredFormats {
    std::string method;  ///< quantization_config.quant_method
    Format attention = Format::bf16, feed_forward = Format::bf16, experts = Format::bf16, head = Format::bf16;
};

struct ModelConfig {
    std::string name;        ///< the file's stem
    std::string model_type;  ///< of the text model
    std::int64_t hidden_size = 0;
    std::int64_t vocab_size = 0;
    std::int64_t max_position_embeddings = 0;
    double norm_epsilon = 0;
    bool norms_add_one = false;  ///< norms multiply by 1 + weight
    double embedding_scale = 1;
    bool tie_word_embeddings = false;
    std::vector<LayerConfig> layers;
    std::optional<StoredFormats> quantisation;
    std::int64_t prediction_layers = 0;  ///< of multi-token prediction; no part of a step, and not counted
};

/// One kind of weights of a layer, or of the model. Vectors have one row.
struct WeightShape {
    enum class Kind : std::uint8_t { embedding, norm, vector, attention, feed_forward, experts, router, head };
    std::string name;  ///< "self_attn.q_proj.weight", "mlp.experts.*.up_proj.weight"
    Kind kind = Kind::vector;
    std::int64_t rows = 1, cols = 1;
    std::int64_t copies = 1;         ///< one for each expert
    std::int64_t active_copies = 1;  ///< those that one token uses
    bool tied = false;               ///< stored a second time: a tied LM head

    [[nodiscard]] std::int64_t parameters() const { return tied ? 0 : copies * rows * cols; }
    friend bool operator==(const WeightShape&, const WeightShape&) = default;
};

/// Of one layer, without the layer's prefix in their names.
[[nodiscard]] std::vector<WeightShape> layer_weights(const LayerConfig& layer, std::int64_t hidden_size);
/// Of all layers and around them, equal ones of several layers together ("model.layers.*.mlp.up_proj.weight"). Without
/// those of multi-token prediction.
[[nodiscard]] std::vector<WeightShape> all_weights(const ModelConfig& config);

/// A tied LM head counts once.
[[nodiscard]] std::int64_t parameter_count(const ModelConfig& config);
/// Those that one token is multiplied with: without the embedding table (unless it is the head too) and without the
/// experts that it does not choose.
[[nodiscard]] std::int64_t active_parameter_count(const ModelConfig& config);
/// Cached numbers of one position in all layers, far below any window.
[[nodiscard]] std::int64_t kv_elements_per_token(const ModelConfig& config);

}  // namespace sluice::models
