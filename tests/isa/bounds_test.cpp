// SPDX-License-Identifier: Apache-2.0
// Are bounds of expressions over all iterations never tighter than the truth, and exact for boxes? The truth is every
// point, tried.
#include "isa/bounds.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

using namespace sluice::isa;

namespace {

constexpr std::array kVars{Var::i0, Var::i1, Var::i2, Var::cluster};

class Random {
public:
    std::int64_t pick(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(engine_);
    }
    Affine expression(std::int64_t most) {
        Affine out = pick(-20, 20);
        for (const Var var : kVars) {
            if (pick(0, 2) != 0) {
                if (const std::int64_t stride = pick(-most, most); stride != 0) {
                    out.terms.push_back({var, stride});
                }
            }
        }
        return out;
    }

private:
    std::mt19937 engine_{5};
};

using Box = std::array<Interval, kVars.size()>;

void for_points(const Box& box, const std::function<void(const Environment&)>& visit) {
    Environment env{};
    const std::function<void(std::size_t)> level = [&](std::size_t depth) {
        if (depth == kVars.size()) {
            visit(env);
            return;
        }
        for (std::int64_t v = box[depth].lowest; v <= box[depth].highest; ++v) {
            env[static_cast<std::size_t>(kVars[depth])] = v;
            level(depth + 1);
        }
    };
    level(0);
}

struct Truth {
    bool reached = false;
    Interval range;
};
Truth truth(const Affine& value, const Box& box, const std::vector<Affine>& constraints) {
    Truth out;
    for_points(box, [&](const Environment& env) {
        const bool inside = std::all_of(constraints.begin(), constraints.end(),
                                        [&env](const Affine& c) { return c.evaluate(env) >= 0; });
        if (inside) {
            const std::int64_t v = value.evaluate(env);
            out.range =
                out.reached ? Interval{std::min(out.range.lowest, v), std::max(out.range.highest, v)} : Interval{v, v};
            out.reached = true;
        }
    });
    return out;
}

Scope scope_of(const Box& box) {
    Scope scope;
    for (std::size_t i = 0; i < kVars.size(); ++i) {
        scope.define(kVars[i], box[i]);
    }
    return scope;
}

Box random_box(Random& random) {
    Box box;
    for (Interval& side : box) {
        side.lowest = random.pick(-2, 2);
        side.highest = side.lowest + random.pick(0, 4);
    }
    return box;
}

}  // namespace

TEST_CASE("bounds over a box are exact") {
    Random random;
    for (int i = 0; i < 500; ++i) {
        const Box box = random_box(random);
        const Affine value = random.expression(9);
        const std::optional<Interval> bounds = scope_of(box).bounds(value);
        REQUIRE(bounds);
        CHECK(*bounds == truth(value, box, {}).range);
    }
}

TEST_CASE("bounds under constraints hold every value that can be") {
    Random random;
    int sharper = 0;
    for (int i = 0; i < 2000; ++i) {
        const Box box = random_box(random);
        const Affine value = random.expression(6);
        std::vector<Affine> constraints;
        Scope scope = scope_of(box);
        const std::optional<Interval> loose = scope.bounds(value);
        for (std::int64_t c = random.pick(1, 3); c > 0; --c) {
            constraints.push_back(random.expression(3));
            scope.push_constraint(constraints.back());
        }
        const std::optional<Interval> bounds = scope.bounds(value);
        REQUIRE(bounds);
        CHECK(bounds->lowest >= loose->lowest);
        CHECK(bounds->highest <= loose->highest);
        sharper += *bounds == *loose ? 0 : 1;
        if (const Truth real = truth(value, box, constraints); real.reached) {
            CHECK(bounds->lowest <= real.range.lowest);
            CHECK(bounds->highest >= real.range.highest);
        }
        for (std::size_t c = 0; c < constraints.size(); ++c) {
            scope.pop_constraint();
        }
        CHECK(scope.bounds(value) == loose);
    }
    CHECK(sharper > 100);
}

TEST_CASE("a constraint sharpens what is built from the same indices") {
    // for i0 in 0..9, i1 in 0..9: if 7 - 4*i0 - i1 >= 0: the address 64 * (4*i0 + i1) is at most 64 * 7.
    Scope scope;
    scope.define(Var::i0, {0, 9});
    scope.define(Var::i1, {0, 9});
    const Affine address(0, {{Var::i0, 256}, {Var::i1, 64}});
    CHECK(scope.bounds(address) == Interval{0, 64 * 45});
    scope.push_constraint(Affine(7, {{Var::i0, -4}, {Var::i1, -1}}));
    CHECK(scope.bounds(address) == Interval{0, 64 * 7});
    scope.pop_constraint();
    CHECK(scope.bounds(address) == Interval{0, 64 * 45});
}

TEST_CASE("bounds of a ring are its slots, all of them unless one is known") {
    Random random;
    int exact = 0;
    for (int i = 0; i < 2000; ++i) {
        const Box box = random_box(random);
        Affine value = random.expression(9);
        value.ring = random.pick(1, 40);
        value.phase = random.pick(-50, 50);
        const std::optional<Interval> bounds = scope_of(box).bounds(value);
        REQUIRE(bounds);
        const Truth real = truth(value, box, {});
        CHECK(bounds->lowest <= real.range.lowest);
        CHECK(bounds->highest >= real.range.highest);
        CHECK(bounds->lowest >= value.base);
        CHECK(bounds->highest < value.base + value.ring);
        exact += *bounds == real.range ? 1 : 0;
        const Interval all = slots(value);
        CHECK(all.lowest <= real.range.lowest);
        CHECK(all.highest >= real.range.highest);
        const bool fixed = std::all_of(value.terms.begin(), value.terms.end(), [&](const Term& term) {
            const Interval range = *scope_of(box).interval(term.var);
            return range.lowest == range.highest;
        });
        if (fixed) {
            CHECK(*bounds == real.range);
        }
    }
    CHECK(exact > 500);
    // Slots of 64 bytes in a ring of 256, the first at 16.
    Affine ring(1000, {{Var::i0, 192}});
    ring.ring = 256;
    ring.phase = 80;
    CHECK(slots(ring) == Interval{1016, 1208});
}

TEST_CASE("a sum of expressions, rings and shares is bounded by what it can be") {
    Random random;
    for (int i = 0; i < 1000; ++i) {
        const Box box = random_box(random);
        const Affine plain = random.expression(9);
        const Affine divided = random.expression(9);
        Affine ring = random.expression(9);
        ring.ring = random.pick(1, 12);
        const std::int64_t divisor = random.pick(1, 5);
        const std::int64_t factor = random.pick(-4, 4);
        Quantity sum(plain);
        sum.add(Quantity::shares(divided, divisor, factor));
        sum.add(ring);
        const std::optional<Interval> bounds = scope_of(box).bounds(sum);
        REQUIRE(bounds);
        for_points(box, [&](const Environment& env) {
            const double quotient =
                std::ceil(static_cast<double>(divided.evaluate(env)) / static_cast<double>(divisor));
            const std::int64_t expected =
                plain.evaluate(env) + factor * static_cast<std::int64_t>(quotient) + ring.evaluate(env);
            if (sum.evaluate(env) != expected || expected < bounds->lowest || expected > bounds->highest ||
                sum.negative().evaluate(env) != -expected) {
                FAIL("value " << sum.evaluate(env) << ", expected " << expected);
            }
        });
    }
}

TEST_CASE("constraints that leave nothing are recognised, and never wrongly") {
    Random random;
    int empty = 0;
    for (int i = 0; i < 2000; ++i) {
        const Box box = random_box(random);
        Scope scope = scope_of(box);
        std::vector<Affine> constraints;
        for (int c = 0; c < 3; ++c) {
            constraints.push_back(random.expression(3) - 8);
            scope.push_constraint(constraints.back());
        }
        bool any = false;
        for_points(box, [&](const Environment& env) {
            const bool inside = std::all_of(constraints.begin(), constraints.end(),
                                            [&env](const Affine& c) { return c.evaluate(env) >= 0; });
            any = any || inside;
            if (scope.holds(env) != inside) {
                FAIL("holds() differs");
            }
        });
        CHECK((scope.possible() || !any));
        empty += scope.possible() ? 0 : 1;
    }
    CHECK(empty > 100);
}

TEST_CASE("what nothing has defined has no bounds, nor has what exceeds 64 bits") {
    Scope scope;
    CHECK_FALSE(scope.bounds(variable(Var::i0)));
    CHECK(scope.bounds(Affine(7)) == Interval{7, 7});
    scope.define(Var::i0, {0, std::int64_t{1} << 40});
    CHECK(scope.bounds(variable(Var::i0)));
    CHECK_FALSE(scope.bounds(variable(Var::i0, std::int64_t{1} << 40)));
    CHECK(scope.bounds(variable(Var::i0, std::int64_t{1} << 22)));
    CHECK_FALSE(scope.bounds(variable(Var::i0, std::int64_t{1} << 22) + 1));
    // Large numbers that cancel out would overflow on the way.
    scope.define(Var::i1, {std::int64_t{1} << 40, std::int64_t{1} << 40});
    scope.define(Var::i2, {std::int64_t{1} << 40, std::int64_t{1} << 40});
    const std::int64_t large = std::int64_t{1} << 22;
    CHECK_FALSE(scope.bounds(variable(Var::i1, large) - variable(Var::i2, large)));
    // A constraint with a stride of nothing sharpens nothing.
    scope.push_constraint(Affine(5, {{Var::i0, 0}}));
    CHECK(scope.bounds(variable(Var::i0)) == Interval{0, std::int64_t{1} << 40});
    scope.pop_constraint();
    CHECK_FALSE(scope.bounds(variable(Var::i0) + variable(Var::r0)));
}

TEST_CASE("a constraint on a register is not kept, for the register may change") {
    Scope scope;
    scope.define(Var::r0, {0, 100});
    scope.push_constraint(Affine(5) - variable(Var::r0));
    CHECK(scope.bounds(variable(Var::r0)) == Interval{0, 100});
    CHECK(scope.depends_on_registers());
    scope.pop_constraint();
    CHECK_FALSE(scope.depends_on_registers());
}
