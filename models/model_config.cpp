// SPDX-License-Identifier: Apache-2.0
#include "models/model_config.hpp"

#include <algorithm>

namespace sluice::models {

namespace {

using Kind = WeightShape::Kind;

/// Lists the weights of the parts of a layer, named as most of Hugging Face's models name them.
class LayerWeights {
public:
    explicit LayerWeights(std::int64_t hidden_size) : hidden_(hidden_size) {}

    void operator()(const std::monostate& /*none*/) {}

    void operator()(const AttentionConfig& c) {
        const std::int64_t q = c.heads * c.head_dim;
        const std::int64_t kv = c.kv_heads * c.head_dim;
        matrix("self_attn.q_proj", Kind::attention, q, hidden_, c.qkv_bias);
        matrix("self_attn.k_proj", Kind::attention, kv, hidden_, c.qkv_bias);
        matrix("self_attn.v_proj", Kind::attention, kv, hidden_, c.qkv_bias);
        matrix("self_attn.o_proj", Kind::attention, hidden_, q, c.out_bias);
        if (c.head_norm == HeadNorm::weighted) {
            vector("self_attn.q_norm.weight", Kind::norm, c.head_dim);
            vector("self_attn.k_norm.weight", Kind::norm, c.head_dim);
        }
        if (c.sinks) {
            vector("self_attn.sinks", Kind::vector, c.heads);
        }
    }

    void operator()(const LatentAttentionConfig& c) {
        const std::int64_t q = c.heads * (c.nope_dim + c.rope_dim);
        if (c.q_rank > 0) {
            matrix("self_attn.q_a_proj", Kind::attention, c.q_rank, hidden_, c.bias);
            vector("self_attn.q_a_layernorm.weight", Kind::norm, c.q_rank);
            matrix("self_attn.q_b_proj", Kind::attention, q, c.q_rank, false);
        } else {
            matrix("self_attn.q_proj", Kind::attention, q, hidden_, false);
        }
        matrix("self_attn.kv_a_proj_with_mqa", Kind::attention, c.kv_rank + c.rope_dim, hidden_, c.bias);
        vector("self_attn.kv_a_layernorm.weight", Kind::norm, c.kv_rank);
        matrix("self_attn.kv_b_proj", Kind::attention, c.heads * (c.nope_dim + c.value_dim), c.kv_rank, false);
        matrix("self_attn.o_proj", Kind::attention, hidden_, c.heads * c.value_dim, c.bias);
    }

    void operator()(const MambaConfig& c) {
        const std::int64_t inner = c.heads * c.head_dim;
        const std::int64_t convolved = inner + 2 * c.groups * c.state;
        matrix("mixer.in_proj", Kind::attention, inner + convolved + c.heads, hidden_, c.bias);
        matrix("mixer.conv1d", Kind::vector, convolved, c.conv, c.conv_bias);
        for (const char* name : {"mixer.A_log", "mixer.D", "mixer.dt_bias"}) {
            vector(name, Kind::vector, c.heads);
        }
        vector("mixer.norm.weight", Kind::norm, inner);
        matrix("mixer.out_proj", Kind::attention, hidden_, inner, c.bias);
    }

    void operator()(const MlpConfig& c) { mlp("mlp.", Kind::feed_forward, c); }

    void operator()(const ExpertsConfig& c) {
        matrix("mlp.gate", Kind::router, c.count, hidden_, c.router.bias);
        if (c.router.correction) {
            vector("mlp.gate.e_score_correction_bias", Kind::vector, c.count);
        }
        const std::size_t first = weights_.size();
        mlp("mlp.experts.*.", Kind::experts, {c.width, c.activation, c.bias});
        for (std::size_t i = first; i < weights_.size(); ++i) {
            weights_[i].copies = c.count;
            weights_[i].active_copies = c.chosen;
        }
        if (c.shared_width > 0) {
            mlp("mlp.shared_experts.", Kind::feed_forward, {c.shared_width, c.activation, false});
        }
    }

    /// The norms of a part that reads the residual stream.
    void norms(const std::string& before, const std::string& behind, bool output_norms) {
        vector(before + ".weight", Kind::norm, hidden_);
        if (output_norms) {
            vector(behind + ".weight", Kind::norm, hidden_);
        }
    }

    [[nodiscard]] std::vector<WeightShape> take() { return std::move(weights_); }

private:
    void matrix(const std::string& name, Kind kind, std::int64_t rows, std::int64_t cols, bool bias) {
        weights_.push_back({name + ".weight", kind, rows, cols});
        if (bias) {
            vector(name + ".bias", Kind::vector, rows);
        }
    }
    void vector(const std::string& name, Kind kind, std::int64_t cols) { weights_.push_back({name, kind, 1, cols}); }
    void mlp(const std::string& prefix, Kind kind, const MlpConfig& c) {
        if (c.activation != Activation::relu_squared) {
            matrix(prefix + "gate_proj", kind, c.width, hidden_, c.bias);
        }
        matrix(prefix + "up_proj", kind, c.width, hidden_, c.bias);
        matrix(prefix + "down_proj", kind, hidden_, c.width, c.bias);
    }

    std::int64_t hidden_;
    std::vector<WeightShape> weights_;
};

struct CachedElements {
    std::int64_t operator()(const AttentionConfig& c) const { return 2 * c.kv_heads * c.head_dim; }
    std::int64_t operator()(const LatentAttentionConfig& c) const { return c.kv_rank + c.rope_dim; }
    template <class Other>
    std::int64_t operator()(const Other& /*none*/) const {
        return 0;
    }
};

}  // namespace

std::vector<WeightShape> layer_weights(const LayerConfig& layer, std::int64_t hidden_size) {
    LayerWeights weights(hidden_size);
    if (!std::holds_alternative<std::monostate>(layer.mixer)) {
        weights.norms("input_layernorm", "post_attention_layernorm", layer.output_norms);
        std::visit(weights, layer.mixer);
    }
    if (!std::holds_alternative<std::monostate>(layer.feed_forward)) {
        const bool behind = layer.output_norms;
        weights.norms(behind ? "pre_feedforward_layernorm" : "post_attention_layernorm", "post_feedforward_layernorm",
                      behind);
        std::visit(weights, layer.feed_forward);
    }
    return weights.take();
}

std::vector<WeightShape> all_weights(const ModelConfig& config) {
    std::vector<WeightShape> out = {
        {"model.embed_tokens.weight", Kind::embedding, config.vocab_size, config.hidden_size}};
    out.back().active_copies = config.tie_word_embeddings ? 1 : 0;
    for (const LayerConfig& layer : config.layers) {
        for (WeightShape& weight : layer_weights(layer, config.hidden_size)) {
            weight.name.insert(0, "model.layers.*.");
            const auto same = std::find_if(out.begin(), out.end(), [&](const WeightShape& other) {
                return other.name == weight.name && other.rows == weight.rows && other.cols == weight.cols;
            });
            if (same == out.end()) {
                out.push_back(std::move(weight));
            } else {
                same->copies += weight.copies;
                same->active_copies += weight.active_copies;
            }
        }
    }
    out.push_back({"model.norm.weight", Kind::norm, 1, config.hidden_size});
    out.push_back({"lm_head.weight", Kind::head, config.vocab_size, config.hidden_size});
    out.back().tied = config.tie_word_embeddings;
    return out;
}

std::int64_t parameter_count(const ModelConfig& config) {
    std::int64_t total = 0;
    for (const WeightShape& weight : all_weights(config)) {
        total += weight.parameters();
    }
    return total;
}

std::int64_t active_parameter_count(const ModelConfig& config) {
    std::int64_t total = 0;
    for (const WeightShape& weight : all_weights(config)) {
        total += weight.tied ? 0 : weight.active_copies * weight.rows * weight.cols;
    }
    return total;
}

std::int64_t kv_elements_per_token(const ModelConfig& config) {
    std::int64_t total = 0;
    for (const LayerConfig& layer : config.layers) {
        total += std::visit(CachedElements{}, layer.mixer);
    }
    return total;
}

}  // namespace sluice::models
