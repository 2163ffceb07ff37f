// SPDX-License-Identifier: Apache-2.0
// Does the verifier accept exactly what never goes wrong, and does it name the first values for which something does?
// The truth is every iteration of small random programs, tried.
#include <optional>

#include "tests/isa/verifier_programs.hpp"

using namespace sluice;
using namespace sluice::isa;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

const ChipSpec& two_clusters() {
    static const ChipSpec chip = toy_with(
        {"soc.clusters=2", "soc.tiles_per_cluster=3", "soc.tiles_per_cluster_physical=4", "soc.disabled_slot=3"});
    return chip;
}
constexpr int kTiles = 6;

/// A program of random loops and conditions around one statement.
class RandomProgram {
public:
    explicit RandomProgram(Random& random) : random_(random), tiles_(random.pick(1, kTiles)) {}

    /// a + b*i0 + ... of the open loops and the ids.
    std::string expression(std::int64_t base, std::int64_t most) {
        std::string out = fmt::format("{}", base);
        const auto add = [&](const std::string& var) {
            if (const std::int64_t stride = random_.pick(-most, most); stride != 0) {
                out += fmt::format(" {} {}*{}", stride < 0 ? "-" : "+", std::abs(stride), var);
            }
        };
        for (int i = 0; i < depth_; ++i) {
            if (!random_.once_in(3)) {
                add(fmt::format("i{}", i));
            }
        }
        for (const char* id : {"self", "tile", "cluster"}) {
            if (random_.once_in(4)) {
                add(id);
            }
        }
        for (int i = 0; i < registers_; ++i) {
            if (random_.once_in(2)) {
                add(fmt::format("r{}", i));
            }
        }
        return out;
    }

    void use_registers(int count) { registers_ = count; }

    /// The statement, written by `inner` once its place is known, within up to `levels` loops and conditions.
    std::string around(int levels, const std::function<std::string()>& inner) {
        if (levels == 0) {
            return inner();
        }
        const std::string before = updates();
        const bool condition = random_.once_in(3);
        if (condition) {
            const std::string value = expression(random_.pick(-4, 4), 3);
            const std::string body = around(levels - 1, inner);
            return before + (random_.once_in(2) ? fmt::format("if {} >= 0 {{ {} }}\n", value, body)
                                                : fmt::format("if {} >= 0 {{ }} else {{ {} }}\n", value, body));
        }
        const std::string count = random_.once_in(2) ? fmt::format("{}", random_.pick(0, 5)) : expression(3, 1);
        ++depth_;
        const std::string body = around(levels - 1, inner);
        loops_ = std::max(loops_, depth_);
        --depth_;
        return before + fmt::format("loop {} {{ {} }}\n", count, body);
    }

    [[nodiscard]] std::string text(const std::string& body, const std::string& declarations = "") const {
        return header() + declarations + control("tile", body, tiles_);
    }

    /// "; first at i0 = 2, self = 0" of these values.
    [[nodiscard]] std::string first_at(const Environment& env, const std::string& statement = "") const {
        std::vector<std::string> words;
        words.reserve(static_cast<std::size_t>(loops_));
        for (int i = 0; i < loops_; ++i) {
            words.push_back(fmt::format("i{} = {}", i, env[static_cast<std::size_t>(i)]));
        }
        for (int i = 0; i < kRegisterCount; ++i) {
            if (statement.find(fmt::format("r{}", i)) != std::string::npos) {
                words.push_back(fmt::format("r{} = {}", i, env[static_cast<std::size_t>(register_var(i))]));
            }
        }
        if (tiles_ > 1) {
            words.push_back(fmt::format("self = {}", env[static_cast<std::size_t>(Var::self)]));
        }
        return fmt::format("; first at {}", fmt::join(words, ", "));
    }
    [[nodiscard]] bool starts(const Environment& env) const {
        return std::all_of(env.begin(), env.begin() + kMaxLoopDepth, [](std::int64_t i) { return i == 0; }) &&
               env[static_cast<std::size_t>(Var::self)] == 0;
    }

private:
    std::string updates() {
        std::string out;
        for (int i = 0; i < registers_; ++i) {
            if (random_.once_in(2)) {
                out += random_.once_in(2) ? fmt::format("r{} += {} in -1000..1000\n", i, random_.pick(-2, 3))
                                          : fmt::format("r{} = {} in -1000..1000\n", i, expression_of_indices());
            }
        }
        return out;
    }
    std::string expression_of_indices() {
        const int registers = std::exchange(registers_, 0);
        std::string out = expression(random_.pick(-2, 2), 2);
        registers_ = registers;
        return out;
    }

    Random& random_;
    std::int64_t tiles_;
    int depth_ = 0, loops_ = 0;
    int registers_ = 0;
};

using Violated = std::function<bool(const Statement&, const Environment&)>;

std::optional<Environment> first_violation(const std::string& text, const Violated& violated) {
    std::optional<Environment> first;
    const Program program = read_text(text, "test");
    try {
        const PlainRun walk(program, two_clusters(), [&](const Statement& statement, const Environment& env) {
            if (!first && violated(statement, env)) {
                first = env;
            }
        });
    } catch (const PlainRun::Stopped&) {  // what would come later does not happen
    }
    return first;
}

/// Accepted if nothing goes wrong; else the message ends with when it does first, or it does from the beginning.
bool check_first(const RandomProgram& program, const std::string& text, const Violated& violated) {
    INFO(text);
    const std::optional<Environment> first = first_violation(text, violated);
    const std::string found = error(text, two_clusters());
    if (!first) {
        CHECK(found == "");
        return false;
    }
    if (found.find("; first at") == std::string::npos) {
        CHECK(found != "");
        CHECK(program.starts(*first));
    } else {
        CHECK_THAT(found, Contains(program.first_at(*first)));
    }
    return true;
}

const DmaMacro& dma_of(const Statement& statement) {
    return std::get<DmaMacro>(std::get<Instruction>(statement.body).macro);
}

/// Some byte that the destination touches lies outside [0, limit): every run, one after another.
bool leaves(const DmaMacro& dma, const Environment& env, std::int64_t limit) {
    std::vector<std::int64_t> starts{dma.dst.offset.evaluate(env)};
    for (const DmaDim& dim : dma.dims) {
        std::vector<std::int64_t> more;
        for (const std::int64_t start : starts) {
            for (std::int64_t i = 0; i < dim.count.evaluate(env); ++i) {
                more.push_back(start + i * dim.dst_stride);
            }
        }
        starts = more;
    }
    return std::any_of(starts.begin(), starts.end(),
                       [&](std::int64_t start) { return start < 0 || start + dma.run_bytes.evaluate(env) > limit; });
}

}  // namespace

TEST_CASE("a destination is refused exactly if some iteration leaves its memory, and the first one is named") {
    Random random(11);
    const std::int64_t limit = toy().tsram.bytes;
    int refused = 0;
    int accepted = 0;
    for (int i = 0; i < 1500; ++i) {
        RandomProgram program(random);
        const bool end = random.once_in(2);
        const std::string body = program.around(static_cast<int>(random.pick(0, 4)), [&] {
            const std::string offset = program.expression(end ? limit - random.pick(0, 60) : random.pick(0, 40), 9);
            std::string out = fmt::format("hbm(0)[0] -> tsram(self)[{}] run {}", offset, random.pick(1, 8));
            if (random.once_in(2)) {
                out += fmt::format(" dim {} strides 0 {}", random.pick(1, 3), random.pick(-9, 9));
            }
            return dma(out);
        });
        const bool wrong = check_first(
            program, program.text(body),
            [&](const Statement& statement, const Environment& env) { return leaves(dma_of(statement), env, limit); });
        (wrong ? refused : accepted) += 1;
    }
    CHECK(refused > 200);
    CHECK(accepted > 200);
}

TEST_CASE("offset and count are looked at together") {
    // Every row of a triangle ends where the memory ends.
    const std::int64_t rows = toy().tsram.bytes / 4096;
    const auto triangle = [rows](std::int64_t more) {
        return tile(fmt::format(
            "loop {} {{ {} }}", rows,
            dma(fmt::format("hbm(0)[0] -> tsram(self)[4096*i0] run 4096 dim {} - i0 strides 0 4096", rows + more))));
    };
    check_limit(triangle(0), triangle(1), kLabel, "first at i0 = 0");
    // Sizes that depend on indices, and dimensions that shrink to nothing.
    Random random(12);
    int refused = 0;
    for (int i = 0; i < 800; ++i) {
        RandomProgram program(random);
        const std::string body = program.around(static_cast<int>(random.pick(1, 3)), [&] {
            return dma(fmt::format("hbm(0)[0] -> tsram(self)[{}] run {} dim {} strides 0 {}",
                                   program.expression(toy().tsram.bytes - random.pick(10, 60), 5),
                                   program.expression(random.pick(1, 9), 2), program.expression(random.pick(1, 4), 1),
                                   random.pick(-5, 5)));
        });
        const std::string text = program.text(body);
        const auto too_small = [](const Statement& statement, const Environment& env) {
            const DmaMacro& macro = dma_of(statement);
            return macro.run_bytes.evaluate(env) < 1 || macro.dims[0].count.evaluate(env) < 1;
        };
        if (first_violation(text, too_small)) {
            CHECK_THAT(error(text, two_clusters()),
                       Contains("the run reaches") || Contains("a dimension's count reaches"));
            continue;
        }
        refused += check_first(program, text,
                               [](const Statement& statement, const Environment& env) {
                                   return leaves(dma_of(statement), env, toy().tsram.bytes);
                               })
                       ? 1
                       : 0;
    }
    CHECK(refused > 20);
}

TEST_CASE("units, semaphores, runs and table elements are refused exactly if some iteration is wrong") {
    Random random(13);
    const std::string table = "table \"t\" count 10 range 0..3 source \"uniform\" seed 1\n";
    struct Kind {
        const char* statement;  ///< {} is the expression
        std::int64_t lowest, highest;
    };
    const std::vector<Kind> kinds{
        {"signal tile({})[0] x 0", 0, kTiles - 1},
        {"signal cluster(0 mask 0x3)[{}] x 0", 0, toy().semaphores.per_cluster - 1},
        {"wait tile({} )[1] x 0 signal tile(0)[1] x 0", 0, kTiles - 1},
        {"issue tdma.0 \"the label\" node 0 { dma hbm(0)[0] -> tsram(self)[0] run {} }", 1, std::int64_t{1} << 50},
        {"issue tdma.0 \"the label\" node {} { fence }", 0, 0},
        {"issue ttu.0 \"the label\" node 0 { tensor 1 x 1 x {} a [0] strides 0 0 bf16 b [0] strides 0 0 bf16 c [0] "
         "strides 0 0 }",
         1, std::int64_t{1} << 50},
        {"r0 = table \"t\" [{}]", 0, 9},
    };
    int refused = 0;
    for (int i = 0; i < 1500; ++i) {
        const Kind& kind = kinds[static_cast<std::size_t>(random.pick(0, static_cast<std::int64_t>(kinds.size()) - 1))];
        RandomProgram program(random);
        std::string expression;
        const std::string body = program.around(static_cast<int>(random.pick(0, 4)), [&] {
            expression = program.expression(
                random.once_in(2) ? kind.lowest + random.pick(0, 3) : std::min<std::int64_t>(kind.highest, 200), 2);
            std::string out = kind.statement;
            return out.replace(out.find("{}"), 2, expression);
        });
        // The expression as the run evaluates it: read back as a count, in a program of its own depth.
        const Program read =
            read_text(header() + control("tile", std::string("loop 1 { loop 1 { loop 1 { loop 1 { wait "
                                                             "tile(0)[0] x ") +
                                                     expression + " } } } }"),
                      "expression");
        const Block* inner = &read.controls[0].body;
        while (const auto* loop = std::get_if<Loop>(&inner->front().body)) {
            inner = loop->body.get();
        }
        const Affine value = std::get<WaitStatement>(inner->front().body).use.count;
        refused += check_first(program, program.text(body, table),
                               [&](const Statement&, const Environment& env) {
                                   return value.evaluate(env) < kind.lowest || value.evaluate(env) > kind.highest;
                               })
                       ? 1
                       : 0;
    }
    CHECK(refused > 300);
}

TEST_CASE("alignment is exact: what no iteration violates is accepted") {
    Random random(14);
    int refused = 0;
    int accepted = 0;
    for (int i = 0; i < 800; ++i) {
        RandomProgram program(random);
        const std::int64_t unit = random.once_in(2) ? 16 : 8;
        const auto scaled = [&](std::int64_t base) {
            // Strides of 8 or 16: even values alone are aligned.
            std::string out;
            std::string plain = program.expression(base, 4);
            for (std::size_t at = 0; at < plain.size();) {
                std::size_t end = at;
                while (end < plain.size() && std::isdigit(static_cast<unsigned char>(plain[end])) != 0 &&
                       (at == 0 || plain[at - 1] == ' ')) {
                    ++end;
                }
                if (end > at) {
                    out += std::to_string(std::stoll(plain.substr(at, end - at)) * unit);
                    at = end;
                } else {
                    out += plain[at++];
                }
            }
            return out;
        };
        const std::string body = program.around(static_cast<int>(random.pick(0, 3)), [&] {
            return issue("ttu.0", fmt::format("tensor 1 x 1 x 1 a [{}] strides 0 0 bf16 b [0] strides 0 0 bf16 c [0] "
                                              "strides 0 0",
                                              scaled(32 * random.pick(20, 30))));
        });
        const bool wrong =
            check_first(program, program.text(body), [](const Statement& statement, const Environment& env) {
                const auto& macro = std::get<TensorMacro>(std::get<Instruction>(statement.body).macro);
                return macro.a_offset.evaluate(env) % 32 != 0;
            });
        (wrong ? refused : accepted) += 1;
    }
    CHECK(refused > 100);
    CHECK(accepted > 100);
}

TEST_CASE("where registers matter, what is said to happen first does") {
    Random random(15);
    const std::int64_t limit = toy().tsram.bytes;
    int named = 0;
    int wrong = 0;
    for (int i = 0; i < 1500; ++i) {
        RandomProgram program(random);
        program.use_registers(2);
        std::string statement;
        const std::string body =
            "r0 = 0 in -1000..1000 r1 = 1 in -1000..1000 " + program.around(static_cast<int>(random.pick(1, 4)), [&] {
                statement = program.expression(limit - random.pick(0, 40), 6);
                return dma(fmt::format("hbm(0)[0] -> tsram(self)[{}] run 1", statement));
            });
        const std::string text = program.text(body);
        INFO(text);
        const std::optional<Environment> first = first_violation(
            text,
            [&](const Statement& reached, const Environment& env) { return leaves(dma_of(reached), env, limit); });
        const std::string found = error(text, two_clusters());
        wrong += first ? 1 : 0;
        if (first) {
            CHECK(found != "");
        }
        if (found.find("; first at") != std::string::npos) {
            ++named;
            REQUIRE(first);
            CHECK_THAT(found, Contains(program.first_at(*first, statement)));
        }
    }
    CHECK(wrong > 100);
    CHECK(named > 100);
}

TEST_CASE("what comes from tables is refused if a value of its range may be wrong, without a time") {
    const std::string table = "table \"t\" count 10 range 0..128 source \"uniform\" seed 1\n";
    const std::string found =
        error(tile("r0 = table \"t\" [0] " + dma("hbm(0)[0] -> tsram(self)[4096*r0] run 4096"), table));
    CHECK_THAT(found, Catch::EndsWith(fmt::format("the destination reaches bytes 0..{}, allowed is 0..{}",
                                                  129 * 4096 - 1, toy().tsram.bytes - 1)));
}

TEST_CASE("a ring is refused if any of its slots lies outside, and the first use of such a slot is named") {
    const std::int64_t end = toy().tsram.bytes;
    const auto ring = [end](std::int64_t base, int iterations) {
        return tile(
            fmt::format("loop {} {{ {} }}", iterations,
                        dma(fmt::format("hbm(0)[0] -> tsram(self)[{} + (64*i0 + 64) % 256] run 64", end - base))));
    };
    check_limit(ring(256, 9), ring(255, 9), kLabel, "; first at i0 = 2");
    // Not even one that is never used.
    CHECK(error(ring(256, 2)) == "");
    CHECK_THAT(error(ring(255, 2)), Contains("the destination reaches") && !Contains("first at"));
}

TEST_CASE("a register is set to what it declares, where that is known") {
    const auto set = [](std::int64_t highest) { return tile(fmt::format("loop 5 {{ r0 = 2*i0 in 0..{} }}", highest)); };
    check_limit(set(8), set(7),
                "control program main: ", "a register's value reaches 0..8, allowed is 0..7; first at i0 = 4");
    // Ranges follow the statements: what comes later, or on another path, does not matter here.
    const std::int64_t slots = toy().tsram.bytes / 4096;
    const std::string use = dma("hbm(0)[0] -> tsram(self)[4096*r0] run 4096");
    const auto later = [&](std::int64_t most) {
        return tile(
            fmt::format("r0 = 0 in 0..{} {} r0 = 0 in 0..{} {}", slots - 1, use, most, most < slots ? use : ""));
    };
    CHECK(error(later(slots - 1)) == "");
    CHECK(error(later(slots)) == "");
    const auto path = [&](std::int64_t other) {
        return tile(fmt::format("r1 = 0 in 0..1 if r1 - 1 >= 0 {{ r0 = 0 in 0..{} }} else {{ r0 = 1 in 0..1 {} }} {}",
                                other, use, use));
    };
    check_limit(path(slots - 1), path(slots), kLabel, "the destination reaches");
}

TEST_CASE("what a search cannot settle is refused with its bounds alone") {
    // 6*i0 - 4*i1 is never 1, which bounds alone do not see.
    const std::string odd = tile("loop 1000000 { loop 1000000 { if 6*i0 - 4*i1 - 1 >= 0 { if 1 - 6*i0 + 4*i1 >= 0 { " +
                                 dma("hbm(0)[0] -> tsram(self)[524288*i0] run 1") + " } } } }");
    CHECK_THAT(error(odd), Contains("the destination reaches bytes 0..") && !Contains("first at"));
}
