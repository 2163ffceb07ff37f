// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_regions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::isa {

namespace {

std::int64_t first_byte(const Region& region) {
    return static_cast<std::int64_t>(region.offset);
}
std::int64_t last_byte(const Region& region) {
    return static_cast<std::int64_t>(region.offset + region.bytes) - 1;
}

std::string where(Space space, std::int64_t unit) {
    return space == Space::hbm ? std::string(name(space)) : fmt::format("{}({})", name(space), unit);
}

}  // namespace

RegionMap::RegionMap(const std::vector<Region>& regions) {
    for (const Region& region : regions) {
        std::vector<Sorted>& units = units_.at(static_cast<std::size_t>(region.space));
        const auto end = static_cast<std::size_t>(region.first_unit + region.units);
        units.resize(std::max(units.size(), end));
        for (auto unit = static_cast<std::size_t>(region.first_unit); region.bytes > 0 && unit < end; ++unit) {
            units[unit].push_back(&region);
        }
    }
    for (std::vector<Sorted>& units : units_) {
        for (Sorted& sorted : units) {
            std::stable_sort(sorted.begin(), sorted.end(),
                             [](const Region* a, const Region* b) { return a->offset < b->offset; });
        }
    }
}

void RegionMap::check_overlaps(Problems& problems) {
    for (const Space space : {Space::hbm, Space::csram, Space::tsram}) {
        const std::vector<Sorted>& units = units_.at(static_cast<std::size_t>(space));
        for (std::size_t unit = 0; unit < units.size(); ++unit) {
            const Region* longest = nullptr;  // reaches furthest of those before
            for (const Region* region : units[unit]) {
                if (longest != nullptr && last_byte(*longest) >= first_byte(*region)) {
                    overlaps_.at(static_cast<std::size_t>(space)) = true;
                    problems.at("region " + region->name);
                    problems.note(fmt::format("overlaps region \"{}\" in bytes {}..{} of {}", longest->name,
                                              region->offset, std::min(last_byte(*longest), last_byte(*region)),
                                              where(space, static_cast<std::int64_t>(unit))));
                }
                if (longest == nullptr || last_byte(*region) > last_byte(*longest)) {
                    longest = region;
                }
            }
            if (overlaps_.at(static_cast<std::size_t>(space))) {
                break;  // as a rule, all units are alike
            }
        }
    }
}

bool RegionMap::rules(Space space) const {
    const auto at = static_cast<std::size_t>(space);
    return !units_.at(at).empty() && !overlaps_.at(at);
}

const RegionMap::Sorted& RegionMap::in(Space space, std::int64_t unit) const {
    const std::vector<Sorted>& units = units_.at(static_cast<std::size_t>(space));
    return unit < 0 || unit >= static_cast<std::int64_t>(units.size()) ? none_ : units[static_cast<std::size_t>(unit)];
}

const Region* RegionMap::at(Space space, std::int64_t unit, std::int64_t byte) const {
    const Sorted& sorted = in(space, unit);
    const auto after =
        std::upper_bound(sorted.begin(), sorted.end(), byte,
                         [](std::int64_t value, const Region* region) { return value < first_byte(*region); });
    return after == sorted.begin() || last_byte(**(after - 1)) < byte ? nullptr : *(after - 1);
}

bool RegionMap::hold(Space space, Interval units, Interval bytes) const {
    const Region* region = at(space, units.lowest, bytes.lowest);
    return region != nullptr && last_byte(*region) >= bytes.highest &&
           region->first_unit + region->units > units.highest;
}

std::string RegionMap::describe(Space space, std::int64_t unit, Interval bytes) const {
    const Region* first = at(space, unit, bytes.lowest);
    const Region* last = at(space, unit, bytes.highest);
    const std::string reaches =
        fmt::format("reaches bytes {}..{} of {}: ", bytes.lowest, bytes.highest, where(space, unit));
    if (first != nullptr && last != nullptr) {
        return reaches + (first == last
                              ? fmt::format("all in region \"{}\"", first->name)
                              : fmt::format("from region \"{}\" into region \"{}\"", first->name, last->name));
    }
    if (first == nullptr && last == nullptr) {
        return reaches + "outside every region";
    }
    return reaches + (last == nullptr ? fmt::format("beyond the end of region \"{}\"", first->name)
                                      : fmt::format("from before region \"{}\"", last->name));
}

}  // namespace sluice::isa
