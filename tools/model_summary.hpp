// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shape of a model as `sluice show model` prints it.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/huggingface.hpp"

namespace sluice::tools {

/// A weight; those of the layers, which are alike, stand once with their count.
struct WeightSummary {
    std::string name;
    std::int64_t count = 1;
    std::int64_t rows = 0, cols = 0;
    bool always_bf16 = false;   ///< embedding table and norms, whatever --weights says
    bool stored_twice = false;  ///< the tied LM head: no parameters of its own
    [[nodiscard]] std::int64_t parameters() const { return stored_twice ? 0 : count * rows * cols; }
};

struct ModelSummary {
    models::LlamaConfig config;
    std::int64_t parameters = 0;
    std::int64_t active_parameters = 0;  ///< that a token's step touches; all of them in a dense model
    std::vector<WeightSummary> weights;
    double kv_bytes_per_token_fp8 = 0, kv_bytes_per_token_bf16 = 0;
};

/// The file of a shipped name or a path, and its name: that of its folder if the file is called config.json. Throws
/// InputError.
struct NamedModel {
    std::filesystem::path file;
    models::LlamaConfig config;
};
[[nodiscard]] NamedModel read_model(const std::string& name_or_path);

[[nodiscard]] ModelSummary summarize_model(const std::string& name_or_path);
[[nodiscard]] std::string model_table(const ModelSummary& model);
[[nodiscard]] nlohmann::ordered_json model_json(const ModelSummary& model);

}  // namespace sluice::tools
