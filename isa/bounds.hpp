// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds of affine expressions over all iterations, without unrolling: every variable has an interval, and every
// enclosing `if` a constraint that sharpens the bounds of expressions built from the same indices. Sound always; exact
// for boxes.
#include <array>
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

class Scope {
public:
    /// Variables that nothing has defined are unknown: an expression that uses one has no bounds.
    void define(Var var, Interval interval) { intervals_[static_cast<std::size_t>(var)] = interval; }
    [[nodiscard]] std::optional<Interval> interval(Var var) const { return intervals_[static_cast<std::size_t>(var)]; }

    /// Inside, value >= 0 holds. Registers change, so constraints on them are not kept.
    void push_constraint(const Affine& value);
    void pop_constraint();

    /// nullopt: unknown variable, or beyond 64 bits.
    [[nodiscard]] std::optional<Interval> bounds(const Affine& value) const;

private:
    [[nodiscard]] std::optional<Interval> box(const Affine& value) const;

    std::array<std::optional<Interval>, kVarCount> intervals_;
    std::vector<std::optional<Affine>> constraints_;
};

}  // namespace sluice::isa
