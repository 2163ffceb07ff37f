// SPDX-License-Identifier: Apache-2.0
#include "isa/chip_spec_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "isa/chip_spec_fields.hpp"
#include "isa/errors.hpp"
#include "isa/memory_reader.hpp"

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
    json memory;  ///< the memory file, for its table of constraints
    std::string memory_file;
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

// A memory file gives leaves of "hbm", which the chip's own lie over, and the table of constraints.
void read_memory(const std::string& name, const fs::path& file, const std::string& where, const fs::path& configs,
                 RawChip& chip) {
    fs::path memory;
    try {
        memory = find_config(configs, "memories", name);
    } catch (const InputError& error) {
        throw InputError(where, error.what());
    }
    memory = memory.is_relative() && !file.empty() ? file.parent_path() / memory : memory;
    chip.memory = read_json_file(memory);
    chip.memory_file = memory.string();
    for (const auto& [key, value] : require_object(chip.memory, memory.string()).items()) {
        if (key == "hbm") {
            read_group(require_object(value, memory.string() + ": hbm"), "hbm", memory, chip);
        } else if (key != "name" && key != "description" && key != "constraints" && key != "row_bus_half_clocks") {
            throw InputError(memory.string() + ": " + key,
                             "unknown key, allowed: name, description, hbm, row_bus_half_clocks, constraints");
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
        read_memory(require_string(name, where), file, where, configs, chip);
    }
    read_group(object, "", file, chip);
}

// ---- --set --------------------------------------------------------------------------------------------------------

struct Unit {
    std::string_view field_unit;
    std::string_view suffix;
    std::int64_t factor;
};
constexpr std::array<Unit, 22> kUnits{{
    {"B", "B", 1},
    {"B", "KiB", 1 << 10},
    {"B", "MiB", 1 << 20},
    {"B", "GiB", 1 << 30},
    {"B/cycle", "B/cycle", 1},
    {"Hz", "Hz", 1},
    {"Hz", "kHz", 1'000},
    {"Hz", "MHz", 1'000'000},
    {"Hz", "GHz", 1'000'000'000},
    {"bit/s", "bit/s", 1},
    {"bit/s", "Mbit/s", 1'000'000},
    {"bit/s", "Gbit/s", 1'000'000'000},
    {"B/s", "B/s", 1},
    {"B/s", "MB/s", 1'000'000},
    {"B/s", "GB/s", 1'000'000'000},
    {"ps", "ps", 1},
    {"ps", "ns", 1'000},
    {"um", "um", 1},
    {"um", "mm", 1'000},
    {"mW", "mW", 1},
    {"mW", "W", 1'000},
    {"mV", "mV", 1},
}};

std::string units_of(const std::string& field_unit) {
    std::vector<std::string> names;
    for (const Unit& unit : kUnits) {
        if (unit.field_unit == field_unit) {
            names.emplace_back(unit.suffix);
        }
    }
    return names.empty() ? "" : " with one of the units " + joined(names) + ", or none";
}

// "2.15" * 10^9 without rounding; nothing if it is not a whole number of units or does not fit.
std::optional<std::int64_t> scaled(std::string_view number, std::int64_t factor) {
    const std::size_t point = number.find('.');
    std::string digits(number);
    std::int64_t divisor = 1;
    if (point != std::string_view::npos) {
        digits.erase(point, 1);
        for (std::size_t i = point + 1; i < number.size(); ++i) {
            if (__builtin_mul_overflow(divisor, std::int64_t{10}, &divisor)) {
                return std::nullopt;
            }
        }
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || __builtin_mul_overflow(value, factor, &value) ||
        value % divisor != 0) {
        return std::nullopt;
    }
    return value / divisor;
}

json parse_set_value(const FieldDescription& field, const std::string& text, const std::string& where) {
    if (field.unit.empty() && !field.allowed.starts_with("an integer")) {
        return text;
    }
    const std::size_t number_end = std::min(text.find_first_not_of("+-.0123456789"), text.size());
    std::string_view suffix(text);
    suffix.remove_prefix(std::min(text.find_first_not_of(' ', number_end), text.size()));
    std::int64_t factor = suffix.empty() ? 1 : 0;
    for (const Unit& unit : kUnits) {
        if (unit.field_unit == field.unit && unit.suffix == suffix) {
            factor = unit.factor;
        }
    }
    const std::optional<std::int64_t> value = scaled(std::string_view(text).substr(0, number_end), factor);
    if (factor == 0 || number_end == 0 || !value) {
        throw InputError(
            where, fmt::format("found {}, allowed: {}{}", shown(json(text)), field.allowed, units_of(field.unit)));
    }
    return *value;
}

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
            read_memory(set.substr(equals + 1), {}, "--set hbm.memory", configs, chip);
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

// ---- what must fit together -----------------------------------------------------------------------------------------

class Checker {
public:
    Checker(const ChipSpec& chip, const std::function<std::string(const std::string&)>& origin)
        : chip_(chip), origin_(origin) {}

    void check_all() const {
        check_soc();
        check_engines();
        check_sram("tsram", chip_.tsram.bytes, chip_.tsram.banks, chip_.tsram.bank_bytes_per_cycle);
        check_sram("csram", chip_.csram.bytes, chip_.csram.banks, chip_.csram.bank_bytes_per_cycle);
        check_packets();
        check_hbm_geometry();
        check_hbm_timing();
    }

private:
    void require(bool holds, const std::string& path, std::int64_t found, const std::string& allowed) const {
        if (!holds) {
            throw InputError(origin_(path), fmt::format("found {}, allowed: {}", found, allowed));
        }
    }

    void check_soc() const {
        const SocSpec& soc = chip_.soc;
        require(soc.tiles_per_cluster <= soc.tiles_per_cluster_physical, "soc.tiles_per_cluster", soc.tiles_per_cluster,
                fmt::format("at most soc.tiles_per_cluster_physical ({})", soc.tiles_per_cluster_physical));
        require(
            soc.disabled_slot <= soc.tiles_per_cluster, "soc.disabled_slot", soc.disabled_slot,
            fmt::format("at most soc.tiles_per_cluster ({}), so that all disabled slots exist", soc.tiles_per_cluster));
        // Addresses keep 8 bits for the unit.
        require(tile_count(chip_) <= 256, "soc.clusters", soc.clusters,
                fmt::format("at most 256 tiles on a chip, and there are {} in a cluster", soc.tiles_per_cluster));
    }

    void check_engines() const {
        const TtuSpec& ttu = chip_.ttu;
        for (const auto& [path, k] : {std::pair{"ttu.k_per_cycle_fp4", ttu.k_per_cycle_fp4},
                                      std::pair{"ttu.k_per_cycle_fp6", ttu.k_per_cycle_fp6},
                                      std::pair{"ttu.k_per_cycle_fp8", ttu.k_per_cycle_fp8},
                                      std::pair{"ttu.k_per_cycle_bf16", ttu.k_per_cycle_bf16}}) {
            require(k % kBlockEdge == 0 || kBlockEdge % k == 0, path, k, "a divisor or a multiple of 32");
        }
        require(chip_.tvp.lanes_32b <= chip_.tvp.lanes_16b, "tvp.lanes_32b", chip_.tvp.lanes_32b,
                fmt::format("at most tvp.lanes_16b ({})", chip_.tvp.lanes_16b));
    }

    void check_sram(const std::string& name, std::int64_t bytes, std::int64_t banks, std::int64_t width) const {
        require(width % static_cast<std::int64_t>(kBeatBytes) == 0, name + ".bank_bytes_per_cycle", width,
                "a multiple of 32");
        require(bytes % (banks * width) == 0, name + ".bytes", bytes,
                fmt::format("a multiple of {0}.banks x {0}.bank_bytes_per_cycle ({1})", name, banks * width));
    }

    void check_packets() const {
        const std::int64_t packet = chip_.noc.packet_bytes;
        require(packet == chip_.hbm.granule_bytes, "noc.packet_bytes", packet,
                fmt::format("hbm.granule_bytes ({}), for a packet never crosses a granule", chip_.hbm.granule_bytes));
        require(chip_.tdma.max_inflight_bytes >= packet, "tdma.max_inflight_bytes", chip_.tdma.max_inflight_bytes,
                fmt::format("at least noc.packet_bytes ({})", packet));
        require(chip_.cdma.max_inflight_bytes >= packet, "cdma.max_inflight_bytes", chip_.cdma.max_inflight_bytes,
                fmt::format("at least noc.packet_bytes ({})", packet));
        const TsramSpec& tsram = chip_.tsram;
        require(tsram.output_region_bytes <= tsram.bytes, "tsram.output_region_bytes", tsram.output_region_bytes,
                fmt::format("at most tsram.bytes ({})", tsram.bytes));
        require(tsram.output_region_bytes % 4'096 == 0, "tsram.output_region_bytes", tsram.output_region_bytes,
                "a multiple of 4096, a 32 x 32 block of FP32");
    }

    void check_hbm_geometry() const {
        const HbmSpec& hbm = chip_.hbm;
        require(8 * hbm.burst_bytes == hbm.pseudo_channel_bits * hbm.transfers_per_ck * hbm.timing.nbl,
                "hbm.pseudo_channel_bits", hbm.pseudo_channel_bits,
                fmt::format("pins that carry {} bits in hbm.timing.nbl ({}) CK of {} transfers", 8 * hbm.burst_bytes,
                            hbm.timing.nbl, hbm.transfers_per_ck));
        require(hbm.granule_bytes % hbm.burst_bytes == 0, "hbm.granule_bytes", hbm.granule_bytes,
                fmt::format("a multiple of a burst ({})", hbm.burst_bytes));
        require(hbm.row_bytes % hbm.burst_bytes == 0, "hbm.row_bytes", hbm.row_bytes,
                fmt::format("a multiple of a burst ({})", hbm.burst_bytes));
        require(hbm.granule_bytes / hbm.burst_bytes <= 255, "hbm.granule_bytes", hbm.granule_bytes,
                fmt::format("at most 255 bursts of {}", hbm.burst_bytes));
        // The memory model keeps sets of banks in 64 bits.
        require(hbm.bank_groups * hbm.banks_per_group * hbm.ranks <= 64, "hbm.banks_per_group", hbm.banks_per_group,
                fmt::format("at most 64 banks in a pseudo-channel, over hbm.bank_groups ({}) and hbm.ranks ({})",
                            hbm.bank_groups, hbm.ranks));
        require(hbm.stacks * hbm.channels_per_stack * hbm.pseudo_channels <= 65'535, "hbm.stacks", hbm.stacks,
                "65535 pseudo-channels in all");
        constexpr Bytes kAddressable = Bytes{1} << 40;
        require(hbm_bytes(chip_) <= kAddressable, "hbm.rows", hbm.rows,
                fmt::format("2^40 bytes in all, and there are {}", hbm_bytes(chip_)));
    }

    void check_hbm_timing() const {
        const HbmTimingSpec& timing = chip_.hbm.timing;
        const auto at_least = [this](const char* path, std::int64_t value, const char* other, std::int64_t bound) {
            require(value >= bound, fmt::format("hbm.timing.{}", path), value,
                    fmt::format("at least hbm.timing.{} ({})", other, bound));
        };
        at_least("nrc", timing.nrc, "nras", timing.nras);
        at_least("nccdl", timing.nccdl, "nccds", timing.nccds);
        at_least("nrrdl", timing.nrrdl, "nrrds", timing.nrrds);
        at_least("nfaw", timing.nfaw, "nrrds", timing.nrrds);
        at_least("nwtrl", timing.nwtrl, "nwtrs", timing.nwtrs);
        at_least("nccds", timing.nccds, "nbl", timing.nbl);
        check_controller();
        check_refresh();
    }

    void check_controller() const {
        const HbmSpec& hbm = chip_.hbm;
        require(hbm.write_high <= hbm.write_queue, "hbm.write_high", hbm.write_high,
                fmt::format("at most hbm.write_queue ({})", hbm.write_queue));
        require(hbm.write_low < hbm.write_high, "hbm.write_low", hbm.write_low,
                fmt::format("less than hbm.write_high ({})", hbm.write_high));
    }

    void check_refresh() const {
        const HbmSpec& hbm = chip_.hbm;
        const std::int64_t banks = hbm.ranks * hbm.bank_groups * hbm.banks_per_group;
        const std::int64_t interval = hbm.timing.nrefi;
        if (hbm.refresh == "all_bank") {
            require(interval > hbm.timing.nrfc + hbm.timing.nrp, "hbm.timing.nrefi", interval,
                    fmt::format("more than nrfc + nrp ({}), or nothing but refresh happens",
                                hbm.timing.nrfc + hbm.timing.nrp));
        } else if (hbm.refresh == "per_bank") {
            const std::int64_t needed = std::max(banks * hbm.timing.nrrefd, hbm.timing.nrfcpb + hbm.timing.nrp);
            require(interval > needed, "hbm.timing.nrefi", interval,
                    fmt::format("more than {}: {} banks x nrrefd, and nrfcpb + nrp", needed, banks));
        }
    }

    const ChipSpec& chip_;
    const std::function<std::string(const std::string&)>& origin_;
};

}  // namespace

std::vector<FieldDescription> chip_fields() {
    std::vector<FieldDescription> fields;
    ChipSpec nothing;
    describe(Lister{fields}, nothing);
    return fields;
}

void check_chip(const ChipSpec& chip, const std::function<std::string(const std::string&)>& origin) {
    Checker(chip, origin).check_all();
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
    resolved.spec.name = raw.name;
    resolved.spec.description = raw.description;
    describe(Filler{raw}, resolved.spec);
    resolved.spec.hbm.rules = read_dram_rules(raw.memory, raw.memory_file, [&raw](const std::string& parameter) {
        const auto found = raw.values.find("hbm.timing." + parameter);
        return found == raw.values.end() ? nullptr : found->second.value.get_ptr<const std::int64_t*>();
    });
    check_chip(resolved.spec, [&raw](const std::string& path) { return raw.values.at(path).where; });
    resolved.spec.hbm.map = read_map(raw, file, configs, resolved.spec.hbm);
    resolved.values = json::object();
    describe(Writer(raw, resolved.values), resolved.spec);
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
