// SPDX-License-Identifier: Apache-2.0
// Is the latency of a lone packet the sum of its parts, and is every byte moved and charged once?
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "isa/errors.hpp"
#include "sim/core/clock.hpp"
#include "sim/engine/task.hpp"
#include "sim/mem/address_map.hpp"
#include "sim/noc/floorplan.hpp"
#include "sim/run.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

// Parts of the maia200 table.
constexpr Cycle kIssue = 8;
constexpr Cycle kTdmaSetup = 16;
constexpr Cycle kCdmaSetup = 24;
constexpr Cycle kCrossbar = 4;
constexpr Cycle kInterface = 15;
constexpr Cycle kRouter = 3;
constexpr Cycle kHop = 3 + 1;
constexpr Cycle kTsram = 6;
constexpr Cycle kCsram = 24;
constexpr Cycle kTilePacket = 1024 / 128;  // through a tile's port
constexpr Cycle kStackPacket = 2;          // 1024 / 640, rounded up

isa::ChipSpec quiet() {
    isa::ChipSpec chip = maia200();
    chip.hbm.refresh = "none";
    return chip;
}

isa::Program one(isa::Level level, std::int64_t unit, isa::DmaMacro macro) {
    const isa::QueueId queue = level == isa::Level::tile ? tdma() : cdma();
    return program({control(level, unit, 1, {instruction(queue, std::move(macro), "move")})});
}

Cycle hops(const isa::ChipSpec& chip, std::int64_t cluster, std::size_t stack) {
    const sim::Floorplan plan(chip);
    const sim::MeshPosition a = plan.clusters[static_cast<std::size_t>(cluster)];
    const sim::MeshPosition b = plan.stacks[stack];
    return static_cast<Cycle>(std::abs(a.x - b.x) + std::abs(a.y - b.y));
}

/// The first CK from `at` on in which a place's pseudo-channel has the column bus, which two share.
std::uint64_t in_turn(std::uint64_t at, const sim::HbmPlace& place) {
    return at + (at + place.pseudo_channel) % 2;
}

double stat(const sim::RunResult& result, const std::string& path) {
    for (const sim::StatValue& value : result.stats) {
        if (value.path == path) {
            return value.value;
        }
    }
    return 0;
}

/// Bytes over all stats whose path starts and ends so.
double stat_sum(const sim::RunResult& result, const std::string& start, const std::string& end) {
    double sum = 0;
    for (const sim::StatValue& value : result.stats) {
        if (value.path.starts_with(start) && value.path.ends_with(end)) {
            sum += value.value;
        }
    }
    return sum;
}

std::uint64_t count(const sim::EnergyCounts& counts, sim::EnergyEvent event) {
    return counts[static_cast<std::size_t>(event)];
}

}  // namespace

TEST_CASE("HBM to tile: request, closed-row read, stack port, mesh, crossbar, tile port") {
    const isa::ChipSpec chip = quiet();
    const sim::AddressMap map(chip.hbm);
    const auto ck_hertz = static_cast<std::uint64_t>(chip.hbm.bits_per_second_per_pin / 4);
    const sim::ClockCrossing to_ck(static_cast<std::uint64_t>(chip.clock.core_hz), ck_hertz);
    const sim::ClockCrossing to_core(ck_hertz, static_cast<std::uint64_t>(chip.clock.core_hz));
    for (const std::int64_t tile : {0, 8, 20, 35}) {
        for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{7} << 20, std::uint64_t{123} << 30}) {
            const std::size_t stack = map.decode(address, 1024).stack;
            const Cycle way = kCrossbar + kInterface + kRouter + hops(chip, tile / 9, stack) * kHop + kInterface;
            const Cycle asked = kIssue + kTdmaSetup + way;
            // CK: four ACTs at nRRDS, nRCDRD of the last, whose burst comes fourth; the pseudo-channel's turn on the
            // column bus; nCL; 32 bursts; controller and PHY.
            const auto latency_ck = (28'000ULL * ck_hertz + 999'999'999'999ULL) / 1'000'000'000'000ULL;
            const std::uint64_t column = in_turn(to_ck(asked) + 3 * 6 + 45 - 3 * 2, map.decode(address, 1024));
            const std::uint64_t data = column + 29 + 32 * 2 + latency_ck;
            // The last byte goes through the stack port, along the way, and waits for the tile port to do its share.
            const Cycle expected = to_core(data) + kStackPacket + way - 1 + kTilePacket + kTsram;
            const sim::RunResult result = sim::run(
                chip,
                one(isa::Level::tile, tile, copy(hbm_at(static_cast<std::int64_t>(address)), own_tsram(4096), 1024)));
            CHECK(result.cycles == expected);
            CHECK(result.hbm_read == 1024);
        }
    }
}

TEST_CASE("tile to HBM: tile port, crossbar, mesh, stack port, closed-row write") {
    const isa::ChipSpec chip = quiet();
    const sim::AddressMap map(chip.hbm);
    const auto ck_hertz = static_cast<std::uint64_t>(chip.hbm.bits_per_second_per_pin / 4);
    const sim::ClockCrossing to_ck(static_cast<std::uint64_t>(chip.clock.core_hz), ck_hertz);
    const sim::ClockCrossing to_core(ck_hertz, static_cast<std::uint64_t>(chip.clock.core_hz));
    const std::uint64_t address = 5 << 20;
    const sim::HbmPlace place = map.decode(address, 1024);
    const Cycle way = kCrossbar + kInterface + kRouter + hops(chip, 1, place.stack) * kHop + kInterface;
    const Cycle there = kIssue + kTdmaSetup + kTsram + kTilePacket + way - 1 + kStackPacket;
    // The run ends with the last byte in the DRAM, which is long after the write was posted.
    const std::uint64_t written = in_turn(to_ck(there) + 3 * 6 + 22 - 3 * 2, place) + 15 + 32 * 2;
    const sim::RunResult result =
        sim::run(chip, one(isa::Level::tile, 9, copy(own_tsram(0), hbm_at(static_cast<std::int64_t>(address)), 1024)));
    CHECK(result.cycles == to_core(written));
    CHECK(result.hbm_written == 1024);
}

TEST_CASE("CSRAM to tile and back") {
    const isa::ChipSpec chip = maia200();
    const sim::RunResult in = sim::run(chip, one(isa::Level::tile, 3, copy(csram_at(0, 0), own_tsram(0), 1024)));
    CHECK(in.cycles == kIssue + kTdmaSetup + kCrossbar + kCsram + kCrossbar + kTilePacket + kTsram);
    // Outward the wide CSRAM port takes the packet in the cycle of its last bytes.
    const sim::RunResult out = sim::run(chip, one(isa::Level::tile, 3, copy(own_tsram(0), csram_at(0, 0), 1024)));
    CHECK(out.cycles == kIssue + kTdmaSetup + kTsram + kTilePacket + kCrossbar + kCsram);
}

TEST_CASE("tile to tile crosses the links between their slots, past a disabled one") {
    isa::ChipSpec chip = toy();
    chip.soc.tiles_per_cluster_physical = 4;
    chip.soc.disabled_slot = 1;  // slots 1 and 2: the tiles stand on 0 and 3
    const sim::RunResult push = sim::run(chip, one(isa::Level::tile, 0, copy(own_tsram(0), tsram_at(1, 0), 1024)));
    CHECK(push.cycles == kIssue + kTdmaSetup + kTsram + kRouter + 3 * kHop + kTilePacket + kTsram);
    // To fetch, the request crosses the same links first.
    const sim::RunResult pull = sim::run(chip, one(isa::Level::tile, 0, copy(tsram_at(1, 0), own_tsram(0), 1024)));
    CHECK(pull.cycles == push.cycles + kRouter + 3 * kHop);
}

TEST_CASE("a descriptor streams at the width of its narrowest part, and the next follows without a gap") {
    const isa::ChipSpec chip = maia200();
    const auto run = [&](std::int64_t descriptors, std::int64_t bytes) {
        isa::Program p =
            program({control(isa::Level::tile, 0, 1,
                             {loop(descriptors, {instruction(tdma(), copy(csram_at(0, 0), own_tsram(0), bytes))})})});
        return sim::run(chip, p).cycles;
    };
    const Cycle first = run(1, 1024);
    CHECK(run(1, 64 * 1024) == first + 63 * kTilePacket);
    CHECK(run(8, 64 * 1024) == first + (8 * 64 - 1) * kTilePacket);
}

TEST_CASE("channels share the data path packet by packet") {
    const isa::ChipSpec chip = maia200();
    isa::Block body;
    for (std::uint8_t channel = 0; channel < 4; ++channel) {
        body.push_back(instruction(tdma(channel), copy(csram_at(0, 0), own_tsram(0), 32 * 1024)));
    }
    const Cycle all = sim::run(chip, program({control(isa::Level::tile, 0, 1, body)})).cycles;
    const Cycle lone = kIssue + kTdmaSetup + kCrossbar + kCsram + kCrossbar + kTilePacket + kTsram;
    CHECK(all == lone + (4 * 32 - 1) * kTilePacket);
}

TEST_CASE("bytes in flight are bounded") {
    isa::ChipSpec chip = quiet();
    chip.tdma.max_inflight_bytes = 1024;
    const auto cycles = [&](std::int64_t packets) {
        return sim::run(chip, one(isa::Level::tile, 0, copy(csram_at(0, 0), own_tsram(0), packets * 1024))).cycles;
    };
    const Cycle round_trip = cycles(1) - kIssue - kTdmaSetup;
    CHECK(cycles(10) == kIssue + kTdmaSetup + 10 * round_trip);  // one at a time
}

TEST_CASE("a multicast charges its source and every link once, and every destination") {
    const isa::ChipSpec chip = maia200();
    constexpr double kBytes = 16 * 1024;
    SECTION("to the tiles of a cluster") {
        const sim::RunResult result =
            sim::run(chip, one(isa::Level::cluster, 0, copy(csram_at(0, 0), tsram_at(0, 0, 0b101101111), 16 * 1024)));
        CHECK(stat(result, "chip.cluster0.csram.port.bytes") == kBytes);
        CHECK(stat_sum(result, "chip.cluster0.noc", ".ingress.bytes") == 7 * kBytes);
        CHECK(count(result.energy, sim::EnergyEvent::csram_read_byte) == 16 * 1024);
        CHECK(count(result.energy, sim::EnergyEvent::tsram_write_byte) == 7 * 16 * 1024);
        // All copies stream side by side through ports of their own.
        CHECK(result.cycles == kIssue + kCdmaSetup + kCsram + kCrossbar + 16 * kTilePacket + kTsram);
    }
    SECTION("to clusters: a tree of five links from (1,0) to (2,0), (1,2) and (2,2)") {
        const sim::RunResult result =
            sim::run(chip, one(isa::Level::cluster, 0, copy(csram_at(0, 0), csram_at(0, 65536, 0b1110), 16 * 1024)));
        CHECK(stat_sum(result, "chip.gnoc.router_", ".bytes") == 5 * kBytes);
        CHECK(stat(result, "chip.gnoc.cluster0.out.bytes") == kBytes);
        CHECK(count(result.energy, sim::EnergyEvent::gnoc_byte_micrometre) == 5 * 16 * 1024ULL * 4000);
        CHECK(count(result.energy, sim::EnergyEvent::gnoc_byte_router) == 6 * 16 * 1024ULL);
        CHECK(count(result.energy, sim::EnergyEvent::csram_write_byte) == 3 * 16 * 1024);
    }
    SECTION("along the tile mesh: both ways, each link once") {
        const sim::RunResult result =
            sim::run(chip, one(isa::Level::tile, 4, copy(own_tsram(0), tsram_at(0, 4096, 0b100001101), 16 * 1024)));
        // From slot 5 down to 1 and up to 9: slot 0 carries no tile.
        CHECK(stat_sum(result, "chip.cluster0.noc.mesh", ".bytes") == 8 * kBytes);
        CHECK(stat(result, "chip.cluster0.noc.tile4.egress.bytes") == kBytes);
        CHECK(stat_sum(result, "chip.cluster0.noc", ".ingress.bytes") == 4 * kBytes);
    }
}

TEST_CASE("strided pieces are cut at granules and cover every byte once") {
    sim::DmaWalk walk;
    sim::DmaWalk::Shape shape;
    shape.src_offset = 1000;
    shape.dst_offset = 50;
    shape.run_bytes = 2500;
    shape.counts[0] = 3, shape.counts[1] = 2;
    shape.src_strides[0] = 4096, shape.src_strides[1] = 65536;
    shape.dst_strides[0] = 2500, shape.dst_strides[1] = 7500;
    std::map<std::uint64_t, std::uint64_t> moved;  // destination byte -> source byte
    std::size_t pieces = 0;
    for (walk.start(shape); !walk.done(); walk.next(), ++pieces) {
        const sim::DmaWalk::Piece& p = walk.piece();
        REQUIRE(p.src_offset / 1024 == (p.src_offset + p.src_bytes - 1) / 1024);
        REQUIRE(p.src_bytes == p.dst_bytes);
        for (std::uint64_t i = 0; i < p.src_bytes; ++i) {
            REQUIRE(moved.emplace(p.dst_offset + i, p.src_offset + i).second);
        }
    }
    REQUIRE(moved.size() == 6 * 2500);
    for (std::uint64_t j = 0; j < 2; ++j) {
        for (std::uint64_t i = 0; i < 3; ++i) {
            CHECK(moved.at(50 + i * 2500 + j * 7500) == 1000 + i * 4096 + j * 65536);
            CHECK(moved.at(50 + i * 2500 + j * 7500 + 2499) == 1000 + i * 4096 + j * 65536 + 2499);
        }
    }
    CHECK(pieces == 6 * 4);  // [1000, 3500) touches granules 0 to 3, as do its copies at multiples of 4096 and 65536
}

TEST_CASE("a converting transfer moves source bytes in and destination bytes out") {
    isa::DmaMacro macro = copy(own_tsram(0), csram_at(0, 0), 8192);
    macro.src_format = isa::Format::fp32;
    macro.dst_format = isa::Format::bf16;
    const sim::RunResult result = sim::run(maia200(), one(isa::Level::tile, 0, macro));
    CHECK(count(result.energy, sim::EnergyEvent::tsram_read_byte) == 8192);
    CHECK(count(result.energy, sim::EnergyEvent::csram_write_byte) == 4096);
    CHECK(count(result.energy, sim::EnergyEvent::cnoc_byte) == 4096);  // converted before it leaves the tile
}

TEST_CASE("what does not fit the chip is refused with the instruction's name") {
    const auto message = [](const isa::DmaMacro& macro) -> std::string {
        try {
            (void)sim::run(maia200(), one(isa::Level::tile, 0, macro));
        } catch (const InputError& error) {
            return error.what();
        }
        return "";
    };
    using Catch::Contains;
    CHECK_THAT(message(copy(hbm_at(0), own_tsram(3145728 - 512), 1024)), Contains("move") && Contains("3145728"));
    CHECK_THAT(message(copy(hbm_at(231'928'233'984), own_tsram(0), 1)), Contains("source"));
    CHECK_THAT(message(copy(csram_at(4, 0), own_tsram(0), 1)), Contains("csram") && Contains("has 4"));
    CHECK_THAT(message(copy(csram_at(0, 0), tsram_at(8, 0, 0b11), 1)), Contains("one cluster"));
}
