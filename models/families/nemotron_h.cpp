// SPDX-License-Identifier: Apache-2.0
// Nemotron-H: each layer is one part, Mamba-2 (M), attention (*) or a feed-forward part (-), by a pattern.
#include <fmt/format.h>

#include "isa/errors.hpp"
#include "models/families/families.hpp"

namespace sluice::models {

using nlohmann::json;

json nemotron_h_defaults() {
    return {{"layer_norm_epsilon", 1e-5}, {"tie_word_embeddings", false},
            {"attention_bias", false},    {"mlp_bias", false},
            {"use_bias", false},          {"use_conv_bias", true},
            {"mamba_proj_bias", false},   {"mlp_hidden_act", "relu2"},
            {"mamba_hidden_act", "silu"}, {"conv_kernel", 4},
            {"chunk_size", 128},          {"n_groups", 8}};
}

namespace {

MambaConfig read_mamba(const ConfigReader& in) {
    MambaConfig mamba;
    mamba.heads = in.size("mamba_num_heads", kMaxHeads);
    mamba.head_dim = in.size("mamba_head_dim", kMaxHeadDim);
    mamba.state = in.size("ssm_state_size", kMaxHeadDim);
    mamba.groups = in.size("n_groups", kMaxHeads);
    if (mamba.heads % mamba.groups != 0) {
        in.refuse("n_groups", fmt::format("a divisor of mamba_num_heads ({})", mamba.heads));
    }
    mamba.conv = in.size("conv_kernel", kMaxHeads);
    mamba.chunk = in.size("chunk_size", kMaxPositions);
    mamba.conv_bias = in.flag("use_conv_bias");
    mamba.bias = in.flag("use_bias");
    in.require_only("mamba_proj_bias", mamba.bias);
    in.require_only("mamba_hidden_act", "silu");
    return mamba;
}

}  // namespace

ModelConfig read_nemotron_h(const ConfigReader& in) {
    in.require_only("architectures", {"NemotronHForCausalLM"});
    in.require_only("mlp_hidden_act", "relu2");
    in.require_only("residual_in_fp32", false);
    in.require_only("sliding_window", nullptr);
    // Limits of time steps hold in training alone, or are none.
    in.require_only("time_step_limit", {0.0, 1e308});
    // All norms take layer_norm_epsilon.
    in.pass_over({"auto_map", "rms_norm_eps", "expand", "hidden_dropout", "num_logits_to_keep",
                  "rescale_prenorm_residual", "time_step_floor", "time_step_max", "time_step_min", "time_step_rank",
                  "use_mamba_kernels"});
    ModelConfig config = read_frame(in, "layer_norm_epsilon");
    AttentionConfig attention =
        read_heads(in, config.hidden_size, in.has("attention_head_dim") ? "attention_head_dim" : "head_dim");
    attention.qkv_bias = attention.out_bias = in.flag("attention_bias");
    const MambaConfig mamba = read_mamba(in);
    const MlpConfig mlp{read_width(in, "intermediate_size"), Activation::relu_squared, in.flag("mlp_bias")};
    const std::string pattern = in.text("hybrid_override_pattern");
    const std::int64_t layers = read_layer_count(in);
    if (static_cast<std::int64_t>(pattern.size()) != layers) {
        throw InputError(
            in.where("hybrid_override_pattern"),
            fmt::format("found {} letters, allowed: one for each of the {} layers", pattern.size(), layers));
    }
    for (const char kind : pattern) {
        LayerConfig& layer = config.layers.emplace_back();
        switch (kind) {
            case 'M': layer.mixer = mamba; break;
            case '*': layer.mixer = attention; break;
            case '-': layer.feed_forward = mlp; break;
            default: in.refuse("hybrid_override_pattern", "the letters M, * and -");
        }
    }
    return config;
}

}  // namespace sluice::models
