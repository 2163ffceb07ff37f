// SPDX-License-Identifier: Apache-2.0
// Does the report of a race name who, where and what is missing, and nobody else?
#include "isa/execute/race_check.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "isa/errors.hpp"
#include "tests/isa/execute/programs.hpp"

using namespace sluice;
using namespace sluice::isa;
using Catch::Matchers::Contains;
using test::issue;
using test::tile;
using test::unverified;

namespace {

std::vector<std::string> races(const std::string& text, std::uint64_t seed = 0) {
    const Program program = unverified(text);
    Memories memories(test::toy());
    MachineOptions options;
    options.seed = seed;
    options.record_trace = true;
    options.stop_at_unwritten = false;
    Machine machine(program, test::toy(), memories, options);
    machine.run();
    return check_races(program, test::toy(), machine.trace()).races;
}

/// The one race of a program.
std::string race(const std::string& text) {
    const std::vector<std::string> found = races(text);
    REQUIRE(found.size() == 1);
    return found.front();
}

/// Two buffers of 256 bytes at 1024: loaded, then stored from there.
std::string double_buffer(const std::string& wait_for_a_free_slot) {
    return "region \"two slots\" tsram units 1 from 0 offset 1024 bytes 512\n"
           "init tile(0)[0] units 1 value 2\n" +
           tile("loop 6 {\n" +
                issue("tdma.0", "load",
                      wait_for_a_free_slot + "dma hbm(0)[256*i0] -> tsram(self)[1024 + (256*i0) % 512] run 256"
                                             " signal tile(self)[1]") +
                issue("tdma.1", "store",
                      "wait tile(self)[1] dma tsram(self)[1024 + (256*i0) % 512] -> hbm(0)[65536 + 256*i0] run 256"
                      " signal tile(self)[0]") +
                "}\n");
}

/// 32 elements and their scales come through one channel; a tensor macro reads both.
std::string elements_and_scales(bool signal_at_the_last) {
    const std::string signal = " signal tile(self)[1]";
    return "region \"weights\" tsram units 1 from 0 offset 131072 bytes 1056\n" +
           tile(issue("tdma.0", "elements",
                      "dma hbm(0)[0] -> tsram(self)[131072] run 1024" + (signal_at_the_last ? "" : signal)) +
                issue("tdma.0", "scales",
                      "dma hbm(0)[1024] -> tsram(self)[132096] run 32" + (signal_at_the_last ? signal : "")) +
                issue("ttu.0", "multiply",
                      "wait tile(self)[1] tensor 1 x 1 x 1 a [131072] strides 0 0 mxfp8 b [196608] strides 0 0 mxfp4 "
                      "c [0] strides 0 0"));
}

/// A product of two block rows that are signalled one by one, and a store of the block row `row` after `rows` signals.
std::string row_signals(int rows, int row) {
    return "region \"sums\" tsram units 1 from 0 offset 0 bytes 8192\n" +
           tile(issue("ttu.0", "multiply",
                      "tensor 2 x 1 x 1 a [131072] strides 1024 0 e4m3 b [196608] strides 0 0 e4m3 "
                      "c [0] strides 4096 0 row_signal tile(self)[1]") +
                issue("tdma.0", "store",
                      fmt::format("wait tile(self)[1] x {} dma tsram(self)[{}] -> hbm(0)[0] run 4096", rows,
                                  row * 4096)));
}

/// A row is appended to a cache in HBM, and the cache is read.
std::string append(const std::string& wait) {
    return "region \"cache\" hbm units 1 from 0 offset 4096 bytes 4096\n" +
           tile("loop 3 {\n" +
                issue("tdma.0", "append", "dma tsram(self)[0] -> hbm(0)[4096 + 64*i0] run 64 signal tile(self)[1]") +
                issue("tdma.1", "read",
                      wait + "dma hbm(0)[4096] -> tsram(self)[8192 + 256*i0] run 64 dim i0 + 1 strides 64 64") +
                "}\n" + issue("ttu.0", "count", "wait tile(self)[1] x 0 fence"));
}

}  // namespace

TEST_CASE("a double buffer whose loads wait for a free slot has no race") {
    CHECK(races(double_buffer("wait tile(self)[0] ")).empty());
}

TEST_CASE("a missing wait on a double buffer is named with instructions, indices, bytes and region") {
    const std::vector<std::string> found = races(double_buffer(""));
    REQUIRE(found.size() == 2);
    for (const std::string& text : found) {
        INFO(text);
        CHECK_THAT(text, Contains("race on tsram(0) bytes 1024..1279 (byte 0 of region \"two slots\")"));
        CHECK_THAT(text, Contains("tdma.0 \"load\" of tile 0 at i0 = ") &&
                             Contains("missing: an order from the end of the one to the start of the other"));
    }
    // Only the first load of a slot finds it free for sure; what comes two later is the next that meets it.
    CHECK_THAT(found[0] + found[1], Contains("\"load\" of tile 0 at i0 = 0 writes them") &&
                                        Contains("\"load\" of tile 0 at i0 = 2 writes them") &&
                                        Contains("\"store\" of tile 0 at i0 = 0 reads them") &&
                                        Contains("executions of this pair in all"));
}

TEST_CASE("a signal on the first of two DMAs of a channel leaves the second one under way") {
    CHECK(races(elements_and_scales(true)).empty());
    const std::string text = race(elements_and_scales(false));
    INFO(text);
    CHECK_THAT(text, Contains("race on tsram(0) bytes 132096..132127 (byte 1024 of region \"weights\")"));
    CHECK_THAT(text, Contains("tdma.0 \"scales\" of tile 0 writes them") &&
                         Contains("ttu.0 \"multiply\" of tile 0 reads them"));
    CHECK_THAT(text, Contains("is only known to come after tdma.0 \"elements\" of tile 0 in that queue"));
}

TEST_CASE("a consumer that needs two row signals and waits for one is named, one that waits for its row is not") {
    CHECK(races(row_signals(1, 0)).empty());
    CHECK(races(row_signals(2, 0)).empty());
    CHECK(races(row_signals(2, 1)).empty());
    const std::string text = race(row_signals(1, 1));
    INFO(text);
    CHECK_THAT(text, Contains("race on tsram(0) bytes 4096..8191 (byte 4096 of region \"sums\")"));
    CHECK_THAT(text, Contains("ttu.0 \"multiply\" of tile 0 writes them") &&
                         Contains("tdma.0 \"store\" of tile 0 reads them"));
    CHECK_THAT(text, Contains("the second comes after nothing of the first one's queue"));
}

TEST_CASE("a row that is read although nobody waited for its append is stale") {
    CHECK(races(append("wait tile(self)[1] ")).empty());
    const std::string text = race(append(""));
    INFO(text);
    CHECK_THAT(text, Contains("race on hbm(0) bytes 4096..4159 (byte 0 of region \"cache\")"));
    CHECK_THAT(text, Contains("tdma.0 \"append\" of tile 0 at i0 = 0 writes them") &&
                         Contains("tdma.1 \"read\" of tile 0 at i0 = 0 reads them"));
    CHECK_THAT(text, Contains("executions of this pair in all"));
}

TEST_CASE("neighbours in one line of 32 bytes do not race, and one byte more does") {
    const auto program = [](int bytes) {
        return tile(issue("tdma.0", "left", fmt::format("dma hbm(0)[0] -> tsram(self)[1024] run {}", bytes)) +
                    issue("tdma.1", "right", "dma hbm(0)[64] -> tsram(self)[1037] run 19"));
    };
    CHECK(races(program(13)).empty());
    CHECK_THAT(race(program(14)), Contains("race on tsram(0) bytes 1037..1037:"));
}

TEST_CASE("runs with strides that interleave byte by byte do not race") {
    const auto program = [](int second) {
        return tile(
            issue("tdma.0", "even", "dma hbm(0)[0] -> tsram(self)[1024] run 1 dim 40 strides 1 2") +
            issue("tdma.1", "odd", fmt::format("dma hbm(0)[64] -> tsram(self)[{}] run 1 dim 40 strides 1 2", second)));
    };
    CHECK(races(program(1025)).empty());
    CHECK(!races(program(1026)).empty());
}

TEST_CASE("bytes that a race is named with are the first that both touch, and how far it goes is said") {
    const auto program = [](int runs, int offset) {
        return tile(issue("tdma.0", "every 8th",
                          fmt::format("dma hbm(0)[0] -> tsram(self)[1032] run 2 dim {} strides 2 8", runs)) +
                    issue("tdma.1", "all", fmt::format("dma hbm(0)[64] -> tsram(self)[{}] run 512", offset)));
    };
    CHECK_THAT(race(program(1, 1024)), Contains("race on tsram(0) bytes 1032..1033:\n"));
    CHECK_THAT(race(program(2, 1024)),
               Contains("race on tsram(0) bytes 1032..1033, and 1 more run up to byte 1041:\n"));
    CHECK_THAT(race(program(20, 1024)),
               Contains("race on tsram(0) bytes 1032..1033, and 19 more runs up to byte 1185:\n"));
    CHECK_THAT(race(program(20, 1033)),
               Contains("race on tsram(0) bytes 1033..1033, and 19 more runs up to byte 1185:\n"));
}

TEST_CASE("two instructions that meet in either order are one pair") {
    const auto store = [](const std::string& queue) {
        return issue(queue, queue, "vector \"v\" rows 1 cols 32 operand [1024] strides 128 0");
    };
    const std::string text = "vector \"v\" { pass { v0 = constant 1 store operand 0 fp32 v0 } }\n" +
                             tile("loop 4 {\n" + store("tvp.0") + store("tvp.1") + "}\n");
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const std::vector<std::string> all = races(text, seed);
        REQUIRE(all.size() == 1);
        CHECK_THAT(all.front(), Contains("tvp.0 \"tvp.0\" of tile 0") && Contains("tvp.1 \"tvp.1\" of tile 0"));
    }
}

TEST_CASE("two that read the same bytes do not race") {
    CHECK(races(tile(issue("tdma.0", "one", "dma hbm(0)[0] -> tsram(self)[1024] run 64") +
                     issue("tdma.1", "two", "dma hbm(0)[0] -> tsram(self)[2048] run 64")))
              .empty());
}

TEST_CASE("the same offset of another tile is another byte") {
    const auto writer = [](int unit) {
        return tile(issue("tdma.0", fmt::format("of {}", unit), "dma hbm(0)[0] -> tsram(self)[1024] run 64"), unit);
    };
    CHECK(races(writer(0) + writer(1)).empty());
}

TEST_CASE("a multicast races in every tile that it reaches") {
    const std::string text = "control \"all\" cluster count 1 from 0 {\n" +
                             issue("cdma.0", "spread", "dma hbm(0)[0] -> tsram(0 mask 3)[1024] run 64") + "}\n" +
                             tile(issue("tdma.0", "own", "dma hbm(0)[0] -> tsram(self)[1080] run 64"), 1);
    const std::string found = race(text);
    INFO(found);
    CHECK_THAT(found, Contains("race on tsram(1) bytes 1080..1087"));
    CHECK_THAT(found, Contains("cdma.0 \"spread\" of cluster 0 writes them") &&
                          Contains("tdma.0 \"own\" of tile 1 writes them"));
}

TEST_CASE("two DMAs of one channel that meet overlap, two vector macros of one context do not") {
    const std::string dma = "dma hbm(0)[0] -> tsram(self)[1024] run 64";
    CHECK(!races(tile(issue("tdma.0", "one", dma) + issue("tdma.0", "two", dma))).empty());
    const std::string vector = "vector \"v\" rows 1 cols 32 operand [1024] strides 128 0";
    CHECK(races("vector \"v\" { pass { v0 = constant 1 store operand 0 fp32 v0 } }\n" +
                tile(issue("tvp.0", "one", vector) + issue("tvp.0", "two", vector)))
              .empty());
}

TEST_CASE("waits that can take each other's units are named with both instructions") {
    const std::string text =
        tile(issue("tdma.0", "give", "fence signal tile(self)[1]") + issue("ttu.0", "one", "wait tile(self)[1] fence") +
             issue("tdma.1", "give again", "fence signal tile(self)[1]") +
             issue("tvp.0", "two", "wait tile(self)[1] fence"));
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const std::vector<std::string> found = races(text, seed);
        REQUIRE(found.size() == 1);
        CHECK_THAT(found.front(), Contains("race for tile(0)[1]: ") && Contains("ttu.0 \"one\" of tile 0") &&
                                      Contains("tvp.0 \"two\" of tile 0") &&
                                      Contains("either may take the other's units"));
    }
}

TEST_CASE("an instruction that is in its own way is named, one that works in place is not") {
    const auto conflicts = [](const std::string& content, const std::string& queue = "tdma.0") {
        const std::string vector = "vector \"shift\" { pass { v0 = load operand 0 fp32 store operand 1 fp32 v0 } }\n";
        const Program program = unverified(vector + tile(issue(queue, "the label", content)));
        Memories memories(test::toy());
        MachineOptions options;
        options.record_trace = true;
        options.stop_at_unwritten = false;
        Machine machine(program, test::toy(), memories, options);
        machine.run();
        std::string all;
        for (const std::string& each : check_races(program, test::toy(), machine.trace()).self_conflicts) {
            all += each;
        }
        return all;
    };
    // DMAs: source and destination apart by their length, and by one less; runs side by side, and a byte too near.
    CHECK(conflicts("dma tsram(self)[0] -> tsram(self)[256] run 256") == "");
    CHECK_THAT(conflicts("dma tsram(self)[0] -> tsram(self)[255] run 256"),
               Contains("tdma.0 \"the label\" of tile 0 writes bytes 255..255 of tsram(0) and reads them"));
    CHECK(conflicts("dma hbm(0)[0] -> tsram(self)[0] run 32 dim 4 strides 0 32") == "");
    CHECK_THAT(conflicts("dma hbm(0)[0] -> tsram(self)[0] run 32 dim 4 strides 0 31"), Contains("writes bytes 31..31"));
    CHECK(conflicts("dma hbm(0)[0] -> tsram(self)[0] run 8 dim 4 strides 0 64 dim 8 strides 0 8") == "");
    CHECK_THAT(conflicts("dma hbm(0)[0] -> tsram(self)[0] run 8 dim 4 strides 0 64 dim 9 strides 0 8"),
               Contains("writes bytes 64..71"));
    const auto vector = [](int out) {
        return fmt::format("vector \"shift\" rows 4 cols 8 operand [1024] strides 32 0 operand [{}] strides 32 0", out);
    };
    CHECK(conflicts(vector(1024), "tvp.0") == "");
    CHECK(conflicts(vector(1024 + 128), "tvp.0") == "");
    CHECK_THAT(conflicts(vector(1024 + 32), "tvp.0"), Contains("writes bytes 1056..1087"));
    const auto tensor = [](int a) {
        return fmt::format(
            "tensor 1 x 1 x 1 a [{}] strides 0 0 e4m3 b [196608] strides 0 0 e4m3 c [0] strides 0 0 accumulate", a);
    };
    CHECK(conflicts(tensor(4096), "ttu.0") == "");
    CHECK_THAT(conflicts(tensor(4095), "ttu.0"), Contains("writes bytes 4095..4095"));
}

TEST_CASE("a producer that may run ahead may overflow a semaphore, one that waits for credit does not") {
    const auto program = [](const std::string& credit, const std::string& back, int units) {
        return "init tile(0)[1] units 1 value 1\n" +
               tile(issue("tdma.0", "produce", credit + " fence signal tile(1)[0] x " + std::to_string(units)) +
                    issue("tdma.0", "produce again", credit + " fence signal tile(1)[0] x " + std::to_string(units))) +
               tile(issue("tdma.0", "consume", "wait tile(self)[0] x " + std::to_string(units) + " fence" + back) +
                        issue("tdma.0", "consume again",
                              "wait tile(self)[0] x " + std::to_string(units) + " fence" + back),
                    1);
    };
    // 16 bits hold 65,535.
    // In some interleavings the producer does run ahead; one in which it does not shows that the others are foreseen.
    std::size_t foreseen = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        try {
            const std::vector<std::string> found = races(program("", "", 32768), seed);
            REQUIRE(found.size() == 1);
            CHECK_THAT(found.front(), Contains("tile(1)[0] may overflow") && Contains("65536") && Contains("65535"));
            ++foreseen;
        } catch (const InputError& error) {
            CHECK_THAT(error.what(), Contains("overflows: 65536 exceeds 65535"));
        }
    }
    CHECK(foreseen > 0);
    CHECK(foreseen < 50);
    CHECK(races(program("", "", 32767)).empty());
    CHECK(races(program("wait tile(0)[1]", " signal tile(0)[1]", 40000)).empty());
}

TEST_CASE("the pairs that race do not depend on the interleaving that was run") {
    const auto pairs = [](const std::string& text, std::uint64_t seed) {
        std::set<std::pair<std::string, std::string>> out;
        for (const std::string& found : races(text, seed)) {
            const auto label = [&found](std::size_t from) {
                const std::size_t first = found.find('"', found.find("\n    ", from)) + 1;
                return found.substr(first, found.find('"', first) - first);
            };
            const std::size_t second = found.find(" them\n");
            out.insert(std::minmax(label(0), label(second)));
        }
        return out;
    };
    for (const std::string& text : {double_buffer(""), elements_and_scales(false), row_signals(1, 1), append("")}) {
        const auto first = pairs(text, 0);
        CHECK(!first.empty());
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            CHECK(pairs(text, seed) == first);
        }
    }
}
