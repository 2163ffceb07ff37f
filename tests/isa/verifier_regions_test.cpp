// SPDX-License-Identifier: Apache-2.0
// Do regions keep apart, and does everything that is touched lie in one of them?
#include <optional>

#include "tests/isa/verifier_programs.hpp"

using namespace sluice;
using namespace sluice::isa;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

std::string region(const std::string& name, const std::string& memory, std::int64_t offset, std::int64_t bytes,
                   int units = 1, int first = 0) {
    return fmt::format("region \"{}\" {} units {} from {} offset {} bytes {}\n", name, memory, units, first, offset,
                       bytes);
}

}  // namespace

TEST_CASE("regions of one memory may touch, not overlap") {
    const auto two = [](std::int64_t offset, const std::string& memory = "tsram", int first = 0) {
        return header() + region("x", "tsram", 1000, 500, 2) + region("y", memory, offset, 100, 1, first);
    };
    check_limit(two(1500), two(1499), "region y: ", "overlaps region \"x\" in bytes 1499..1499 of tsram(0)");
    check_limit(two(900), two(901), "region x: ", "overlaps region \"y\" in bytes 1000..1000 of tsram(0)");
    check_limit(two(1400, "csram"), two(1400, "tsram", 1), "region y: ", "in bytes 1400..1499 of tsram(1)");
    // Inside, and the very same.
    CHECK_THAT(error(two(1200)), Contains("overlaps region \"x\" in bytes 1200..1299"));
    CHECK_THAT(error(header() + region("x", "hbm", 64, 64) + region("x", "hbm", 64, 64)),
               Contains("region x: overlaps region \"x\" in bytes 64..127 of hbm"));
    // A short one between does not hide a long one.
    CHECK_THAT(error(header() + region("long", "hbm", 0, 1000) + region("short", "hbm", 1000, 10) +
                     region("late", "hbm", 990, 5)),
               Contains("region late: overlaps region \"long\" in bytes 990..994"));
    // Other units, and regions of nothing.
    CHECK(error(header() + region("x", "tsram", 0, 100, 1, 0) + region("y", "tsram", 0, 100, 1, 1)) == "");
    CHECK(error(header() + region("x", "tsram", 0, 100) + region("y", "tsram", 50, 0)) == "");
}

TEST_CASE("what an instruction touches lies in one region, if the memory has any") {
    const std::string regions =
        region("x", "tsram", 1024, 1024) + region("y", "tsram", 2048, 1024) + region("far", "tsram", 8192, 1024);
    const auto to = [&](std::int64_t offset, const std::string& declared) {
        return tile(dma(fmt::format("hbm(0)[0] -> tsram(self)[{}] run 100", offset)), declared);
    };
    check_limit(to(1948, regions), to(1949, regions), kLabel,
                "the destination reaches bytes 1949..2048 of tsram(0): from region \"x\" into region \"y\"");
    check_limit(to(2972, regions), to(2973, regions), kLabel,
                "bytes 2973..3072 of tsram(0): beyond the end of region \"y\"");
    check_limit(to(8192, regions), to(8191, regions), kLabel, "from before region \"far\"");
    check_limit(to(8192, regions), to(5000, regions), kLabel, "bytes 5000..5099 of tsram(0): outside every region");
    // HBM has none: it is free.
    check_limit(to(1024, regions), to(1024, regions + region("h", "hbm", 4096, 4096)), kLabel,
                "the source reaches bytes 0..99 of hbm: outside every region");
    check_limit(to(5000, ""), to(5000, region("x", "tsram", 0, 1)), kLabel, "outside every region");
}

TEST_CASE("each iteration has its own region, and the first that leaves it is named") {
    // Layers of 100 bytes, each a region of its own; the third is short.
    const auto layers = [](std::int64_t third) {
        const std::string regions = region("l0", "hbm", 0, 100) + region("l1", "hbm", 100, 100) +
                                    region("l2", "hbm", 200, third) + region("l3", "hbm", 300, 100);
        return tile(
            fmt::format("loop 4 {{ loop 10 {{ {} }} }}", dma("hbm(0)[100*i0 + 10*i1] -> tsram(self)[0] run 10")),
            regions);
    };
    check_limit(layers(100), layers(75), kLabel,
                "the source reaches bytes 270..279 of hbm: beyond the end of region \"l2\"; first at i0 = 2, i1 = 7");
    // Dimensions step over a border, too.
    const auto steps = [](std::int64_t count) {
        return tile(dma(fmt::format("hbm(0)[0] -> tsram(self)[0] run 10 dim {} strides 10 10", count)),
                    region("a", "hbm", 0, 50) + region("b", "hbm", 50, 50));
    };
    check_limit(steps(5), steps(6), kLabel,
                "the source reaches bytes 0..59 of hbm: from region \"a\" into region \"b\"");
}

TEST_CASE("a region exists in its units alone") {
    const std::string both = region("x", "tsram", 0, 100, 2);
    const std::string first = region("x", "tsram", 0, 100, 1);
    const std::string second = region("y", "tsram", 0, 200, 1, 1);
    const auto own = [](const std::string& regions) {
        return header() + regions + control("tile", dma("hbm(0)[0] -> tsram(self)[0] run 100"), 2);
    };
    check_limit(own(both), own(first), kLabel, "bytes 0..99 of tsram(1): outside every region; first at self = 1");
    CHECK(error(own(first + second)) == "");
    const auto multicast = [](const std::string& regions, const std::string& mask) {
        return header() + regions +
               control("cluster", issue("cdma.0", "dma hbm(0)[0] -> tsram(0 mask " + mask + ")[0] run 100"));
    };
    const std::string where = "control program main, cdma.0 \"the label\": ";
    check_limit(multicast(both, "0x3"), multicast(first, "0x3"), where,
                "bytes 0..99 of tsram(1): outside every region");
    check_limit(multicast(first, "0x1"), multicast(first, "0x2"), where, "bytes 0..99 of tsram(1)");
    CHECK(error(multicast(first + second, "0x3")) == "");
}

TEST_CASE("a ring lies in one region whole") {
    const auto ring = [](std::int64_t bytes) {
        return tile("r0 = 0 in 0..1000000 " + dma("hbm(0)[0] -> tsram(self)[1024 + (64*r0) % 512] run 64"),
                    region("ring", "tsram", 1024, bytes) + region("next", "tsram", 1536, 512));
    };
    check_limit(ring(512), ring(511), kLabel,
                "the destination reaches bytes 1024..1535 of tsram(0): beyond the end of region \"ring\"");
    // A place within each slot.
    const auto within = [](std::int64_t place, std::int64_t run) {
        return tile("r0 = 0 in 0..1000000 " +
                        dma(fmt::format("hbm(0)[0] -> tsram(self)[{} + (64*r0) % 512] run {}", 1024 + place, run)),
                    region("ring", "tsram", 1024, 512) + region("next", "tsram", 1536, 512));
    };
    check_limit(within(16, 48), within(16, 49), kLabel, "from region \"ring\" into region \"next\"");
}

TEST_CASE("operands of all macros keep to regions") {
    const std::string regions = region("sums", "tsram", 0, 8192, 1) + region("data", "tsram", 8192, 8192, 1);
    const auto tensor = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
        return tile(
            issue("ttu.0", fmt::format("tensor 1 x 2 x 1 a [{}] strides 0 0 bf16 b [{}] strides 2048 0 bf16 c [{}] "
                                       "strides 0 4096",
                                       a, b, c)),
            regions);
    };
    const std::string ttu = "control program main, ttu.0 \"the label\": ";
    check_limit(tensor(14336, 8192, 0), tensor(14368, 8192, 0), ttu, "operand a reaches bytes 14368..16415");
    check_limit(tensor(8192, 12288, 0), tensor(8192, 12320, 0), ttu, "operand b reaches bytes 12320..16415");
    check_limit(tensor(8192, 8192, 0), tensor(8192, 8192, 32), ttu,
                "result c reaches bytes 32..8223 of tsram(0): from region");
    const auto vector_at = [&](std::int64_t from, std::int64_t to) {
        return tile(
            issue("tvp.0",
                  fmt::format("vector \"v\" rows 32 cols 32 operand [{}] strides 128 0 operand [{}] strides 2048 "
                              "2048",
                              from, to)),
            regions + vector("v0 = load operand 0 fp32 store operand 1 bf16 v0"));
    };
    const std::string tvp = "control program main, tvp.0 \"the label\": ";
    check_limit(vector_at(4096, 14336), vector_at(4097, 14336), tvp, "operand 0 reaches bytes 4097..8192");
    check_limit(vector_at(4096, 14336), vector_at(4096, 14337), tvp, "operand 1 reaches bytes 14337..16384");
    const auto reshape = [&](std::int64_t from, std::int64_t to) {
        return tile(issue("reshaper.0",
                          fmt::format("reshape pack_blocks rows 32 cols 32 src [{}] stride 64 bf16 dst [{}] stride "
                                      "2048 bf16",
                                      from, to)),
                    regions);
    };
    const std::string reshaper = "control program main, reshaper.0 \"the label\": ";
    check_limit(reshape(6144, 14336), reshape(6145, 14336), reshaper, "the source reaches bytes 6145..8192");
    check_limit(reshape(6144, 14336), reshape(6144, 14337), reshaper, "the destination reaches bytes 14337..16384");
}

TEST_CASE("random pieces are refused exactly if one of them lies in no single region") {
    Random random(31);
    int refused = 0;
    int accepted = 0;
    for (int i = 0; i < 1500; ++i) {
        std::string regions;
        std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
        for (std::int64_t at = 0, number = 0; at < 300; ++number) {
            const std::int64_t length = random.pick(20, 120);
            regions += region(fmt::format("r{}", number), "hbm", at, length);
            pieces.emplace_back(at, at + length);
            at += length + (random.once_in(4) ? random.pick(1, 9) : 0);
        }
        const std::int64_t stride = random.pick(0, 40);
        const std::int64_t inner = random.pick(-9, 9);
        const std::int64_t run = random.pick(1, 12);
        const std::int64_t base = random.pick(60, 100);
        const std::string text =
            tile(fmt::format("loop {} {{ loop {} {{ {} }} }}", random.pick(1, 6), random.pick(1, 4),
                             dma(fmt::format("hbm(0)[{} + {}*i0 {} {}*i1] -> tsram(self)[0] run {}", base, stride,
                                             inner < 0 ? '-' : '+', std::abs(inner), run))),
                 regions);
        INFO(text);
        std::optional<Environment> first;
        const PlainRun walk(read_text(text, "test"), toy(), [&](const Statement&, const Environment& env) {
            const std::int64_t start = base + stride * env[0] + inner * env[1];
            const bool held = std::any_of(pieces.begin(), pieces.end(), [&](const auto& piece) {
                return start >= piece.first && start + run <= piece.second;
            });
            if (!held && !first) {
                first = env;
            }
        });
        const std::string found = error(text);
        CHECK(found.empty() == !first.has_value());
        (first ? refused : accepted) += 1;
        if (first) {
            const std::int64_t start = base + stride * (*first)[0] + inner * (*first)[1];
            CHECK_THAT(found,
                       Contains(fmt::format("the source reaches bytes {}..{} of hbm: ", start, start + run - 1)));
            if (found.find("first at") != std::string::npos) {
                CHECK_THAT(found,
                           Catch::EndsWith(fmt::format("; first at i0 = {}, i1 = {}", (*first)[0], (*first)[1])));
            }
        }
    }
    CHECK(refused > 200);
    CHECK(accepted > 200);
}
