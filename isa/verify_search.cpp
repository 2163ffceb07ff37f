// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "isa/control_walker.hpp"
#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr std::uint64_t kMostWalked = 1'000'000;

Var id_of(Level level) {
    return level == Level::tile ? Var::self : Var::cluster;
}

bool uses(const Condition& condition, Var var) {
    for (const Quantity& value : condition.uses) {
        for (const Affine* part : value.parts()) {
            if (std::any_of(part->terms.begin(), part->terms.end(),
                            [var](const Term& term) { return term.var == var; })) {
                return true;
            }
        }
    }
    return false;
}

bool reads_tables(const Block& block) {
    const auto in = [](const std::shared_ptr<Block>& body) { return body && reads_tables(*body); };
    return std::any_of(block.begin(), block.end(), [&in](const Statement& statement) {
        if (const auto* loop = std::get_if<Loop>(&statement.body)) {
            return in(loop->body);
        }
        if (const auto* branch = std::get_if<If>(&statement.body)) {
            return in(branch->then_body) || in(branch->else_body);
        }
        return std::holds_alternative<LoadIndex>(statement.body);
    });
}

/// The rest of value by divisor is the same for all values of the variables that can still vary.
bool steps_by(const Scope& scope, const Quantity& value, std::int64_t divisor) {
    for (const Quantity::Share& share : value.rest()) {
        if (share.divisor != 1 || (share.value.ring != 0 && share.value.ring % divisor != 0)) {
            return false;
        }
    }
    for (const Affine* part : value.parts()) {
        for (const Term& term : part->terms) {
            const std::optional<Interval> values = scope.interval(term.var);
            if (!values || (values->lowest != values->highest && term.stride % divisor != 0)) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace

Condition outside(const Quantity& value, std::int64_t lowest, std::int64_t highest) {
    return {[=](const Scope& scope) {
                const std::optional<Interval> range = scope.bounds(value);
                return !range || range->lowest < lowest || range->highest > highest;
            },
            [=](const Environment& env) {
                const std::int64_t found = value.evaluate(env);
                return found < lowest || found > highest;
            },
            {value}};
}

Condition indivisible(const Quantity& value, std::int64_t divisor) {
    const auto holds = [=](const Environment& env) { return value.evaluate(env) % divisor != 0; };
    const auto possible = [=](const Scope& scope) {
        if (!steps_by(scope, value, divisor)) {
            return true;
        }
        Environment any{};
        for (std::size_t i = 0; i < kVarCount; ++i) {
            any[i] = scope.interval(static_cast<Var>(i)).value_or(Interval{}).lowest;
        }
        return holds(any);
    };
    return {possible, holds, {value}};
}

void define_ids(Scope& scope, Level level, Interval processors, std::int64_t tiles_per_cluster) {
    if (level == Level::tile) {
        const Interval clusters{processors.lowest / tiles_per_cluster, processors.highest / tiles_per_cluster};
        scope.define(Var::self, processors);
        scope.define(Var::cluster, clusters);
        scope.define(Var::tile, clusters.lowest == clusters.highest ? Interval{processors.lowest % tiles_per_cluster,
                                                                               processors.highest % tiles_per_cluster}
                                                                    : Interval{0, tiles_per_cluster - 1});
    } else if (level == Level::cluster) {
        scope.define(Var::cluster, processors);
    }
}

// ---- search ---------------------------------------------------------------------------------------------------------

Search::Search(const Position& position, const Condition& condition, std::int64_t& budget)
    : position_(position), condition_(condition), budget_(budget), scope_(position.scope) {
    if (position.control->level != Level::chip) {
        variables_.push_back(id_of(position.control->level));
    }
    for (int depth = 0; depth < position.depth; ++depth) {
        variables_.push_back(loop_var(depth));
    }
    for (int reg = 0; reg < kRegisterCount; ++reg) {
        if (uses(condition, register_var(reg)) && position.scope.interval(register_var(reg))) {
            registers_.push_back(register_var(reg));
        }
    }
    variables_.insert(variables_.end(), registers_.begin(), registers_.end());
}

Search::Outcome Search::run() {
    // Whether it can happen at all is found faster where one may split what matters most.
    return run(Order::widest) == Outcome::never ? Outcome::never : run(Order::execution);
}

Search::Outcome Search::run(Order order) {
    steps_ = 0;
    outcome_ = Outcome::never;
    scope_ = position_.scope;
    (void)visit(order);
    return outcome_;
}

/// True: there is nothing more to look for.
bool Search::visit(Order order) {
    if (++steps_ > kMostSteps || --budget_ < 0) {
        outcome_ = Outcome::gave_up;
        return true;
    }
    if (!scope_.possible() || !condition_.possible(scope_)) {
        return false;
    }
    const std::optional<Var> var = next(order);
    if (!var) {
        take_point();
        if (scope_.holds(point_) && condition_.holds(point_)) {
            outcome_ = Outcome::found;
            return true;
        }
        return false;
    }
    const Interval all = values(*var);
    const std::int64_t middle = std::midpoint(all.lowest, all.highest);
    narrow(*var, {all.lowest, middle});
    if (visit(order)) {
        return true;
    }
    narrow(*var, {middle + 1, all.highest});
    if (visit(order)) {
        return true;
    }
    narrow(*var, all);
    return false;
}

/// The variable to split: nullopt if each has one value left.
std::optional<Var> Search::next(Order order) const {
    std::optional<Var> best;
    double widest = 0;
    for (const Var var : variables_) {
        const Interval range = values(var);
        if (range.lowest >= range.highest) {
            continue;
        }
        if (!best) {
            best = var;
        }
        if (order == Order::execution) {
            return best;
        }
        double stride = 0;
        for (const Quantity& value : condition_.uses) {
            for (const Affine* part : value.parts()) {
                for (const Term& term : part->terms) {
                    const bool moves = term.var == var || (var == Var::self && term.var >= Var::tile);
                    stride = std::max(stride, moves ? std::abs(static_cast<double>(term.stride)) : 0);
                }
            }
        }
        const double width = stride * static_cast<double>(range.highest - range.lowest);
        if (width > widest) {
            widest = width;
            best = var;
        }
    }
    return best;
}

void Search::narrow(Var var, Interval interval) {
    if (!variables_.empty() && var == variables_.front() && var >= Var::tile) {
        define_ids(scope_, position_.control->level, interval, position_.tiles_per_cluster);
    } else {
        scope_.define(var, interval);
    }
}

void Search::take_point() {
    const Level level = position_.control->level;
    point_ = processor_ids(level, level == Level::chip ? 0 : values(id_of(level)).lowest, position_.tiles_per_cluster);
    for (const Var var : variables_) {
        point_[static_cast<std::size_t>(var)] = values(var).lowest;
    }
}

// ---- words ----------------------------------------------------------------------------------------------------------

std::string first_at(const Position& position, const Condition& condition, const Environment& point) {
    std::vector<std::string> words;
    bool later = false;
    bool depends = false;
    const auto add = [&](Var var, std::int64_t start) {
        const std::int64_t value = point[static_cast<std::size_t>(var)];
        later = later || value != start;
        depends = depends || uses(condition, var);
        words.push_back(fmt::format("{} = {}", name(var), value));
    };
    for (int depth = 0; depth < position.depth; ++depth) {
        add(loop_var(depth), 0);
    }
    for (int reg = 0; reg < kRegisterCount; ++reg) {
        if (uses(condition, register_var(reg))) {
            add(register_var(reg), 0);
        }
    }
    if (position.control->count > 1) {
        add(id_of(position.control->level), position.control->first);
        depends = depends || uses(condition, Var::tile) || uses(condition, Var::cluster);
    }
    if (words.empty() || (!later && !depends)) {
        return {};
    }
    return fmt::format("; first at {}", fmt::join(words, ", "));
}

std::optional<Environment> first_in_run(const Position& position, const Statement& statement,
                                        const Condition& condition) {
    const ControlProgram& control = *position.control;
    if (reads_tables(control.body)) {
        return std::nullopt;
    }
    std::uint64_t walked = 0;
    for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
        ControlWalker walker(control, processor_ids(control.level, unit, position.tiles_per_cluster));
        try {
            while (const Statement* reached = walker.next()) {
                if (walked + walker.steps() > kMostWalked) {
                    return std::nullopt;
                }
                if (reached == &statement && condition.holds(walker.environment())) {
                    return walker.environment();
                }
            }
        } catch (const InputError&) {
            return std::nullopt;  // it goes no further
        }
        walked += walker.steps();
    }
    return std::nullopt;
}

}  // namespace sluice::isa
