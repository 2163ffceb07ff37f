// SPDX-License-Identifier: Apache-2.0
#include "models/config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "isa/errors.hpp"

namespace sluice::models {

using nlohmann::json;

namespace {

/// The default of a field, or nothing.
const json& none() {
    static const json kNull;
    return kNull;
}

}  // namespace

ConfigReader::ConfigReader(const std::filesystem::path& file, const json& object, json defaults)
    : ConfigReader(file.string() + ": ", isa::require_object(object, file.string()), std::move(defaults)) {}

ConfigReader ConfigReader::inner(const std::string& key, json defaults) const {
    return {where(key) + ".", isa::require_object(at(key), where(key)), std::move(defaults)};
}

bool ConfigReader::has(const std::string& key) const {
    read_.insert(key);
    const json& value = object_.contains(key) ? object_[key] : defaults_.contains(key) ? defaults_[key] : none();
    return !value.is_null();
}

const json& ConfigReader::at(const std::string& key) const {
    if (!has(key)) {
        std::vector<std::string> unread;
        for (const auto& [other, value] : object_.items()) {
            unread.push_back(other);
        }
        throw InputError(where(key), "missing; the model cannot be built without it" + isa::did_you_mean(key, unread));
    }
    return object_.contains(key) ? object_[key] : defaults_[key];
}

std::int64_t ConfigReader::integer(const std::string& key, std::int64_t lowest, std::int64_t highest) const {
    return isa::require_integer(at(key), where(key), lowest, highest);
}

double ConfigReader::number(const std::string& key, double lowest, double highest) const {
    return isa::require_number(at(key), where(key), lowest, highest);
}

bool ConfigReader::flag(const std::string& key) const {
    return isa::require_bool(at(key), where(key));
}

std::string ConfigReader::text(const std::string& key) const {
    return isa::require_string(at(key), where(key));
}

std::vector<std::int64_t> ConfigReader::integers(const std::string& key, std::int64_t lowest,
                                                 std::int64_t highest) const {
    std::vector<std::int64_t> out;
    const json& list = at(key);
    if (!list.is_array()) {
        refuse(key, "a list of integers");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        out.push_back(isa::require_integer(list[i], fmt::format("{}[{}]", where(key), i), lowest, highest));
    }
    return out;
}

std::vector<std::string> ConfigReader::texts(const std::string& key) const {
    std::vector<std::string> out;
    const json& list = at(key);
    if (!list.is_array()) {
        refuse(key, "a list of words");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        out.push_back(isa::require_string(list[i], fmt::format("{}[{}]", where(key), i)));
    }
    return out;
}

std::string ConfigReader::choice(const std::string& key, const std::vector<std::string>& allowed) const {
    std::string found = text(key);
    if (std::find(allowed.begin(), allowed.end(), found) == allowed.end()) {
        refuse(key, isa::joined(allowed) + "; nothing else is modelled" + isa::did_you_mean(found, allowed));
    }
    return found;
}

void ConfigReader::require_only(const std::string& key, const json& allowed) const {
    if (has(key) && at(key) != allowed) {
        refuse(key, isa::shown(allowed) + "; nothing else is modelled");
    }
}

void ConfigReader::pass_over(const std::vector<std::string>& keys) const {
    read_.insert(keys.begin(), keys.end());
}

void ConfigReader::check_all_read() const {
    for (const auto& [key, value] : object_.items()) {
        if (!read_.contains(key)) {
            throw InputError(where(isa::shown(json(key))),
                             "unknown field: it might change the computation, so it is not passed over" +
                                 isa::did_you_mean(key, {read_.begin(), read_.end()}));
        }
    }
}

void ConfigReader::refuse(const std::string& key, const std::string& allowed) const {
    throw InputError(where(key), fmt::format("found {}, allowed: {}", isa::shown(at(key)), allowed));
}

// ---- rotary embedding -----------------------------------------------------------------------------------------------

namespace {

constexpr double kMaxTheta = 1e12;

/// Natural logarithm's share in the factor of angles (YaRN, section 3.4): 0.1 ln(stretch) + 1.
double yarn_factor(double stretch, double weight) {
    constexpr double kShare = 0.1;
    return stretch <= 1 ? 1 : kShare * weight * std::log(stretch) + 1;
}

void read_yarn(const ConfigReader& in, RopeScaling& scaling) {
    scaling.original_max_position_embeddings = in.size("original_max_position_embeddings", kMaxPositions);
    scaling.beta_fast = in.number("beta_fast", 1e-6, 1e6);
    scaling.beta_slow = in.number("beta_slow", 1e-6, 1e6);
    scaling.truncate = in.flag_or("truncate", true);
    if (in.has("attention_factor")) {
        scaling.attention_factor = in.number("attention_factor", 1e-6, 1e6);
    } else if (in.has("mscale") && in.has("mscale_all_dim")) {
        scaling.attention_factor = yarn_factor(scaling.factor, in.number("mscale", 0, 1e6)) /
                                   yarn_factor(scaling.factor, in.number("mscale_all_dim", 0, 1e6));
    } else {
        scaling.attention_factor = yarn_factor(scaling.factor, 1);
    }
}

/// `in`: rope_scaling, or rope_parameters.
RopeScaling read_rope_scaling(const ConfigReader& in) {
    using Kind = RopeScaling::Kind;
    static const std::map<std::string, Kind> kKinds = {
        {"default", Kind::none}, {"linear", Kind::linear}, {"llama3", Kind::llama3}, {"yarn", Kind::yarn}};
    // Older files say "type", and newer ones both.
    const std::string key = in.given("rope_type") || !in.given("type") ? "rope_type" : "type";
    in.pass_over({"type"});
    RopeScaling scaling;
    scaling.kind = kKinds.at(in.choice(key, {"default", "linear", "llama3", "yarn"}));
    if (scaling.kind != Kind::none) {
        scaling.factor = in.number("factor", 1, 1e6);
    }
    if (scaling.kind == Kind::llama3) {
        scaling.low_freq_factor = in.number("low_freq_factor", 1e-6, 1e6);
        scaling.high_freq_factor = in.number("high_freq_factor", 1e-6, 1e6);
        scaling.original_max_position_embeddings = in.size("original_max_position_embeddings", kMaxPositions);
    } else if (scaling.kind == Kind::yarn) {
        read_yarn(in, scaling);
    }
    return scaling;
}

}  // namespace

RotaryConfig read_rotary(const ConfigReader& in, std::int64_t dims) {
    RotaryConfig rotary;
    rotary.dims = dims;
    const json yarn_defaults = {{"beta_fast", 32}, {"beta_slow", 1}};
    if (in.has("rope_parameters")) {
        if (in.given("rope_theta") || in.given("rope_scaling")) {
            throw InputError(in.where("rope_parameters"), "found beside rope_theta or rope_scaling, allowed: either");
        }
        const ConfigReader parameters = in.inner("rope_parameters", yarn_defaults);
        rotary.scaling = read_rope_scaling(parameters);
        rotary.theta = parameters.has("rope_theta") ? parameters.number("rope_theta", 1, kMaxTheta)
                                                    : in.number("rope_theta", 1, kMaxTheta);
        parameters.check_all_read();
        return rotary;
    }
    rotary.theta = in.number("rope_theta", 1, kMaxTheta);
    if (in.has("rope_scaling")) {
        const ConfigReader scaling = in.inner("rope_scaling", yarn_defaults);
        rotary.scaling = read_rope_scaling(scaling);
        scaling.check_all_read();
    }
    return rotary;
}

}  // namespace sluice::models
