// SPDX-License-Identifier: Apache-2.0
// Is every family of models read as its publisher means it? Files of the published shapes, with the fields that files
// of the family have, must give the published numbers of parameters, to every digit that is known.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/huggingface.hpp"
#include "tests/support/files.hpp"

namespace sluice::models {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::input_error;
using test::TemporaryFolder;

ModelConfig read(const json& config) {
    const TemporaryFolder folder;
    return read_model_config(folder.write("config.json", config.dump()));
}

std::string error_of(const json& config) {
    return input_error([&] { static_cast<void>(read(config)); });
}

/// In billions, to three decimals, as totals are published.
double billions(std::int64_t count) {
    return std::round(static_cast<double>(count) * 1e-6) * 1e-3;
}

json sizes(const std::string& type, std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
           std::int64_t width, std::int64_t vocabulary) {
    return {{"model_type", type},           {"num_hidden_layers", layers},       {"hidden_size", hidden},
            {"num_attention_heads", heads}, {"num_key_value_heads", kv_heads},   {"intermediate_size", width},
            {"vocab_size", vocabulary},     {"max_position_embeddings", 40'960}, {"torch_dtype", "bfloat16"}};
}

json with(json config, const json& more) {
    config.update(more);
    return config;
}

json qwen3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t width) {
    return with(sizes("qwen3", layers, hidden, heads, 8, width, 151'936), {{"head_dim", 128},
                                                                           {"max_window_layers", layers},
                                                                           {"use_sliding_window", false},
                                                                           {"sliding_window", nullptr},
                                                                           {"rope_theta", 1e6},
                                                                           {"rope_scaling", nullptr}});
}

json qwen3_moe(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t width) {
    return with(sizes("qwen3_moe", layers, hidden, heads, 4, 3 * hidden, 151'936), {{"head_dim", 128},
                                                                                    {"num_experts", 128},
                                                                                    {"num_experts_per_tok", 8},
                                                                                    {"moe_intermediate_size", width},
                                                                                    {"norm_topk_prob", true},
                                                                                    {"decoder_sparse_step", 1},
                                                                                    {"mlp_only_layers", json::array()},
                                                                                    {"sliding_window", nullptr}});
}

json mixtral() {
    return with(sizes("mixtral", 32, 4'096, 32, 8, 14'336, 32'000),
                {{"num_local_experts", 8}, {"num_experts_per_tok", 2}, {"sliding_window", nullptr}});
}

json deepseek_v3() {
    return with(sizes("deepseek_v3", 61, 7'168, 128, 128, 18'432, 129'280),
                {{"q_lora_rank", 1'536},
                 {"kv_lora_rank", 512},
                 {"qk_nope_head_dim", 128},
                 {"qk_rope_head_dim", 64},
                 {"v_head_dim", 128},
                 {"n_routed_experts", 256},
                 {"num_experts_per_tok", 8},
                 {"n_shared_experts", 1},
                 {"moe_intermediate_size", 2'048},
                 {"first_k_dense_replace", 3},
                 {"n_group", 8},
                 {"topk_group", 4},
                 {"routed_scaling_factor", 2.5},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"},
                 {"num_nextn_predict_layers", 1},
                 {"rope_scaling",
                  {{"type", "yarn"},
                   {"factor", 40},
                   {"beta_fast", 32},
                   {"beta_slow", 1},
                   {"mscale", 1.0},
                   {"mscale_all_dim", 1.0},
                   {"original_max_position_embeddings", 4'096}}},
                 {"quantization_config",
                  {{"quant_method", "fp8"},
                   {"fmt", "e4m3"},
                   {"activation_scheme", "dynamic"},
                   {"weight_block_size", {128, 128}}}}});
}

json kimi_k2() {
    return with(deepseek_v3(), {{"model_type", "kimi_k2"},
                                {"num_attention_heads", 64},
                                {"num_key_value_heads", 64},
                                {"vocab_size", 163'840},
                                {"n_routed_experts", 384},
                                {"first_k_dense_replace", 1},
                                {"n_group", 1},
                                {"topk_group", 1},
                                {"num_nextn_predict_layers", 0}});
}

json gpt_oss(std::int64_t layers, std::int64_t experts) {
    json types = json::array();
    for (std::int64_t i = 0; i < layers; ++i) {
        types.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
    }
    return with(sizes("gpt_oss", layers, 2'880, 64, 8, 2'880, 201'088),
                {{"head_dim", 64},
                 {"num_local_experts", experts},
                 {"num_experts_per_tok", 4},
                 {"experts_per_token", 4},
                 {"sliding_window", 128},
                 {"layer_types", types},
                 {"attention_bias", true},
                 {"swiglu_limit", 7.0},
                 {"rope_theta", 150'000},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 32.0},
                   {"beta_fast", 32.0},
                   {"beta_slow", 1.0},
                   {"original_max_position_embeddings", 4'096},
                   {"truncate", false}}},
                 {"quantization_config",
                  {{"quant_method", "mxfp4"},
                   {"modules_to_not_convert",
                    {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}}}});
}

json llama4(std::int64_t experts, std::int64_t step) {
    return {{"model_type", "llama4"},
            {"architectures", {"Llama4ForConditionalGeneration"}},
            {"vision_config", {{"hidden_size", 1'408}}},
            {"text_config",
             {{"model_type", "llama4_text"}, {"num_local_experts", experts}, {"interleave_moe_layer_step", step}}}};
}

/// All that the published file of the 27-billion model says of its text model.
json gemma3() {
    return {{"model_type", "gemma3"},
            {"architectures", {"Gemma3ForConditionalGeneration"}},
            {"text_config",
             {{"model_type", "gemma3_text"},
              {"head_dim", 128},
              {"hidden_size", 5'376},
              {"intermediate_size", 21'504},
              {"num_attention_heads", 32},
              {"num_hidden_layers", 62},
              {"num_key_value_heads", 16},
              {"query_pre_attn_scalar", 168},
              {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
              {"sliding_window", 1'024}}}};
}

json nemotron_h() {
    // Ten attention layers among 54 pairs of Mamba-2 and feed-forward.
    std::string pattern;
    for (int pair = 0; pair < 54; ++pair) {
        pattern += pair % 5 == 3 && pair < 50 ? "M*-" : "M-";
    }
    return with(sizes("nemotron_h", static_cast<std::int64_t>(pattern.size()), 8'192, 64, 8, 32'768, 131'072),
                {{"attention_head_dim", 128},
                 {"mamba_num_heads", 256},
                 {"mamba_head_dim", 64},
                 {"ssm_state_size", 256},
                 {"n_groups", 8},
                 {"conv_kernel", 4},
                 {"use_conv_bias", true},
                 {"mlp_hidden_act", "relu2"},
                 {"hybrid_override_pattern", pattern}});
}

const LayerConfig& layer(const ModelConfig& config, std::size_t index) {
    return config.layers.at(index);
}
const AttentionConfig& attention(const ModelConfig& config, std::size_t index) {
    return std::get<AttentionConfig>(layer(config, index).mixer);
}

}  // namespace

TEST_CASE("models of every family have the published numbers of parameters") {
    const std::vector<std::pair<json, double>> published = {
        {sizes("llama", 126, 16'384, 128, 8, 53'248, 128'256), 405.853},
        {qwen3(36, 4'096, 32, 12'288), 8.191},
        {qwen3(64, 5'120, 64, 25'600), 32.762},
        {qwen3_moe(48, 2'048, 32, 768), 30.532},
        {qwen3_moe(94, 4'096, 64, 1'536), 235.094},
        {mixtral(), 46.703},
        {deepseek_v3(), 671.026},
        {gpt_oss(24, 32), 20.915},
        {gpt_oss(36, 128), 116.829},
        {llama4(16, 1), 107.770},
        {llama4(128, 2), 400.712},
        {sizes("phi3", 40, 5'120, 40, 10, 17'920, 100'352), 14.660},
        {gemma3(), 27.009},
        {kimi_k2(), 1'026.408},
    };
    for (const auto& [config, total] : published) {
        INFO(config.dump());
        CHECK(billions(parameter_count(read(config))) == Approx(total).margin(1e-9));
    }
}

TEST_CASE("what a token is multiplied with: without the embedding table, and with the experts that it chooses") {
    const std::vector<std::pair<json, double>> published = {
        {qwen3(36, 4'096, 32, 12'288), 7.568},
        {qwen3(64, 5'120, 64, 25'600), 31.984},
        {mixtral(), 12.749},
        {gpt_oss(24, 32), 3.608},
        {gpt_oss(36, 128), 5.133},
        {sizes("phi3", 40, 5'120, 40, 10, 17'920, 100'352), 14.146},
    };
    for (const auto& [config, active] : published) {
        INFO(config.dump());
        CHECK(billions(active_parameter_count(read(config))) == Approx(active).margin(1e-9));
    }
    // These are published with the table.
    const double table = 151'936e-9 * 2'048;
    CHECK(static_cast<double>(active_parameter_count(read(qwen3_moe(48, 2'048, 32, 768)))) * 1e-9 + table ==
          Approx(3.353).margin(5e-4));
    // The table is the head too.
    const ModelConfig gemma = read(gemma3());
    CHECK(active_parameter_count(gemma) == parameter_count(gemma));
}

TEST_CASE("what a position leaves in the caches") {
    CHECK(kv_elements_per_token(read(deepseek_v3())) == 576 * 61);
    CHECK(kv_elements_per_token(read(gpt_oss(24, 32))) == 24'576);
    CHECK(kv_elements_per_token(read(gemma3())) == 253'952);
    CHECK(kv_elements_per_token(read(nemotron_h())) == 20'480);
}

TEST_CASE("Nemotron-H: a hand count of each kind of layer") {
    const ModelConfig config = read(nemotron_h());
    std::int64_t kinds[3] = {0, 0, 0};
    for (const LayerConfig& each : config.layers) {
        kinds[0] += std::holds_alternative<MambaConfig>(each.mixer) ? 1 : 0;
        kinds[1] += std::holds_alternative<AttentionConfig>(each.mixer) ? 1 : 0;
        kinds[2] += std::holds_alternative<MlpConfig>(each.feed_forward) ? 1 : 0;
    }
    CHECK(kinds[0] == 54);
    CHECK(kinds[1] == 10);
    CHECK(kinds[2] == 54);
    const std::int64_t inner = 256 * 64;
    const std::int64_t convolved = inner + 2 * 8 * 256;
    const std::int64_t mamba = 8'192 * (inner + convolved + 256) + 5 * convolved + 3 * 256 + inner + inner * 8'192;
    const std::int64_t attend = 2 * 8'192 * 8'192 + 2 * 8'192 * 1'024;
    const std::int64_t mlp = 2 * 8'192LL * 32'768;
    CHECK(parameter_count(config) == 54 * mamba + 10 * attend + 54 * mlp + 118 * 8'192 + 8'192 + 2LL * 131'072 * 8'192);
    CHECK_FALSE(attention(config, 7).rotary);
}

TEST_CASE("layers differ as their file says") {
    const ModelConfig oss = read(gpt_oss(24, 32));
    CHECK(attention(oss, 0).window == 128);
    CHECK(attention(oss, 1).window == 0);
    CHECK(oss.quantisation->experts == Format::mxfp4);
    CHECK(oss.quantisation->attention == Format::bf16);

    const ModelConfig gemma = read(gemma3());
    for (const std::size_t i : {0, 4, 5, 11, 61}) {
        const bool global = (i + 1) % 6 == 0;
        CHECK(attention(gemma, i).window == (global ? 0 : 1'024));
        CHECK(attention(gemma, i).rotary->theta == (global ? 1e6 : 1e4));
        CHECK(attention(gemma, i).scale == Approx(1 / std::sqrt(168.0)));
    }
    CHECK(gemma.tie_word_embeddings);
    CHECK(gemma.vocab_size == 262'208);

    const ModelConfig scout = read(llama4(16, 1));
    CHECK(attention(scout, 0).chunk == 8'192);
    CHECK(attention(scout, 3).chunk == 0);
    CHECK_FALSE(attention(scout, 3).rotary);
    CHECK(attention(scout, 3).temperature_scale == 0.1);
    const ModelConfig maverick = read(llama4(128, 2));
    CHECK(std::get<MlpConfig>(layer(maverick, 0).feed_forward).width == 16'384);
    CHECK(std::get<ExpertsConfig>(layer(maverick, 1).feed_forward).count == 128);

    const ModelConfig deepseek = read(deepseek_v3());
    CHECK(std::holds_alternative<MlpConfig>(layer(deepseek, 2).feed_forward));
    CHECK(std::get<ExpertsConfig>(layer(deepseek, 3).feed_forward).shared_width == 2'048);
    CHECK(deepseek.prediction_layers == 1);
    const auto& latent = std::get<LatentAttentionConfig>(layer(deepseek, 0).mixer);
    const double stretch = 0.1 * std::log(40.0) + 1;
    CHECK(latent.scale == Approx(stretch * stretch / std::sqrt(192.0)));
    CHECK(latent.rotary.scaling.attention_factor == 1);
    CHECK(attention(oss, 0).rotary->scaling.attention_factor == Approx(0.1 * std::log(32.0) + 1));
}

TEST_CASE("windows of the Qwen families begin at a layer, if they are used") {
    json config = with(sizes("qwen2", 4, 256, 4, 2, 512, 1'000),
                       {{"sliding_window", 64}, {"max_window_layers", 2}, {"use_sliding_window", true}});
    const ModelConfig used = read(config);
    CHECK(attention(used, 1).window == 0);
    CHECK(attention(used, 2).window == 64);
    CHECK(attention(used, 0).qkv_bias);
    CHECK_FALSE(attention(used, 0).out_bias);
    config["use_sliding_window"] = false;
    CHECK(attention(read(config), 3).window == 0);
    // Mistral's class has a window of 4096 unless the file says null.
    config = sizes("mistral", 2, 256, 4, 2, 512, 1'000);
    CHECK(attention(read(config), 0).window == 4'096);
    config["sliding_window"] = nullptr;
    CHECK(attention(read(config), 0).window == 0);
}

TEST_CASE("what a file leaves out its class gives, and null is nothing") {
    json oss = gpt_oss(2, 4);
    oss.erase("rope_scaling");
    CHECK(attention(read(oss), 0).rotary->scaling == attention(read(gpt_oss(2, 4)), 0).rotary->scaling);
    oss["rope_scaling"] = nullptr;
    CHECK(attention(read(oss), 0).rotary->scaling.kind == RopeScaling::Kind::none);
    CHECK(error_of(with(qwen3_moe(4, 256, 4, 64), {{"mlp_only_layers", nullptr}})).empty());
    // Nemotron-H's norms read one of two epsilons.
    CHECK(read(with(nemotron_h(), {{"layer_norm_epsilon", 1e-4}, {"rms_norm_eps", 1e-3}})).norm_epsilon == 1e-4);
}

TEST_CASE("contradictions within a file are refused by field") {
    const auto refused = [](const json& config, const json& change, const std::string& field) {
        INFO(change.dump());
        CHECK_THAT(error_of(with(config, change)), Contains("config.json: " + field + ": found"));
    };
    refused(qwen3_moe(4, 256, 4, 64), {{"num_experts_per_tok", 129}}, "num_experts_per_tok");
    refused(qwen3_moe(4, 256, 4, 64), {{"mlp_only_layers", {4}}}, "mlp_only_layers[0]");
    refused(mixtral(), {{"num_local_experts", 1 << 20}}, "num_local_experts");
    refused(deepseek_v3(), {{"n_group", 7}}, "n_group");
    refused(deepseek_v3(), {{"scoring_func", "softmax"}}, "scoring_func");
    refused(deepseek_v3(), {{"first_k_dense_replace", 62}}, "first_k_dense_replace");
    refused(deepseek_v3(), {{"num_key_value_heads", 8}}, "num_key_value_heads");
    refused(gpt_oss(4, 32), {{"layer_types", {"full_attention"}}}, "layer_types");
    refused(gpt_oss(4, 32), {{"experts_per_token", 2}}, "experts_per_token");
    refused(gpt_oss(4, 32), {{"quantization_config", {{"quant_method", "gptq"}}}}, "quantization_config.quant_method");
    refused(nemotron_h(), {{"hybrid_override_pattern", "M-"}}, "hybrid_override_pattern");
    refused(nemotron_h(), {{"n_groups", 7}}, "n_groups");
    refused(gpt_oss(4, 32), {{"swiglu_alpha", 2.0}}, "swiglu_alpha");
    refused(mixtral(), {{"quantization_config", {{"quant_method", "awq"}}}}, "quantization_config");
    json text = gemma3();
    text["text_config"]["final_logit_softcapping"] = 30.0;
    CHECK_THAT(error_of(text), Contains("config.json: text_config.final_logit_softcapping: found 30"));
    text = llama4(16, 1);
    text["text_config"]["no_rope_layers"] = {1, 0};
    CHECK_THAT(error_of(text), Contains("config.json: text_config.no_rope_layers: found"));
    text["text_config"]["no_rope_layers"] = json::array();
    text["text_config"]["layer_types"] = std::vector<std::string>(48, "chunked_attention");
    CHECK_THAT(error_of(text), Contains("config.json: text_config.layer_types: found"));
    for (std::size_t i = 3; i < 48; i += 4) {
        text["text_config"]["layer_types"][i] = "full_attention";
    }
    CHECK(error_of(text).empty());
    text["text_config"] = 5;
    CHECK_THAT(error_of(text), Contains("config.json: text_config: found 5, allowed: an object"));
}

TEST_CASE("limits that are none are read, as the files write them") {
    const TemporaryFolder folder;
    std::string text = nemotron_h().dump();
    text.insert(1, "\"time_step_limit\": [0.0, Infinity],");
    CHECK(read_model_config(folder.write("config.json", text)).layers.size() == 118);
    text.insert(1, "\"bos_token_id\": \"Infinity \\\" Infinity\",");
    CHECK(read_model_config(folder.write("config.json", text)).layers.size() == 118);
}

// The unmodified files of the publishers, where they are at hand.
TEST_CASE("published config.json files are read as they are") {
    const char* chosen = std::getenv("SLUICE_SHARED_DATA");
    const fs::path data = chosen != nullptr ? fs::path(chosen) : fs::path(SLUICE_SOURCE_DIR) / "../shared/data";
    const fs::path files = data / "hf-configs";
    if (!fs::exists(files)) {
        WARN("no " << files << ": nothing compared");
        return;
    }
    const std::vector<std::pair<std::string, double>> published = {
        {"meta-llama--Meta-Llama-3.1-8B", 8.030},
        {"meta-llama--Meta-Llama-3.1-70B", 70.554},
        {"meta-llama--Meta-Llama-3.1-405B", 405.853},
        {"meta-llama--Llama-4-Scout-17B-16E-Instruct", 107.770},
        {"meta-llama--Llama-4-Maverick-17B-128E-Instruct", 400.712},
        {"Qwen--Qwen3-32B", 32.762},
        {"Qwen--Qwen3-30B-A3B", 30.532},
        {"Qwen--Qwen3-235B-A22B", 235.094},
        {"mistralai--Mixtral-8x7B-v0.1", 46.703},
        {"deepseek-ai--DeepSeek-V3", 671.026},
        {"openai--gpt-oss-20b", 20.915},
        {"nvidia--Nemotron-H-56B-Base-8K", 56.324}};
    for (const auto& [name, total] : published) {
        INFO(name);
        CHECK(billions(parameter_count(read_model_config(files / (name + ".json")))) == Approx(total).margin(1e-9));
    }
    CHECK_THAT(
        input_error([&] { static_cast<void>(read_model_config(files / "deepseek-ai--DeepSeek-V4-Flash.json")); }),
        Contains("model_type: found \"deepseek_v4\""));
}

}  // namespace sluice::models
