// SPDX-License-Identifier: Apache-2.0
// Do queues, semaphores and control programs do what isa/README.md says, whatever the interleaving, and do errors name
// who and where?
#include "isa/execute/machine.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <set>

#include "isa/errors.hpp"
#include "tests/isa/execute/programs.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::isa;
using Catch::Matchers::Contains;
using test::issue;
using test::tile;
using test::unverified;

namespace {

constexpr std::uint64_t kSeeds = 50;

MachineOptions with_seed(std::uint64_t seed) {
    MachineOptions options;
    options.seed = seed;
    options.record_trace = true;
    return options;
}

void fill(SparseMemory& memory, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    memory.write(offset, data);
}

std::vector<std::byte> bytes_of(const SparseMemory& memory, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    memory.read(offset, out);
    return out;
}

/// A run whose HBM begins with 64 KiB of bytes.
struct Run {
    Program program;
    Memories memories{test::toy()};
    Machine machine;

    explicit Run(const std::string& text, const MachineOptions& options = with_seed(0))
        : program(unverified(text)), machine(program, test::toy(), memories, options) {
        fill(memories.hbm(), 0, 65536);
    }
    Run& go() {
        machine.run();
        return *this;
    }
    /// Position of an event of the instruction with this label in the order of the run.
    [[nodiscard]] std::size_t at(EventKind kind, const std::string& label, std::uint32_t part = 0) const {
        const std::vector<TraceEvent>& events = machine.trace().events;
        for (std::size_t i = 0; i < events.size(); ++i) {
            const bool of_instruction = events[i].kind == EventKind::start || events[i].kind == EventKind::part_done;
            if (of_instruction && events[i].kind == kind && events[i].part == part &&
                machine.trace().instructions[events[i].item].operation.text->label == label) {
                return i;
            }
        }
        FAIL("no such event of " << label);
        return 0;
    }
};

std::string deadlock(const std::string& text, std::uint64_t seed = 0) {
    Run run(text, with_seed(seed));
    try {
        run.machine.run();
    } catch (const DeadlockError& error) {
        return error.what();
    }
    return "";
}
std::string error(const std::string& text, const MachineOptions& options = with_seed(0)) {
    Run run(text, options);
    return test::input_error([&] { run.machine.run(); });
}

std::string fence(const std::string& queue, const std::string& label, const std::string& waits,
                  const std::string& signals = "") {
    return issue(queue, label, waits + " fence " + signals);
}

}  // namespace

TEST_CASE("an instruction takes all that it waits for at once, or nothing") {
    // If "both" took the one unit while it lacks the other, "first" would wait for it for ever.
    const std::string text =
        "init tile(0)[1] units 1 value 1\n" +
        tile(fence("ttu.0", "both", "wait tile(self)[1] wait tile(self)[2]") +
             fence("tvp.0", "first", "wait tile(self)[1]", "signal tile(self)[1] signal tile(self)[2]"));
    for (std::uint64_t seed = 0; seed <= kSeeds; ++seed) {
        Run run(text, with_seed(seed));
        run.machine.run();
        CHECK(run.at(EventKind::part_done, "first") < run.at(EventKind::start, "both"));
    }
}

TEST_CASE("two waits of an instruction for one semaphore take the sum") {
    const auto text = [](int value) {
        return fmt::format("init tile(0)[1] units 1 value {}\n", value) +
               tile(fence("ttu.0", "both", "wait tile(self)[1] wait tile(self)[1] x 2", "signal tile(self)[1] x 0"));
    };
    CHECK(Run(text(3)).go().machine.unbalanced().front().final_value == 0);
    CHECK_THAT(deadlock(text(2)), Contains("ttu.0 \"both\" waits for tile(0)[1], which is 2"));
}

TEST_CASE("counts are added and taken") {
    const auto text = [](int wanted) {
        return tile("loop 3 {\n" + fence("ttu.0", "give", "", "signal tile(self)[1] x 2") + "}\n" +
                    fence("tvp.0", "take", fmt::format("wait tile(self)[1] x {}", wanted)));
    };
    CHECK(deadlock(text(6)).empty());
    CHECK_THAT(deadlock(text(7)), Contains("which is 6"));
    const std::vector<Unbalanced> left = Run(text(5)).go().machine.unbalanced();
    REQUIRE(left.size() == 1);
    CHECK((left[0].semaphore == "tile(0)[1]" && left[0].initial == 0 && left[0].final_value == 1));
}

TEST_CASE("a wait for zero units waits for nobody") {
    CHECK(deadlock(tile(fence("ttu.0", "go", "wait tile(self)[1] x 0", "signal tile(self)[1] x 0"))).empty());
}

TEST_CASE("a signal with a mask reaches every unit of it and no other") {
    const std::string text = "init tile(0)[1] units 2 value 3\n" +
                             tile(fence("ttu.0", "both", "", "signal tile(0 mask 3)[1]") +
                                  fence("ttu.0", "the second", "", "signal tile(0 mask 2)[1] x 4") +
                                  fence("ttu.0", "chip", "", "signal chip(0)[5] signal cluster(0)[7]"));
    std::set<std::pair<std::string, std::int64_t>> left;
    for (const Unbalanced& semaphore : Run(text).go().machine.unbalanced()) {
        left.insert({semaphore.semaphore, semaphore.final_value - semaphore.initial});
    }
    CHECK(left == std::set<std::pair<std::string, std::int64_t>>{
                      {"tile(0)[1]", 1}, {"tile(1)[1]", 5}, {"chip(0)[5]", 1}, {"cluster(0)[7]", 1}});
}

TEST_CASE("a semaphore holds what its bits hold, and one more names the signaller and the semaphore") {
    const std::int64_t most = (std::int64_t{1} << test::toy().semaphores.width_bits) - 1;
    const auto text = [](std::int64_t value) {
        return fmt::format("init tile(0)[1] units 1 value {}\n", value) +
               tile(fence("tvp.1", "one too many", "", "signal tile(self)[1]"));
    };
    CHECK(error(text(most - 1)).empty());
    CHECK(error(text(most)) ==
          fmt::format("tvp.1 \"one too many\": semaphore tile(0)[1] overflows: {} exceeds {}", most + 1, most));
    CHECK_THAT(error(fmt::format("init tile(0)[1] units 1 value {}\n", most) + tile("signal tile(self)[1]\n")),
               Contains("control program tile 0: semaphore tile(0)[1] overflows"));
}

TEST_CASE("a queue starts and ends in order, and only DMAs of a channel overlap") {
    const auto text = [](const std::string& queue) {
        return tile(fence(queue, "one", "") + fence(queue, "two", "") + fence(queue, "three", ""));
    };
    const auto overlaps = [&](const std::string& queue) {
        bool any = false;
        for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
            Run run(text(queue), with_seed(seed));
            run.machine.run();
            CHECK(run.at(EventKind::start, "one") < run.at(EventKind::start, "two"));
            CHECK(run.at(EventKind::start, "two") < run.at(EventKind::start, "three"));
            CHECK(run.at(EventKind::part_done, "one") < run.at(EventKind::part_done, "two"));
            CHECK(run.at(EventKind::part_done, "two") < run.at(EventKind::part_done, "three"));
            any = any || run.at(EventKind::start, "two") < run.at(EventKind::part_done, "one");
        }
        return any;
    };
    CHECK(overlaps("tdma.0"));
    CHECK(!overlaps("ttu.0"));
    CHECK(!overlaps("tvp.1"));
    CHECK(!overlaps("reshaper.0"));
}

TEST_CASE("an instruction that waits holds up those behind it and no other queue") {
    const std::string text = tile(fence("ttu.0", "first", "wait tile(self)[1]") + fence("ttu.0", "behind", "") +
                                  fence("tvp.0", "beside", "", "signal tile(self)[1]"));
    for (std::uint64_t seed = 0; seed <= kSeeds; ++seed) {
        Run run(text, with_seed(seed));
        run.machine.run();
        CHECK(run.at(EventKind::part_done, "beside") < run.at(EventKind::start, "first"));
        CHECK(run.at(EventKind::start, "first") < run.at(EventKind::start, "behind"));
    }
}

TEST_CASE("a row signal goes out after each block row, so that the first can be used before the last is there") {
    const std::string zeros = "vector \"zeros\" { pass { v0 = constant 0 store operand 0 e4m3 v0 } }\n";
    const std::string text =
        zeros + tile(issue("tvp.0", "operands",
                           "vector \"zeros\" rows 32 cols 128 operand [131072] strides 128 0 signal tile(self)[2]") +
                     issue("ttu.0", "multiply",
                           "wait tile(self)[2] tensor 3 x 1 x 1 a [131072] strides 1024 0 e4m3 "
                           "b [134144] strides 0 0 e4m3 c [0] strides 4096 0 row_signal tile(self)[1]") +
                     "loop 3 {\n" +
                     issue("tdma.0", "store",
                           "wait tile(self)[1] dma tsram(self)[4096*i0] -> hbm(0)[1048576 + 4096*i0] run 4096") +
                     "}\n");
    bool early = false;
    for (std::uint64_t seed = 0; seed <= kSeeds; ++seed) {
        Run run(text, with_seed(seed));
        run.machine.run();
        CHECK(run.at(EventKind::part_done, "multiply", 0) < run.at(EventKind::start, "store"));
        CHECK(run.machine.unbalanced().empty());
        early = early || run.at(EventKind::start, "store") < run.at(EventKind::part_done, "multiply", 2);
    }
    CHECK(early);
}

TEST_CASE("tables, registers, loops and conditions give the addresses that they gave when they were issued") {
    const std::string text =
        "table \"pages\" count 4 range 0..9 source \"uniform\" seed 3 values 7 2 9 0\n" +
        tile(
            "r1 = 5 in 0..9\n"
            "loop 4 {\n"
            "r0 = table \"pages\" [i0]\n"
            "if i0 - 2 >= 0 {\n" +
            issue("tdma.0", "late", "dma hbm(0)[16*r0] -> tsram(self)[16*i0] run 16") + "} else {\n" +
            issue("tdma.0", "early", "dma hbm(0)[16*r0 + 1024*r1] -> tsram(self)[16*i0] run 16") +
            "}\n"
            "r1 += 1 in 0..9\n"
            "r0 = 0 in 0..9\n"
            "}\n");
    // Element i0 of the table, and 5 + i0 where i0 is below 2.
    const std::array<std::uint64_t, 4> sources{16 * 7 + 1024 * 5, 16 * 2 + 1024 * 6, 16 * 9, 16 * 0};
    for (std::uint64_t seed = 0; seed <= 10; ++seed) {
        Run run(text, with_seed(seed));
        run.machine.run();
        for (std::size_t i = 0; i < sources.size(); ++i) {
            CHECK(bytes_of(run.memories.at(Space::tsram, 0), 16 * i, 16) ==
                  bytes_of(run.memories.hbm(), sources.at(i), 16));
        }
    }
}

TEST_CASE("a register that leaves its range stops the run") {
    CHECK_THAT(error(tile("loop 3 {\nr2 += 2 in 0..5\n}\n" + fence("ttu.0", "x", ""))),
               Contains("control program tile 0: register r2 becomes 6, outside its declared range 0..5"));
}

TEST_CASE("a delay has no effect on values, and is checked") {
    const std::string move = issue("tdma.0", "move", "dma hbm(0)[0] -> tsram(self)[0] run 64");
    Run plain(tile(move));
    Run delayed(tile("delay 100\n" + move + "delay 0\n"));
    plain.machine.run();
    delayed.machine.run();
    CHECK(bytes_of(delayed.memories.at(Space::tsram, 0), 0, 64) == bytes_of(plain.memories.at(Space::tsram, 0), 0, 64));
    CHECK_THAT(error(tile("delay -1\n" + fence("ttu.0", "x", ""))), Contains("a delay of -1 cycles"));
}

TEST_CASE("tile, cluster and self are those of the tile that runs the program") {
    const std::string text =
        "control \"both\" tile count 2 from 0 {\n" +
        issue("tdma.0", "load", "dma hbm(0)[64*self + 1024*tile + 4096*cluster] -> tsram(self)[0] run 64") + "}\n";
    Run run(text);
    run.machine.run();
    for (std::int64_t unit = 0; unit < 2; ++unit) {
        CHECK(bytes_of(run.memories.at(Space::tsram, unit), 0, 64) ==
              bytes_of(run.memories.hbm(), static_cast<std::uint64_t>(1088 * unit), 64));
    }
}

TEST_CASE("a control program stands still at a full queue") {
    const std::int64_t depth = test::toy().control.queue_depth;
    const auto text = [](std::int64_t behind) {
        return tile(fence("ttu.0", "first", "wait tile(self)[1]") + fmt::format("loop {} {{\n", behind) +
                    fence("ttu.0", "behind", "") + "}\nsignal tile(self)[1]\n");
    };
    for (std::uint64_t seed = 0; seed <= 10; ++seed) {
        CHECK(deadlock(text(depth - 1), seed).empty());
        const std::string found = deadlock(text(depth), seed);
        CHECK_THAT(found, Contains("tile 0 (control program tile 0): waits for a place in a full queue"));
        CHECK_THAT(found,
                   Contains("tile 0: ttu.0 \"first\" waits for tile(0)[1], which is 0; nothing has signalled it"));
    }
}

TEST_CASE("a deadlock names who waits for what, how much there is and who signalled last") {
    const std::string text =
        tile(fence("tvp.0", "gives one", "", "signal tile(1)[4]") +
             fence("ttu.1", "other half", "wait cluster(0)[2] x 3")) +
        tile(fence("reshaper.0", "needs two", "wait tile(self)[4] x 2", "signal cluster(0)[2] x 3") +
                 "wait chip(0)[0] x 9\nsignal chip(0)[0] x 9\n",
             1);
    for (std::uint64_t seed = 0; seed <= 10; ++seed) {
        const std::string found = deadlock(text, seed);
        INFO(found);
        CHECK_THAT(found,
                   Contains("tile 1: reshaper.0 \"needs two\" waits for tile(1)[4], which is 1; last signalled by "
                            "tvp.0 \"gives one\""));
        CHECK_THAT(found, Contains("tile 0: ttu.1 \"other half\" waits for cluster(0)[2], which is 0; nothing has "
                                   "signalled it"));
        CHECK_THAT(found, Contains("tile 1 (control program tile 1): waits for chip(0)[0], which is 0"));
        CHECK(std::count(found.begin(), found.end(), '\n') == 3);
    }
}

TEST_CASE("the first read of what nobody wrote names instruction, unit, byte and region") {
    const std::string declarations =
        "region \"weights\" tsram units 2 from 0 offset 4096 bytes 1024\n"
        "region \"image\" hbm units 1 from 0 offset 1048576 bytes 1024\n";
    const auto text = [&](const std::string& from) {
        return declarations + tile(issue("tdma.2", "load", "dma hbm(0)[0] -> tsram(self)[4096] run 100") +
                                       issue("tdma.2", "move", "dma " + from + " -> hbm(0)[0] run 64"),
                                   1);
    };
    CHECK(error(text("tsram(self)[4132]")).empty());
    CHECK(
        error(text("tsram(self)[4133]")) ==
        "tdma.2 \"move\" of tile 1: reads byte 4196 of tsram(1), which nobody wrote (byte 100 of region \"weights\")");
    CHECK_THAT(error(text("tsram(self)[131072]")),
               Contains("tdma.2 \"move\" of tile 1: reads byte 131072 of tsram(1), which nobody wrote"));
}

TEST_CASE("reads of what nobody wrote are listed if the run does not stop at them, at most ten") {
    const auto text = [](int count) {
        return tile(fmt::format("loop {} {{\n", count) +
                    issue("tdma.0", "load", "dma hbm(0)[1048576 + 64*i0] -> tsram(self)[64*i0] run 64") + "}\n");
    };
    MachineOptions options;
    options.stop_at_unwritten = false;
    CHECK(Run(text(3), options).go().machine.unwritten().size() == 3);
    Run run(text(12), options);
    run.machine.run();
    CHECK(run.machine.unwritten().size() == 10);
    CHECK_THAT(run.machine.unwritten().at(1), Contains("reads byte 1048640 of hbm(0), which nobody wrote"));
}

TEST_CASE("a limit of instructions is kept") {
    const std::string text = tile("loop 10 {\n" + fence("ttu.0", "x", "") + "}\n");
    MachineOptions options;
    options.max_instructions = 10;
    CHECK(error(text, options).empty());
    options.max_instructions = 9;
    CHECK_THAT(error(text, options), Contains("issues more than 9 instructions"));
}

TEST_CASE("a program without races gives the same bytes whatever the interleaving") {
    const std::string text =
        "init tile(0)[0] units 2 value 2\n"
        "init tile(0)[3] units 2 value 1\n"
        "init tile(0)[5] units 2 value 1\n"
        "vector \"scale\" { pass { v0 = load operand 0 fp32 v1 = constant 0.5 v2 = mul v0 v1 "
        "store operand 1 bf16 v2 } }\n"
        "vector \"ones\" { pass { v0 = constant 1 store operand 0 e4m3 v0 } }\n"
        "control \"both\" tile count 2 from 0 {\n" +
        issue("tvp.1", "ones", "vector \"ones\" rows 32 cols 32 operand [262144] strides 32 0 signal tile(self)[7]") +
        issue("ttu.0", "ones are here", "wait tile(self)[7] fence") + "loop 6 {\n" +
        issue("tdma.0", "load",
              "wait tile(self)[0] dma hbm(0)[2097152 + 1024*i0] -> tsram(self)[131072 + (1024*i0) % 2048] run 1024 "
              "signal tile(self)[1]") +
        issue("ttu.0", "multiply",
              "wait tile(self)[1] wait tile(self)[3] tensor 1 x 1 x 1 a [131072 + (1024*i0) % 2048] strides 0 0 e4m3 "
              "b [262144] strides 0 0 e4m3 c [0] strides 0 0 signal tile(self)[0] signal tile(self)[4]") +
        issue("tvp.0", "convert",
              "wait tile(self)[4] wait tile(self)[5] vector \"scale\" rows 32 cols 32 operand [0] strides 128 0 "
              "operand [140000] strides 64 0 signal tile(self)[3] signal tile(self)[6]") +
        issue("tdma.1", "store",
              "wait tile(self)[6] dma tsram(self)[140000] -> hbm(0)[4194304 + 65536*self + 2048*i0] run 2048 "
              "signal tile(self)[5]") +
        "}\n}\n";
    const auto go = [&](std::uint64_t seed) {
        auto run = std::make_unique<Run>(text, with_seed(seed));
        std::vector<std::byte> codes(6 * 1024);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            codes[i] = static_cast<std::byte>(i * 31 % 120);  // finite and positive
        }
        run->memories.hbm().write(2097152, codes);
        run->machine.run();
        CHECK(run->machine.unbalanced().empty());
        return run;
    };
    const std::unique_ptr<Run> first = go(0);
    CHECK(check_races(first->program, test::toy(), first->machine.trace()).races.empty());
    std::set<std::vector<std::uint32_t>> orders;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const std::unique_ptr<Run> run = go(seed);
        CHECK(run->memories.hbm().first_difference(first->memories.hbm()) == std::nullopt);
        for (std::int64_t unit = 0; unit < 2; ++unit) {
            CHECK(run->memories.at(Space::tsram, unit).first_difference(first->memories.at(Space::tsram, unit)) ==
                  std::nullopt);
        }
        std::vector<std::uint32_t> order;
        for (const TraceEvent& event : run->machine.trace().events) {
            order.push_back(event.thread * 100 + static_cast<std::uint32_t>(event.kind));
        }
        orders.insert(order);
    }
    CHECK(orders.size() > kSeeds / 2);
}

TEST_CASE("a DMA whose source and destination overlap reads all before it writes anything") {
    const std::string text =
        tile(issue("tdma.0", "load", "dma hbm(0)[0] -> tsram(self)[0] run 128 signal tile(self)[1]") +
             issue("tdma.1", "up", "wait tile(self)[1] dma tsram(self)[0] -> tsram(self)[32] run 96"));
    for (std::uint64_t seed = 0; seed <= 10; ++seed) {
        Run run(text, with_seed(seed));
        run.machine.run();
        CHECK(bytes_of(run.memories.at(Space::tsram, 0), 32, 96) == bytes_of(run.memories.hbm(), 0, 96));
    }
}
