// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strict reading of the JSON files under configs/ and of the users' own: where they are found, and checks whose
// messages name file, key path, what was found and what is allowed.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::isa {

/// The shipped configs/ folder: $SLUICE_CONFIGS if set, else next to the executable's folder, else the source tree's.
/// Throws InputError if there is none.
[[nodiscard]] std::filesystem::path configs_directory();

/// A bare name ("maia200") is `configs / folder / name.json`; anything with a '/' or ending in ".json" is a path.
/// Throws InputError that lists the shipped names if a bare name is unknown, or if a path is no readable file.
[[nodiscard]] std::filesystem::path find_config(const std::filesystem::path& configs, const std::string& folder,
                                                const std::string& name_or_path);

/// What a number may be: `Infinity` is no JSON, but some programs write it; it is read as the largest number there is.
enum class Numbers : std::uint8_t { finite, or_infinity };

/// Parses a file: no comments, no NaN, no key twice in one object, nested at most 64 deep. Throws InputError with file,
/// line and column.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& file, Numbers numbers = Numbers::finite);

/// An integer in [lowest, highest]; 2e9 counts as one, 2.5 and "2" do not.
[[nodiscard]] std::int64_t require_integer(const nlohmann::json& value, const std::string& where, std::int64_t lowest,
                                           std::int64_t highest);
/// A number in [lowest, highest].
[[nodiscard]] double require_number(const nlohmann::json& value, const std::string& where, double lowest,
                                    double highest);
[[nodiscard]] bool require_bool(const nlohmann::json& value, const std::string& where);
[[nodiscard]] std::string require_string(const nlohmann::json& value, const std::string& where);
[[nodiscard]] const nlohmann::json& require_object(const nlohmann::json& value, const std::string& where);

/// A short form of a JSON value for messages: at most 40 characters.
[[nodiscard]] std::string shown(const nlohmann::json& value);

/// "; did you mean \"ttu.contexts\"?" for the nearest of `known`, or nothing if none is near.
[[nodiscard]] std::string did_you_mean(std::string_view found, const std::vector<std::string>& known);

/// "a, b, c"
[[nodiscard]] std::string joined(const std::vector<std::string>& names);

/// Where a value comes from.
struct Provenance {
    std::string status;  ///< "published", "derived", "assumed" or "user"
    std::string source;
};

/// A leaf is {"value": ..., "status": ..., "source": ...}, or in a user's file the plain value (status "user"; the
/// file's name is the source). Checks the envelope and returns a pointer to the value.
[[nodiscard]] const nlohmann::json& read_leaf(const nlohmann::json& leaf, const std::string& where,
                                              const std::string& file_name, Provenance& provenance);

}  // namespace sluice::isa
