// SPDX-License-Identifier: Apache-2.0
#pragma once
// One object of a config.json while it is read: errors name file and field, a field that nobody has asked for is an
// error, and a field that the file leaves out has the default that the model type's class in Hugging Face transformers
// gives it, if there is one.
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "isa/config_file.hpp"
#include "models/model_config.hpp"

namespace sluice::models {

// Far above any model, and low enough that no count of elements overflows 63 bits.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxInner = 1 << 24;  ///< of feed-forward parts, all experts of a layer together; vocabulary
constexpr std::int64_t kMaxLayers = 4'096;
constexpr std::int64_t kMaxHeads = 4'096;
constexpr std::int64_t kMaxHeadDim = 4'096;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 31;

class ConfigReader {
public:
    /// The object of a whole file. `defaults`: of fields that are left out.
    ConfigReader(const std::filesystem::path& file, const nlohmann::json& object, nlohmann::json defaults);
    /// The object that a field holds.
    [[nodiscard]] ConfigReader inner(const std::string& key, nlohmann::json defaults) const;

    /// "mine/config.json: rope_scaling.factor"
    [[nodiscard]] std::string where(const std::string& key) const { return prefix_ + key; }
    /// Whether the field, or its default, is there and not null.
    [[nodiscard]] bool has(const std::string& key) const;
    /// Whether the file itself has the field, null or not.
    [[nodiscard]] bool given(const std::string& key) const { return object_.contains(key); }
    [[nodiscard]] const nlohmann::json& at(const std::string& key) const;

    [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t lowest, std::int64_t highest) const;
    [[nodiscard]] std::int64_t size(const std::string& key, std::int64_t highest) const {
        return integer(key, 1, highest);
    }
    [[nodiscard]] std::int64_t size_or(const std::string& key, std::int64_t highest, std::int64_t otherwise) const {
        return has(key) ? size(key, highest) : otherwise;
    }
    [[nodiscard]] double number(const std::string& key, double lowest, double highest) const;
    [[nodiscard]] bool flag(const std::string& key) const;
    [[nodiscard]] bool flag_or(const std::string& key, bool otherwise) const {
        return has(key) ? flag(key) : otherwise;
    }
    [[nodiscard]] std::string text(const std::string& key) const;
    [[nodiscard]] std::vector<std::int64_t> integers(const std::string& key, std::int64_t lowest,
                                                     std::int64_t highest) const;
    [[nodiscard]] std::vector<std::string> texts(const std::string& key) const;
    /// One of a few words.
    [[nodiscard]] std::string choice(const std::string& key, const std::vector<std::string>& allowed) const;

    /// A field that is modelled with one value alone, or absent.
    void require_only(const std::string& key, const nlohmann::json& allowed) const;
    /// A field that changes nothing that is modelled here.
    void pass_over(const std::vector<std::string>& keys) const;
    /// Throws InputError that names the first field that nobody has asked for.
    void check_all_read() const;

    [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const;

private:
    ConfigReader(std::string prefix, const nlohmann::json& object, nlohmann::json defaults)
        : prefix_(std::move(prefix)), object_(object), defaults_(std::move(defaults)) {}

    std::string prefix_;
    nlohmann::json object_, defaults_;
    mutable std::set<std::string> read_;
};

/// rope_theta and rope_scaling of older files, rope_parameters of newer ones. `dims`: of a head, that rotate.
[[nodiscard]] RotaryConfig read_rotary(const ConfigReader& in, std::int64_t dims);

}  // namespace sluice::models
