// SPDX-License-Identifier: Apache-2.0
#include "isa/bounds.hpp"

#include <algorithm>

namespace sluice::isa {

namespace {

__extension__ using Wide = __int128;
constexpr std::int64_t kLimit = std::int64_t{1} << 62;

bool is_register(Var var) {
    return var >= Var::r0 && var <= Var::r15;
}

std::optional<Interval> narrow(Wide lowest, Wide highest) {
    if (lowest < -Wide{kLimit} || highest > Wide{kLimit}) {
        return std::nullopt;
    }
    return Interval{static_cast<std::int64_t>(lowest), static_cast<std::int64_t>(highest)};
}

std::int64_t stride_of(const Affine& value, Var var) {
    for (const Term& term : value.terms) {
        if (term.var == var) {
            return term.stride;
        }
    }
    return 0;
}

/// value - factor * constraint, for ring-free expressions of moderate size.
std::optional<Affine> reduce(const Affine& value, std::int64_t factor, const Affine& constraint) {
    const auto small = [](std::int64_t x) { return x > -(std::int64_t{1} << 30) && x < (std::int64_t{1} << 30); };
    const bool fits = std::all_of(constraint.terms.begin(), constraint.terms.end(),
                                  [&](const Term& term) { return small(term.stride); }) &&
                      small(constraint.base) && factor > -(std::int64_t{1} << 31) && factor < (std::int64_t{1} << 31);
    if (!fits) {
        return std::nullopt;
    }
    return value - constraint * factor;
}

}  // namespace

void Scope::push_constraint(const Affine& value) {
    const bool lasting = value.ring == 0 && std::none_of(value.terms.begin(), value.terms.end(),
                                                         [](const Term& term) { return is_register(term.var); });
    constraints_.push_back(lasting ? std::optional<Affine>(value) : std::nullopt);
}

void Scope::pop_constraint() {
    constraints_.pop_back();
}

std::optional<Interval> Scope::box(const Affine& value) const {
    Wide lowest = value.base;
    Wide highest = value.base;
    for (const Term& term : value.terms) {
        const std::optional<Interval> range = interval(term.var);
        if (!range) {
            return std::nullopt;
        }
        const Wide a = Wide{term.stride} * range->lowest;
        const Wide b = Wide{term.stride} * range->highest;
        lowest += std::min(a, b);
        highest += std::max(a, b);
    }
    return narrow(lowest, highest);
}

std::optional<Interval> Scope::bounds(const Affine& value) const {
    if (value.ring != 0) {
        return narrow(value.base, Wide{value.base} + value.ring - 1);
    }
    std::optional<Interval> best = box(value);
    if (!best) {
        return best;
    }
    // value = factor * constraint + rest, constraint >= 0: a factor below 0 bounds value by rest from above.
    for (const std::optional<Affine>& constraint : constraints_) {
        if (!constraint) {
            continue;
        }
        for (const Term& term : constraint->terms) {
            const std::int64_t stride = stride_of(value, term.var);
            if (stride == 0 || stride % term.stride != 0) {
                continue;
            }
            const std::int64_t factor = stride / term.stride;
            const std::optional<Affine> rest = reduce(value, factor, *constraint);
            const std::optional<Interval> range = rest ? box(*rest) : std::nullopt;
            if (!range) {
                continue;
            }
            if (factor < 0) {
                best->highest = std::min(best->highest, range->highest);
            } else {
                best->lowest = std::max(best->lowest, range->lowest);
            }
        }
    }
    return best;
}

}  // namespace sluice::isa
