// SPDX-License-Identifier: Apache-2.0
// Are model files read strictly, and do the totals equal the published ones?
#include "models/huggingface.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"

namespace sluice::models {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::input_error;
using test::TemporaryFolder;

const fs::path kModels = fs::path(SLUICE_SOURCE_DIR) / "configs" / "models";

json small() {
    return {{"model_type", "llama"},          {"hidden_size", 128},       {"intermediate_size", 256},
            {"num_hidden_layers", 2},         {"num_attention_heads", 4}, {"vocab_size", 512},
            {"max_position_embeddings", 2048}};
}

ModelConfig read(const std::string& text) {
    const TemporaryFolder folder;
    return read_model_config(folder.write("mine.json", text));
}

std::string error_of(const std::string& text) {
    return input_error([&] { static_cast<void>(read(text)); });
}

std::string error_with(const std::string& key, const json& value) {
    json config = small();
    config[key] = value;
    return error_of(config.dump());
}

// The total by hand: per layer q, o, k, v, three MLP matrices and two norms; embedding, head, final norm.
std::int64_t by_hand(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t ffn, std::int64_t vocabulary) {
    const std::int64_t head_dim = hidden / heads;
    const std::int64_t attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim;
    return layers * (attention + 3 * hidden * ffn + 2 * hidden) + 2 * vocabulary * hidden + hidden;
}

const AttentionConfig& attention(const ModelConfig& config) {
    return std::get<AttentionConfig>(config.layers.at(0).mixer);
}

TEST_CASE("the shipped models have the published parameter counts") {
    const ModelConfig small_one = read_model_config(kModels / "llama-3.1-8b.json");
    CHECK(parameter_count(small_one) == by_hand(32, 4'096, 32, 8, 14'336, 128'256));
    CHECK(static_cast<double>(parameter_count(small_one)) == Approx(8.030e9).epsilon(1e-4));
    const ModelConfig middle = read_model_config(kModels / "llama-3.1-70b.json");
    CHECK(parameter_count(middle) == by_hand(80, 8'192, 64, 8, 28'672, 128'256));
    CHECK(static_cast<double>(parameter_count(middle)) == Approx(70.554e9).epsilon(1e-5));
    CHECK(attention(middle).head_dim == 128);
    CHECK(attention(middle).rotary->scaling.kind == RopeScaling::Kind::llama3);
    const ModelConfig toy = read_model_config(kModels / "toy-llama.json");
    CHECK(parameter_count(toy) == by_hand(2, 128, 2, 1, 256, 512));
}

TEST_CASE("fields that Hugging Face leaves out have its documented defaults") {
    const ModelConfig config = read(small().dump());
    CHECK(attention(config).head_dim == 128 / 4);
    CHECK(attention(config).kv_heads == 4);
    CHECK(config.norm_epsilon == 1e-6);
    CHECK(attention(config).rotary->theta == 10'000);
    CHECK_FALSE(config.tie_word_embeddings);
    CHECK(attention(config).rotary->scaling.kind == RopeScaling::Kind::none);
}

TEST_CASE("harmless fields are passed over, unknown ones are not") {
    json config = small();
    config["torch_dtype"] = "bfloat16";
    config["dtype"] = "bfloat16";
    config["transformers_version"] = "5.0.0";
    config["eos_token_id"] = {1, 2};
    config["rope_scaling"] = nullptr;
    CHECK(error_of(config.dump()).empty());
    CHECK_THAT(error_with("residual_scale", 2), Contains("mine.json: \"residual_scale\": unknown field"));
    CHECK_THAT(error_with("hiden_size", 2), Contains("did you mean \"hidden_size\""));
}

TEST_CASE("a missing field is named") {
    const json complete = small();
    for (const auto& [key, value] : complete.items()) {
        json config = small();
        config.erase(key);
        CHECK_THAT(error_of(config.dump()), Contains("mine.json: " + key + ": missing"));
    }
}

TEST_CASE("a model type or a field that there are no words for is refused") {
    CHECK_THAT(error_with("model_type", "lama"), Contains("model_type: found \"lama\", allowed: deepseek_v3, gemma3") &&
                                                     Contains("did you mean \"llama\"?"));
    CHECK_THAT(error_with("hidden_act", "gelu"), Contains("hidden_act") && Contains("silu"));
    CHECK_THAT(error_with("sliding_window", 4096), Contains("sliding_window"));
    CHECK_THAT(error_with("quantization_config", {{"quant_method", "fp8"}}), Contains("quantization_config"));
    CHECK_THAT(error_with("architectures", {"LlamaForSequenceClassification"}), Contains("architectures"));
    CHECK_THAT(error_with("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4}}),
               Contains("rope_scaling.rope_type: found \"dynamic\""));
    CHECK_THAT(error_with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}),
               Contains("rope_scaling.original_max_position_embeddings: missing"));
    CHECK_THAT(error_with("rope_scaling", {{"rope_type", "linear"}}), Contains("rope_scaling.factor: missing"));
    CHECK_THAT(error_with("rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta", 1}}), Contains("\"beta\""));
}

TEST_CASE("rope_parameters of newer files replace rope_theta and rope_scaling") {
    json config = small();
    config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
    CHECK(attention(read(config.dump())).rotary->theta == 500'000);
    config["rope_theta"] = 10000.0;
    CHECK_THAT(error_of(config.dump()), Contains("rope_parameters"));
}

TEST_CASE("sizes are positive integers of a possible magnitude") {
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "vocab_size", "max_position_embeddings", "head_dim"}) {
        for (const json& value : {json(0), json(-4), json(4.5), json("4"), json(true), json(4'000'000'000'000LL),
                                  json(1e300), json::array({4}), json(18446744073709551615ULL)}) {
            INFO(key << " = " << value);
            CHECK_THAT(error_with(key, value), Contains("mine.json: " + std::string(key) + ": found") &&
                                                   Contains("allowed: an integer from 1 to"));
        }
    }
    for (const json& value : {json(0), json(-1), json("1e-5")}) {
        CHECK_THAT(error_with("rms_norm_eps", value), Contains("rms_norm_eps: found"));
        CHECK_THAT(error_with("rope_theta", value), Contains("rope_theta: found"));
    }
    CHECK_THAT(error_with("tie_word_embeddings", 1), Contains("tie_word_embeddings: found 1"));
}

TEST_CASE("heads must divide") {
    CHECK_THAT(error_with("hidden_size", 130), Contains("hidden_size: found 130") && Contains("num_attention_heads"));
    CHECK_THAT(error_with("num_key_value_heads", 3), Contains("num_key_value_heads: found 3"));
    CHECK_THAT(error_with("head_dim", 33), Contains("head_dim: found 33") && Contains("even"));
}

TEST_CASE("text that is not a JSON object is refused") {
    for (const char* text :
         {"", "{", "[]", "null", "{\"model_type\": Infinity}", "{\"model_type\": NaN}", "Infinity"}) {
        INFO(text);
        CHECK_THAT(error_of(text), Contains("mine.json"));
    }
    CHECK_THAT(input_error([] { static_cast<void>(read_model_config("no/such/config.json")); }),
               Contains("no/such/config.json"));
}

TEST_CASE("the largest file that is accepted does not overflow") {
    json config = small();
    config["hidden_size"] = 1 << 20;
    config["intermediate_size"] = 1 << 24;
    config["num_hidden_layers"] = 4'096;
    config["num_attention_heads"] = 4'096;
    config["head_dim"] = 4'096;
    config["vocab_size"] = 1 << 24;
    const ModelConfig largest = read(config.dump());
    const double layer = std::ldexp(1, 20) * (4 * std::ldexp(1, 24) + 3 * std::ldexp(1, 24) + 2);
    const double total = 4'096 * layer + 2 * std::ldexp(1, 44) + std::ldexp(1, 20);
    CHECK(static_cast<double>(parameter_count(largest)) == Approx(total));
}

}  // namespace
}  // namespace sluice::models
