// SPDX-License-Identifier: Apache-2.0
#include "tools/model_summary.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"
#include "tools/table.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using isa::Format;
using nlohmann::ordered_json;

constexpr std::array<Format, 4> kWeightFormats{Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::bf16};

/// "layers.*.mlp.up_proj.weight" of "model.layers.3.mlp.up_proj.weight".
std::string pattern(const std::string& name) {
    const std::string prefix = "model.layers.";
    if (!name.starts_with(prefix)) {
        return name;
    }
    const std::size_t end = name.find('.', prefix.size());
    return end == std::string::npos ? name : "model.layers.*" + name.substr(end);
}

std::vector<WeightSummary> summarize_weights(const models::Graph& graph) {
    std::vector<WeightSummary> weights;
    std::map<std::string, std::size_t> position;
    for (const models::Tensor& tensor : graph.tensors) {
        if (tensor.role != models::TensorRole::weight) {
            continue;
        }
        const std::string name = pattern(tensor.name);
        const auto [found, is_new] = position.emplace(name, weights.size());
        if (is_new) {
            weights.push_back(
                {name, 0, tensor.rows, tensor.cols, tensor.format == Format::bf16, tensor.same_values_as >= 0});
        }
        WeightSummary& weight = weights[found->second];
        SLUICE_CHECK(weight.rows == tensor.rows && weight.cols == tensor.cols, name + ": layers differ in shape");
        ++weight.count;
    }
    return weights;
}

double kv_bytes_per_token(const models::LlamaConfig& config, Format format) {
    return 2.0 * static_cast<double>(config.num_hidden_layers * config.num_key_value_heads * config.head_dim) *
           isa::bytes_per_element(format);
}

std::string count(std::int64_t number) {
    return grouped(static_cast<std::uint64_t>(number));
}

}  // namespace

NamedModel read_model(const std::string& name_or_path) {
    NamedModel model;
    model.file = isa::find_config(isa::configs_directory(), "models", name_or_path);
    model.config = models::read_llama_config(model.file);
    // Hugging Face keeps every model in a file of the same name, so there the folder says which one it is.
    const std::string folder = fs::absolute(model.file).lexically_normal().parent_path().filename().string();
    if (model.config.name == "config" && !folder.empty()) {
        model.config.name = folder;
    }
    return model;
}

ModelSummary summarize_model(const std::string& name_or_path) {
    ModelSummary model;
    model.config = read_model(name_or_path).config;
    model.parameters = models::parameter_count(model.config);
    model.active_parameters = model.parameters;
    models::Workload step;
    step.weights = Format::mxfp4;
    model.weights = summarize_weights(models::build_graph(model.config, step));
    model.kv_bytes_per_token_fp8 = kv_bytes_per_token(model.config, Format::e4m3);
    model.kv_bytes_per_token_bf16 = kv_bytes_per_token(model.config, Format::bf16);
    return model;
}

std::string model_table(const ModelSummary& model) {
    const models::LlamaConfig& c = model.config;
    std::vector<std::vector<std::string>> facts = {
        {"parameters", count(model.parameters)},
        {"active for a token", count(model.active_parameters) + " (dense: all of them)"},
        {"layers", count(c.num_hidden_layers)},
        {"hidden, intermediate", count(c.hidden_size) + ", " + count(c.intermediate_size)},
        {"heads",
         fmt::format("{} query, {} key-value, of {}", c.num_attention_heads, c.num_key_value_heads, c.head_dim)},
        {"vocabulary", count(c.vocab_size) + (c.tie_word_embeddings ? " (LM head tied)" : "")},
        {"longest context", count(c.max_position_embeddings)},
        {"KV cache", fmt::format("{} a token in fp8, {} in bf16", scaled(model.kv_bytes_per_token_fp8, "B"),
                                 scaled(model.kv_bytes_per_token_bf16, "B"))}};
    std::vector<std::vector<std::string>> rows = {{"weight", "count", "shape", "parameters"}};
    for (const Format format : kWeightFormats) {
        rows[0].emplace_back(isa::name(format));
    }
    for (const WeightSummary& weight : model.weights) {
        std::vector<std::string> row = {weight.name, count(weight.count),
                                        fmt::format("{} x {}", weight.rows, weight.cols),
                                        weight.stored_twice ? "tied" : count(weight.parameters())};
        for (const Format format : kWeightFormats) {
            row.push_back(weight.always_bf16 && format != Format::bf16
                              ? "-"
                              : scaled(static_cast<double>(weight.count * weight.rows) *
                                           static_cast<double>(isa::row_bytes(format, weight.cols)),
                                       "B"));
        }
        rows.push_back(std::move(row));
    }
    return fmt::format("{} ({})\n\n{}\n{}", c.name, c.model_type, aligned(facts, {1}), aligned(rows));
}

ordered_json model_json(const ModelSummary& model) {
    const models::LlamaConfig& c = model.config;
    ordered_json weights = ordered_json::array();
    for (const WeightSummary& weight : model.weights) {
        weights.push_back({{"name", weight.name},
                           {"count", weight.count},
                           {"rows", weight.rows},
                           {"cols", weight.cols},
                           {"parameters", weight.parameters()}});
    }
    return {{"name", c.name},
            {"model_type", c.model_type},
            {"parameters", model.parameters},
            {"active_parameters", model.active_parameters},
            {"layers", c.num_hidden_layers},
            {"hidden_size", c.hidden_size},
            {"intermediate_size", c.intermediate_size},
            {"query_heads", c.num_attention_heads},
            {"key_value_heads", c.num_key_value_heads},
            {"head_dim", c.head_dim},
            {"vocabulary", c.vocab_size},
            {"longest_context", c.max_position_embeddings},
            {"tied_lm_head", c.tie_word_embeddings},
            {"kv_bytes_per_token", {{"fp8", model.kv_bytes_per_token_fp8}, {"bf16", model.kv_bytes_per_token_bf16}}},
            {"weights", weights}};
}

}  // namespace sluice::tools
