// SPDX-License-Identifier: Apache-2.0
#include "models/huggingface.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"

namespace sluice::models {
namespace {

using isa::shown;
using nlohmann::json;

// Far above any model, and low enough that no count of elements overflows 63 bits.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxVocabulary = 1 << 24;
constexpr std::int64_t kMaxLayers = 4'096;
constexpr std::int64_t kMaxHeads = 4'096;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 31;

const std::vector<std::string> kSupportedTypes = {"llama"};

// Fields that are read or checked below.
const std::vector<std::string> kReadFields = {
    "architectures",
    "attention_bias",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "vocab_size",
};

// Fields of Hugging Face files that change nothing of what inference computes: names, training, tokens, storage.
const std::vector<std::string> kHarmlessFields = {
    "_attn_implementation",
    "_commit_hash",
    "_name_or_path",
    "attention_dropout",
    "attn_implementation",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "id2label",
    "initializer_range",
    "keys_to_ignore_at_inference",
    "label2id",
    "max_length",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "return_dict",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// One config.json, with errors that name file and field.
class ConfigReader {
public:
    explicit ConfigReader(const std::filesystem::path& file)
        : file_(file.string()), object_(isa::read_json_file(file)) {
        static_cast<void>(isa::require_object(object_, file_));
    }

    [[nodiscard]] std::string where(const std::string& key) const { return file_ + ": " + key; }

    /// Absent and null are the same in these files.
    [[nodiscard]] bool has(const std::string& key) const { return object_.contains(key) && !object_[key].is_null(); }

    [[nodiscard]] const json& at(const std::string& key) const {
        if (!has(key)) {
            throw InputError(where(key), "missing; the model cannot be built without it");
        }
        return object_[key];
    }

    [[nodiscard]] std::int64_t size(const std::string& key, std::int64_t highest) const {
        return isa::require_integer(at(key), where(key), 1, highest);
    }
    [[nodiscard]] std::int64_t size_or(const std::string& key, std::int64_t highest, std::int64_t otherwise) const {
        return has(key) ? size(key, highest) : otherwise;
    }
    [[nodiscard]] double number_or(const std::string& key, double lowest, double highest, double otherwise) const {
        return has(key) ? isa::require_number(at(key), where(key), lowest, highest) : otherwise;
    }
    [[nodiscard]] bool flag_or(const std::string& key, bool otherwise) const {
        return has(key) ? isa::require_bool(at(key), where(key)) : otherwise;
    }

    /// A field that is modelled with one value alone.
    void require_only(const std::string& key, const json& allowed) const {
        if (has(key) && at(key) != allowed) {
            throw InputError(where(key), fmt::format("found {}, allowed: {}; nothing else is modelled", shown(at(key)),
                                                     shown(allowed)));
        }
    }
    void require_absent(const std::string& key, const std::string& instead) const {
        if (has(key)) {
            throw InputError(where(key), fmt::format("found {}, allowed: null; {}", shown(at(key)), instead));
        }
    }

    [[nodiscard]] const json& object() const { return object_; }

private:
    std::string file_;
    json object_;
};

void check_model_type(const ConfigReader& in) {
    const std::string type = isa::require_string(in.at("model_type"), in.where("model_type"));
    if (!contains(kSupportedTypes, type)) {
        throw InputError(in.where("model_type"), fmt::format("found {}, allowed: {}; other model types are not "
                                                             "modelled yet",
                                                             shown(in.at("model_type")), isa::joined(kSupportedTypes)));
    }
    const json causal = json::array({"LlamaForCausalLM"});
    in.require_only("architectures", causal);
}

void check_keys(const ConfigReader& in) {
    for (const auto& [key, value] : in.object().items()) {
        if (!contains(kReadFields, key) && !contains(kHarmlessFields, key)) {
            throw InputError(in.where(shown(json(key))),
                             "unknown field: it might change the computation, so it is not passed over" +
                                 isa::did_you_mean(key, kReadFields));
        }
    }
    in.require_only("hidden_act", "silu");
    in.require_only("attention_bias", false);
    in.require_only("mlp_bias", false);
    in.require_absent("sliding_window", "sliding-window attention is not modelled");
    in.require_absent("quantization_config", "formats are chosen with --weights, --act and --kv");
}

RopeScaling read_rope_scaling(const json& object, const std::string& where) {
    static_cast<void>(isa::require_object(object, where));
    const std::string kind_key = object.contains("rope_type") ? "rope_type" : "type";
    if (!object.contains(kind_key)) {
        throw InputError(where + ".rope_type", "missing");
    }
    const std::string kind = isa::require_string(object[kind_key], where + "." + kind_key);
    std::vector<std::string> allowed = {"rope_type", "type", "rope_theta"};
    RopeScaling scaling;
    const auto number = [&](const std::string& key, double lowest, double highest) {
        allowed.push_back(key);
        if (!object.contains(key)) {
            throw InputError(where + "." + key, "missing");
        }
        return isa::require_number(object[key], where + "." + key, lowest, highest);
    };
    if (kind == "linear" || kind == "llama3") {
        scaling.kind = kind == "linear" ? RopeScaling::Kind::linear : RopeScaling::Kind::llama3;
        scaling.factor = number("factor", 1, 1e6);
    } else if (kind != "default") {
        throw InputError(where + "." + kind_key,
                         fmt::format("found {}, allowed: default, linear, llama3", shown(object[kind_key])));
    }
    if (kind == "llama3") {
        scaling.low_freq_factor = number("low_freq_factor", 1e-6, 1e6);
        scaling.high_freq_factor = number("high_freq_factor", 1e-6, 1e6);
        const double positions = number("original_max_position_embeddings", 1, static_cast<double>(kMaxPositions));
        scaling.original_max_position_embeddings = static_cast<std::int64_t>(positions);
    }
    for (const auto& [key, value] : object.items()) {
        if (!contains(allowed, key)) {
            throw InputError(where + "." + shown(json(key)),
                             "unknown field; allowed: " + isa::joined(allowed) + isa::did_you_mean(key, allowed));
        }
    }
    return scaling;
}

// Older files have rope_theta and rope_scaling, newer ones rope_parameters with both.
void read_rope(const ConfigReader& in, LlamaConfig& config) {
    constexpr double kDefaultTheta = 10'000;
    constexpr double kMaxTheta = 1e12;
    config.rope_theta = in.number_or("rope_theta", 1, kMaxTheta, kDefaultTheta);
    if (in.has("rope_scaling")) {
        config.rope_scaling = read_rope_scaling(in.at("rope_scaling"), in.where("rope_scaling"));
    }
    if (in.has("rope_parameters")) {
        if (in.has("rope_theta") || in.has("rope_scaling")) {
            throw InputError(in.where("rope_parameters"), "found beside rope_theta or rope_scaling, allowed: either");
        }
        const json& parameters = in.at("rope_parameters");
        config.rope_scaling = read_rope_scaling(parameters, in.where("rope_parameters"));
        if (parameters.contains("rope_theta")) {
            config.rope_theta =
                isa::require_number(parameters["rope_theta"], in.where("rope_parameters.rope_theta"), 1, kMaxTheta);
        }
    }
}

void check_heads(const ConfigReader& in, const LlamaConfig& config) {
    if (config.hidden_size % config.num_attention_heads != 0) {
        throw InputError(in.where("hidden_size"), fmt::format("found {}, allowed: a multiple of num_attention_heads "
                                                              "({})",
                                                              config.hidden_size, config.num_attention_heads));
    }
    if (config.num_attention_heads % config.num_key_value_heads != 0) {
        throw InputError(in.where("num_key_value_heads"),
                         fmt::format("found {}, allowed: a divisor of "
                                     "num_attention_heads ({})",
                                     config.num_key_value_heads, config.num_attention_heads));
    }
    if (config.head_dim % 2 != 0) {
        throw InputError(in.where("head_dim"), fmt::format("found {}, allowed: an even number, for the rotary "
                                                           "embedding pairs the halves",
                                                           config.head_dim));
    }
}

}  // namespace

LlamaConfig read_llama_config(const std::filesystem::path& file) {
    const ConfigReader in(file);
    check_model_type(in);
    check_keys(in);
    LlamaConfig config;
    config.name = file.stem().string();
    config.model_type = in.at("model_type").get<std::string>();
    config.hidden_size = in.size("hidden_size", kMaxWidth);
    config.intermediate_size = in.size("intermediate_size", kMaxVocabulary);
    config.num_hidden_layers = in.size("num_hidden_layers", kMaxLayers);
    config.num_attention_heads = in.size("num_attention_heads", kMaxHeads);
    config.num_key_value_heads = in.size_or("num_key_value_heads", kMaxHeads, config.num_attention_heads);
    config.vocab_size = in.size("vocab_size", kMaxVocabulary);
    config.max_position_embeddings = in.size("max_position_embeddings", kMaxPositions);
    constexpr std::int64_t kMaxHeadDim = 4'096;
    const std::int64_t implied_head_dim = std::max<std::int64_t>(1, config.hidden_size / config.num_attention_heads);
    config.head_dim = in.size_or("head_dim", kMaxHeadDim, implied_head_dim);
    config.rms_norm_eps = in.number_or("rms_norm_eps", 1e-30, 1, 1e-6);
    config.tie_word_embeddings = in.flag_or("tie_word_embeddings", false);
    read_rope(in, config);
    check_heads(in, config);
    return config;
}

std::int64_t parameter_count(const LlamaConfig& config) {
    const std::int64_t q_width = config.num_attention_heads * config.head_dim;
    const std::int64_t kv_width = config.num_key_value_heads * config.head_dim;
    const std::int64_t attention = config.hidden_size * (2 * q_width + 2 * kv_width);
    const std::int64_t mlp = 3 * config.hidden_size * config.intermediate_size;
    const std::int64_t layer = attention + mlp + 2 * config.hidden_size;
    const std::int64_t vocabulary = config.vocab_size * config.hidden_size;
    return config.num_hidden_layers * layer + vocabulary * (config.tie_word_embeddings ? 1 : 2) + config.hidden_size;
}

}  // namespace sluice::models
