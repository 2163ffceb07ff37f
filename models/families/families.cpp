// SPDX-License-Identifier: Apache-2.0
#include "models/families/families.hpp"

#include <fmt/format.h>

#include <cmath>

#include "isa/errors.hpp"

namespace sluice::models {

using nlohmann::json;

const std::vector<Family>& families() {
    static const json kNormal = {{"rms_norm_eps", 1e-6},
                                 {"rope_theta", 10'000},
                                 {"tie_word_embeddings", false},
                                 {"hidden_act", "silu"},
                                 {"attention_bias", false}};
    const auto with = [](const json& more) {
        json all = kNormal;
        all.update(more);
        return all;
    };
    static const std::vector<Family> kFamilies = {
        {"deepseek_v3", deepseek_v3_defaults(), read_deepseek_v3},
        {"gemma3", {}, read_gemma3},
        {"gemma3_text", gemma3_text_defaults(), read_gemma3_text},
        {"gpt_oss",
         with({{"rms_norm_eps", 1e-5},
               {"rope_theta", 150'000},
               {"head_dim", 64},
               {"sliding_window", 128},
               {"attention_bias", true},
               {"swiglu_limit", 7.0},
               {"rope_scaling",
                {{"rope_type", "yarn"},
                 {"factor", 32.0},
                 {"beta_fast", 32.0},
                 {"beta_slow", 1.0},
                 {"truncate", false},
                 {"original_max_position_embeddings", 4'096}}}}),
         read_gpt_oss},
        {"kimi_k2", deepseek_v3_defaults(), read_deepseek_v3},
        {"llama", with({{"mlp_bias", false}}), read_llama},
        {"llama4", {}, read_llama4},
        {"llama4_text", llama4_text_defaults(), read_llama4_text},
        {"mistral", with({{"sliding_window", 4'096}}), read_mistral},
        {"mixtral", with({{"rms_norm_eps", 1e-5}, {"rope_theta", 1'000'000}}), read_mixtral},
        {"nemotron_h", nemotron_h_defaults(), read_nemotron_h},
        {"phi3", with({{"rms_norm_eps", 1e-5}, {"partial_rotary_factor", 1.0}}), read_phi3},
        {"qwen2", with({{"use_sliding_window", false}, {"sliding_window", 4'096}, {"max_window_layers", 28}}),
         read_qwen2},
        {"qwen3",
         with({{"use_sliding_window", false}, {"sliding_window", 4'096}, {"max_window_layers", 28}, {"head_dim", 128}}),
         read_qwen3},
        {"qwen3_moe",
         with({{"use_sliding_window", false},
               {"sliding_window", 4'096},
               {"max_window_layers", 28},
               {"decoder_sparse_step", 1},
               {"mlp_only_layers", json::array()},
               {"norm_topk_prob", false}}),
         read_qwen3_moe},
    };
    return kFamilies;
}

ModelConfig finished(const ConfigReader& in, ModelConfig config) {
    // Names, training, tokens, storage, and what transformers writes of every configuration.
    static const std::vector<std::string> kHarmless = {
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_commit_hash",
        "_name_or_path",
        "add_cross_attention",
        "architectures",
        "attention_dropout",
        "attn_implementation",
        "bad_words_ids",
        "begin_suppress_tokens",
        "bos_token_id",
        "chunk_size_feed_forward",
        "cross_attention_hidden_size",
        "decoder_start_token_id",
        "diversity_penalty",
        "do_sample",
        "dtype",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "eos_token_id",
        "exponential_decay_length_penalty",
        "finetuning_task",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "id2label",
        "initializer_range",
        "is_decoder",
        "is_encoder_decoder",
        "keys_to_ignore_at_inference",
        "label2id",
        "length_penalty",
        "max_length",
        "min_length",
        "model_type",
        "name_or_path",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "output_scores",
        "pad_token_id",
        "prefix",
        "pretraining_tp",
        "problem_type",
        "remove_invalid_values",
        "repetition_penalty",
        "return_dict",
        "return_dict_in_generate",
        "router_aux_loss_coef",
        "sep_token_id",
        "suppress_tokens",
        "task_specific_params",
        "temperature",
        "tf_legacy_loss",
        "tie_encoder_decoder",
        "tokenizer_class",
        "top_k",
        "top_p",
        "torch_dtype",
        "torchscript",
        "transformers_version",
        "typical_p",
        "unk_token_id",
        "use_bfloat16",
        "use_cache",
    };
    in.pass_over(kHarmless);
    in.check_all_read();
    config.model_type = in.text("model_type");
    return config;
}

ModelConfig read_frame(const ConfigReader& in, const std::string& epsilon) {
    ModelConfig config;
    config.hidden_size = in.size("hidden_size", kMaxWidth);
    config.vocab_size = in.size("vocab_size", kMaxInner);
    config.max_position_embeddings = in.size("max_position_embeddings", kMaxPositions);
    config.norm_epsilon = in.number(epsilon, 1e-30, 1);
    config.tie_word_embeddings = in.flag("tie_word_embeddings");
    return config;
}

std::int64_t read_layer_count(const ConfigReader& in) {
    return in.size("num_hidden_layers", kMaxLayers);
}

AttentionConfig read_heads(const ConfigReader& in, std::int64_t hidden_size, const std::string& head_dim) {
    AttentionConfig attention;
    attention.heads = in.size("num_attention_heads", kMaxHeads);
    attention.kv_heads = in.size_or("num_key_value_heads", kMaxHeads, attention.heads);
    if (attention.heads % attention.kv_heads != 0) {
        in.refuse("num_key_value_heads", fmt::format("a divisor of num_attention_heads ({})", attention.heads));
    }
    if (!in.has(head_dim) && hidden_size % attention.heads != 0) {
        in.refuse("hidden_size", fmt::format("a multiple of num_attention_heads ({})", attention.heads));
    }
    attention.head_dim = in.size_or(head_dim, kMaxHeadDim, hidden_size / attention.heads);
    attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
    return attention;
}

AttentionConfig read_attention(const ConfigReader& in, std::int64_t hidden_size) {
    AttentionConfig attention = read_heads(in, hidden_size);
    if (attention.head_dim % 2 != 0) {
        throw InputError(in.where("head_dim"), fmt::format("found {}, allowed: an even number, for the rotary "
                                                           "embedding pairs dimensions",
                                                           attention.head_dim));
    }
    attention.rotary = read_rotary(in, attention.head_dim);
    return attention;
}

std::int64_t read_window(const ConfigReader& in, const std::string& key, std::int64_t positions) {
    const std::int64_t window = in.size_or(key, kMaxPositions, 0);
    return window >= positions ? 0 : window;
}

std::vector<bool> read_layer_types(const ConfigReader& in, std::int64_t layers, const std::string& windowed) {
    const std::vector<std::string> types = in.texts("layer_types");
    if (static_cast<std::int64_t>(types.size()) != layers) {
        throw InputError(in.where("layer_types"),
                         fmt::format("found {} entries, allowed: one for each of the {} layers", types.size(), layers));
    }
    std::vector<bool> out;
    for (std::size_t i = 0; i < types.size(); ++i) {
        if (types[i] != windowed && types[i] != "full_attention") {
            throw InputError(fmt::format("{}[{}]", in.where("layer_types"), i),
                             fmt::format("found {}, allowed: full_attention, {}", isa::shown(types[i]), windowed));
        }
        out.push_back(types[i] == windowed);
    }
    return out;
}

std::int64_t read_width(const ConfigReader& in, const std::string& key) {
    return in.size(key, kMaxInner);
}

ExpertsConfig read_experts(const ConfigReader& in, const std::string& count, const std::string& width) {
    ExpertsConfig experts;
    experts.count = in.size(count, kMaxInner);
    experts.width = read_width(in, width);
    if (experts.count * experts.width > kMaxInner) {
        in.refuse(count, fmt::format("at most {} of {} ({})", kMaxInner / experts.width, width, experts.width));
    }
    experts.chosen = in.size("num_experts_per_tok", experts.count);
    return experts;
}

}  // namespace sluice::models
