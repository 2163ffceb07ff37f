// SPDX-License-Identifier: Apache-2.0
#include "isa/chip_spec_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "isa/chip_spec_fields.hpp"
#include "isa/errors.hpp"
#include "isa/memory_reader.hpp"
#include "isa/set_value.hpp"

namespace sluice::isa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A field's value before it is checked against the table.
struct RawValue {
    json value;
    Provenance provenance;
    std::string where;  ///< "configs/chips/a.json: ttu.contexts" or "--set ttu.contexts"
};

/// A chip file and its bases, laid over one another.
struct RawChip {
    std::string name;
    std::string description;
    std::map<std::string, RawValue> values;
    json rules;  ///< of the memory: its table of constraints and what its commands occupy
    std::string rules_file;
};

const std::map<std::string, FieldDescription>& fields_by_path() {
    static const std::map<std::string, FieldDescription> kFields = [] {
        std::map<std::string, FieldDescription> fields;
        for (const FieldDescription& field : chip_fields()) {
            fields.emplace(field.path, field);
        }
        return fields;
    }();
    return kFields;
}

std::vector<std::string> all_paths() {
    std::vector<std::string> paths;
    for (const auto& [path, ignored] : fields_by_path()) {
        paths.push_back(path);
    }
    return paths;
}

bool is_group(const std::string& path) {
    const auto next = fields_by_path().lower_bound(path + ".");
    return next != fields_by_path().end() && next->first.starts_with(path + ".");
}

// ---- files --------------------------------------------------------------------------------------------------------

void read_group(const json& object, const std::string& prefix, const fs::path& file, RawChip& chip) {
    for (const auto& [key, value] : object.items()) {
        const std::string path = prefix.empty() ? key : prefix + "." + key;
        const std::string where = file.string() + ": " + path;
        if (prefix.empty() && (key == "base" || key == "name" || key == "description")) {
            continue;
        }
        if (fields_by_path().contains(path)) {
            RawValue raw;
            raw.value = read_leaf(value, where, file.filename().string(), raw.provenance);
            raw.where = where;
            chip.values[path] = std::move(raw);
        } else if (is_group(path)) {
            read_group(require_object(value, where), path, file, chip);
        } else {
            throw InputError(
                file.string() + ": " + shown(json(path)),
                "unknown key; `sluice show chip maia200` lists what is allowed" + did_you_mean(path, all_paths()));
        }
    }
}

fs::path find_base(const std::string& base, const fs::path& file, const fs::path& configs) {
    const fs::path found = find_config(configs, "chips", base);
    const bool by_path = base.find('/') != std::string::npos || fs::path(base).extension() == ".json";
    return by_path && found.is_relative() ? file.parent_path() / found : found;
}

fs::path find_memory(const std::string& name, const fs::path& file, const std::string& where, const fs::path& configs) {
    try {
        const fs::path memory = find_config(configs, "memories", name);
        return memory.is_relative() && !file.empty() ? file.parent_path() / memory : memory;
    } catch (const InputError& error) {
        throw InputError(where, error.what());
    }
}

/// What a memory says; the rest of "hbm" is the chip's.
bool is_of_memory(const std::string& path) {
    static const std::set<std::string> kOrganisation = {"hbm.channels_per_stack",
                                                        "hbm.pseudo_channels",
                                                        "hbm.bank_groups",
                                                        "hbm.banks_per_group",
                                                        "hbm.ranks",
                                                        "hbm.rows",
                                                        "hbm.row_bytes",
                                                        "hbm.burst_bytes",
                                                        "hbm.pseudo_channel_bits",
                                                        "hbm.bits_per_second_per_pin",
                                                        "hbm.transfers_per_ck"};
    return path.starts_with("hbm.timing.") || kOrganisation.contains(path);
}

// A memory file gives leaves of "hbm", which the chip's own lie over, and the table of constraints. It may be based on
// another.
void read_memory_file(const fs::path& memory, const fs::path& configs, std::vector<fs::path>& chain, RawChip& chip) {
    const std::string where = memory.string();
    std::error_code ignored;
    const fs::path canonical = fs::weakly_canonical(memory, ignored);
    if (std::find(chain.begin(), chain.end(), canonical) != chain.end()) {
        throw InputError(where + ": base", "the memory is based on itself");
    }
    constexpr std::size_t kLongest = 16;
    if (chain.size() == kLongest) {
        throw InputError(where + ": base", fmt::format("more than {} memories are based on each other", kLongest));
    }
    chain.push_back(canonical);
    const json parsed = read_json_file(memory);
    const json& object = require_object(parsed, where);
    if (object.contains("base")) {
        const std::string base = require_string(object["base"], where + ": base");
        read_memory_file(find_memory(base, memory, where + ": base", configs), configs, chain, chip);
    }
    static const std::set<std::string> kKeys = {"base",        "name", "description", "row_bus_half_clocks",
                                                "constraints", "hbm"};
    for (const auto& [key, value] : object.items()) {
        if (!kKeys.contains(key)) {
            throw InputError(where + ": " + key, "unknown key, allowed: " + joined({kKeys.begin(), kKeys.end()}));
        }
        if (key == "hbm") {
            if (require_object(value, where + ": hbm").contains("memory")) {
                throw InputError(where + ": hbm.memory", "a memory names no other; \"base\" does");
            }
            read_group(value, "hbm", memory, chip);
        } else if (key == "constraints" || key == "row_bus_half_clocks") {
            chip.rules[key] = value;
            chip.rules_file = where;
        }
    }
}

// Takes the place of any memory before it: what it leaves out is missing.
void read_memory(const fs::path& memory, const fs::path& configs, RawChip& chip) {
    std::erase_if(chip.values, [](const auto& entry) { return is_of_memory(entry.first); });
    chip.rules = json::object();
    chip.rules_file = memory.string();
    std::vector<fs::path> chain;
    read_memory_file(memory, configs, chain, chip);
    for (const std::string& path : all_paths()) {
        if (is_of_memory(path) && !chip.values.contains(path)) {
            throw InputError(memory.string() + ": " + path, "missing; a memory without \"base\" gives every field");
        }
    }
}

void read_file(const fs::path& file, const fs::path& configs, std::vector<fs::path>& chain, RawChip& chip) {
    std::error_code ignored;
    const fs::path canonical = fs::weakly_canonical(file, ignored);
    if (std::find(chain.begin(), chain.end(), canonical) != chain.end()) {
        throw InputError(file.string() + ": base", "the chip is based on itself");
    }
    chain.push_back(canonical);
    const json parsed = read_json_file(file);
    const json& object = require_object(parsed, file.string());
    if (object.contains("base")) {
        const std::string where = file.string() + ": base";
        const std::string base = require_string(object["base"], where);
        fs::path base_file;
        try {
            base_file = find_base(base, file, configs);
        } catch (const InputError& error) {
            throw InputError(where, error.what());
        }
        read_file(base_file, configs, chain, chip);
    }
    chip.name =
        object.contains("name") ? require_string(object["name"], file.string() + ": name") : file.stem().string();
    if (object.contains("description")) {
        chip.description = require_string(object["description"], file.string() + ": description");
    }
    if (object.contains("hbm") && object["hbm"].is_object() && object["hbm"].contains("memory")) {
        const std::string where = file.string() + ": hbm.memory";
        Provenance ignored_provenance;
        const json& name = read_leaf(object["hbm"]["memory"], where, file.filename().string(), ignored_provenance);
        read_memory(find_memory(require_string(name, where), file, where, configs), configs, chip);
    }
    read_group(object, "", file, chip);
}

// ---- --set --------------------------------------------------------------------------------------------------------

// "tile.tsram.bytes" and "chip.tile.tsram.bytes" are "tsram.bytes": the position of a part may be spelled out.
std::string without_position(std::string path) {
    static const std::map<std::string, std::set<std::string>> kParts = {
        {"tile", {"ttu", "tvp", "reshaper", "tsram", "tdma"}}, {"cluster", {"csram", "cdma", "noc"}}};
    if (path.starts_with("chip.")) {
        path.erase(0, 5);
    }
    const std::string position = path.substr(0, path.find('.'));
    const auto parts = kParts.find(position);
    if (parts != kParts.end()) {
        std::string rest = path.substr(std::min(position.size() + 1, path.size()));
        if (parts->second.contains(rest.substr(0, rest.find('.')))) {
            return rest;
        }
    }
    return path;
}

void apply_set(const std::string& set, RawChip& chip) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == set.size()) {
        throw InputError("--set", fmt::format("found {}, allowed: path=value, as in ttu.contexts=4", shown(json(set))));
    }
    const std::string path = without_position(set.substr(0, equals));
    const std::string where = "--set " + path;
    const auto field = fields_by_path().find(path);
    if (field == fields_by_path().end()) {
        throw InputError("--set " + shown(json(path)), "unknown key; `sluice show chip maia200` lists what is allowed" +
                                                           did_you_mean(path, all_paths()));
    }
    RawValue raw;
    raw.value = parse_set_value(field->second, set.substr(equals + 1), where);
    raw.provenance = {"user", "--set"};
    raw.where = where;
    chip.values[path] = std::move(raw);
}

// Another memory replaces all that the files say of it, whatever the order of the overrides.
void apply_memory_set(const std::vector<std::string>& sets, const fs::path& configs, RawChip& chip) {
    const std::string key = "hbm.memory=";
    for (const std::string& set : sets) {
        const std::size_t equals = set.find('=');
        if (equals != std::string::npos && without_position(set.substr(0, equals)) + "=" == key) {
            read_memory(find_memory(set.substr(equals + 1), {}, "--set hbm.memory", configs), configs, chip);
        }
    }
}

// ---- from raw values to the struct ----------------------------------------------------------------------------------

/// Visits the table: lists the fields.
struct Lister {
    std::vector<FieldDescription>& fields;

    void operator()(const IntegerField& field, const std::int64_t& /*member*/) const {
        fields.push_back({std::string(field.path), std::string(field.unit),
                          fmt::format("an integer from {} to {}", field.lowest, field.highest),
                          std::string(field.description)});
    }
    void operator()(const TextField& field, const std::string& /*member*/) const {
        fields.push_back({std::string(field.path), "", field.allowed.empty() ? "text" : joined(field.allowed),
                          std::string(field.description)});
    }
};

/// Visits the table: fills the members.
struct Filler {
    const RawChip& chip;

    void operator()(const IntegerField& field, std::int64_t& member) const {
        const RawValue& raw = chip.values.at(std::string(field.path));
        member = require_integer(raw.value, raw.where, field.lowest, field.highest);
    }
    void operator()(const TextField& field, std::string& member) const {
        const RawValue& raw = chip.values.at(std::string(field.path));
        member = require_string(raw.value, raw.where);
        if (!field.allowed.empty() &&
            std::find(field.allowed.begin(), field.allowed.end(), member) == field.allowed.end()) {
            throw InputError(raw.where, fmt::format("found {}, allowed: {}{}", shown(raw.value), joined(field.allowed),
                                                    did_you_mean(member, field.allowed)));
        }
    }
};

/// Visits the table: writes the members as JSON.
class Writer {
public:
    Writer(const RawChip& chip, json& values) : chip_(chip), values_(values) {}

    void operator()(const IntegerField& field, const std::int64_t& member) const {
        write(std::string(field.path), member);
    }
    void operator()(const TextField& field, const std::string& member) const { write(std::string(field.path), member); }

private:
    template <class Member>
    void write(const std::string& path, const Member& member) const {
        const RawValue& raw = chip_.values.at(path);
        const FieldDescription& described = fields_by_path().at(path);
        values_[path] = {{"value", member},
                         {"status", raw.provenance.status},
                         {"source", raw.provenance.source},
                         {"unit", described.unit},
                         {"description", described.description}};
    }

    const RawChip& chip_;
    json& values_;
};

AddressMapSpec read_map(const RawChip& chip, const fs::path& file, const fs::path& configs, const HbmSpec& hbm) {
    const RawValue& raw = chip.values.at("hbm.address_map");
    fs::path map;
    try {
        map = find_config(configs, "address_maps", hbm.address_map);
    } catch (const InputError& error) {
        throw InputError(raw.where, error.what());
    }
    const bool of_file = map.is_relative() && raw.provenance.status != "user";
    return read_address_map(of_file ? file.parent_path() / map : map, hbm);
}

void check_complete(const RawChip& chip, const fs::path& file) {
    std::vector<std::string> missing;
    for (const std::string& path : all_paths()) {
        if (!chip.values.contains(path)) {
            missing.push_back(path);
        }
    }
    if (chip.description.empty()) {
        missing.emplace_back("description");
    }
    if (!missing.empty()) {
        throw InputError(
            file.string() + ": " + missing.front(),
            fmt::format("missing ({} missing in all); a file without \"base\" gives every field", missing.size()));
    }
}

/// What the files say together, checked. `raw` has been completed.
void resolve(const RawChip& raw, const fs::path& file, const fs::path& configs, ResolvedChip& resolved) {
    resolved.spec.name = raw.name;
    resolved.spec.description = raw.description;
    describe(Filler{raw}, resolved.spec);
    resolved.spec.hbm.rules = read_dram_rules(raw.rules, raw.rules_file, [&raw](const std::string& parameter) {
        const auto found = raw.values.find("hbm.timing." + parameter);
        return found == raw.values.end() ? nullptr : found->second.value.get_ptr<const std::int64_t*>();
    });
    check_chip(resolved.spec, [&raw](const std::string& path) { return raw.values.at(path).where; });
    resolved.spec.hbm.map = read_map(raw, file, configs, resolved.spec.hbm);
    resolved.values = json::object();
    describe(Writer(raw, resolved.values), resolved.spec);
}

}  // namespace

std::vector<FieldDescription> chip_fields() {
    std::vector<FieldDescription> fields;
    ChipSpec nothing;
    describe(Lister{fields}, nothing);
    return fields;
}

ResolvedChip read_chip(const std::string& name_or_path, const std::vector<std::string>& sets,
                       const std::filesystem::path& configs) {
    const fs::path file = find_config(configs, "chips", name_or_path);
    RawChip raw;
    std::vector<fs::path> chain;
    read_file(file, configs, chain, raw);
    apply_memory_set(sets, configs, raw);
    for (const std::string& set : sets) {
        apply_set(set, raw);
    }
    check_complete(raw, file);

    ResolvedChip resolved;
    try {
        resolve(raw, file, configs, resolved);
    } catch (const InputError& error) {
        // A file that is right by itself may be named for what no longer goes with it.
        if (sets.empty() || std::string_view(error.what()).starts_with("--set")) {
            throw;
        }
        throw InputError("", fmt::format("{} (after --set {})", error.what(), fmt::join(sets, ", --set ")));
    }
    return resolved;
}

json derived(const ChipSpec& chip) {
    json peaks;
    json ridges;
    for (const TensorRate rate : {TensorRate::fp4, TensorRate::fp6, TensorRate::fp8, TensorRate::bf16}) {
        const std::string key(name(rate));
        peaks[key] = peak_flops(chip, rate) / 1e12;
        ridges[key] = peak_flops(chip, rate) / hbm_bytes_per_second(chip);
    }
    const auto hertz = static_cast<double>(chip.clock.core_hz);
    const std::int64_t physical_tiles = chip.soc.clusters * chip.soc.tiles_per_cluster_physical;
    const std::int64_t csram = chip.soc.clusters * chip.csram.bytes;
    const auto tsram_width = static_cast<double>(tile_count(chip) * chip.tsram.banks * chip.tsram.bank_bytes_per_cycle);
    return {{"tiles", tile_count(chip)},
            {"peak_tflops", peaks},
            {"ridge_flop_per_byte", ridges},
            {"tsram_tbps", tsram_width * hertz / 1e12},
            {"sram_bytes",
             {{"usable", tile_count(chip) * chip.tsram.bytes + csram},
              {"physical", physical_tiles * chip.tsram.bytes + csram}}},
            {"hbm_bytes", hbm_bytes(chip)},
            {"hbm_tbps", hbm_bytes_per_second(chip) / 1e12},
            {"hbm_bytes_per_cycle", hbm_bytes_per_cycle(chip)}};
}

}  // namespace sluice::isa
