// SPDX-License-Identifier: Apache-2.0
// Llama 4, the text model: most layers attend within chunks, every fourth to all positions without a rotary embedding;
// experts in every n-th layer, with a dense part beside them.
#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "models/families/families.hpp"

namespace sluice::models {

using nlohmann::json;

json llama4_text_defaults() {
    return {{"vocab_size", 202'048},         {"hidden_size", 5'120},
            {"intermediate_size", 8'192},    {"intermediate_size_mlp", 16'384},
            {"num_hidden_layers", 48},       {"num_attention_heads", 40},
            {"num_key_value_heads", 8},      {"head_dim", 128},
            {"hidden_act", "silu"},          {"max_position_embeddings", 131'072},
            {"rms_norm_eps", 1e-5},          {"tie_word_embeddings", false},
            {"rope_theta", 500'000},         {"num_experts_per_tok", 1},
            {"num_local_experts", 16},       {"interleave_moe_layer_step", 1},
            {"use_qk_norm", true},           {"no_rope_layer_interval", 4},
            {"attention_chunk_size", 8'192}, {"attn_temperature_tuning", true},
            {"floor_scale", 8'192},          {"attn_scale", 0.1},
            {"attention_bias", false}};
}

namespace {

/// Which layers have experts.
std::vector<bool> read_sparse(const ConfigReader& in, std::int64_t layers) {
    const std::int64_t step = in.size("interleave_moe_layer_step", kMaxLayers);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < layers; ++i) {
        sparse.push_back((i + 1) % step == 0);
    }
    if (in.has("moe_layers")) {
        sparse.assign(sparse.size(), false);
        for (const std::int64_t layer : in.integers("moe_layers", 0, layers - 1)) {
            sparse[static_cast<std::size_t>(layer)] = true;
        }
    }
    return sparse;
}

/// Which layers have a rotary embedding; an empty list is none.
std::vector<bool> read_rotated(const ConfigReader& in, std::int64_t layers) {
    const std::int64_t interval = in.size("no_rope_layer_interval", kMaxLayers);
    std::vector<bool> rotated;
    for (std::int64_t i = 0; i < layers; ++i) {
        rotated.push_back((i + 1) % interval != 0);
    }
    if (in.has("no_rope_layers")) {
        const std::vector<std::int64_t> listed = in.integers("no_rope_layers", 0, 1);
        if (!listed.empty() && static_cast<std::int64_t>(listed.size()) != layers) {
            in.refuse("no_rope_layers", fmt::format("nothing, or 0 or 1 for each of the {} layers", layers));
        }
        for (std::size_t i = 0; i < listed.size(); ++i) {
            rotated[i] = listed[i] == 1;
        }
    }
    return rotated;
}

/// What a layer's attention does without a rotary embedding.
AttentionConfig unrotated(const ConfigReader& in, AttentionConfig attention) {
    attention.rotary.reset();
    attention.head_norm = HeadNorm::none;
    attention.chunk = 0;
    // Files of the first weeks have a number here.
    const bool tuned = in.at("attn_temperature_tuning").is_number() ? in.integer("attn_temperature_tuning", 0, 4) > 0
                                                                    : in.flag("attn_temperature_tuning");
    attention.temperature_floor = in.size("floor_scale", kMaxPositions);
    attention.temperature_scale = tuned ? in.number("attn_scale", 0, 1e6) : 0;
    return attention;
}

}  // namespace

ModelConfig read_llama4_text(const ConfigReader& in) {
    in.require_only("hidden_act", "silu");
    in.require_only("architectures", {"Llama4ForCausalLM"});
    in.pass_over({"for_llm_compressor", "cache_implementation", "router_jitter_noise"});
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    attention.rotary->interleaved = true;
    attention.qkv_bias = attention.out_bias = in.flag("attention_bias");
    attention.head_norm = in.flag("use_qk_norm") ? HeadNorm::plain : HeadNorm::none;
    attention.chunk = read_window(in, "attention_chunk_size", config.max_position_embeddings);
    const AttentionConfig whole = unrotated(in, attention);
    const MlpConfig dense{read_width(in, "intermediate_size_mlp"), Activation::silu_gated, false};
    ExpertsConfig experts = read_experts(in, "num_local_experts", "intermediate_size");
    experts.shared_width = experts.width;
    experts.router.score = RouterConfig::Score::sigmoid;
    experts.router.weighs_inputs = true;
    const std::int64_t layers = read_layer_count(in);
    const std::vector<bool> sparse = read_sparse(in, layers);
    const std::vector<bool> rotated = read_rotated(in, layers);
    if (in.has("layer_types") && read_layer_types(in, layers, "chunked_attention") != rotated) {
        in.refuse("layer_types", "chunked_attention where no_rope_layers has a rotary embedding, and only there");
    }
    for (std::size_t i = 0; i < sparse.size(); ++i) {
        LayerConfig& layer = config.layers.emplace_back();
        layer.mixer = rotated[i] ? attention : whole;
        if (sparse[i]) {
            layer.feed_forward = experts;
        } else {
            layer.feed_forward = dense;
        }
    }
    return config;
}

ModelConfig read_llama4(const ConfigReader& in) {
    in.require_only("architectures", {"Llama4ForConditionalGeneration"});
    // The language model alone is simulated.
    in.pass_over({"vision_config", "boi_token_index", "eoi_token_index", "image_token_index"});
    in.require_only("tie_word_embeddings", false);
    const ConfigReader text = in.inner("text_config", llama4_text_defaults());
    text.require_only("model_type", "llama4_text");
    return finished(text, read_llama4_text(text));
}

}  // namespace sluice::models
