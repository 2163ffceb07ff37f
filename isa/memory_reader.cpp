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
// Far above any standard or map; each costs time in every command.
constexpr std::size_t kMostConstraints = 1'000, kMostWindows = 64, kMostDigits = 64, kMostSources = 64;

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

/// The place of a member: "file.json: digits", "file.json: digits[0].radix".
std::string member(const std::string& where, const std::string& key) {
    return where + (where.find(": ") == std::string::npos ? ": " : ".") + key;
}

void only_keys(const json& object, const std::vector<std::string>& keys, const std::string& where) {
    for (const auto& [key, value] : require_object(object, where).items()) {
        if (key == "name" || key == "description" || key == "source") {
            static_cast<void>(require_string(value, member(where, key)));
        }
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
            throw InputError(member(where, key),
                             fmt::format("unknown key, allowed: {}{}", joined(keys), did_you_mean(key, keys)));
        }
    }
}

const json& needed(const json& object, const std::string& key, const std::string& where) {
    if (!object.contains(key)) {
        throw InputError(member(where, key), "missing");
    }
    return object[key];
}

const json& require_list(const json& value, const std::string& where, std::size_t most) {
    if (!value.is_array() || value.empty() || value.size() > most) {
        throw InputError(where,
                         fmt::format("found {}, allowed: a list that is not empty, of at most {}", shown(value), most));
    }
    return value;
}

std::vector<DramCommand> commands(const json& value, const std::string& where) {
    std::vector<DramCommand> list;
    const json one_or_more = value.is_array() ? value : json::array({value});
    for (const json& one : require_list(one_or_more, where, kCommandNames.size())) {
        list.push_back(named<DramCommand>(one, kCommandNames, where));
    }
    return list;
}

// "ncwl + nbl + nwtrs".
std::int64_t gap(const json& value, const std::string& where, const TimingLookup& timing) {
    const std::string text = require_string(value, where);
    std::int64_t sum = 0;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('+', at), text.size());
        std::size_t last = end;
        for (; at < last && text[at] == ' '; ++at) {
        }
        for (; at < last && text[last - 1] == ' '; --last) {
        }
        const std::string parameter = text.substr(at, last - at);
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
    const bool to_column = c.to == DramCommand::read || c.to == DramCommand::write;
    if (c.count > 1 && (from_column || from_all)) {
        throw InputError(where + ".count", "windows are for ACT, PRE and REFpb");
    }
    if (c.others && (c.level != DramLevel::rank || c.count > 1)) {
        throw InputError(where + ".others", "is for the level rank, without a count");
    }
    // A run of columns, once it has started, goes on while rows are opened and closed beside it.
    if (from_column != to_column && c.level != DramLevel::bank && !from_all && !to_all) {
        throw InputError(where + ".level", "between row and column commands only those of one bank are modelled");
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
    const auto windows = std::count_if(rules.constraints.begin(), rules.constraints.end(),
                                       [](const DramConstraint& each) { return each.count > 1; });
    if (rules.constraints.size() > kMostConstraints || static_cast<std::size_t>(windows) > kMostWindows) {
        throw InputError(where, fmt::format("allowed: at most {} constraints (pairs of commands), {} of them with a "
                                            "count",
                                            kMostConstraints, kMostWindows));
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
        for (std::size_t i = 0; i < require_list(list, where_, kMostDigits).size(); ++i) {
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
    const std::uint64_t groups = digits.front().field == AddressField::group ? digits.front().radix : 1;
    if (bursts % groups != 0) {
        throw InputError(where, fmt::format("the {} bursts of a granule do not visit its {} bank groups equally often",
                                            bursts, groups));
    }
}

/// What tells the places within a granule apart.
struct GranuleBits {
    bool group = false;
    unsigned column = 0;  ///< lowest bits
};

GranuleBits granule_bits(const std::vector<AddressDigit>& digits, const HbmSpec& hbm) {
    const bool group = digits.front().field == AddressField::group;
    const std::uint64_t columns =
        static_cast<std::uint64_t>(hbm.granule_bytes / hbm.burst_bytes) / (group ? digits.front().radix : 1);
    return {group, static_cast<unsigned>(std::bit_width(columns - 1))};
}

AddressBits read_bits(const json& entry, const std::string& where, const HbmSpec& hbm, const GranuleBits& granule) {
    only_keys(entry, {"field", "bits", "shift"}, where);
    AddressBits bits;
    bits.field = named<AddressField>(needed(entry, "field", where), kFieldNames, where + ".field");
    const json& range = require_list(needed(entry, "bits", where), where + ".bits", 2);
    if (range.size() != 2) {
        throw InputError(where + ".bits", "allowed: [lowest, highest]");
    }
    if (bits.field == AddressField::group && granule.group) {
        throw InputError(where + ".field", "the bursts of a granule lie in several groups, but in one place otherwise");
    }
    const auto width = static_cast<int>(std::bit_width(field_range(hbm, bits.field) - 1));
    const std::int64_t highest = std::max(width - 1, 0);
    bits.low = static_cast<unsigned>(require_integer(range[0], where + ".bits[0]", 0, 62));
    bits.high = static_cast<unsigned>(require_integer(range[1], where + ".bits[1]", bits.low, 62));
    // A narrower field (a smaller chip) has zeros there; a source that has nothing else is left out.
    bits.high = static_cast<unsigned>(std::min<std::int64_t>(bits.high, highest));
    // So has a longer granule, whose own bits must not part it; the others keep their places.
    bits.shift =
        entry.contains("shift") ? static_cast<unsigned>(require_integer(entry["shift"], where + ".shift", 0, 31)) : 0;
    if (bits.field == AddressField::column && bits.low < granule.column) {
        bits.shift += granule.column - bits.low;
        bits.low = granule.column;
    }
    return bits;
}

AddressHash read_hash(const json& entry, const std::string& where, const HbmSpec& hbm, const GranuleBits& granule) {
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
    const json& sources = require_list(entry[key], where + "." + key, kMostSources);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::string at = fmt::format("{}.{}[{}]", where, key, i);
        const AddressBits bits = read_bits(sources[i], at, hbm, granule);
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
    const json& occupancy = needed(file, "row_bus_half_clocks", where);
    only_keys(occupancy, {"ACT", "PRE", "PREA", "REFpb", "REFab"}, bus);
    for (const char* command : {"ACT", "PRE", "PREA", "REFpb", "REFab"}) {
        const auto index = std::find(kCommandNames.begin(), kCommandNames.end(), command) - kCommandNames.begin();
        rules.row_bus_half_clocks[static_cast<std::size_t>(index)] =
            require_integer(needed(occupancy, command, bus), bus + "." + command, 1, 64);
    }
    const json& list = require_list(needed(file, "constraints", where), where + ": constraints", kMostConstraints);
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
    only_keys(object, {"name", "description", "digits", "hash"}, where);
    AddressMapSpec map;
    map.digits = DigitReader(hbm, where + ": digits").read(needed(object, "digits", where));
    check_granule(map.digits, hbm, where + ": digits");
    const json hashes = object.value("hash", json::array());
    if (!hashes.is_array() || hashes.size() > kMostSources) {
        throw InputError(where + ": hash",
                         fmt::format("found {}, allowed: a list of at most {}", shown(hashes), kMostSources));
    }
    const GranuleBits granule = granule_bits(map.digits, hbm);
    for (std::size_t i = 0; i < hashes.size(); ++i) {
        map.hashes.push_back(read_hash(hashes[i], fmt::format("{}: hash[{}]", where, i), hbm, granule));
    }
    return map;
}

}  // namespace sluice::isa
