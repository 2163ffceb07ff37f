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
struct ModelSummary {
    models::ModelConfig config;
    std::int64_t parameters = 0;
    std::int64_t active_parameters = 0;
    std::vector<models::WeightShape> weights;
    double kv_bytes_per_token_fp8 = 0, kv_bytes_per_token_bf16 = 0;
};

/// The file of a shipped name or a path, and its name: that of its folder if the file is called config.json. Throws
/// InputError.
struct NamedModel {
    std::filesystem::path file;
    models::ModelConfig config;
};
[[nodiscard]] NamedModel read_model(const std::string& name_or_path);

[[nodiscard]] ModelSummary summarize_model(const std::string& name_or_path);
[[nodiscard]] std::string model_table(const ModelSummary& model);
[[nodiscard]] nlohmann::ordered_json model_json(const ModelSummary& model);

}  // namespace sluice::tools
