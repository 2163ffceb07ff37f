// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace sluice::isa {

namespace {
constexpr std::int64_t kFarthest = std::int64_t{1} << 62;
}

// ---- extents --------------------------------------------------------------------------------------------------------

void Extent::repeat(const Affine& count, std::int64_t stride, std::int64_t divisor) {
    Quantity& side = stride < 0 ? first : last;
    side.add(Quantity::shares(count, divisor, stride));
    side.add(-stride);
}

void Extent::end(const Quantity& bytes) {
    last.add(bytes);
    last.add(-1);
}

// ---- checker --------------------------------------------------------------------------------------------------------

Checker::Checker(Verification& verification, const ControlProgram& control) : all(verification) {
    position.control = &control;
    position.tiles_per_cluster = all.limits.tiles_per_cluster();
    define_ids(position.scope, control.level, {control.first, control.first + control.count - 1},
               position.tiles_per_cluster);
}

void Checker::note_unbounded(const std::string& what) {
    unbounded_ = true;
    note(fmt::format("{} has no bounds: it uses a register or index without a range, or overflows", what));
}

std::optional<Interval> Checker::require(const Quantity& value, std::int64_t lowest, std::int64_t highest,
                                         const char* what) {
    const std::optional<Interval> range = position.scope.bounds(value);
    if (!range) {
        note_unbounded(what);
        return std::nullopt;
    }
    const bool within = range->lowest >= lowest && range->highest <= highest;
    if (!within &&
        refuse(outside(value, lowest, highest), fmt::format("{} reaches {}..{}, allowed is {}..{}", what, range->lowest,
                                                            range->highest, lowest, highest))) {
        return std::nullopt;
    }
    return Interval{std::max(range->lowest, lowest), std::min(range->highest, highest)};
}

bool Checker::require_unit(const Affine& unit, std::uint64_t mask, std::int64_t units, const char* what) {
    const std::int64_t reach = mask == 0 ? 0 : 63 - std::countl_zero(mask);
    if (reach >= units) {
        note(fmt::format("{} has a mask with bit {}, allowed are bits 0..{}: there {} {} in all", what, reach,
                         units - 1, units == 1 ? "is" : "are", units));
        return false;
    }
    return require(unit, 0, units - 1 - reach, what).has_value();
}

bool Checker::refuse(const Condition& condition, const std::string& what) {
    if (!condition.possible(position.scope)) {
        return false;
    }
    Search search(position, condition, all.search_budget);
    const Search::Outcome outcome = search.run();
    if (outcome == Search::Outcome::never) {
        return false;
    }
    note_first(what, condition, search, outcome);
    return true;
}

void Checker::note_first(const std::string& what, const Condition& condition, const Search& search,
                         Search::Outcome outcome) {
    const bool known = outcome == Search::Outcome::found && search.certain();
    const std::size_t problem = all.problems.note(known ? what + first_at(position, condition, search.point()) : what);
    if (problem != Problems::kNone && !search.certain() && statement_ != nullptr) {
        pending_.push_back({problem, statement_, condition, position});
    }
}

void Checker::finish() {
    for (const Pending& pending : pending_) {
        if (unbounded_) {
            break;
        }
        const std::optional<Environment> point = first_in_run(pending.position, *pending.statement, pending.condition);
        if (point) {
            all.problems.append(pending.problem, first_at(pending.position, pending.condition, *point));
        }
    }
    pending_.clear();
}

void Checker::require_within(const char* what, const Memory& memory, const Affine& offset,
                             const std::function<Extent(const Affine&)>& reach) {
    // A ring is taken whole: all its slots must lie in the memory, whichever are used.
    const bool ring = offset.ring != 0;
    const Interval starts = ring ? slots(offset) : Interval{};
    Extent whole = reach(ring ? Affine(starts.lowest) : offset);
    whole.last = ring ? reach(Affine(starts.highest)).last : whole.last;
    const std::optional<Interval> first = position.scope.bounds(whole.first);
    const std::optional<Interval> last = position.scope.bounds(whole.last);
    if (!first || !last || !position.scope.bounds(offset)) {
        note_unbounded(what);
        return;
    }
    if (first->lowest >= 0 && last->highest < memory.capacity) {
        require_region(what, memory, whole);
        return;
    }
    const Extent exact = reach(offset);
    const Condition before = outside(exact.first, 0, kFarthest);
    const Condition behind = outside(exact.last, -kFarthest, memory.capacity - 1);
    const Condition leaves{[=](const Scope& scope) { return before.possible(scope) || behind.possible(scope); },
                           [=](const Environment& env) { return before.holds(env) || behind.holds(env); },
                           {exact.first, exact.last}};
    const std::string message = fmt::format("{} reaches bytes {}..{}, allowed is 0..{}", what, first->lowest,
                                            last->highest, memory.capacity - 1);
    if (!refuse(leaves, message)) {
        if (ring) {
            note(message);
        } else {
            require_region(what, memory, whole);
        }
    }
}

void Checker::require_region(const char* what, const Memory& memory, const Extent& extent) {
    const RegionMap& regions = all.regions;
    if (!regions.rules(memory.space)) {
        return;
    }
    const auto first_escape = [&](std::int64_t unit, const Interval& bytes) {
        std::optional<std::int64_t> bad;
        for_bits(memory.mask, [&](std::int64_t bit) {
            if (!bad && !regions.hold(memory.space, {unit + bit, unit + bit}, bytes)) {
                bad = unit + bit;
            }
        });
        return bad;
    };
    const auto held = [&](const Interval& unit, const Interval& bytes) {
        if (unit.lowest == unit.highest) {
            return !first_escape(unit.lowest, bytes);
        }
        const Interval all_units{unit.lowest + std::countr_zero(memory.mask),
                                 unit.highest + 63 - std::countl_zero(memory.mask)};
        return regions.hold(memory.space, all_units, bytes);
    };
    const Condition escapes{[&](const Scope& scope) {
                                const std::optional<Interval> unit = scope.bounds(memory.unit);
                                const std::optional<Interval> first = scope.bounds(extent.first);
                                const std::optional<Interval> last = scope.bounds(extent.last);
                                return !unit || !first || !last || !held(*unit, {first->lowest, last->highest});
                            },
                            [&](const Environment& env) {
                                const std::int64_t unit = memory.unit.evaluate(env);
                                return !held({unit, unit}, {extent.first.evaluate(env), extent.last.evaluate(env)});
                            },
                            {memory.unit, extent.first, extent.last}};
    if (!position.scope.bounds(memory.unit) || !escapes.possible(position.scope)) {
        return;
    }
    Search search(position, escapes, all.search_budget);
    if (search.run() != Search::Outcome::found) {
        return;  // what is not found for certain is not said
    }
    const Interval bytes{extent.first.evaluate(search.point()), extent.last.evaluate(search.point())};
    const std::int64_t unit = *first_escape(memory.unit.evaluate(search.point()), bytes);
    const std::string first = search.certain() ? first_at(position, escapes, search.point()) : "";
    note(fmt::format("{} {}{}", what, regions.describe(memory.space, unit, bytes), first));
}

}  // namespace sluice::isa
