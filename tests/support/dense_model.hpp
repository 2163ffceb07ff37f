// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model of equal layers of grouped-query attention and SwiGLU or experts, by a few numbers.
#include <cmath>
#include <string>

#include "models/model_config.hpp"

namespace sluice::test {

struct DenseModel {
    std::string name = "small";
    std::int64_t layers = 1;
    std::int64_t hidden = 256, ffn = 512;
    std::int64_t heads = 4, kv_heads = 2, head_dim = 64;
    std::int64_t vocab = 512;
    bool tied = false;
    bool qkv_bias = false, out_bias = false, head_norms = false;
    std::int64_t experts = 0, chosen = 0;  ///< instead of the feed-forward part; each of width `ffn`

    // NOLINTNEXTLINE(google-explicit-constructor): stands for the model wherever one is wanted.
    operator models::ModelConfig() const {
        models::AttentionConfig attention;
        attention.heads = heads;
        attention.kv_heads = kv_heads;
        attention.head_dim = head_dim;
        attention.scale = 1 / std::sqrt(static_cast<double>(head_dim));
        attention.qkv_bias = qkv_bias;
        attention.out_bias = out_bias;
        attention.head_norm = head_norms ? models::HeadNorm::weighted : models::HeadNorm::none;
        attention.rotary = models::RotaryConfig{};
        attention.rotary->dims = head_dim;
        models::ModelConfig config;
        config.name = name;
        config.model_type = "llama";
        config.hidden_size = hidden;
        config.vocab_size = vocab;
        config.max_position_embeddings = 4096;
        config.norm_epsilon = 1e-5;
        config.tie_word_embeddings = tied;
        models::LayerConfig layer{attention, models::MlpConfig{ffn}, false};
        if (experts > 0) {
            models::ExpertsConfig part;
            part.count = experts;
            part.chosen = chosen;
            part.width = ffn;
            part.router.normalised = true;
            layer.feed_forward = part;
        }
        config.layers.assign(static_cast<std::size_t>(layers), layer);
        return config;
    }
};

}  // namespace sluice::test
