// SPDX-License-Identifier: Apache-2.0
#include "isa/bounds.hpp"

#include <algorithm>
#include <numeric>

namespace sluice::isa {

namespace {

__extension__ using Wide = __int128;
/// Of a sum, and of the magnitudes that are summed up: whatever has bounds can be evaluated in 64 bits, in any order.
constexpr std::int64_t kLimit = std::int64_t{1} << 62;
/// Of numbers in expressions that are added up to a new one.
constexpr std::int64_t kTermLimit = std::int64_t{1} << 57;

bool fits(Wide value, std::int64_t limit) {
    return value >= -Wide{limit} && value <= Wide{limit};
}

std::optional<Interval> narrow(Wide lowest, Wide highest) {
    if (!fits(lowest, kLimit) || !fits(highest, kLimit)) {
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

std::int64_t modulo(std::int64_t value, std::int64_t divisor) {
    const std::int64_t rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}

std::int64_t divide_up(std::int64_t value, std::int64_t divisor) {
    const std::int64_t quotient = value / divisor;
    return quotient + (value % divisor > 0 ? 1 : 0);
}

/// value * factor, if no number in it becomes too large.
bool can_scale(const Affine& value, std::int64_t factor) {
    return fits(Wide{value.base} * factor, kTermLimit) &&
           std::all_of(value.terms.begin(), value.terms.end(),
                       [factor](const Term& term) { return fits(Wide{term.stride} * factor, kTermLimit); });
}
bool can_add(const Affine& a, const Affine& b) {
    return fits(Wide{a.base} + b.base, kTermLimit) &&
           std::all_of(b.terms.begin(), b.terms.end(),
                       [&a](const Term& term) { return fits(Wide{stride_of(a, term.var)} + term.stride, kTermLimit); });
}

/// value - factor * constraint, for expressions of moderate size.
std::optional<Affine> reduce(const Affine& value, std::int64_t factor, const Affine& constraint) {
    if (!can_scale(constraint, factor)) {
        return std::nullopt;
    }
    const Affine product = constraint * -factor;
    return can_add(value, product) ? std::optional<Affine>(value + product) : std::nullopt;
}

}  // namespace

// ---- quantities -----------------------------------------------------------------------------------------------------

bool is_register(Var var) {
    return var >= Var::r0 && var <= Var::r15;
}

bool uses_register(const Quantity& value) {
    const std::vector<const Affine*> parts = value.parts();
    return std::any_of(parts.begin(), parts.end(), [](const Affine* part) {
        return std::any_of(part->terms.begin(), part->terms.end(),
                           [](const Term& term) { return is_register(term.var); });
    });
}

Quantity::Quantity(const Affine& value) {
    if (value.ring == 0) {
        linear_ = value;
    } else {
        rest_.push_back({value, 1, 1});
    }
}

Quantity Quantity::shares(const Affine& value, std::int64_t divisor, std::int64_t factor) {
    Quantity out(0);
    if (value.is_constant()) {
        const Affine quotient = divide_up(value.base, divisor);
        if (can_scale(quotient, factor)) {
            out.linear_ = quotient * factor;
            return out;
        }
    } else if (divisor == 1 && value.ring == 0 && can_scale(value, factor)) {
        out.linear_ = value * factor;
        return out;
    }
    out.rest_.push_back({value, divisor, factor});
    return out;
}

void Quantity::add(const Quantity& other) {
    if (can_add(linear_, other.linear_)) {
        linear_ = linear_ + other.linear_;
    } else {
        rest_.push_back({other.linear_, 1, 1});
    }
    rest_.insert(rest_.end(), other.rest_.begin(), other.rest_.end());
}

Quantity Quantity::negative() const {
    Quantity out(linear_ * -1);
    for (const Share& share : rest_) {
        out.rest_.push_back({share.value, share.divisor, -share.factor});
    }
    return out;
}

Interval slots(const Affine& ring) {
    std::int64_t slot = ring.ring;
    for (const Term& term : ring.terms) {
        slot = std::gcd(slot, term.stride);
    }
    const std::int64_t first = ring.base + modulo(ring.phase, slot);
    return {first, first + ring.ring - slot};
}

std::vector<const Affine*> Quantity::parts() const {
    std::vector<const Affine*> out{&linear_};
    for (const Share& share : rest_) {
        out.push_back(&share.value);
    }
    return out;
}

std::int64_t Quantity::evaluate(const Environment& env) const {
    std::int64_t sum = linear_.evaluate(env);
    for (const Share& share : rest_) {
        sum += share.factor * divide_up(share.value.evaluate(env), share.divisor);
    }
    return sum;
}

// ---- scopes ---------------------------------------------------------------------------------------------------------

void Scope::push_constraint(const Quantity& value) {
    const bool kept = !uses_register(value);
    register_constraints_ += kept ? 0 : 1;
    constraints_.push_back({value, kept, kept && value.rest().empty()});
}

void Scope::pop_constraint() {
    register_constraints_ -= constraints_.back().kept ? 0 : 1;
    constraints_.pop_back();
}

std::optional<Interval> Scope::box(const Affine& value) const {
    Wide lowest = value.base;
    Wide highest = value.base;
    Wide magnitude = value.base < 0 ? -Wide{value.base} : Wide{value.base};
    for (const Term& term : value.terms) {
        const std::optional<Interval> range = interval(term.var);
        if (!range) {
            return std::nullopt;
        }
        const Wide a = Wide{term.stride} * range->lowest;
        const Wide b = Wide{term.stride} * range->highest;
        lowest += std::min(a, b);
        highest += std::max(a, b);
        magnitude += std::max({a, b, -a, -b});
    }
    return fits(magnitude, kLimit) ? narrow(lowest, highest) : std::nullopt;
}

/// Variables that can only have one value move the ring's slots; the others step over them by a common divisor.
std::optional<Interval> Scope::ring(const Affine& value) const {
    Affine sum(value.phase, value.terms);
    const std::optional<Interval> range = box(sum);
    if (!range) {
        return std::nullopt;
    }
    std::int64_t slot = value.ring;
    std::int64_t fixed = value.phase;
    for (const Term& term : value.terms) {
        const Interval values = *interval(term.var);
        if (values.lowest == values.highest) {
            fixed += term.stride * values.lowest;
        } else {
            slot = std::gcd(slot, term.stride);
        }
    }
    const Wide first = Wide{value.base} + modulo(fixed, slot);
    return narrow(first, first + value.ring - slot);
}

std::optional<Interval> Scope::sharpened(const Affine& value) const {
    std::optional<Interval> best = box(value);
    if (!best) {
        return best;
    }
    // value = factor * constraint + rest, constraint >= 0: a factor below 0 bounds value by rest from above.
    for (const Constraint& constraint : constraints_) {
        if (!constraint.sharpens) {
            continue;
        }
        const Affine& guard = constraint.value.linear();
        for (const Term& term : guard.terms) {
            const std::int64_t stride = stride_of(value, term.var);
            if (stride == 0 || term.stride == 0 || stride % term.stride != 0) {
                continue;
            }
            const std::int64_t factor = stride / term.stride;
            const std::optional<Affine> rest = reduce(value, factor, guard);
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

std::optional<Interval> Scope::with_rest(std::optional<Interval> linear, const Quantity& value) const {
    for (const Quantity::Share& share : value.rest()) {
        const std::optional<Interval> range = share.value.ring == 0 ? sharpened(share.value) : ring(share.value);
        if (!linear || !range) {
            return std::nullopt;
        }
        const Wide a = Wide{share.factor} * divide_up(range->lowest, share.divisor);
        const Wide b = Wide{share.factor} * divide_up(range->highest, share.divisor);
        linear = narrow(linear->lowest + std::min(a, b), linear->highest + std::max(a, b));
    }
    return linear;
}

std::optional<Interval> Scope::bounds(const Quantity& value) const {
    return with_rest(sharpened(value.linear()), value);
}

bool Scope::possible() const {
    return std::all_of(constraints_.begin(), constraints_.end(), [this](const Constraint& constraint) {
        if (!constraint.kept) {
            return true;
        }
        const std::optional<Interval> range = with_rest(box(constraint.value.linear()), constraint.value);
        return !range || range->highest >= 0;
    });
}

bool Scope::holds(const Environment& env) const {
    return std::all_of(constraints_.begin(), constraints_.end(), [&env](const Constraint& constraint) {
        return !constraint.kept || constraint.value.evaluate(env) >= 0;
    });
}

}  // namespace sluice::isa
