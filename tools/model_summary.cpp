// SPDX-License-Identifier: Apache-2.0
#include "tools/model_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"
#include "tools/table.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using isa::Format;
using nlohmann::ordered_json;

constexpr std::array<Format, 4> kWeightFormats{Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::bf16};

using models::WeightShape;

std::string count(std::int64_t number) {
    return grouped(static_cast<std::uint64_t>(number));
}

/// Embedding table, norms and vectors stay BF16, whatever --weights says.
bool always_bf16(const WeightShape& weight) {
    using Kind = WeightShape::Kind;
    return weight.kind == Kind::embedding || weight.kind == Kind::norm || weight.kind == Kind::vector;
}

struct MixerText {
    std::string operator()(const std::monostate& /*none*/) const { return ""; }
    std::string operator()(const models::AttentionConfig& c) const {
        std::string text =
            fmt::format("attention, {} query and {} key-value heads of {}", c.heads, c.kv_heads, c.head_dim);
        if (c.window > 0 || c.chunk > 0) {
            text += fmt::format(", {} {}", c.window > 0 ? "window" : "chunks of", std::max(c.window, c.chunk));
        }
        return text;
    }
    std::string operator()(const models::LatentAttentionConfig& c) const {
        return fmt::format("latent attention, {} heads, {} + {} cached", c.heads, c.kv_rank, c.rope_dim);
    }
    std::string operator()(const models::MambaConfig& c) const {
        return fmt::format("Mamba-2, {} heads of {}, state {}", c.heads, c.head_dim, c.state);
    }
};

struct FeedForwardText {
    std::string operator()(const std::monostate& /*none*/) const { return ""; }
    std::string operator()(const models::MlpConfig& c) const { return fmt::format("feed-forward {}", c.width); }
    std::string operator()(const models::ExpertsConfig& c) const {
        const std::string shared = c.shared_width > 0 ? fmt::format(", {} shared", c.shared_width) : "";
        return fmt::format("{} of {} experts of {}{}", c.chosen, c.count, c.width, shared);
    }
};

std::string layer_text(const models::LayerConfig& layer) {
    const std::string mixer = std::visit(MixerText{}, layer.mixer);
    const std::string feed_forward = std::visit(FeedForwardText{}, layer.feed_forward);
    return mixer + (mixer.empty() || feed_forward.empty() ? "" : "; ") + feed_forward;
}

/// Layers that read alike, with their number, in the order of the first of each.
std::vector<std::pair<std::string, std::int64_t>> kinds_of_layers(const models::ModelConfig& config) {
    std::vector<std::pair<std::string, std::int64_t>> kinds;
    for (const models::LayerConfig& layer : config.layers) {
        const std::string text = layer_text(layer);
        const auto same =
            std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == text; });
        if (same == kinds.end()) {
            kinds.emplace_back(text, 1);
        } else {
            ++same->second;
        }
    }
    return kinds;
}

double share(std::int64_t part, std::int64_t whole) {
    return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

NamedModel read_model(const std::string& name_or_path) {
    NamedModel model;
    model.file = isa::find_config(isa::configs_directory(), "models", name_or_path);
    model.config = models::read_model_config(model.file);
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
    model.active_parameters = models::active_parameter_count(model.config);
    model.weights = models::all_weights(model.config);
    const auto cached = static_cast<double>(models::kv_elements_per_token(model.config));
    model.kv_bytes_per_token_fp8 = cached * isa::bytes_per_element(Format::e4m3);
    model.kv_bytes_per_token_bf16 = cached * isa::bytes_per_element(Format::bf16);
    return model;
}

std::string model_table(const ModelSummary& model) {
    const models::ModelConfig& c = model.config;
    std::vector<std::vector<std::string>> facts = {
        {"parameters", count(model.parameters)},
        {"active for a token", fmt::format("{} ({:.1f} %; without the embedding table)", count(model.active_parameters),
                                           share(model.active_parameters, model.parameters))},
        {"hidden", count(c.hidden_size)}};
    for (const auto& [text, number] : kinds_of_layers(c)) {
        facts.push_back({number == 1 ? "1 layer" : fmt::format("{} layers", number), text});
    }
    facts.push_back({"vocabulary", count(c.vocab_size) + (c.tie_word_embeddings ? " (LM head tied)" : "")});
    facts.push_back({"longest context", count(c.max_position_embeddings)});
    facts.push_back({"KV cache", fmt::format("{} a token in fp8, {} in bf16", scaled(model.kv_bytes_per_token_fp8, "B"),
                                             scaled(model.kv_bytes_per_token_bf16, "B"))});
    if (c.quantisation) {
        facts.push_back({"stored as", fmt::format("{}: attention {}, feed-forward {}, experts {}, LM head {}",
                                                  c.quantisation->method, name(c.quantisation->attention),
                                                  name(c.quantisation->feed_forward), name(c.quantisation->experts),
                                                  name(c.quantisation->head))});
    }
    if (c.prediction_layers > 0) {
        facts.push_back({"left out", fmt::format("{} layer(s) of multi-token prediction", c.prediction_layers)});
    }
    std::vector<std::vector<std::string>> rows = {{"weight", "count", "shape", "parameters"}};
    for (const Format format : kWeightFormats) {
        rows[0].emplace_back(isa::name(format));
    }
    for (const WeightShape& weight : model.weights) {
        std::vector<std::string> row = {weight.name, count(weight.copies),
                                        fmt::format("{} x {}", weight.rows, weight.cols),
                                        weight.tied ? "tied" : count(weight.parameters())};
        for (const Format format : kWeightFormats) {
            row.push_back(always_bf16(weight) && format != Format::bf16
                              ? "-"
                              : scaled(static_cast<double>(weight.copies * weight.rows) *
                                           static_cast<double>(isa::row_bytes(format, weight.cols)),
                                       "B"));
        }
        rows.push_back(std::move(row));
    }
    return fmt::format("{} ({})\n\n{}\n{}", c.name, c.model_type, aligned(facts, {1}), aligned(rows));
}

ordered_json model_json(const ModelSummary& model) {
    const models::ModelConfig& c = model.config;
    ordered_json weights = ordered_json::array();
    for (const WeightShape& weight : model.weights) {
        weights.push_back({{"name", weight.name},
                           {"count", weight.copies},
                           {"rows", weight.rows},
                           {"cols", weight.cols},
                           {"parameters", weight.parameters()}});
    }
    ordered_json layers = ordered_json::array();
    for (const models::LayerConfig& layer : c.layers) {
        layers.push_back(layer_text(layer));
    }
    return {{"name", c.name},
            {"model_type", c.model_type},
            {"parameters", model.parameters},
            {"active_parameters", model.active_parameters},
            {"hidden_size", c.hidden_size},
            {"layers", layers},
            {"vocabulary", c.vocab_size},
            {"longest_context", c.max_position_embeddings},
            {"tied_lm_head", c.tie_word_embeddings},
            {"kv_bytes_per_token", {{"fp8", model.kv_bytes_per_token_fp8}, {"bf16", model.kv_bytes_per_token_bf16}}},
            {"weights", weights}};
}

}  // namespace sluice::tools
