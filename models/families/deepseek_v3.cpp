// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V3 and what is built like it: latent attention, the first layers dense, then shared and grouped experts.
#include <fmt/format.h>

#include <cmath>

#include "isa/errors.hpp"
#include "models/families/families.hpp"

namespace sluice::models {

using nlohmann::json;

json deepseek_v3_defaults() {
    return {{"rms_norm_eps", 1e-6}, {"rope_theta", 10'000},    {"tie_word_embeddings", false},
            {"hidden_act", "silu"}, {"attention_bias", false}, {"rope_interleave", true},
            {"moe_layer_freq", 1},  {"norm_topk_prob", true}};
}

namespace {

// YaRN's share in the temperature of the softmax, which transformers puts into the scale of scores.
double yarn_scale(const ConfigReader& in, const RopeScaling& scaling) {
    if (scaling.kind != RopeScaling::Kind::yarn) {
        return 1;
    }
    const ConfigReader rope = in.inner(in.has("rope_parameters") ? "rope_parameters" : "rope_scaling", {});
    if (!rope.has("mscale_all_dim") || scaling.factor <= 1) {
        return 1;
    }
    constexpr double kShare = 0.1;
    const double scale = kShare * rope.number("mscale_all_dim", 0, 1e6) * std::log(scaling.factor) + 1;
    return scale * scale;
}

LatentAttentionConfig read_latent_attention(const ConfigReader& in) {
    LatentAttentionConfig attention;
    attention.heads = in.size("num_attention_heads", kMaxHeads);
    if (in.size_or("num_key_value_heads", kMaxHeads, attention.heads) != attention.heads) {
        in.refuse("num_key_value_heads",
                  fmt::format("{}, as num_attention_heads: all heads share one latent vector", attention.heads));
    }
    attention.q_rank = in.size_or("q_lora_rank", kMaxWidth, 0);
    attention.kv_rank = in.size("kv_lora_rank", kMaxWidth);
    attention.nope_dim = in.size("qk_nope_head_dim", kMaxHeadDim);
    attention.rope_dim = in.size("qk_rope_head_dim", kMaxHeadDim);
    attention.value_dim = in.size("v_head_dim", kMaxHeadDim);
    if (attention.rope_dim % 2 != 0) {
        in.refuse("qk_rope_head_dim", "an even number, for the rotary embedding pairs dimensions");
    }
    // Left over from the class that it was derived from, where it is qk_rope_head_dim.
    in.pass_over({"head_dim", "qk_head_dim"});
    attention.bias = in.flag("attention_bias");
    attention.rotary = read_rotary(in, attention.rope_dim);
    attention.rotary.interleaved = in.flag("rope_interleave");
    attention.scale = yarn_scale(in, attention.rotary.scaling) /
                      std::sqrt(static_cast<double>(attention.nope_dim + attention.rope_dim));
    return attention;
}

RouterConfig read_router(const ConfigReader& in, std::int64_t experts) {
    RouterConfig router;
    router.score = RouterConfig::Score::sigmoid;
    in.require_only("scoring_func", "sigmoid");
    in.require_only("topk_method", "noaux_tc");
    router.correction = true;
    router.normalised = in.flag("norm_topk_prob");
    router.scale = in.number("routed_scaling_factor", 1e-6, 1e6);
    router.groups = in.size("n_group", experts);
    router.chosen_groups = in.size("topk_group", router.groups);
    if (experts % router.groups != 0) {
        in.refuse("n_group", fmt::format("a divisor of n_routed_experts ({})", experts));
    }
    return router;
}

/// E4M3 in blocks of 128 x 128 with an FP32 scale each; activations are quantised as they come.
StoredFormats read_fp8(const ConfigReader& in) {
    const ConfigReader quantisation = in.inner("quantization_config", {});
    StoredFormats stored;
    stored.method = quantisation.choice("quant_method", {"fp8"});
    quantisation.require_only("fmt", "e4m3");
    quantisation.require_only("activation_scheme", "dynamic");
    quantisation.require_only("weight_block_size", {128, 128});
    quantisation.check_all_read();
    stored.attention = stored.feed_forward = stored.experts = Format::mxfp8;
    return stored;
}

}  // namespace

ModelConfig read_deepseek_v3(const ConfigReader& in) {
    in.require_only("architectures", {"DeepseekV3ForCausalLM"});
    in.require_only("hidden_act", "silu");
    in.require_only("moe_layer_freq", 1);
    in.pass_over({"auto_map", "ep_size", "aux_loss_alpha", "seq_aux"});
    ModelConfig config = read_frame(in);
    const LatentAttentionConfig attention = read_latent_attention(in);
    const MlpConfig dense{read_width(in, "intermediate_size"), Activation::silu_gated, false};
    ExpertsConfig experts = read_experts(in, "n_routed_experts", "moe_intermediate_size");
    const std::int64_t shared = in.has("n_shared_experts") ? in.integer("n_shared_experts", 0, kMaxHeads) : 0;
    experts.shared_width = shared * experts.width;
    if (experts.shared_width > kMaxInner) {
        in.refuse("n_shared_experts", fmt::format("at most {}", kMaxInner / experts.width));
    }
    experts.router = read_router(in, experts.count);
    const std::int64_t layers = read_layer_count(in);
    const std::int64_t first = in.integer("first_k_dense_replace", 0, layers);
    config.layers.assign(static_cast<std::size_t>(layers), {attention, experts, false});
    for (std::int64_t i = 0; i < first; ++i) {
        config.layers[static_cast<std::size_t>(i)].feed_forward = dense;
    }
    config.prediction_layers =
        in.has("num_nextn_predict_layers") ? in.integer("num_nextn_predict_layers", 0, kMaxLayers) : 0;
    if (in.has("quantization_config")) {
        config.quantisation = read_fp8(in);
    }
    return config;
}

}  // namespace sluice::models
