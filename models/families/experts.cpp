// SPDX-License-Identifier: Apache-2.0
// Families of grouped-query attention and experts.
#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "models/families/families.hpp"

namespace sluice::models {

ModelConfig read_mixtral(const ConfigReader& in) {
    in.require_only("architectures", {"MixtralForCausalLM"});
    in.require_only("hidden_act", "silu");
    in.pass_over({"router_jitter_noise"});
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    attention.window = read_window(in, "sliding_window", config.max_position_embeddings);
    ExpertsConfig experts = read_experts(in, "num_local_experts", "intermediate_size");
    experts.router.normalised = true;
    config.layers.assign(static_cast<std::size_t>(read_layer_count(in)), {attention, experts, false});
    return config;
}

ModelConfig read_qwen3_moe(const ConfigReader& in) {
    in.require_only("architectures", {"Qwen3MoeForCausalLM"});
    in.require_only("hidden_act", "silu");
    ModelConfig config = read_frame(in);
    const AttentionConfig attention = read_qwen3_attention(in, config.hidden_size);
    ExpertsConfig experts = read_experts(in, "num_experts", "moe_intermediate_size");
    experts.router.normalised = in.flag("norm_topk_prob");
    const MlpConfig dense{read_width(in, "intermediate_size"), Activation::silu_gated, false};
    const std::int64_t layers = read_layer_count(in);
    const std::int64_t step = in.size("decoder_sparse_step", kMaxLayers);
    std::vector<std::int64_t> only;
    if (in.has("mlp_only_layers")) {
        only = in.integers("mlp_only_layers", 0, layers - 1);
    }
    for (std::int64_t i = 0; i < layers; ++i) {
        const bool sparse = (i + 1) % step == 0 && std::find(only.begin(), only.end(), i) == only.end();
        LayerConfig& layer = config.layers.emplace_back();
        layer.mixer = attention;
        if (sparse) {
            layer.feed_forward = experts;
        } else {
            layer.feed_forward = dense;
        }
    }
    read_qwen_windows(in, config);
    return config;
}

namespace {

/// Experts alone are stored in MXFP4; what is left out of it is listed.
StoredFormats read_mxfp4(const ConfigReader& in) {
    const ConfigReader quantisation = in.inner("quantization_config", {});
    StoredFormats stored;
    stored.method = quantisation.choice("quant_method", {"mxfp4"});
    stored.experts = Format::mxfp4;
    const std::vector<std::string> kept = quantisation.texts("modules_to_not_convert");
    for (const char* part : {"self_attn", "router", "embed_tokens", "lm_head"}) {
        if (std::none_of(kept.begin(), kept.end(), [&](const std::string& module) { return module.ends_with(part); })) {
            throw InputError(quantisation.where("modules_to_not_convert"),
                             fmt::format("found none that ends with {}, allowed: self_attn, router, embed_tokens and "
                                         "lm_head, which stay BF16",
                                         part));
        }
    }
    quantisation.check_all_read();
    return stored;
}

}  // namespace

ModelConfig read_gpt_oss(const ConfigReader& in) {
    in.require_only("architectures", {"GptOssForCausalLM"});
    in.require_only("hidden_act", "silu");
    in.require_only("swiglu_alpha", 1.702);
    in.pass_over({"initial_context_length"});
    ModelConfig config = read_frame(in);
    AttentionConfig attention = read_attention(in, config.hidden_size);
    attention.qkv_bias = attention.out_bias = in.flag("attention_bias");
    attention.sinks = true;
    ExpertsConfig experts = read_experts(in, "num_local_experts", "intermediate_size");
    if (in.size_or("experts_per_token", kMaxInner, experts.chosen) != experts.chosen) {
        in.refuse("experts_per_token", fmt::format("{}, as num_experts_per_tok says", experts.chosen));
    }
    experts.activation = Activation::clamped_gated;
    experts.clamp = in.number("swiglu_limit", 1e-3, 1e6);
    experts.bias = experts.router.bias = true;
    experts.router.normalised = true;
    const std::int64_t layers = read_layer_count(in);
    const std::int64_t window = read_window(in, "sliding_window", config.max_position_embeddings);
    std::vector<bool> windowed;
    for (std::int64_t i = 0; i < layers; ++i) {
        windowed.push_back(i % 2 == 0);
    }
    if (in.has("layer_types")) {
        windowed = read_layer_types(in, layers, "sliding_attention");
    }
    for (const bool has_window : windowed) {
        attention.window = has_window ? window : 0;
        config.layers.push_back({attention, experts, false});
    }
    if (in.has("quantization_config")) {
        config.quantisation = read_mxfp4(in);
    }
    return config;
}

}  // namespace sluice::models
