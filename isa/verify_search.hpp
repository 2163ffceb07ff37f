// SPDX-License-Identifier: Apache-2.0
#pragma once
// When does something go wrong for the first time? A search over the values of ids, indices and registers that halves
// intervals until bounds (bounds.hpp) rule a violation out or one value of each is left, which is then evaluated. In
// the order of execution: the processor with the lowest number first, then the outermost loop.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isa/bounds.hpp"
#include "isa/program.hpp"

namespace sluice::isa {

/// What may be wrong with an expression.
struct Condition {
    /// False: it holds nowhere within these intervals.
    std::function<bool(const Scope&)> possible;
    std::function<bool(const Environment&)> holds;
    std::vector<Quantity> uses;  ///< the expressions that it depends on
};

/// value lies outside [lowest, highest].
[[nodiscard]] Condition outside(const Quantity& value, std::int64_t lowest, std::int64_t highest);
/// value is no multiple of `divisor`.
[[nodiscard]] Condition indivisible(const Quantity& value, std::int64_t divisor);

/// Where a statement stands.
struct Position {
    const ControlProgram* control = nullptr;
    std::int64_t tiles_per_cluster = 1;
    Scope scope;    ///< intervals of ids, of the indices of open loops, and of registers; constraints
    int depth = 0;  ///< open loops
};

/// The ids of processors first..last of a level, as far as its programs know them.
void define_ids(Scope& scope, Level level, Interval processors, std::int64_t tiles_per_cluster);

class Search {
public:
    enum class Outcome : std::uint8_t {
        never,    ///< the condition holds for no values
        found,    ///< at `point()`, and for none before it
        gave_up,  ///< after kMostSteps
    };
    static constexpr int kMostSteps = 20'000;

    /// `budget` is what all searches of a verification may still cost, in steps.
    Search(const Position& position, const Condition& condition, std::int64_t& budget);
    [[nodiscard]] Outcome run();
    [[nodiscard]] const Environment& point() const { return point_; }
    /// The values do not depend on what registers hold: it will happen then.
    [[nodiscard]] bool certain() const { return registers_.empty() && !position_.scope.depends_on_registers(); }

private:
    enum class Order : std::uint8_t { widest, execution };

    [[nodiscard]] Outcome run(Order order);
    [[nodiscard]] bool visit(Order order);
    [[nodiscard]] std::optional<Var> next(Order order) const;
    [[nodiscard]] Interval values(Var var) const { return *scope_.interval(var); }
    void narrow(Var var, Interval interval);
    void take_point();

    const Position& position_;
    const Condition& condition_;
    std::int64_t& budget_;
    std::vector<Var> registers_;
    std::vector<Var> variables_;  ///< in the order of execution
    Scope scope_;
    int steps_ = 0;
    Outcome outcome_ = Outcome::never;
    Environment point_{};
};

/// "; first at i0 = 31, self = 0"; nothing if it is the first execution anyway and the condition depends on nothing.
[[nodiscard]] std::string first_at(const Position& position, const Condition& condition, const Environment& point);

/// Runs the control statements of a program, its processors one after another, until the condition holds when
/// `statement` is reached: for what depends on registers. Nothing for statements that change registers or branch, if
/// tables are read (their values are known only in a run), or after a million statements.
[[nodiscard]] std::optional<Environment> first_in_run(const Position& position, const Statement& statement,
                                                      const Condition& condition);

}  // namespace sluice::isa
