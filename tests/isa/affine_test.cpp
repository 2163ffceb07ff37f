// SPDX-License-Identifier: Apache-2.0
// Is the arithmetic of index expressions that of their values?
#include "isa/affine.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>

#include "isa/errors.hpp"

using namespace sluice;
using namespace sluice::isa;

namespace {

class Random {
public:
    std::int64_t pick(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(engine_);
    }
    Affine expression() {
        Affine out = pick(-1000, 1000);
        for (std::size_t i = 0; i < kVarCount; ++i) {
            if (pick(0, 4) == 0) {
                out.terms.push_back({static_cast<Var>(i), pick(-50, 50)});
            }
        }
        return out;
    }
    Environment environment() {
        Environment env{};
        for (std::int64_t& value : env) {
            value = pick(-100, 100);
        }
        return env;
    }

private:
    std::mt19937 engine_{11};
};

}  // namespace

TEST_CASE("sums, differences and multiples of expressions have the values of their parts") {
    Random random;
    for (int i = 0; i < 500; ++i) {
        const Affine a = random.expression();
        const Affine b = random.expression();
        const std::int64_t factor = random.pick(-9, 9);
        const Environment env = random.environment();
        CHECK((a + b).evaluate(env) == a.evaluate(env) + b.evaluate(env));
        CHECK((a - b).evaluate(env) == a.evaluate(env) - b.evaluate(env));
        CHECK((a * factor).evaluate(env) == factor * a.evaluate(env));
        CHECK((a - a).is_constant());
        std::set<Var> seen;
        for (const Term& term : (a + b).terms) {
            CHECK(seen.insert(term.var).second);
            CHECK(term.stride != 0);
        }
    }
}

TEST_CASE("a ring walks its slots and comes back, forwards and backwards") {
    constexpr std::int64_t kBase = 5000;
    for (const std::int64_t phase : {0, 96, -96, 1000}) {
        for (const std::int64_t stride : {32, -32, 96}) {
            Affine ring(kBase, {{Var::r3, stride}});
            ring.ring = 320;
            ring.phase = phase;
            Environment env{};
            for (std::int64_t i = -40; i < 40; ++i) {
                env[static_cast<std::size_t>(Var::r3)] = i;
                const std::int64_t value = ring.evaluate(env);
                CHECK(value >= kBase);
                CHECK(value < kBase + 320);
                CHECK((value - kBase - stride * i - phase) % 320 == 0);
                CHECK((ring + 64).evaluate(env) == value + 64);
                CHECK((Affine(64) + ring).evaluate(env) == value + 64);
            }
        }
    }
}

TEST_CASE("a ring takes constants alone") {
    Affine ring = variable(Var::r0, 32);
    ring.ring = 64;
    CHECK_THROWS_AS(ring + variable(Var::i0), InvariantError);
    CHECK_THROWS_AS(ring + ring, InvariantError);
    CHECK_THROWS_AS(ring * 2, InvariantError);
    CHECK_FALSE(ring.is_constant());
}

TEST_CASE("every variable has a name of its own") {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < kVarCount; ++i) {
        names.insert(name(static_cast<Var>(i)));
    }
    CHECK(names.size() == kVarCount);
    for (int i = 0; i < kMaxLoopDepth; ++i) {
        CHECK(name(loop_var(i)) == "i" + std::to_string(i));
    }
    for (int i = 0; i < kRegisterCount; ++i) {
        CHECK(name(register_var(i)) == "r" + std::to_string(i));
    }
}
