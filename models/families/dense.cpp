// SPDX-License-Identifier: Apache-2.0
// Families whose layers are all grouped-query attention and one gated feed-forward part.
#include <cmath>

#include "models/families/families.hpp"

namespace sluice::models {

namespace {

MlpConfig read_gated_mlp(const ConfigReader& in) {
    in.require_only("hidden_act", "silu");
    return {read_width(in, "intermediate_size"), Activation::silu_gated, in.flag_or("mlp_bias", false)};
}

void fill_layers(const ConfigReader& in, ModelConfig& config, const AttentionConfig& attention) {
    const LayerConfig layer{attention, read_gated_mlp(in), false};
    config.layers.assign(static_cast<std::size_t>(read_layer_count(in)), layer);
}

}  // namespace

void read_qwen_windows(const ConfigReader& in, ModelConfig& config) {
    const auto layers = static_cast<std::int64_t>(config.layers.size());
    const std::int64_t first = in.integer("max_window_layers", 0, kMaxLayers);
    const bool used = in.flag("use_sliding_window");
    const std::int64_t window = read_window(in, "sliding_window", config.max_position_embeddings);
    std::vector<bool> windowed(config.layers.size());
    if (in.has("layer_types")) {
        windowed = read_layer_types(in, layers, "sliding_attention");
    } else {
        for (std::int64_t i = first; i < layers; ++i) {
            windowed[static_cast<std::size_t>(i)] = true;
        }
    }
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
        std::get<AttentionConfig>(config.layers[i].mixer).window = used && windowed[i] ? window : 0;
    }
}

ModelConfig read_llama(const ConfigReader& in) {
    in.require_only("architectures", {"LlamaForCausalLM"});
    in.require_only("sliding_window", nullptr);
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    attention.qkv_bias = attention.out_bias = in.flag("attention_bias");
    fill_layers(in, config, attention);
    return config;
}

ModelConfig read_mistral(const ConfigReader& in) {
    in.require_only("architectures", {"MistralForCausalLM"});
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    attention.window = read_window(in, "sliding_window", config.max_position_embeddings);
    fill_layers(in, config, attention);
    return config;
}

// Its q, k and v stand in one matrix, and so do gate and up: the same numbers in another order.
ModelConfig read_phi3(const ConfigReader& in) {
    in.require_only("architectures", {"Phi3ForCausalLM"});
    // Only `longrope` needs it, which is refused.
    in.pass_over({"original_max_position_embeddings", "embd_pdrop", "resid_pdrop"});
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    const double rotated = static_cast<double>(attention.head_dim) * in.number("partial_rotary_factor", 0, 1);
    attention.rotary->dims = static_cast<std::int64_t>(rotated) / 2 * 2;
    attention.qkv_bias = attention.out_bias = in.flag("attention_bias");
    attention.window = read_window(in, "sliding_window", config.max_position_embeddings);
    fill_layers(in, config, attention);
    return config;
}

ModelConfig read_qwen2(const ConfigReader& in) {
    in.require_only("architectures", {"Qwen2ForCausalLM"});
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    attention.qkv_bias = true;
    fill_layers(in, config, attention);
    read_qwen_windows(in, config);
    return config;
}

AttentionConfig read_qwen3_attention(const ConfigReader& in, std::int64_t hidden_size) {
    AttentionConfig attention = read_attention(in, hidden_size);
    attention.qkv_bias = attention.out_bias = in.flag("attention_bias");
    attention.head_norm = HeadNorm::weighted;
    return attention;
}

ModelConfig read_qwen3(const ConfigReader& in) {
    in.require_only("architectures", {"Qwen3ForCausalLM"});
    ModelConfig config = read_frame(in);
    fill_layers(in, config, read_qwen3_attention(in, config.hidden_size));
    read_qwen_windows(in, config);
    return config;
}

}  // namespace sluice::models
