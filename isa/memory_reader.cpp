// SPDX-License-Identifier: Apache-2.0
#include "isa/memory_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

using nlohmann::json;

const std::vector<std::string> kCommandNames = {"ACT", "PRE", "PREA", "RD", "WR", "REFpb", "REFab"};
const std::vector<std::string> kLevelNames = {"pseudo_channel", "rank", "bank_group", "bank"};
const std::vector<std::string> kFieldNames = {"group", "column", "pseudo_channel", "channel",
                                              "stack", "bank",   "rank",           "row"};

constexpr std::int64_t kLongestGap = 1'000'000;

template <class Enumeration>
Enumeration named(const json& value, const std::vector<std::string>& names, const std::string& where) {
    const std::string text = require_string(value, where);
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) {
        throw InputError(
            where, fmt::format("found {}, allowed: {}{}", shown(value), joined(names), did_you_mean(text, names)));
    }
    return static_cast<Enumeration>(found - names.begin());
}

void only_keys(const json& object, const std::vector<std::string>& keys, const std::string& where) {
    for (const auto& [key, ignored] : require_object(object, where).items()) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
            throw InputError(where + "." + key,
                             fmt::format("unknown key, allowed: {}{}", joined(keys), did_you_mean(key, keys)));
        }
    }
}

const json& needed(const json& object, const std::string& key, const std::string& where) {
    if (!object.contains(key)) {
        throw InputError(where + "." + key, "missing");
    }
    return object[key];
}

const json& require_list(const json& value, const std::string& where) {
    if (!value.is_array() || value.empty()) {
        throw InputError(where, fmt::format("found {}, allowed: a list that is not empty", shown(value)));
    }
    return value;
}

std::vector<DramCommand> commands(const json& value, const std::string& where) {
    std::vector<DramCommand> list;
    for (const json& one : value.is_array() ? value : json::array({value})) {
        list.push_back(named<DramCommand>(one, kCommandNames, where));
    }
    return list;
}

// "ncwl + nbl + nwtrs".
std::int64_t gap(const json& value, const std::string& where, const TimingLookup& timing) {
    std::string text = require_string(value, where);
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    std::int64_t sum = 0;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('+', at), text.size());
        const std::string parameter = text.substr(at, end - at);
        const std::int64_t* found = timing(parameter);
        if (found == nullptr) {
            throw InputError(where, fmt::format("\"{}\" in {} is no timing parameter; `sluice show chip` lists "
                                                "hbm.timing",
                                                parameter, shown(value)));
        }
        sum += *found;
        at = end + 1;
    }
    return sum;
}

void check_constraint(const DramConstraint& c, const std::string& where) {
    const bool from_column = c.from == DramCommand::read || c.from == DramCommand::write;
    const bool to_all = c.to == DramCommand::precharge_all || c.to == DramCommand::refresh_all;
    const bool from_all = c.from == DramCommand::precharge_all || c.from == DramCommand::refresh_all;
    if (c.count > 1 && (from_column || from_all)) {
        throw InputError(where + ".count", "windows are for ACT, PRE and REFpb");
    }
    if (c.others && c.level != DramLevel::rank) {
        throw InputError(where + ".others", "is for the level rank");
    }
    if ((to_all || from_all) && c.level != DramLevel::pseudo_channel) {
        throw InputError(where + ".level", "PREA and REFab belong to the whole pseudo_channel");
    }
}

void read_constraint(const json& entry, const std::string& where, const TimingLookup& timing, DramRules& rules) {
    only_keys(entry, {"level", "from", "to", "gap", "count", "others", "source"}, where);
    DramConstraint c;
    c.level = named<DramLevel>(needed(entry, "level", where), kLevelNames, where + ".level");
    c.gap = gap(needed(entry, "gap", where), where + ".gap", timing);
    if (c.gap > kLongestGap) {
        throw InputError(where + ".gap", fmt::format("is {} CK, allowed: at most {}", c.gap, kLongestGap));
    }
    c.count = entry.contains("count") ? require_integer(entry["count"], where + ".count", 1, 64) : 1;
    c.others = entry.contains("others") && require_bool(entry["others"], where + ".others");
    for (const DramCommand from : commands(needed(entry, "from", where), where + ".from")) {
        for (const DramCommand to : commands(needed(entry, "to", where), where + ".to")) {
            c.from = from;
            c.to = to;
            check_constraint(c, where);
            rules.constraints.push_back(c);
        }
    }
}

// ---- address maps ---------------------------------------------------------------------------------------------------

/// Reads digits from the lowest up, keeping what is left of every field.
class DigitReader {
public:
    DigitReader(const HbmSpec& hbm, std::string where) : hbm_(hbm), where_(std::move(where)) {
        for (std::size_t f = 0; f < kAddressFields; ++f) {
            left_[f] = field_range(hbm, static_cast<AddressField>(f));
        }
    }

    [[nodiscard]] std::vector<AddressDigit> read(const json& list) {
        std::vector<AddressDigit> digits;
        for (std::size_t i = 0; i < require_list(list, where_).size(); ++i) {
            digits.push_back(digit(list[i], fmt::format("{}[{}]", where_, i), digits));
        }
        for (std::size_t f = 0; f < kAddressFields; ++f) {
            if (left_[f] != 1) {
                throw InputError(where_,
                                 fmt::format("not one-to-one: {} of the {} values of {} are not reached", left_[f],
                                             field_range(hbm_, static_cast<AddressField>(f)), kFieldNames[f]));
            }
        }
        return digits;
    }

private:
    AddressDigit digit(const json& entry, const std::string& where, const std::vector<AddressDigit>& lower) {
        only_keys(entry, {"field", "radix"}, where);
        AddressDigit digit;
        digit.field = named<AddressField>(needed(entry, "field", where), kFieldNames, where + ".field");
        std::uint64_t& left = left_[static_cast<std::size_t>(digit.field)];
        const bool of_granule = entry.contains("radix") && entry["radix"] == "granule";
        if (!entry.contains("radix")) {
            digit.radix = left;
        } else if (of_granule) {
            digit.radix = granule_columns(where, digit.field, lower);
        } else {
            digit.radix =
                static_cast<std::uint64_t>(require_integer(entry["radix"], where + ".radix", 1, std::int64_t{1} << 30));
        }
        if (left % digit.radix != 0) {
            throw InputError(where + ".radix",
                             fmt::format("found {}{}, allowed: a divisor of {}, what is left of {}", digit.radix,
                                         of_granule ? " columns of hbm.granule_bytes" : "", left,
                                         kFieldNames[static_cast<std::size_t>(digit.field)]));
        }
        left /= digit.radix;
        return digit;
    }

    [[nodiscard]] std::uint64_t granule_columns(const std::string& where, AddressField field,
                                                const std::vector<AddressDigit>& lower) const {
        std::uint64_t below = 1;
        for (const AddressDigit& d : lower) {
            below *= d.radix;
        }
        const auto bursts = static_cast<std::uint64_t>(hbm_.granule_bytes / hbm_.burst_bytes);
        if (field != AddressField::column || bursts % below != 0) {
            throw InputError(where + ".radix",
                             fmt::format("\"granule\" is for the columns of a granule, above its bank groups, which "
                                         "must divide its {} bursts (hbm.granule_bytes)",
                                         bursts));
        }
        return bursts / below;
    }

    const HbmSpec& hbm_;
    std::string where_;
    std::array<std::uint64_t, kAddressFields> left_{};
};

// A granule is one request to the memory: a row of one bank, or of neighbouring bank groups in turn.
void check_granule(const std::vector<AddressDigit>& digits, const HbmSpec& hbm, const std::string& where) {
    const auto bursts = static_cast<std::uint64_t>(hbm.granule_bytes / hbm.burst_bytes);
    std::uint64_t below = 1;
    for (std::size_t i = 0; i < digits.size() && below < bursts; ++i) {
        const bool group = i == 0 && digits[i].field == AddressField::group;
        if (!group && digits[i].field != AddressField::column && digits[i].radix != 1) {
            throw InputError(where, fmt::format("the {} bursts of a granule must lie in one row: first the bank groups "
                                                "that they visit in turn, if any, then columns; found {}",
                                                bursts, kFieldNames[static_cast<std::size_t>(digits[i].field)]));
        }
        below *= digits[i].radix;
    }
    if (below % bursts != 0) {
        throw InputError(where, fmt::format("the digits of a granule must make up its {} bursts", bursts));
    }
}

AddressBits read_bits(const json& entry, const std::string& where, const HbmSpec& hbm) {
    only_keys(entry, {"field", "bits", "shift"}, where);
    AddressBits bits;
    bits.field = named<AddressField>(needed(entry, "field", where), kFieldNames, where + ".field");
    const json& range = require_list(needed(entry, "bits", where), where + ".bits");
    if (range.size() != 2) {
        throw InputError(where + ".bits", "allowed: [lowest, highest]");
    }
    const auto width = static_cast<int>(std::bit_width(field_range(hbm, bits.field) - 1));
    const std::int64_t highest = std::max(width - 1, 0);
    bits.low = static_cast<unsigned>(require_integer(range[0], where + ".bits[0]", 0, 62));
    bits.high = static_cast<unsigned>(require_integer(range[1], where + ".bits[1]", bits.low, 62));
    // A narrower field (a smaller chip) has zeros there; a source that has nothing else is left out.
    bits.high = static_cast<unsigned>(std::min<std::int64_t>(bits.high, highest));
    bits.shift =
        entry.contains("shift") ? static_cast<unsigned>(require_integer(entry["shift"], where + ".shift", 0, 31)) : 0;
    return bits;
}

AddressHash read_hash(const json& entry, const std::string& where, const HbmSpec& hbm) {
    only_keys(entry, {"field", "xor", "add"}, where);
    AddressHash hash;
    hash.target = named<AddressField>(needed(entry, "field", where), kFieldNames, where + ".field");
    if (entry.contains("xor") == entry.contains("add")) {
        throw InputError(where, "allowed: either \"xor\" or \"add\"");
    }
    if (hash.target == AddressField::group || hash.target == AddressField::column) {
        throw InputError(where + ".field", "a granule's bank groups and columns are not hashed");
    }
    hash.add = entry.contains("add");
    const std::string key = hash.add ? "add" : "xor";
    const std::uint64_t range = field_range(hbm, hash.target);
    if (!hash.add && !std::has_single_bit(range)) {
        throw InputError(where + ".xor", fmt::format("not one-to-one: {} has {} values, no power of two; use \"add\"",
                                                     kFieldNames[static_cast<std::size_t>(hash.target)], range));
    }
    const json& sources = require_list(entry[key], where + "." + key);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::string at = fmt::format("{}.{}[{}]", where, key, i);
        const AddressBits bits = read_bits(sources[i], at, hbm);
        if (bits.field == hash.target) {
            throw InputError(at + ".field", "not one-to-one: a field cannot be hashed with itself");
        }
        if (bits.low <= bits.high) {
            hash.sources.push_back(bits);
        }
    }
    return hash;
}

}  // namespace

const char* name(DramCommand command) {
    return kCommandNames[static_cast<std::size_t>(command)].c_str();
}

const char* name(AddressField field) {
    return kFieldNames[static_cast<std::size_t>(field)].c_str();
}

DramRules read_dram_rules(const json& file, const std::string& where, const TimingLookup& timing) {
    DramRules rules;
    const std::string bus = where + ": row_bus_half_clocks";
    const json& occupancy = needed(file, "row_bus_half_clocks", where + ":");
    only_keys(occupancy, {"ACT", "PRE", "PREA", "REFpb", "REFab"}, bus);
    for (const char* command : {"ACT", "PRE", "PREA", "REFpb", "REFab"}) {
        const auto index = std::find(kCommandNames.begin(), kCommandNames.end(), command) - kCommandNames.begin();
        rules.row_bus_half_clocks[static_cast<std::size_t>(index)] =
            require_integer(needed(occupancy, command, bus), bus + "." + command, 1, 64);
    }
    const json& list = require_list(needed(file, "constraints", where + ":"), where + ": constraints");
    for (std::size_t i = 0; i < list.size(); ++i) {
        read_constraint(list[i], fmt::format("{}: constraints[{}]", where, i), timing, rules);
    }
    return rules;
}

std::uint64_t field_range(const HbmSpec& hbm, AddressField field) {
    switch (field) {
        case AddressField::group: return static_cast<std::uint64_t>(hbm.bank_groups);
        case AddressField::column: return static_cast<std::uint64_t>(hbm.row_bytes / hbm.burst_bytes);
        case AddressField::pseudo_channel: return static_cast<std::uint64_t>(hbm.pseudo_channels);
        case AddressField::channel: return static_cast<std::uint64_t>(hbm.channels_per_stack);
        case AddressField::stack: return static_cast<std::uint64_t>(hbm.stacks);
        case AddressField::bank: return static_cast<std::uint64_t>(hbm.banks_per_group);
        case AddressField::rank: return static_cast<std::uint64_t>(hbm.ranks);
        case AddressField::row: return static_cast<std::uint64_t>(hbm.rows);
    }
    return 1;
}

std::uint32_t interleave(const AddressMapSpec& map) {
    const bool group = !map.digits.empty() && map.digits.front().field == AddressField::group;
    return group ? static_cast<std::uint32_t>(map.digits.front().radix) : 1;
}

AddressMapSpec read_address_map(const std::filesystem::path& file, const HbmSpec& hbm) {
    const json object = read_json_file(file);
    const std::string where = file.string();
    only_keys(object, {"name", "description", "digits", "hash"}, where + ":");
    AddressMapSpec map;
    map.digits = DigitReader(hbm, where + ": digits").read(needed(object, "digits", where + ":"));
    check_granule(map.digits, hbm, where + ": digits");
    const json hashes = object.value("hash", json::array());
    if (!hashes.is_array()) {
        throw InputError(where + ": hash", fmt::format("found {}, allowed: a list", shown(hashes)));
    }
    for (std::size_t i = 0; i < hashes.size(); ++i) {
        map.hashes.push_back(read_hash(hashes[i], fmt::format("{}: hash[{}]", where, i), hbm));
    }
    return map;
}

}  // namespace sluice::isa
