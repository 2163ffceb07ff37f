// SPDX-License-Identifier: Apache-2.0
#pragma once
// How each family of models says in its config.json what it computes. Defaults are those of the family's configuration
// class in Hugging Face transformers (version 4.57), which leaves fields out of a file that have them.
#include "models/config_reader.hpp"

namespace sluice::models {

/// One `model_type`.
struct Family {
    const char* model_type;
    nlohmann::json defaults;
    ModelConfig (*read)(const ConfigReader& in);
};

/// Those that a config.json may name.
[[nodiscard]] const std::vector<Family>& families();

ModelConfig read_llama(const ConfigReader& in);
ModelConfig read_mistral(const ConfigReader& in);
ModelConfig read_phi3(const ConfigReader& in);
ModelConfig read_qwen2(const ConfigReader& in);
ModelConfig read_qwen3(const ConfigReader& in);
ModelConfig read_qwen3_moe(const ConfigReader& in);
ModelConfig read_mixtral(const ConfigReader& in);
ModelConfig read_gpt_oss(const ConfigReader& in);
ModelConfig read_deepseek_v3(const ConfigReader& in);
ModelConfig read_llama4(const ConfigReader& in);
ModelConfig read_llama4_text(const ConfigReader& in);
ModelConfig read_gemma3(const ConfigReader& in);
ModelConfig read_gemma3_text(const ConfigReader& in);
ModelConfig read_nemotron_h(const ConfigReader& in);

[[nodiscard]] nlohmann::json deepseek_v3_defaults();
[[nodiscard]] nlohmann::json gemma3_text_defaults();
[[nodiscard]] nlohmann::json llama4_text_defaults();
[[nodiscard]] nlohmann::json nemotron_h_defaults();

// ---- what several families share ------------------------------------------------------------------------------------

/// hidden_size, vocab_size, max_position_embeddings, tie_word_embeddings and the norms' epsilon.
[[nodiscard]] ModelConfig read_frame(const ConfigReader& in, const std::string& epsilon = "rms_norm_eps");
[[nodiscard]] std::int64_t read_layer_count(const ConfigReader& in);
/// num_attention_heads, num_key_value_heads, the dimensions of a head (hidden_size / heads if `head_dim` is left out);
/// scores are scaled by their inverse square root. No rotary embedding yet, no window.
[[nodiscard]] AttentionConfig read_heads(const ConfigReader& in, std::int64_t hidden_size,
                                         const std::string& head_dim = "head_dim");
/// The same with the rotary embedding of all its dimensions.
[[nodiscard]] AttentionConfig read_attention(const ConfigReader& in, std::int64_t hidden_size);
/// A window as `AttentionConfig` has it: 0 if the field is null or as long as the longest context.
[[nodiscard]] std::int64_t read_window(const ConfigReader& in, const std::string& key, std::int64_t positions);
/// Which layers have a window (or chunks), by layer_types.
[[nodiscard]] std::vector<bool> read_layer_types(const ConfigReader& in, std::int64_t layers,
                                                 const std::string& windowed);
/// Experts of one width; count times width is checked to be countable.
[[nodiscard]] ExpertsConfig read_experts(const ConfigReader& in, const std::string& count, const std::string& width);
/// The width of a feed-forward part.
[[nodiscard]] std::int64_t read_width(const ConfigReader& in, const std::string& key);
/// Of the Qwen families: the layers from max_window_layers on have a window, if windows are used at all.
void read_qwen_windows(const ConfigReader& in, ModelConfig& config);
[[nodiscard]] AttentionConfig read_qwen3_attention(const ConfigReader& in, std::int64_t hidden_size);

/// `config`, once every field of its object has been read, or is known to change nothing of what inference computes.
[[nodiscard]] ModelConfig finished(const ConfigReader& in, ModelConfig config);

}  // namespace sluice::models
