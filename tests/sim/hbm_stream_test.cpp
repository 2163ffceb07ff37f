// SPDX-License-Identifier: Apache-2.0
// Does the HBM deliver what its timing allows, and never more: streams, refresh at its closed-form cost, random
// accesses at the four-activate limit, batches of reads and writes, strides that camp?
#include <catch2/catch.hpp>
#include <random>

#include "sim/run.hpp"
#include "tests/sim/dram_stream.hpp"
#include "tests/sim/hbm_checker.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;
using sim::Ck;

namespace {

isa::HbmSpec memory(std::vector<std::string> sets) {
    sets.emplace_back("hbm.memory=hbm3e-9115-8hi");
    return maia200(sets).hbm;
}

/// Granules of 32 bursts over the bank groups, one bank set after the other.
sim::DramRequest sequential(int i) {
    sim::DramRequest request;
    request.pseudo_channel = static_cast<std::uint8_t>(i & 1);
    request.bursts = 32;
    request.set = static_cast<std::uint8_t>(i >> 3 & 7);
    request.row = static_cast<std::uint32_t>(i >> 6 & 0x3FFF);
    return request;
}

/// Rows of one bank after the other: `bursts` of each.
auto rows_of(std::uint8_t bursts) {
    return [bursts](int i) {
        sim::DramRequest request;
        request.pseudo_channel = static_cast<std::uint8_t>(i & 1);
        request.bursts = bursts;
        request.base = static_cast<std::uint8_t>(i >> 1 & 3);
        request.set = static_cast<std::uint8_t>(i >> 3 & 7);
        request.row = static_cast<std::uint32_t>(i * 7919 & 0x3FFF);
        return request;
    };
}

double fraction_of_peak(const isa::ChipSpec& chip, const isa::Program& p) {
    const sim::RunResult result = sim::run(chip, p);
    return static_cast<double>(result.hbm_read + result.hbm_written) / static_cast<double>(result.cycles) /
           isa::hbm_bytes_per_cycle(chip);
}

/// Every tile reads granules `stride` granules apart.
double strided(const isa::ChipSpec& chip, std::int64_t stride, std::int64_t granules) {
    const std::int64_t tiles = isa::tile_count(chip);
    isa::DmaMacro macro =
        copy(hbm_at(of(isa::Var::self, granules * stride * 1024)), own_tsram(isa::Affine(0)), isa::Affine(1024));
    macro.dims.push_back({isa::Affine(granules), stride * 1024, 1024});
    return fraction_of_peak(chip, program({control(isa::Level::tile, 0, tiles, {instruction(tdma(), macro)})}));
}

}  // namespace

TEST_CASE("sequential reads over all pseudo-channels reach 95 % of peak with per-bank refresh, 88 % in 36 regions") {
    const isa::ChipSpec chip = maia200();
    const double together = fraction_of_peak(chip, clusters_stream(chip, 96 << 20, 65536));
    const double apart = fraction_of_peak(chip, tiles_stream(chip, 4 << 20, 65536));
    CHECK(together >= 0.95);
    CHECK(together <= 1.0);
    CHECK(apart >= 0.88);
    CHECK(apart <= 1.0);
}

TEST_CASE("all-bank refresh costs its share of every interval, per-bank refresh hides") {
    const isa::HbmSpec spec = memory({"hbm.refresh=all_bank"});
    const isa::HbmTimingSpec& t = spec.timing;
    const double lost = static_cast<double>(t.nrtp + t.nrp + t.nrfc + t.nrcdrd) / static_cast<double>(t.nrefi);
    CHECK(in_order(memory({"hbm.refresh=none"}), 4, 20'000, sequential).use > 0.99);
    CHECK(in_order(spec, 4, 20'000, sequential).use == Approx(1 - lost).margin(0.01));
    const StreamOutcome hidden = in_order(memory({"hbm.refresh=per_bank"}), 4, 20'000, sequential);
    CHECK(hidden.use > 0.95);
    // 32 banks every nREFI, over the 10,000 requests of 64 CK of a pseudo-channel.
    CHECK(static_cast<double>(hidden.counts.refreshes) ==
          Approx(32.0 * 640'000 / hidden.use / static_cast<double>(t.nrefi)).epsilon(0.02));
}

TEST_CASE("random accesses are bound by four activates per nFAW, then by the bus") {
    const isa::HbmSpec spec = memory({"hbm.refresh=none", "hbm.read_queue=128", "hbm.age_limit=4096"});
    const auto faw = static_cast<double>(spec.timing.nfaw);
    for (const int bursts : {1, 2, 4, 8}) {
        INFO(bursts);
        const double bound = std::min(1.0, 4 * bursts * 2 / faw);
        const double use = in_order(spec, 1, 20'000, rows_of(static_cast<std::uint8_t>(bursts))).use;
        CHECK(use <= bound);
        CHECK(use == Approx(bound).margin(0.01));
    }
}

TEST_CASE("two reads to a write: the bus turns once a batch") {
    // A drain of `high - low` writes shared by two pseudo-channels comes with twice as many reads. A pair of turns
    // loses what nRTW and nCWL + nBL + nWTRS take beyond a column's own time.
    for (const std::int64_t reads : {64, 128}) {
        const std::int64_t drained = reads;  // reads / 2 for each of two pseudo-channels
        const std::int64_t queue = drained * 5 / 3;
        const isa::HbmSpec spec =
            memory({"hbm.refresh=none", "hbm.read_queue=128", fmt::format("hbm.write_queue={}", queue),
                    fmt::format("hbm.write_high={}", queue * 4 / 5),
                    fmt::format("hbm.write_low={}", queue * 4 / 5 - drained)});
        std::mt19937_64 random(9);
        const auto mixed = [&random](int i) {
            sim::DramRequest request = sequential(i >> 5 << 1 | (i & 1));
            request.bursts = 1;
            request.base = static_cast<std::uint8_t>(i >> 1 & 3);
            request.write = random() % 3 == 0;
            return request;
        };
        const isa::HbmTimingSpec& t = spec.timing;
        const auto columns = 3.0 * reads;
        const auto turns = static_cast<double>(t.nrtw - t.nccds + t.ncwl + t.nbl + t.nwtrs - t.nccds);
        INFO(reads);
        CHECK(in_order(spec, 1, 100'000, mixed).use == Approx(columns / (columns + turns)).margin(0.03));
    }
}

TEST_CASE("a stream to one row keeps neither refreshes nor a request for another row waiting") {
    const isa::HbmSpec spec = memory({"hbm.age_limit=16"});
    const sim::DramTable table(spec, 4);
    struct : sim::DramClient {
        void accepted(std::uint64_t, Ck, Ck) override {}
        void served(const sim::DramServed& s) override { other_end = s.tag == 1 ? s.end : other_end; }
        Ck other_end = 0;
    } client;
    sim::DramChannel channel(spec, table, 0, 192, client);
    std::vector<sim::DramTraceEntry> trace;
    channel.record_to(&trace);
    sim::DramRequest request;
    request.bursts = 8;
    constexpr Ck kOther = 4000;
    for (Ck at = 0; at < 240'000; at += 16) {  // the stream takes all of the data bus
        request.arrival = at;
        channel.push(request);
        if (at == kOther) {
            sim::DramRequest other = request;
            other.row = 1;
            other.tag = 1;
            channel.push(other);
        }
    }
    channel.run_until(280'000);
    // Passed over 16 times; then what is under way, the precharges and activates there and back. A refresh of one of
    // the banks may come between.
    const isa::HbmTimingSpec& t = spec.timing;
    const auto swap = static_cast<Ck>(t.nrtp + t.nrp + 4 * t.nrrdl + t.nrcdrd + t.ncl + 8 * t.nbl);
    CHECK(client.other_end > kOther);
    CHECK(client.other_end < kOther + 17 * 16 + 2 * swap + static_cast<Ck>(t.nrfcpb));
    CHECK(HbmChecker(spec).check(trace).empty());
}

TEST_CASE("strides camp on few pseudo-channels with the linear map and on none with the hashed one") {
    const isa::ChipSpec linear = maia200({"hbm.address_map=linear"});
    const isa::ChipSpec hashed = maia200();
    const double one_of_32 = strided(linear, 32, 200);
    const double one_of_192 = strided(linear, 192, 60);
    CHECK(one_of_32 <= 1.0 / 32);
    CHECK(one_of_32 >= 0.95 / 32);
    CHECK(one_of_192 <= 1.0 / 192);
    CHECK(one_of_192 >= 0.95 / 192);
    CHECK(strided(hashed, 32, 2000) >= 0.7);
    CHECK(strided(hashed, 192, 2000) >= 0.7);
}

TEST_CASE("refreshes are counted whether the channel is busy or idle") {
    const isa::ChipSpec chip = toy();
    // 8 cycles each: about 11 refresh intervals.
    constexpr std::int64_t kSignals = 11'000;
    const isa::Statement signal{isa::SignalStatement{{{isa::Level::chip, 0, 0, 0}, 1}}};
    const sim::RunResult result =
        sim::run(chip, program({control(isa::Level::tile, 0, 1, {loop(kSignals, {signal})})}));
    const double intervals = static_cast<double>(kSignals) * 8 * 9.115e9 / 4 / 2e9 / 8887;
    const auto refreshes =
        static_cast<double>(result.energy[static_cast<std::size_t>(sim::EnergyEvent::hbm_refresh_bank)]);
    CHECK(refreshes / (32 * 48) == Approx(intervals).epsilon(0.01));
    CHECK(result.energy[static_cast<std::size_t>(sim::EnergyEvent::hbm_standby_cycle)] == 32 * result.cycles);
}

// A write below the watermark waits as long as reads come, be they the other pseudo-channel's: that is no starvation.
TEST_CASE("a queued write of one pseudo-channel outlasts a long stream of reads in the other") {
    const isa::HbmSpec spec = maia200({"hbm.refresh=per_bank"}).hbm;
    constexpr int kReads = 30'000;
    const auto stream = [](int i) {
        sim::DramRequest request;
        request.bursts = 32;
        request.write = i == 0;
        request.pseudo_channel = i == 0 ? 0 : 1;
        request.set = static_cast<std::uint8_t>(i / 4 % 12);
        request.row = static_cast<std::uint32_t>(i / 48);
        return request;
    };
    // 30,000 granules of 64 CK are 1.9 million CK, 200 refresh intervals.
    const StreamOutcome outcome = in_order(spec, 4, kReads, stream);
    CHECK(outcome.counts.written_bursts == 32);
    CHECK(outcome.counts.read_bursts == 0);  // of the first pseudo-channel
}
