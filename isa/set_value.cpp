// SPDX-License-Identifier: Apache-2.0
#include "isa/set_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"

namespace sluice::isa {

using nlohmann::json;

namespace {

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

}  // namespace

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

}  // namespace sluice::isa
