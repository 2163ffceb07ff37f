// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds of expressions over all iterations, without unrolling: every variable has an interval, and every enclosing
// `if` a constraint that sharpens the bounds of expressions built from the same indices. Sound always; exact for boxes.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/affine.hpp"

namespace sluice::isa {

struct Interval {
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
    [[nodiscard]] bool empty() const { return lowest > highest; }
    friend bool operator==(const Interval&, const Interval&) = default;
};

/// A sum of expressions, of which one may be a ring or stand divided by a number and rounded up: where a piece of
/// memory ends, say.
class Quantity {
public:
    /// factor * ceil(value / divisor), divisor > 0.
    struct Share {
        Affine value;
        std::int64_t divisor = 1;
        std::int64_t factor = 1;
    };

    Quantity(std::int64_t constant) : linear_(constant) {}  // NOLINT(google-explicit-constructor): a constant is one
    Quantity(const Affine& value);                          // NOLINT(google-explicit-constructor): so is an expression

    [[nodiscard]] static Quantity shares(const Affine& value, std::int64_t divisor, std::int64_t factor);
    void add(const Quantity& other);
    [[nodiscard]] Quantity negative() const;

    [[nodiscard]] const Affine& linear() const { return linear_; }
    [[nodiscard]] const std::vector<Share>& rest() const { return rest_; }
    /// All expressions of the sum.
    [[nodiscard]] std::vector<const Affine*> parts() const;
    /// Its value where it has bounds (Scope::bounds).
    [[nodiscard]] std::int64_t evaluate(const Environment& env) const;

private:
    Affine linear_;            ///< no ring; everything that is plain and small enough to be added up
    std::vector<Share> rest_;  ///< the others
};

/// Where the slots of a ring start: all of them, whichever are used.
[[nodiscard]] Interval slots(const Affine& ring);

[[nodiscard]] bool is_register(Var var);
[[nodiscard]] bool uses_register(const Quantity& value);

class Scope {
public:
    /// Variables that nothing has defined are unknown: an expression that uses one has no bounds.
    void define(Var var, Interval interval) { intervals_[static_cast<std::size_t>(var)] = interval; }
    [[nodiscard]] std::optional<Interval> interval(Var var) const { return intervals_[static_cast<std::size_t>(var)]; }

    /// Inside, value >= 0 holds. Registers change, so constraints on them are not kept.
    void push_constraint(const Quantity& value);
    void pop_constraint();
    [[nodiscard]] bool depends_on_registers() const { return register_constraints_ > 0; }

    /// nullopt: unknown variable, or beyond 64 bits. Of a ring: all slots, unless its place is known.
    [[nodiscard]] std::optional<Interval> bounds(const Quantity& value) const;
    /// False: no values within the intervals keep the constraints.
    [[nodiscard]] bool possible() const;
    /// These values keep the constraints.
    [[nodiscard]] bool holds(const Environment& env) const;

private:
    struct Constraint {
        Quantity value;
        bool kept = true;      ///< false: on a register
        bool sharpens = true;  ///< plain: bounds of other expressions follow from it
    };

    [[nodiscard]] std::optional<Interval> box(const Affine& value) const;
    [[nodiscard]] std::optional<Interval> ring(const Affine& value) const;
    [[nodiscard]] std::optional<Interval> sharpened(const Affine& value) const;
    [[nodiscard]] std::optional<Interval> with_rest(std::optional<Interval> linear, const Quantity& value) const;

    std::array<std::optional<Interval>, kVarCount> intervals_;
    std::vector<Constraint> constraints_;
    int register_constraints_ = 0;
};

}  // namespace sluice::isa
