// SPDX-License-Identifier: Apache-2.0
// Does the verifier refuse what a chip cannot do, naming the place, and accept what stands exactly at the limit?
#include "tests/isa/verifier_programs.hpp"

using namespace sluice;
using namespace sluice::isa;
using namespace sluice::test;

TEST_CASE("an address may reach the last byte of a memory, in the last iteration too") {
    const auto stream = [](std::int64_t count) {
        return tile(fmt::format("loop {} {{ {} }}", count, dma("hbm(0)[0] -> tsram(self)[4096*i0] run 4096")));
    };
    const std::int64_t slots = toy().tsram.bytes / 4096;
    check_limit(stream(slots), stream(slots + 1), kLabel,
                fmt::format("the destination reaches bytes 0..{}, allowed is 0..{}", toy().tsram.bytes + 4095,
                            toy().tsram.bytes - 1));
    const auto from = [](const std::string& memory, std::int64_t last_byte) {
        return tile(dma(fmt::format("{}[{}] -> tsram(self)[0] run 32", memory, last_byte - 31)));
    };
    const auto hbm = static_cast<std::int64_t>(hbm_bytes(toy()));
    check_limit(from("hbm(0)", hbm - 1), from("hbm(0)", hbm), kLabel, "the source reaches bytes");
    check_limit(from("csram(0)", toy().csram.bytes - 1), from("csram(0)", toy().csram.bytes), kLabel, "the source");
    const auto below = [](const std::string& first) {
        return tile(dma("hbm(0)[" + first + "] -> tsram(self)[0] run 32 dim 3 strides -64 64"));
    };
    check_limit(below("128"), below("127"), kLabel, "reaches bytes -1..");
    const auto strided = [](std::int64_t stride) {
        return tile(
            dma(fmt::format("hbm(0)[0] -> tsram(self)[0] run 32 dim 2 strides 32 64 dim 3 strides 0 {}", stride)));
    };
    check_limit(strided((toy().tsram.bytes - 96) / 2), strided((toy().tsram.bytes - 96) / 2 + 1), kLabel,
                "the destination reaches");
}

TEST_CASE("a condition around an instruction bounds its addresses") {
    const std::int64_t slots = toy().tsram.bytes / 4096;
    const auto guarded = [slots](std::int64_t highest) {
        return tile(fmt::format("loop {} {{ if {} - i0 >= 0 {{ {} }} else {{ {} }} }}", 2 * slots, highest,
                                dma("hbm(0)[0] -> tsram(self)[4096*i0] run 4096"),
                                dma(fmt::format("hbm(0)[0] -> tsram(self)[4096*i0 - {}] run 4096", slots * 4096))));
    };
    check_limit(guarded(slots - 1), guarded(slots), kLabel, "the destination reaches");
    CHECK_THAT(error(guarded(slots - 2)), Catch::Contains("reaches bytes -4096.."));
    // A triangle: i1 runs below slots - i0.
    const auto triangle = [slots](std::int64_t more) {
        return tile(fmt::format("loop {} {{ loop {} - i0 {{ {} }} }}", slots, slots + more,
                                dma("hbm(0)[0] -> tsram(self)[4096*i0 + 4096*i1] run 4096")));
    };
    check_limit(triangle(0), triangle(1), kLabel, "the destination reaches");
    // What never runs is not looked at.
    CHECK(error(tile("loop 0 { " + dma("hbm(0)[-1] -> tsram(self)[0] run 32") + " }")) == "");
    CHECK(error(tile("if -1 >= 0 { " + dma("hbm(0)[-1] -> tsram(self)[0] run 32") + " }")) == "");
}

TEST_CASE("a ring of slots ends within its memory") {
    const auto ring = [](std::int64_t base) {
        return tile("r0 = 0 in 0..1000000 " +
                    dma(fmt::format("hbm(0)[0] -> tsram(self)[{} + (4096*r0) % 16384] run 4096", base)));
    };
    check_limit(ring(toy().tsram.bytes - 16384), ring(toy().tsram.bytes - 16384 + 1), kLabel,
                "the destination reaches");
}

TEST_CASE("units stay on the chip") {
    const auto to = [](const std::string& unit) { return tile(dma("tsram(self)[0] -> " + unit + "[0] run 32")); };
    check_limit(to("tsram(1)"), to("tsram(2)"), kLabel, "the destination's unit reaches 2..2, allowed is 0..1");
    check_limit(to("tsram(0 mask 0x3)"), to("tsram(1 mask 0x3)"), kLabel, "allowed is 0..0");
    check_limit(to("csram(0)"), to("csram(1)"), kLabel, "the destination's unit");
    // A mask beyond all units is wrong for every unit.
    check_limit(to("tsram(0 mask 0x2)"), to("tsram(0 mask 0x8000000000000000)"), kLabel,
                "the destination's unit has a mask with bit 63, allowed are bits 0..1: there are 2 in all");
    check_limit(to("csram(0 mask 0x1)"), to("csram(0 mask 0x2)"), kLabel,
                "the destination's unit has a mask with bit 1, allowed are bits 0..0: there is 1 in all");
}

TEST_CASE("blocks of C do not overlap, whatever the strides") {
    const auto tensor = [](const std::string& mb, const std::string& nb, const std::string& last_rows,
                           const std::string& c) {
        return tile("loop 4 {" +
                    issue("ttu.0", fmt::format("tensor {} x {} x 1 last_rows {} a [0] strides 0 0 mxfp8 b [0] strides "
                                               "0 0 mxfp4 c {}",
                                               mb, nb, last_rows, c)) +
                    "}");
    };
    const std::string where = "control program main, ttu.0 \"the label\": ";
    const std::string said = "blocks of result c overlap";
    check_limit(tensor("2", "2", "32", "[0] strides 8192 4096"), tensor("2", "2", "32", "[0] strides 8192 4064"), where,
                said);
    check_limit(tensor("1", "2", "7", "[0] strides 0 896"), tensor("1", "2", "7", "[0] strides 0 864"), where, said);
    check_limit(tensor("1", "1", "32", "[0] strides 0 0"), tensor("2", "1", "32", "[0] strides 0 0"), where, said);
    // Block rows between block columns, and one column more.
    check_limit(tensor("2", "3", "32", "[0] strides 4096 8192"), tensor("3", "3", "32", "[0] strides 4096 8192"), where,
                said);
    check_limit(tensor("i0 + 1", "4", "32", "[0] strides 16384 4096"),
                tensor("i0 + 1", "4", "32", "[0] strides 12288 4096"), where,
                said + ": its strides are 12288 and 4096, a block has 4096 bytes; first at i0 = 1");
}

TEST_CASE("blocks of C overlap exactly where a map of all bytes says so") {
    Random random(11);
    std::size_t overlaps = 0;
    constexpr int kPrograms = 2000;
    for (int i = 0; i < kPrograms; ++i) {
        const std::int64_t mb = random.pick(1, 4);
        const std::int64_t nb = random.pick(1, 4);
        const std::int64_t last_rows = random.pick(1, 32);
        const std::int64_t row_stride = random.pick(-20, 20) * 32 * random.pick(1, 24);
        const std::int64_t column_stride = random.pick(-20, 20) * 32 * random.pick(1, 24);
        std::vector<int> writes(131072 + 1, 0);
        constexpr std::int64_t kStart = 65536;
        bool twice = false;
        bool outside = false;
        for (std::int64_t m = 0; m < mb; ++m) {
            for (std::int64_t n = 0; n < nb; ++n) {
                const std::int64_t at = kStart + m * row_stride + n * column_stride;
                outside = outside || at < 0 || at + 4096 > 131072;
                for (std::int64_t byte = 0; !outside && byte < 128 * (m + 1 == mb ? last_rows : 32); ++byte) {
                    twice = ++writes[static_cast<std::size_t>(at + byte)] > 1 || twice;
                }
            }
        }
        if (outside) {
            continue;
        }
        overlaps += twice ? 1 : 0;
        const std::string text =
            tile(issue("ttu.0", fmt::format("tensor {} x {} x 1 last_rows {} a [0] strides 0 0 mxfp8 b [0] strides 0 0 "
                                            "mxfp4 c [{}] strides {} {}",
                                            mb, nb, last_rows, kStart, row_stride, column_stride)));
        INFO(text);
        CHECK((error(text).find("blocks of result c overlap") != std::string::npos) == twice);
    }
    CHECK(overlaps > kPrograms / 10);
    CHECK(overlaps < kPrograms * 9 / 10);
}

TEST_CASE("a tensor macro keeps operands in TSRAM and its result in the output region") {
    const std::int64_t blocks = toy().tsram.output_region_bytes / 4096;
    const auto tensor = [](std::int64_t mb, std::int64_t nb, std::int64_t a, std::int64_t b, std::int64_t a_stride) {
        return tile(
            issue("ttu.0", fmt::format("tensor {} x {} x 1 a [{}] strides {} 0 mxfp8 b [{}] strides 0 0 mxfp4 c "
                                       "[0] strides {} 4096",
                                       mb, nb, a, a_stride, b, nb * 4096)));
    };
    const std::string where = "control program main, ttu.0 \"the label\": ";
    check_limit(tensor(blocks, 1, 0, 0, 0), tensor(blocks + 1, 1, 0, 0, 0), where, "result c reaches");
    check_limit(tensor(4, blocks / 4, 0, 0, 0), tensor(4, blocks / 4 + 1, 0, 0, 0), where, "result c reaches");
    const std::int64_t end = toy().tsram.bytes;
    check_limit(tensor(1, 1, end - 1056, 0, 0), tensor(1, 1, end - 1056 + 32, 0, 0), where, "operand a reaches");
    check_limit(tensor(1, 1, 0, end - 544, 0), tensor(1, 1, 0, end - 544 + 32, 0), where, "operand b reaches");
    check_limit(tensor(2, 1, 0, 0, end - 1056), tensor(2, 1, 0, 0, end - 1056 + 32), where, "operand a reaches");
    check_limit(tensor(1, 1, 32, 0, 1056), tensor(1, 1, 16, 0, 1056), where, "operand a is not aligned to 32 bytes");
    check_limit(tensor(1, 1, 0, 0, 1056), tensor(1, 1, 0, 0, 1040), where, "a stride of 1040, not a multiple of 32");
    check_limit(tensor(1, 1, 0, 0, 0), tensor(0, 1, 0, 0, 0), where, "block rows reaches 0..0");
    const auto formats = [](const std::string& b) {
        return tile(
            issue("ttu.0", "tensor 1 x 1 x 1 a [0] strides 0 0 bf16 b [0] strides 0 0 " + b + " c [0] strides 0 0"));
    };
    check_limit(formats("bf16"), formats("mxfp8"), where, "bf16");
}

TEST_CASE("an instruction has so many waits and signals, and an engine so many queues") {
    const auto waits = [](std::int64_t count) {
        std::string list;
        std::string balance;
        for (std::int64_t i = 0; i < count; ++i) {
            list += fmt::format("wait tile(self)[{}] ", i);
            balance += fmt::format(" signal tile(self)[{}]", i);
        }
        return tile(issue("tdma.0", list + "fence") + balance);
    };
    check_limit(waits(toy().control.max_waits), waits(toy().control.max_waits + 1), kLabel,
                "waits, an instruction has");
    const auto signals = [](std::int64_t count) {
        return tile(issue("tdma.0", "fence " + repeated("signal tile(self)[0] ", count)) +
                    fmt::format(" wait tile(self)[0] x {}", count));
    };
    check_limit(signals(toy().control.max_signals), signals(toy().control.max_signals + 1), kLabel, "signals, an");
    struct Queue {
        const char* engine;
        std::int64_t lanes;
        bool of_cluster;
    };
    for (const Queue& queue : std::vector<Queue>{{"tdma", toy().tdma.channels, false},
                                                 {"cdma", toy().cdma.channels, true},
                                                 {"ttu", toy().ttu.contexts, false},
                                                 {"tvp", toy().tvp.contexts, false},
                                                 {"reshaper", 1, false}}) {
        const auto on = [&queue](std::int64_t lane) {
            const std::string body = issue(fmt::format("{}.{}", queue.engine, lane), "fence");
            return queue.of_cluster ? cluster(body) : tile(body);
        };
        check_limit(on(queue.lanes - 1), on(queue.lanes),
                    fmt::format("control program main, {}.{} \"the label\": ", queue.engine, queue.lanes),
                    fmt::format("{} has channels or contexts 0..{}", queue.engine, queue.lanes - 1));
        const std::string body = issue(fmt::format("{}.0", queue.engine), "fence");
        CHECK_THAT(error(queue.of_cluster ? tile(body) : cluster(body)), Catch::Contains("cannot issue to"));
        CHECK_THAT(error(header() + control("chip", body)), Catch::Contains("cannot issue to"));
    }
}

TEST_CASE("each macro runs on its own engine") {
    const std::string add = vector("v0 = load operand 0 fp32 store operand 0 fp32 v0");
    struct Macro {
        std::string text;
        std::string engine;
    };
    const std::vector<Macro> macros{
        {"dma hbm(0)[0] -> tsram(self)[0] run 32", "tdma"},
        {"tensor 1 x 1 x 1 a [0] strides 0 0 bf16 b [0] strides 0 0 bf16 c [0] strides 0 0", "ttu"},
        {"vector \"v\" rows 32 cols 32 operand [0] strides 128 0", "tvp"},
        {"reshape pack_blocks rows 32 cols 32 src [0] stride 64 bf16 dst [4096] stride 2048 bf16", "reshaper"}};
    for (const Macro& macro : macros) {
        for (const std::string engine : {"tdma", "ttu", "tvp", "reshaper"}) {
            INFO(macro.text << " on " << engine);
            const std::string found = error(tile(issue(engine + ".0", macro.text), add));
            CHECK(found.empty() == (engine == macro.engine));
            if (engine != macro.engine) {
                CHECK_THAT(found, Catch::StartsWith("control program main, " + engine + ".0 \"the label\": "));
                CHECK_THAT(found, Catch::Contains("does not run"));
            }
        }
    }
}

TEST_CASE("vector programs are complete, and macros bring their operands") {
    const auto program = [](const std::string& steps) { return header() + vector(steps); };
    const std::string where = "vector program v: ";
    check_limit(program("v0 = load operand 0 fp32 v1 = exp v0"), program("v0 = load operand 0 fp32 v1 = exp v2"), where,
                "v2 is used before it is defined");
    check_limit(program("v0 = constant 1 v1 = add v0 v0"), program("v0 = constant 1 v1 = add v0"), where,
                "add takes 2 values");
    check_limit(program("v0 = load operand 0 fp32"), program("v0 = load"), where, "one operand");
    check_limit(program("v0 = load operand 0 fp32"), program("load operand 0 fp32"), where, "defines a value");
    check_limit(program("v0 = load operand 0 fp32"), program("v0 = load operand 0 raw"), where,
                "needs a number format");
    check_limit(program("v0 = constant 1 store operand 0 bf16 v0"),
                program("v0 = constant 1 v1 = store operand 0 bf16 v0"), where, "does not define a value");
    check_limit(header() + vector("", "v") + vector("", "w"), header() + vector("", "v") + vector("", "v"), where,
                "is defined twice");

    const auto macro = [](const std::string& name, const std::string& operands, const std::string& rows = "32") {
        return tile(issue("tvp.0", fmt::format("vector \"{}\" rows {} cols 32 {}", name, rows, operands)),
                    vector("v0 = load operand 1 fp32 store operand 0 fp32 v0"));
    };
    const std::string operand = "operand [0] strides 128 0 ";
    const std::string tvp = "control program main, tvp.0 \"the label\": ";
    check_limit(macro("v", operand + operand), macro("w", operand + operand), tvp, "no vector program \"w\"");
    check_limit(macro("v", operand + operand), macro("v", operand), tvp, "uses 2 operands, 1 are given");
    check_limit(macro("v", operand + operand, "1"), macro("v", operand + operand, "0"), tvp, "rows reaches 0..0");
    const auto at = [](std::int64_t offset) { return fmt::format("operand [{}] strides 128 0 ", offset); };
    // The whole operand must lie in TSRAM: rows of 32 FP32 values, 128 bytes apart.
    const std::int64_t size = toy().tsram.bytes;
    check_limit(macro("v", operand + at(size - 128), "1"), macro("v", operand + at(size - 127), "1"), tvp,
                "operand 1 reaches");
    check_limit(macro("v", operand + at(size - 7 * 128), "7"), macro("v", operand + at(size - 7 * 128), "8"), tvp,
                "operand 1 reaches");
    // In blocks: 64 rows are two block rows, each of one block of 4,096 bytes.
    const auto blocks = [](std::int64_t offset) { return fmt::format("operand [{}] strides 4096 4096 ", offset); };
    check_limit(macro("v", operand + blocks(size - 8192), "64"), macro("v", operand + blocks(size - 8192), "65"), tvp,
                "operand 1 reaches");
}

TEST_CASE("operands in blocks end where their last element does") {
    const std::int64_t end = toy().tsram.bytes;
    const std::string tvp = "control program main, tvp.0 \"the label\": ";
    const auto macro = [](const std::string& step, std::int64_t offset, std::int64_t rows, std::int64_t cols,
                          const std::string& layout, const std::string& pass = "pass") {
        return tile(issue("tvp.0", fmt::format("vector \"v\" rows {} cols {} operand [{}] strides {}", rows, cols,
                                               offset, layout)),
                    fmt::format("vector \"v\" {{ {} {{ {} }} }}\n", pass, step));
    };
    // One value a row: 128 bytes from row to row within a block of 32 x 32 FP32.
    const std::string row = "v0 = load_row operand 0 fp32";
    check_limit(macro(row, end - 2 * 128 - 4, 3, 64, "8192 4096"), macro(row, end - 2 * 128 - 3, 3, 64, "8192 4096"),
                tvp, "operand 0 reaches");
    const std::string element = "v0 = load operand 0 fp32";
    check_limit(macro(element, end - 2 * 128 - 4, 3, 64, "8192 4096", "pass rows"),
                macro(element, end - 2 * 128 - 3, 3, 64, "8192 4096", "pass rows"), tvp, "operand 0 reaches");
    // One value a column: the first row of every block.
    const std::string column = "v0 = load_col operand 0 fp32";
    check_limit(macro(column, end - 4096 - 128, 96, 64, "8192 4096"),
                macro(column, end - 4096 - 127, 96, 64, "8192 4096"), tvp, "operand 0 reaches");
    // Packed blocks of two rows, with their scales: 2 x (32 + 1) bytes.
    const std::string scaled = "v0 = load operand 0 mxfp8";
    check_limit(macro(scaled, end - 66, 2, 32, "66 66 block_rows 2"),
                macro(scaled, end - 65, 2, 32, "66 66 block_rows 2"), tvp, "operand 0 reaches");
    check_limit(macro(scaled, 0, 2, 32, "66 66 block_rows 2"), macro(scaled, 0, 2, 33, "66 66 block_rows 2"), tvp,
                "cols must be a multiple of 32 for mxfp8");
    check_limit(macro(scaled, 0, 2, 32, "66 66 block_rows 2"), macro(scaled, 0, 2, 32, "66 0"), tvp,
                "operand 0 must be in blocks");
    check_limit(macro(element, 0, 2, 32, "128 0", "pass rows"), macro(scaled, 0, 2, 32, "66 66", "pass rows"),
                "vector program v: ", "load in a pass over rows takes single values of at least 8 bits, not mxfp8");
}

TEST_CASE("a reshape reads and writes whole matrices") {
    const std::int64_t end = toy().tsram.bytes;
    const std::string where = "control program main, reshaper.0 \"the label\": ";
    const auto reshape = [](const std::string& kind, std::int64_t from, std::int64_t to, std::int64_t rows,
                            std::int64_t cols) {
        return tile(
            issue("reshaper.0", fmt::format("reshape {} rows {} cols {} src [{}] stride 4096 bf16 dst [{}] stride 2048 "
                                            "bf16",
                                            kind, rows, cols, from, to)));
    };
    // 40 x 64: two block rows of two blocks become two block rows... of the transposed, which has two of two.
    check_limit(reshape("transpose_blocks", 0, end - 2048 - 4096, 40, 64),
                reshape("transpose_blocks", 0, end - 2048 - 4095, 40, 64), where, "the destination reaches");
    // 32 x 96 transposed is three block rows of one block.
    check_limit(reshape("transpose_blocks", 0, end - 3 * 2048, 32, 96),
                reshape("transpose_blocks", 0, end - 3 * 2048 + 1, 32, 96), where, "the destination reaches");
    check_limit(reshape("transpose_blocks", end - 3 * 2048, 0, 32, 96),
                reshape("transpose_blocks", end - 3 * 2048 + 1, 0, 32, 96), where, "the source reaches");
    check_limit(reshape("pack_blocks", end - 39 * 4096 - 128, 0, 40, 64),
                reshape("pack_blocks", end - 39 * 4096 - 127, 0, 40, 64), where, "the source reaches");
    check_limit(reshape("unpack_blocks", 0, end - 39 * 2048 - 128, 40, 64),
                reshape("unpack_blocks", 0, end - 39 * 2048 - 127, 40, 64), where, "the destination reaches");
}

TEST_CASE("a reshape takes formats without block scales, and whole blocks of what is less than a byte") {
    const auto reshape = [](const std::string& kind, const std::string& format, const std::string& rows,
                            const std::string& cols) {
        return tile("loop 3 { " +
                    issue("reshaper.0", fmt::format("reshape {} rows {} cols {} src [0] stride 2048 {} dst [131072] "
                                                    "stride 8192 {}",
                                                    kind, rows, cols, format, format)) +
                    " }");
    };
    const std::string where = "control program main, reshaper.0 \"the label\": ";
    for (const char* kind : {"pack_blocks", "unpack_blocks", "transpose_blocks"}) {
        check_limit(reshape(kind, "e4m3", "32", "64"), reshape(kind, "mxfp8", "32", "64"), where,
                    "the reshaper does not take mxfp8: rows have no place for block scales");
        check_limit(reshape(kind, "e2m3", "32", "32*i0 + 32"), reshape(kind, "e2m3", "32", "16*i0 + 32"), where,
                    "cols must be a multiple of 32 for e2m3; first at i0 = 1");
        CHECK(error(reshape(kind, "e4m3", "31", "33")) == "");
    }
    CHECK(error(reshape("pack_blocks", "e2m3", "31", "32")) == "");
    check_limit(reshape("transpose_blocks", "e3m2", "64", "32"), reshape("transpose_blocks", "e3m2", "63", "32"), where,
                "rows must be a multiple of 32 for e3m2");
}

TEST_CASE("tables and their elements exist") {
    const std::string table = "table \"t\" count 10 range 0..3 source \"uniform\" seed 1\n";
    const auto load = [&table](const std::string& name, std::int64_t element) {
        return tile(fmt::format("r0 = table \"{}\" [{}]", name, element), table);
    };
    const std::string where = "control program main: ";
    check_limit(load("t", 9), load("t", 10), where, "a table element reaches 10..10, allowed is 0..9");
    check_limit(load("t", 0), load("u", 0), where, "no table \"u\"");
    CHECK_THAT(error(header() + table + table), Catch::StartsWith("table t: is defined twice"));
    // The range of the values bounds what is addressed with them.
    const auto use = [&table](std::int64_t offset) {
        return tile(
            "r0 = table \"t\" [0] " + dma(fmt::format("hbm(0)[0] -> tsram(self)[{} + 4096*r0] run 4096", offset)),
            table);
    };
    const std::int64_t last = toy().tsram.bytes - 4 * 4096;
    check_limit(use(last), use(last + 1), kLabel, "the destination reaches");
}

TEST_CASE("registers have ranges, and hold 0 before anything sets them") {
    const std::string use = dma("hbm(0)[0] -> tsram(self)[4096*r0] run 4096");
    check_limit(tile("r0 = 1 in 0..1 " + use), tile("r1 = 1 in 0..1 " + use), kLabel, "has no bounds");
    const std::int64_t most = toy().tsram.bytes / 4096 - 1;
    const auto range = [&use](std::int64_t highest) { return tile(fmt::format("r0 = 1 in 0..{} ", highest) + use); };
    check_limit(range(most), range(most + 1), kLabel, "the destination reaches");
    // Another statement may widen it, wherever it stands.
    const auto later = [&use](std::int64_t highest) {
        return tile(fmt::format("loop 3 {{ {} if r0 >= 0 {{ r0 += 1 in 0..{} }} }} r0 = 0 in 0..0", use, highest));
    };
    check_limit(later(most), later(most + 1), kLabel, "the destination reaches");
    // Before the first assignment the register is 0, whatever range is declared.
    const auto early = [](std::int64_t shift) {
        return tile(dma(fmt::format("hbm(0)[0] -> tsram(self)[4096*r0 - {}] run 4096", shift)) + " r0 = 2 in 1..3");
    };
    check_limit(early(0), early(4096), kLabel, "the destination reaches bytes -4096");
}

TEST_CASE("a delay is not negative, and bounded") {
    const auto delay = [](const std::string& cycles) { return tile("loop 8 { delay " + cycles + " }"); };
    const std::string where = "control program main: ";
    check_limit(delay("7 - i0"), delay("6 - i0"), where, "a delay reaches -1..6, allowed is 0..4294967296");
    check_limit(delay(fmt::format("{} + i0", kMaxDelayCycles - 7)), delay(fmt::format("{} + i0", kMaxDelayCycles - 6)),
                where, "a delay");
}

TEST_CASE("semaphores exist, and hold what is counted into them") {
    const auto signal = [](const std::string& sem) { return tile("signal " + sem + " wait " + sem); };
    const std::string where = "control program main: ";
    const auto index = [](const char* level, std::int64_t i) { return fmt::format("{}(0)[{}]", level, i); };
    check_limit(signal(index("tile", toy().semaphores.per_tile - 1)), signal(index("tile", toy().semaphores.per_tile)),
                where, "a semaphore's index");
    check_limit(signal(index("cluster", toy().semaphores.per_cluster - 1)),
                signal(index("cluster", toy().semaphores.per_cluster)), where, "a semaphore's index");
    check_limit(signal(index("chip", toy().semaphores.per_chip - 1)), signal(index("chip", toy().semaphores.per_chip)),
                where, "a semaphore's index");
    check_limit(signal("tile(1)[0]"), signal("tile(2)[0]"), where, "a semaphore's unit");
    const auto masked = [](const std::string& mask) {
        return tile("signal tile(0 mask " + mask + ")[0] wait tile(0)[0] wait tile(1)[0]");
    };
    check_limit(masked("0x3"), masked("0x5"), where,
                "a semaphore's unit has a mask with bit 2, allowed are bits 0..1: there are 2 in all");
    const std::int64_t most = (std::int64_t{1} << toy().semaphores.width_bits) - 1;
    check_limit(signal(fmt::format("tile(0)[0] x {}", most)), signal(fmt::format("tile(0)[0] x {}", most + 1)), where,
                "a semaphore count");
    check_limit(tile("signal tile(0)[0] wait tile(self)[0]"), tile("signal tile(0)[0] wait tile(self mask 0x1)[0]"),
                where, "a wait cannot have a mask");
    const auto init = [](const std::string& text) { return header() + "init " + text + "\n"; };
    check_limit(init("tile(0)[0] units 2 value 1"), init("tile(0)[0] units 3 value 1"), "init tile(0)[0]: ", "no such");
    check_limit(init(fmt::format("tile(0)[{}] units 1 value 1", toy().semaphores.per_tile - 1)),
                init(fmt::format("tile(0)[{}] units 1 value 1", toy().semaphores.per_tile)), "init tile(0)[",
                "no such");
    check_limit(init(fmt::format("tile(0)[0] units 1 value {}", most)),
                init(fmt::format("tile(0)[0] units 1 value {}", most + 1)), "init tile(0)[0]: ", "does not fit");
}

TEST_CASE("an instruction waits on a semaphore once") {
    const auto two = [](const std::string& one, const std::string& other, const std::string& around = "{}") {
        std::string text = around;
        return tile(text.replace(
            text.find("{}"), 2,
            issue("tdma.0", fmt::format("wait {0} x 0 wait {1} x 0 fence signal {0} x 0 signal {1} x 0", one, other))));
    };
    const std::string message = "waits twice on one semaphore: a single wait must take both counts";
    check_limit(two("tile(self)[3]", "tile(self)[4]"), two("tile(self)[3]", "tile(self)[3]"), kLabel, message);
    check_limit(two("tile(0)[3]", "cluster(0)[3]"), two("tile(0)[3]", "tile(self)[3]"), kLabel, message);
    check_limit(two("tile(0)[3]", "tile(1)[3]"), two("tile(1)[3]", "tile(1)[3]"), kLabel, message);
    // In some iteration, which is named.
    check_limit(two("tile(0)[i0]", "tile(0)[3]", "loop 3 { {} }"), two("tile(0)[i0]", "tile(0)[3]", "loop 4 { {} }"),
                kLabel, message + "; first at i0 = 3");
    check_limit(two("tile(0)[2*i0]", "tile(0)[5]", "loop 9 { {} }"),
                two("tile(0)[2*i0]", "tile(0)[6]", "loop 9 { {} }"), kLabel, message + "; first at i0 = 3");
    // Slots of a ring.
    check_limit(two("tile(0)[4 + (i0) % 3]", "tile(0)[7]", "loop 9 { {} }"),
                two("tile(0)[4 + (i0) % 3]", "tile(0)[6]", "loop 9 { {} }"), kLabel, message + "; first at i0 = 2");
    const auto ahead = [&two](int slots) {
        return two("tile(0)[4 + (r0) % 3]", fmt::format("tile(0)[4 + (r0 + {}) % 3]", slots),
                   "r0 = 5 in 0..1000000000 loop 9 { {} r0 += 1 in 0..1000000000 }");
    };
    check_limit(ahead(2), ahead(3), kLabel, message);
}

TEST_CASE("what is waited for is signalled somewhere") {
    const std::string wait = issue("tdma.0", "wait tile(self)[5] fence");
    const std::string message = "waits on a tile semaphore 5 that nothing signals";
    const std::string where = "control program main, tdma.0 \"the label\"";
    check_limit(tile(wait + " signal tile(self)[5]"), tile(wait + " signal tile(self)[6]"), where, message);
    CHECK_THAT(error(tile(wait, "init tile(0)[5] units 1 value 1\n")), !Catch::Contains(message));
    CHECK_THAT(error(tile(wait, "init tile(0)[4] units 1 value 1\n")), Catch::Contains(message));
    // By another level's program, by an index of a loop, by the rows of a tensor macro.
    check_limit(tile(wait) + "control \"c\" cluster count 1 from 0 { signal tile(0)[5] }",
                tile(wait) + "control \"c\" cluster count 1 from 0 { signal cluster(0)[5] }", where, message);
    const auto each = [&wait](int signals) {
        return tile(wait +
                    fmt::format(" loop {} {{ signal tile(self)[i0] }} loop 5 {{ wait tile(self)[i0] }}", signals));
    };
    check_limit(each(6), each(5), where, message);
    const auto rows = [](int index) {
        return issue("ttu.0",
                     fmt::format("tensor 1 x 1 x 1 a [0] strides 0 0 bf16 b [0] strides 0 0 bf16 c [0] strides "
                                 "0 0 row_signal tile(self)[{}]",
                                 index));
    };
    check_limit(tile(wait + rows(5)), tile(wait + rows(4)), where, message);
}

TEST_CASE("each processor of the chip has at most one control program") {
    const auto two = [](const std::string& second) {
        return header() + "control \"a\" tile count 1 from 0 { }\ncontrol \"b\" " + second + " { }\n";
    };
    check_limit(two("tile count 1 from 1"), two("tile count 2 from 0"),
                "control program b: ", "tile 0 has a control program already");
    check_limit(two("tile count 1 from 1"), two("tile count 1 from 2"), "control program b: ", "the chip has 0..1");
    check_limit(two("cluster count 1 from 0"), two("cluster count 2 from 0"),
                "control program b: ", "the chip has 0..0");
    check_limit(two("chip count 1 from 0"), two("chip count 1 from 1"), "control program b: ", "the chip has 0..0");
}

TEST_CASE("a program is for its chip") {
    check_limit(header("toy"), header("maia200"), "program p: ", "written for chip \"maia200\", this is \"toy\"");
    const auto region = [](const std::string& text) { return header() + "region \"r\" " + text + "\n"; };
    const std::int64_t size = toy().csram.bytes;
    check_limit(region(fmt::format("csram units 1 from 0 offset 64 bytes {}", size - 64)),
                region(fmt::format("csram units 1 from 0 offset 64 bytes {}", size - 63)),
                "region r: ", fmt::format("the memory has {} bytes", size));
    check_limit(region("tsram units 2 from 0 offset 0 bytes 1"), region("tsram units 2 from 1 offset 0 bytes 1"),
                "region r: ", "the chip has 2");
    // Instructions serve nodes that are declared; without declarations, node 0.
    const auto node = [](std::int64_t id, const std::string& declarations) {
        return tile(fmt::format("issue tdma.0 \"the label\" node {} {{ fence }}", id), declarations);
    };
    const std::string three = "node 0 \"n{}\" count 3 stride 2 layer 0\n";
    check_limit(node(4, three), node(5, three), kLabel, "the plan node");
    check_limit(node(0, ""), node(1, ""), kLabel, "the plan node");
    const auto init = [](std::int64_t unit) {
        return header() + fmt::format("init tile(0)[3] units 1 value 1\ninit tile({})[3] units 1 value 1\n", unit);
    };
    check_limit(init(1), init(0), "init tile(0)[3]: ", "unit 0 has an initial value already");
    CHECK_THAT(error(header() + "node 0 \"a\" count 2 stride 1 layer 0\nnode 1 \"b\" count 1 stride 1 layer 0\n"),
               Catch::Contains("its id 1 is \"a\" already"));
}

TEST_CASE("only destinations on chip are multicast") {
    check_limit(cluster(issue("cdma.0", "dma hbm(0)[0] -> tsram(0 mask 0x3)[0] run 32")),
                cluster(issue("cdma.0", "dma tsram(0 mask 0x3)[0] -> csram(0)[0] run 32")),
                "control program main, cdma.0 \"the label\": ", "the source cannot have a mask");
    check_limit(tile(dma("tsram(self)[0] -> hbm(0)[0] run 32")),
                tile(dma("tsram(self)[0] -> hbm(0 mask 0x1)[0] run 32")), kLabel, "the destination cannot have a mask");
}

TEST_CASE("a multicast stays within a cluster") {
    const ChipSpec chip = toy_with({"soc.clusters=2"});
    const auto to = [](const std::string& unit) {
        return header() + control("cluster", issue("cdma.0", "dma hbm(0)[0] -> tsram(" + unit + ")[0] run 32"), 2);
    };
    const std::string where = "control program main, cdma.0 \"the label\": ";
    check_limit(to("2*cluster mask 0x3"), to("cluster mask 0x3"), where,
                "a multicast reaches the tiles of one cluster only; first at cluster = 1", chip);
    check_limit(to("1 mask 0x6"), to("0 mask 0x6"), where, "a multicast reaches the tiles of one cluster only", chip);
    check_limit(to("0 mask 0x8"), to("0 mask 0x10"), where,
                "the destination's unit has a mask with bit 4, allowed are bits 0..3: there are 4 in all", chip);
}

TEST_CASE("the DMA converts plain formats, and the result's size counts") {
    const auto convert = [](const std::string& from, const std::string& to) {
        return tile(dma("hbm(0)[0] -> tsram(self)[0] run 64 convert " + from + " " + to));
    };
    check_limit(convert("bf16", "e4m3"), convert("bf16", "mxfp8"), kLabel, "not bf16 to mxfp8");
    check_limit(convert("fp32", "bf16"), convert("mxfp4", "bf16"), kLabel, "not mxfp4 to bf16");
    CHECK(error(convert("mxfp8", "mxfp8")) == "");  // no conversion
    check_limit(convert("bf16", "fp32"), convert("fp16", "fp32"), kLabel, "not fp16 to fp32");
    check_limit(convert("bf16", "fp32"), convert("bf16", "e5m2"), kLabel, "not bf16 to e5m2");
    check_limit(tile(dma("hbm(0)[0] -> tsram(self)[0] run 64 convert bf16 fp32")),
                tile(dma("hbm(0)[0] -> tsram(self)[0] run 63 convert bf16 fp32")), kLabel,
                "the run is no whole number of bf16 elements");
    check_limit(tile(dma("tsram(self)[4] -> csram(0)[64] run 4 convert fp32 e4m3")),
                tile(dma("tsram(self)[3] -> csram(0)[64] run 4 convert fp32 e4m3")), kLabel,
                "the source's offset is no whole number of fp32 elements");
    check_limit(tile(dma("tsram(self)[0] -> csram(0)[66] run 4 convert e4m3 bf16")),
                tile(dma("tsram(self)[0] -> csram(0)[65] run 4 convert e4m3 bf16")), kLabel,
                "the destination's offset is no whole number of bf16 elements");
    check_limit(tile(dma("tsram(self)[0] -> csram(0)[0] run 4 dim 2 strides 4 2 convert fp32 bf16")),
                tile(dma("tsram(self)[0] -> csram(0)[0] run 4 dim 2 strides 6 2 convert fp32 bf16")), kLabel,
                "the source's stride is no whole number of fp32 elements");
    check_limit(tile("loop 3 { " + dma("hbm(0)[0] -> tsram(self)[0] run 4 + 4*i0 convert fp32 bf16") + " }"),
                tile("loop 3 { " + dma("hbm(0)[0] -> tsram(self)[0] run 4 + 2*i0 convert fp32 bf16") + " }"), kLabel,
                "no whole number of fp32 elements; first at i0 = 1");
    const auto within_hbm = [](const std::string& more) {
        return cluster(issue("cdma.0", "dma hbm(0)[0] -> hbm(0)[4096] run 64" + more));
    };
    check_limit(within_hbm(""), within_hbm(" convert bf16 fp32"),
                "control program main, cdma.0 \"the label\": ", "a copy within HBM cannot convert");
    const auto widened = [](std::int64_t offset) {
        return tile(dma(fmt::format("hbm(0)[0] -> tsram(self)[{}] run 64 convert e4m3 fp32", offset)));
    };
    check_limit(widened(toy().tsram.bytes - 4 * 64), widened(toy().tsram.bytes - 4 * 64 + 1), kLabel,
                "the destination reaches");
}

TEST_CASE("a DMA moves what its owner can reach") {
    check_limit(tile(dma("csram(cluster)[0] -> tsram(self)[0] run 32")),
                tile(dma("csram(cluster)[0] -> csram(cluster)[64] run 32")), kLabel, "its own TSRAM");
    check_limit(tile(dma("tsram(self)[0] -> tsram(1)[0] run 32")), tile(dma("hbm(0)[0] -> tsram(1)[0] run 32")), kLabel,
                "its own TSRAM");
    check_limit(tile(dma("hbm(0)[0] -> tsram(0)[0] run 32")), tile(dma("hbm(0)[0] -> tsram(self mask 0x3)[0] run 32")),
                kLabel, "its own TSRAM");  // tile 0 alone runs this
    check_limit(cluster(issue("cdma.0", "dma csram(cluster)[0] -> tsram(1)[0] run 32")),
                cluster(issue("cdma.0", "dma tsram(0)[0] -> tsram(1)[0] run 32")),
                "control program main, cdma.0 \"the label\": ", "from TSRAM to TSRAM");
    const auto dims = [](std::int64_t count) {
        return tile(dma("hbm(0)[0] -> tsram(self)[0] run 32" + repeated(" dim 2 strides 64 64", count)));
    };
    check_limit(dims(2), dims(3), kLabel, "3 dimensions beside the run, at most 2");
    const auto run = [](int bytes) { return tile(dma(fmt::format("hbm(0)[0] -> tsram(self)[0] run {}", bytes))); };
    check_limit(run(1), run(0), kLabel, "the run reaches 0..0");
    const auto count = [](int n) {
        return tile(dma(fmt::format("hbm(0)[0] -> tsram(self)[0] run 32 dim {} strides 64 64", n)));
    };
    check_limit(count(1), count(0), kLabel, "a dimension's count reaches 0..0");
}

TEST_CASE("a cluster's program does not know a tile, a chip's no cluster") {
    check_limit(cluster("signal cluster(cluster)[0] wait cluster(0)[0]"), cluster("signal tile(self)[0]"),
                "control program main: ", "has no bounds");
    check_limit(header() + control("chip", "signal chip(0)[0] wait chip(0)[0]"),
                header() + control("chip", "signal cluster(cluster)[0]"), "control program main: ", "has no bounds");
}

TEST_CASE("up to ten problems are listed") {
    const auto problems = [](std::int64_t count) { return tile(repeated("signal tile(9)[0]\n", count)); };
    const std::string ten = error(problems(10));
    CHECK(std::count(ten.begin(), ten.end(), '\n') == 9);
    CHECK_THAT(error(problems(11)), Catch::EndsWith("\n... and more"));
}
