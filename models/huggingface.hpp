// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads an unmodified Hugging Face config.json.
#include <filesystem>

#include "models/model_config.hpp"

namespace sluice::models {

/// Every field that shapes the computation is checked (range, divisibility) when it is read; one that the file leaves
/// out has the default of its class in transformers. Throws InputError naming file and field: not JSON, a model_type
/// that is not known (lists those that are), a missing field, a wrong type, a value out of range, a variant that
/// ModelConfig has no words for, a key that is neither read nor known to leave the computation alone.
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& file);

}  // namespace sluice::models
