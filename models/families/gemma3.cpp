// SPDX-License-Identifier: Apache-2.0
// Gemma 3, the text model: five layers with a window to one without, norms before and behind each part.
#include <cmath>

#include "models/families/families.hpp"

namespace sluice::models {

using nlohmann::json;

json gemma3_text_defaults() {
    return {{"vocab_size", 262'208},
            {"hidden_size", 2'304},
            {"intermediate_size", 9'216},
            {"num_hidden_layers", 26},
            {"num_attention_heads", 8},
            {"num_key_value_heads", 4},
            {"head_dim", 256},
            {"hidden_activation", "gelu_pytorch_tanh"},
            {"max_position_embeddings", 131'072},
            {"rms_norm_eps", 1e-6},
            {"tie_word_embeddings", true},
            {"rope_theta", 1'000'000},
            {"rope_local_base_freq", 10'000},
            {"attention_bias", false},
            {"query_pre_attn_scalar", 256},
            {"sliding_window", 4'096},
            {"sliding_window_pattern", 6}};
}

namespace {

std::vector<bool> read_windowed(const ConfigReader& in, std::int64_t layers) {
    in.pass_over({"_sliding_window_pattern"});
    const std::int64_t pattern = in.size("sliding_window_pattern", kMaxLayers);
    if (in.has("layer_types")) {
        return read_layer_types(in, layers, "sliding_attention");
    }
    std::vector<bool> windowed;
    for (std::int64_t i = 0; i < layers; ++i) {
        windowed.push_back((i + 1) % pattern != 0);
    }
    return windowed;
}

}  // namespace

ModelConfig read_gemma3_text(const ConfigReader& in) {
    in.require_only("architectures", {"Gemma3ForCausalLM"});
    in.require_only("hidden_activation", "gelu_pytorch_tanh");
    in.require_only("attn_logit_softcapping", nullptr);
    in.require_only("final_logit_softcapping", nullptr);
    in.require_only("use_bidirectional_attention", false);
    in.pass_over({"cache_implementation"});
    ModelConfig config = read_frame(in);
    config.norms_add_one = true;
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
    AttentionConfig global = read_attention(in, config.hidden_size);
    global.scale = 1 / std::sqrt(in.number("query_pre_attn_scalar", 1e-6, 1e6));
    global.head_norm = HeadNorm::weighted;
    global.qkv_bias = global.out_bias = in.flag("attention_bias");
    AttentionConfig local = global;
    local.rotary->theta = in.number("rope_local_base_freq", 1, 1e12);
    local.rotary->scaling = {};
    local.window = read_window(in, "sliding_window", config.max_position_embeddings);
    const MlpConfig mlp{read_width(in, "intermediate_size"), Activation::gelu_gated, false};
    for (const bool windowed : read_windowed(in, read_layer_count(in))) {
        config.layers.push_back({windowed ? local : global, mlp, true});
    }
    return config;
}

ModelConfig read_gemma3(const ConfigReader& in) {
    in.require_only("architectures", {"Gemma3ForConditionalGeneration"});
    // The language model alone is simulated.
    in.pass_over({"vision_config", "boi_token_index", "eoi_token_index", "image_token_index", "mm_tokens_per_image"});
    json defaults = gemma3_text_defaults();
    if (in.has("tie_word_embeddings")) {
        defaults["tie_word_embeddings"] = in.flag("tie_word_embeddings");
    }
    const ConfigReader text = in.inner("text_config", defaults);
    text.require_only("model_type", "gemma3_text");
    return finished(text, read_gemma3_text(text));
}

}  // namespace sluice::models
