// SPDX-License-Identifier: Apache-2.0
// Does the verifier find programs whose waits outnumber their signals, and those that leave semaphores changed? The
// truth is the sum over every iteration of small random programs.
#include <array>
#include <map>

#include "tests/isa/verifier_programs.hpp"

using namespace sluice;
using namespace sluice::isa;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

/// With room for the block rows of any random tensor macro.
const ChipSpec& two_clusters() {
    static const ChipSpec chip =
        toy_with({"soc.clusters=2", "soc.tiles_per_cluster=3", "soc.tiles_per_cluster_physical=4",
                  "soc.disabled_slot=3", "tsram.bytes=1GiB", "tsram.output_region_bytes=1GiB"});
    return chip;
}

using Semaphore = std::array<std::int64_t, 3>;  ///< level, unit, index
struct Sum {
    std::int64_t first = 0, given = 0, taken = 0;
};
std::map<Semaphore, Sum> sums_of(const Program& program, const ChipSpec& chip) {
    std::map<Semaphore, Sum> sums;
    for (const SemInit& init : program.semaphores) {
        for (std::int64_t i = 0; i < init.units; ++i) {
            sums[{static_cast<std::int64_t>(init.sem.level), init.sem.unit + i, init.sem.index}].first = init.value;
        }
    }
    const PlainRun walk(program, chip, [&sums](const Statement& statement, const Environment& env) {
        const auto count = [&](const SemUse& use, bool gives, std::int64_t times = 1) {
            for (std::int64_t bit = 0; bit < 64; ++bit) {
                if (use.sem.mask == 0 ? bit == 0 : (use.sem.mask >> bit & 1U) != 0) {
                    Sum& sum = sums[{static_cast<std::int64_t>(use.sem.level), use.sem.unit.evaluate(env) + bit,
                                     use.sem.index.evaluate(env)}];
                    (gives ? sum.given : sum.taken) += use.count.evaluate(env) * times;
                }
            }
        };
        if (const auto* wait = std::get_if<WaitStatement>(&statement.body)) {
            count(wait->use, false);
        } else if (const auto* signal = std::get_if<SignalStatement>(&statement.body)) {
            count(signal->use, true);
        } else if (const auto* issued = std::get_if<Instruction>(&statement.body)) {
            for (const SemUse& use : issued->waits) {
                count(use, false);
            }
            for (const SemUse& use : issued->signals) {
                count(use, true);
            }
            const auto* tensor = std::get_if<TensorMacro>(&issued->macro);
            if (tensor != nullptr && tensor->row_signal) {
                count(*tensor->row_signal, true, tensor->mb.evaluate(env));
            }
        }
    });
    return sums;
}

/// Random loops, conditions, registers and uses of a few semaphores of tiles 0..5, in bounds.
class RandomProgram {
public:
    explicit RandomProgram(Random& random) : random_(random) {}

    std::string text() {
        std::string out = header();
        for (int index = 0; index < 3; ++index) {
            if (random_.once_in(2)) {
                out += fmt::format("init tile(0)[{}] units 6 value {}\n", index, random_.pick(0, 9));
            }
        }
        const std::string body = "r0 = 0 in -9000..9000\nr1 = 0 in -9000..9000\n" + block(3);
        return out + control("tile", body, random_.pick(1, 6)) +
               (random_.once_in(2) ? control("cluster", cluster_block(), 2) : "");
    }

private:
    std::string index_expression(std::int64_t lowest) {
        std::string out = std::to_string(lowest);
        for (int i = 0; i < depth_; ++i) {
            if (random_.once_in(3)) {
                out += fmt::format(" + {}*i{}", random_.pick(0, 2), i);
            }
        }
        return out;
    }
    std::string use() {
        const std::string unit = random_.once_in(2) ? "self" : random_.once_in(2) ? "tile" : "3 mask 0x7";
        std::string index = std::to_string(random_.pick(0, 2));
        if (random_.once_in(3)) {
            index = fmt::format("(r0 + {}) % 3", random_.pick(0, 2));  // a ring of semaphores
        } else if (random_.once_in(4)) {
            index = fmt::format("(r1 + r0) % {}", random_.pick(1, 3));
        }
        const bool wait = unit.find("mask") == std::string::npos && random_.once_in(2);
        return fmt::format("{} tile({})[{}] x {}\n", wait ? "wait" : "signal", unit, index,
                           index_expression(random_.pick(0, 3)));
    }
    std::string statement(int levels) {
        switch (levels == 0 ? random_.pick(0, 3) : random_.pick(0, 6)) {
            case 0:
            case 1: return use();
            case 2: return fmt::format("r{} += {} in -9000..9000\n", random_.pick(0, 1), random_.pick(-1, 2));
            case 3:
                if (random_.once_in(3)) {
                    return fmt::format("r1 = {} in -9000..9000\n", index_expression(random_.pick(0, 2)));
                }
                return issue("ttu.0",
                             fmt::format("tensor {} x 1 x 1 a [0] strides 0 0 bf16 b [0] strides 0 0 bf16 c [0] "
                                         "strides 4096 0 row_signal tile(self)[{}]",
                                         index_expression(1), random_.pick(0, 2)));
            case 4: {
                const std::string condition = random_.once_in(3) ? fmt::format("{} - r1", random_.pick(-1, 4))
                                                                 : fmt::format("{} - self", random_.pick(-1, 4));
                return fmt::format("if {} >= 0 {{\n{}}} else {{\n{}}}\n", condition, block(levels - 1),
                                   block(levels - 1));
            }
            default: {
                const std::string count = random_.once_in(4) ? fmt::format("{} - r1", random_.pick(0, 5))
                                                             : index_expression(random_.pick(0, 9));
                ++depth_;
                const std::string body = block(levels - 1);
                --depth_;
                return fmt::format("loop {} {{\n{}}}\n", count, body);
            }
        }
    }
    std::string block(int levels) {
        std::string out;
        for (std::int64_t i = random_.pick(1, 3); i > 0; --i) {
            out += statement(levels);
        }
        return out;
    }
    std::string cluster_block() {
        return fmt::format("loop {} {{ signal tile(3*cluster)[{}] x {} }}", random_.pick(0, 3), random_.pick(0, 2),
                           random_.pick(0, 2));
    }

    Random& random_;
    int depth_ = 0;
};

/// What one semaphore is reported for: "" if it balances.
std::string expected(const Sum& sum) {
    const std::int64_t end = sum.first + sum.given - sum.taken;
    if (end < 0) {
        return fmt::format("waits for {} in all, but only {} ever come: it cannot finish", sum.taken,
                           sum.first + sum.given);
    }
    return end == sum.first ? "" : fmt::format("ends at {}, it began with {}", end, sum.first);
}

std::string tiles(const std::string& body, const std::string& declarations = "") {
    return header() + declarations + control("tile", body, 2);
}

}  // namespace

TEST_CASE("sums of random programs are those of a plain run") {
    Random random(21);
    int balanced = 0;
    int changed = 0;
    int stuck = 0;
    for (int i = 0; i < 3000; ++i) {
        const std::string text = RandomProgram(random).text();
        INFO(text);
        const std::string found = error(text, two_clusters());
        if (found.find("that nothing signals") != std::string::npos) {
            continue;
        }
        REQUIRE((found.empty() || found.starts_with("semaphore")));
        std::map<Semaphore, Sum> sums;
        try {
            sums = sums_of(read_text(text, "test"), two_clusters());
        } catch (const PlainRun::Stopped&) {
            continue;
        }
        bool right = true;
        for (const auto& [semaphore, sum] : sums) {
            const std::string problem = expected(sum);
            right = right && problem.empty();
            INFO(semaphore[1] << " " << semaphore[2]);
            if (!problem.empty()) {
                CHECK_THAT(found, Contains(problem) || Contains("... and more"));
                (problem.starts_with("waits") ? stuck : changed) += 1;
            }
        }
        CHECK(found.empty() == right);
        balanced += right ? 1 : 0;
    }
    CHECK(balanced > 100);
    CHECK(changed > 1000);
    CHECK(stuck > 1000);
}

TEST_CASE("waits may take all that comes, not one more") {
    const auto waits = [](int waited, int signalled, int first) {
        return tiles(
            fmt::format("loop {} {{ {} }} loop {} {{ {} }}", waited, issue("tdma.0", "wait tile(self)[7] fence"),
                        signalled, issue("tdma.1", "fence signal tile(self)[7]")),
            fmt::format("init tile(0)[7] units 2 value {}\n", first));
    };
    check_limit(
        waits(5, 5, 0), waits(6, 5, 0), "semaphores tile(0..1)[7]: ",
        "waits for 6 in all, but only 5 ever come: it cannot finish (waited for by tdma.0 \"the label\"; signalled "
        "by tdma.1 \"the label\")");
    check_limit(waits(5, 5, 2), waits(8, 5, 2),
                "semaphores tile(0..1)[7]: ", "waits for 8 in all, but only 7 ever come");
    check_limit(waits(5, 5, 2), waits(7, 5, 2), "semaphores tile(0..1)[7]: ",
                "ends at 0, it began with 2: a program leaves its semaphores as it found them");
    check_limit(waits(5, 5, 2), waits(4, 5, 2), "semaphores tile(0..1)[7]: ", "ends at 3, it began with 2");
    check_limit(waits(0, 0, 2), waits(0, 1, 2), "semaphores tile(0..1)[7]: ", "(waited for nowhere; signalled by");
    // Only one of the two.
    const auto one = [](int highest) {
        return tiles(fmt::format("signal tile(self)[7] if {} - self >= 0 {{ wait tile(self)[7] }}", highest));
    };
    check_limit(one(1), one(0), "semaphore tile(1)[7]: ",
                "ends at 1, it began with 0: a program leaves its semaphores as it found them (waited for nowhere; "
                "signalled by control program main)");
}

TEST_CASE("clusters and the chip count as well, whoever signals them") {
    const auto program = [](int tiles_wait, int cluster_wait, int chip_wait) {
        return header() +
               control("tile",
                       fmt::format("loop 3 {{ signal cluster(cluster)[1] }} wait tile(self)[0] x {}", tiles_wait), 2) +
               fmt::format(
                   "control \"c\" cluster count 1 from 0 {{ wait cluster(0)[1] x {} signal tile(0 mask 0x3)[0] x 4 "
                   "signal chip(0)[9] }}\n",
                   cluster_wait) +
               fmt::format("control \"d\" chip count 1 from 0 {{ wait chip(0)[9] x {} }}\n", chip_wait);
    };
    CHECK(error(program(4, 6, 1)) == "");
    CHECK_THAT(error(program(5, 6, 1)), Catch::StartsWith("semaphores tile(0..1)[0]: waits for 5 in all, but only 4 "));
    CHECK_THAT(error(program(4, 7, 1)), Catch::StartsWith("semaphore cluster(0)[1]: waits for 7 in all, but only 6 "));
    CHECK_THAT(error(program(4, 6, 2)), Catch::StartsWith("semaphore chip(0)[9]: waits for 2 in all, but only 1 "));
    CHECK_THAT(error(program(4, 5, 1)), Catch::StartsWith("semaphore cluster(0)[1]: ends at 1, it began with 0"));
}

TEST_CASE("more users than can be named are others") {
    std::string body;
    for (int i = 0; i < 6; ++i) {
        body += fmt::format("issue tdma.0 \"number {}\" node 0 {{ fence signal tile(self)[0] }}\n", i);
    }
    CHECK_THAT(error(tiles(body)),
               Contains("signalled by tdma.0 \"number 0\", tdma.0 \"number 1\", tdma.0 \"number 2\", others)"));
}

TEST_CASE("long loops are not walked iteration by iteration") {
    // 10^12 iterations that do the same, and as many that turn a ring of 7 semaphores by 3 each.
    const std::string alike =
        "loop 1000000 { loop 1000000 { signal tile(self)[0] x 2 loop 2 { wait tile(self)[0] } } }";
    CHECK(error(tiles(alike)) == "");
    const auto ring = [](std::int64_t more) {
        std::string body = "loop 1000000 { loop 1000000 { signal tile(self)[(r0) % 7] r0 += 3 in 0..3000000000000 } }";
        for (std::int64_t slot = 0; slot < 7; ++slot) {
            // Multiples of 3 visit every slot equally often; 10^12 = 7 * 142857142857 + 1: once more at the first.
            body += fmt::format(" loop 142857142857 {{ wait tile(self)[{}] }}", slot);
        }
        return tiles(body + fmt::format(" loop {} {{ wait tile(self)[0] }}", more));
    };
    check_limit(ring(1), ring(2),
                "semaphores tile(0..1)[0]: ", "waits for 142857142859 in all, but only 142857142858 ");
}

TEST_CASE("of what depends on tables, or takes too long to count, nothing is said") {
    const std::string table = "table \"t\" count 10 range 0..3 source \"uniform\" seed 1\n";
    const std::string load = "r0 = table \"t\" [0] ";
    CHECK(error(tiles(load + "loop r0 { signal tile(self)[1] }", table)) == "");
    CHECK(error(tiles(load + "signal tile(self)[r0]", table)) == "");
    CHECK(error(tiles(load + "signal tile(self)[1] x r0", table)) == "");
    CHECK(error(tiles(load + "if r0 - 2 >= 0 { signal tile(self)[1] }", table)) == "");
    CHECK(error(tiles(load + "r1 = r0 in 0..3 loop r1 { signal tile(self)[1] }", table)) == "");
    // Other semaphores are none of its business; neither is a register that is known again.
    const std::string other = load + "loop r0 { signal tile(self)[1] } signal tile(self)[2]";
    CHECK_THAT(error(tiles(other, table)), Catch::StartsWith("semaphores tile(0..1)[2]: ends at 1"));
    const std::string again = load + "r0 = 2 in 0..3 loop r0 { signal tile(self)[1] }";
    CHECK_THAT(error(tiles(again, table)), Catch::StartsWith("semaphores tile(0..1)[1]: ends at 2"));
    const std::string addresses = load + dma("hbm(0)[r0] -> tsram(self)[0] run 1") + " signal tile(self)[1]";
    CHECK_THAT(error(tiles(addresses, table)), Catch::StartsWith("semaphores tile(0..1)[1]: ends at 1"));
    // 10^12 different iterations.
    CHECK(error(tiles("loop 1000000 { loop 1000000 { if i0 - i1 >= 0 { signal tile(self)[1] } } }")) == "");
    // A register that leaves its range stops the run.
    CHECK(error(tiles("r0 = 1 in 0..1 loop 5 { r0 += 1 in 0..3 signal tile(self)[(r0) % 4] }")) == "");
}
