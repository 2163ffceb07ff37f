// SPDX-License-Identifier: Apache-2.0
#include "models/huggingface.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "models/families/families.hpp"

namespace sluice::models {

namespace {

const Family& family_of(const ConfigReader& in) {
    const std::string type = in.text("model_type");
    std::vector<std::string> known;
    for (const Family& family : families()) {
        if (type == family.model_type) {
            return family;
        }
        known.emplace_back(family.model_type);
    }
    in.refuse("model_type", fmt::format("{}; other model types are not understood{}", isa::joined(known),
                                        isa::did_you_mean(type, known)));
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& file) {
    const nlohmann::json object = isa::read_json_file(file, isa::Numbers::or_infinity);
    const Family& family = family_of(ConfigReader(file, object, {}));
    const ConfigReader in(file, object, family.defaults);
    ModelConfig config = family.read(in);
    if (in.has("quantization_config") && !config.quantisation) {
        in.refuse("quantization_config", "null; formats are chosen with --weights, --act and --kv");
    }
    config = finished(in, std::move(config));
    config.name = file.stem().string();
    return config;
}

}  // namespace sluice::models
