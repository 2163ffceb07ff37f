// SPDX-License-Identifier: Apache-2.0
#include "isa/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <system_error>

#include "isa/errors.hpp"

namespace sluice::isa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Larger than any configuration by far; keeps a wrong path (a trace, a device) from filling memory.
constexpr std::uintmax_t kLargestFile = 16U << 20U;

std::vector<std::string> shipped_names(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
        if (entry.path().extension() == ".json") {
            names.push_back(entry.path().stem().string());
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string read_text(const fs::path& file) {
    std::error_code error;
    if (!fs::exists(file, error)) {
        throw InputError(file.string(), "no such file");
    }
    if (!fs::is_regular_file(file, error)) {
        throw InputError(file.string(), "not a regular file");
    }
    const std::uintmax_t size = fs::file_size(file, error);
    if (error || size > kLargestFile) {
        throw InputError(file.string(), fmt::format("found {} bytes, allowed: at most {} for a JSON configuration",
                                                    error ? 0 : size, kLargestFile));
    }
    std::ifstream stream(file, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (!stream) {
        throw InputError(file.string(), "cannot be read");
    }
    return text;
}

// The parser's own text without its "[json.exception...]" tag.
std::string without_tag(const std::string& message) {
    const std::size_t end = message.find("] ");
    return end == std::string::npos ? message : message.substr(end + 2);
}

// Refuses a key that stands twice in one object, which the parser would silently merge, and nesting that would take
// more stack than there is wherever the values are walked.
class StrictEvents {
public:
    explicit StrictEvents(const fs::path& file) : file_(file) {}

    bool operator()(int depth, json::parse_event_t event, json& parsed) {
        constexpr int kDeepest = 64;
        if (depth > kDeepest) {
            throw InputError(file_.string(), fmt::format("nested more than {} deep", kDeepest));
        }
        if (event == json::parse_event_t::object_start) {
            keys_.emplace_back();
        } else if (event == json::parse_event_t::object_end) {
            keys_.pop_back();
        } else if (event == json::parse_event_t::key) {
            const auto& key = parsed.get_ref<const std::string&>();
            if (!keys_.back().insert(key).second) {
                throw InputError(file_.string(), fmt::format("key \"{}\" stands twice in one object", key));
            }
        }
        return true;
    }

private:
    fs::path file_;
    std::vector<std::set<std::string>> keys_;
};

// `Infinity` outside strings becomes a number of as many characters, so that places in messages stay right.
std::string with_largest_number(std::string text) {
    constexpr std::string_view kInfinity = "Infinity";
    constexpr std::string_view kLargest = "1e308   ";
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (inside && text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            inside = !inside;
        } else if (!inside && text.compare(i, kInfinity.size(), kInfinity) == 0) {
            text.replace(i, kInfinity.size(), kLargest);
        }
    }
    return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

[[noreturn]] void refuse(const json& value, const std::string& where, const std::string& allowed) {
    throw InputError(where, fmt::format("found {}, allowed: {}", shown(value), allowed));
}

}  // namespace

fs::path configs_directory() {
    if (const char* chosen = std::getenv("SLUICE_CONFIGS"); chosen != nullptr && *chosen != '\0') {
        if (!fs::is_directory(chosen)) {
            throw InputError("SLUICE_CONFIGS", fmt::format("found \"{}\", allowed: a folder", chosen));
        }
        // A path that a chip file gives (of a memory) is relative to that file: the chain must not begin anew.
        return fs::absolute(chosen);
    }
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const fs::path& candidate :
         {program / "../configs", program / "../share/sluice/configs", fs::path(SLUICE_SOURCE_CONFIGS)}) {
        if (fs::is_directory(candidate / "chips", ignored)) {
            return candidate.lexically_normal();
        }
    }
    throw InputError("configs", "the folder with chips/ and energy/ was not found; set SLUICE_CONFIGS");
}

fs::path find_config(const fs::path& configs, const std::string& folder, const std::string& name_or_path) {
    fs::path as_path(name_or_path);
    if (name_or_path.find('/') != std::string::npos || as_path.extension() == ".json") {
        return as_path;
    }
    fs::path file = configs / folder / (name_or_path + ".json");
    std::error_code ignored;
    if (name_or_path.empty() || !fs::exists(file, ignored)) {
        const std::vector<std::string> names = shipped_names(configs / folder);
        throw InputError(folder, fmt::format("found \"{}\", allowed: a path of a .json file, or one of {}{}",
                                             name_or_path, joined(names), did_you_mean(name_or_path, names)));
    }
    return file;
}

json read_json_file(const fs::path& file, Numbers numbers) {
    std::string text = read_text(file);
    if (numbers == Numbers::or_infinity) {
        text = with_largest_number(std::move(text));
    }
    try {
        return json::parse(text, StrictEvents(file));
    } catch (const json::exception& error) {
        throw InputError(file.string(), "not valid JSON: " + without_tag(error.what()));
    }
}

std::int64_t require_integer(const json& value, const std::string& where, std::int64_t lowest, std::int64_t highest) {
    const std::string allowed =
        lowest == highest ? fmt::format("{}", lowest) : fmt::format("an integer from {} to {}", lowest, highest);
    // Beyond 2^53 a double no longer names one integer.
    constexpr double kExact = 9007199254740992.0;
    std::int64_t number = 0;
    if (value.is_number_unsigned()) {
        const auto found = value.get<std::uint64_t>();
        if (found > static_cast<std::uint64_t>(INT64_MAX)) {
            refuse(value, where, allowed);
        }
        number = static_cast<std::int64_t>(found);
    } else if (value.is_number_integer()) {
        number = value.get<std::int64_t>();
    } else if (value.is_number_float() && std::abs(value.get<double>()) <= kExact &&
               std::trunc(value.get<double>()) == value.get<double>()) {
        number = static_cast<std::int64_t>(value.get<double>());
    } else {
        refuse(value, where, allowed);
    }
    if (number < lowest || number > highest) {
        refuse(value, where, allowed);
    }
    return number;
}

double require_number(const json& value, const std::string& where, double lowest, double highest) {
    if (!value.is_number() || !(value.get<double>() >= lowest && value.get<double>() <= highest)) {
        refuse(value, where, fmt::format("a number from {} to {}", lowest, highest));
    }
    return value.get<double>();
}

bool require_bool(const json& value, const std::string& where) {
    if (!value.is_boolean()) {
        refuse(value, where, "true or false");
    }
    return value.get<bool>();
}

std::string require_string(const json& value, const std::string& where) {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
        refuse(value, where, "a string that is not empty");
    }
    return value.get<std::string>();
}

const json& require_object(const json& value, const std::string& where) {
    if (!value.is_object()) {
        refuse(value, where, "an object");
    }
    return value;
}

std::string shown(const json& value) {
    constexpr std::size_t kLongest = 40;
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > kLongest) {
        text = text.substr(0, kLongest - 3) + "...";
    }
    return text;
}

std::string did_you_mean(std::string_view found, const std::vector<std::string>& known) {
    constexpr std::size_t kLongestKey = 100;
    if (found.size() > kLongestKey) {
        return "";
    }
    const std::string* best = nullptr;
    std::size_t best_distance = std::max<std::size_t>(2, found.size() / 3) + 1;
    for (const std::string& candidate : known) {
        // "tile.tsram.bytes" for "tsram.bytes" and "bytes" for neither: a whole path inside the other is near.
        const bool contained = found.size() > candidate.size() && found.ends_with("." + candidate);
        const std::size_t distance = contained ? 1 : edit_distance(found, candidate);
        if (distance < best_distance) {
            best_distance = distance;
            best = &candidate;
        }
    }
    return best == nullptr ? "" : fmt::format("; did you mean \"{}\"?", *best);
}

std::string joined(const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
}

const json& read_leaf(const json& leaf, const std::string& where, const std::string& file_name,
                      Provenance& provenance) {
    if (!leaf.is_object()) {
        provenance = {"user", file_name};
        return leaf;
    }
    static const std::vector<std::string> kKeys = {"value", "status", "source"};
    static const std::vector<std::string> kStatuses = {"published", "derived", "assumed", "user"};
    for (const auto& [key, ignored] : leaf.items()) {
        if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
            throw InputError(where + "." + key,
                             fmt::format("unknown key; allowed: {}{}", joined(kKeys), did_you_mean(key, kKeys)));
        }
    }
    for (const std::string& key : kKeys) {
        if (!leaf.contains(key)) {
            throw InputError(where + "." + key, "missing; a value carries value, status and source");
        }
    }
    provenance.status = require_string(leaf["status"], where + ".status");
    if (std::find(kStatuses.begin(), kStatuses.end(), provenance.status) == kStatuses.end()) {
        refuse(leaf["status"], where + ".status", joined(kStatuses));
    }
    provenance.source = require_string(leaf["source"], where + ".source");
    return leaf["value"];
}

}  // namespace sluice::isa
