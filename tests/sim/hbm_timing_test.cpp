// SPDX-License-Identifier: Apache-2.0
// Is every DRAM gate tight (refused at n - 1, accepted at n), and is any command trace legal?
#include "sim/mem/hbm_timing.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "tests/sim/hbm_checker.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using sim::Ck;
using sim::HbmAccess;

namespace {

/// All gates as short as they go, so that one alone can bind.
isa::HbmTimingSpec loose() {
    isa::HbmTimingSpec t;
    t.ncl = 29, t.ncwl = 15, t.nrcdrd = 1, t.nrcdwr = 1, t.nrp = 1, t.nras = 1, t.nrc = 1, t.nrtp = 1, t.nwr = 1;
    t.nccds = 2, t.nccdl = 2, t.nccdr = 2, t.nrrds = 1, t.nrrdl = 1, t.nfaw = 1, t.nwtrs = 0, t.nwtrl = 0, t.nrtw = 2;
    t.nrfc = 1, t.nrfcpb = 1, t.nrrefd = 1, t.nrefi = 8887;
    return t;
}

constexpr Ck kBurst = 2;

HbmAccess beat(std::uint8_t set, std::uint32_t row, std::uint8_t group, bool write = false) {
    return {row, set, group, 1, write};
}

struct Device {
    explicit Device(const isa::HbmTimingSpec& spec) : geometry(test::hbm3e(1)), timing(spec, geometry) {}
    sim::HbmPlan go(const HbmAccess& access, Ck now) {
        const sim::HbmPlan plan = timing.plan(access, now);
        timing.commit(access, plan);
        return plan;
    }
    /// The column command goes at `expected`: not a CK earlier however early it is asked for, and not later.
    void column_at(const HbmAccess& access, Ck expected) const {
        CHECK(timing.plan(access, 0).first_column == expected);
        CHECK(timing.plan(access, expected - 1).first_column == expected);
        CHECK(timing.plan(access, expected).first_column == expected);
        CHECK(timing.plan(access, expected + 1).first_column == expected + 1);
    }
    void activate_at(const HbmAccess& access, Ck expected) const {
        CHECK(timing.plan(access, 0).activate[access.first_beat % 4] == expected);
    }
    sim::HbmGeometry geometry;
    sim::HbmTiming timing;
};

}  // namespace

TEST_CASE("nRCDRD and nRCDWR: ACT to column") {
    isa::HbmTimingSpec t = loose();
    t.nrcdrd = 45;
    t.nrcdwr = 22;
    const Device device(t);
    CHECK(device.timing.plan(beat(0, 1, 0), 100).activate[0] == 100);
    CHECK(device.timing.plan(beat(0, 1, 0), 100).first_column == 100 + 45);
    CHECK(device.timing.plan(beat(0, 1, 0, true), 100).first_column == 100 + 22);
    CHECK(device.timing.plan(beat(0, 1, 0), 100).data_start == 100 + 45 + 29);
    CHECK(device.timing.plan(beat(0, 1, 0), 100).data_end == 100 + 45 + 29 + kBurst);
    CHECK(device.timing.plan(beat(0, 1, 0, true), 100).data_start == 100 + 22 + 15);
}

TEST_CASE("nRAS, nRP, nRC, nRTP and nWR: closing and opening a row") {
    SECTION("nRAS then nRP") {
        isa::HbmTimingSpec t = loose();
        t.nras = 65;
        t.nrp = 38;
        Device device(t);
        device.go(beat(0, 1, 0), 100);  // ACT at 100
        CHECK(device.timing.plan(beat(0, 2, 0), 0).precharge[0] == 100 + 65);
        device.activate_at(beat(0, 2, 0), 100 + 65 + 38);
    }
    SECTION("nRC") {
        isa::HbmTimingSpec t = loose();
        t.nrc = 103;
        Device device(t);
        device.go(beat(0, 1, 0), 100);
        device.activate_at(beat(0, 2, 0), 100 + 103);
    }
    SECTION("nRTP") {
        isa::HbmTimingSpec t = loose();
        t.nrtp = 13;
        Device device(t);
        const Ck column = device.go(beat(0, 1, 0), 100).first_column;
        CHECK(device.timing.plan(beat(0, 2, 0), 0).precharge[0] == column + 13);
    }
    SECTION("nWR") {
        isa::HbmTimingSpec t = loose();
        t.nwr = 47;
        Device device(t);
        const Ck column = device.go(beat(0, 1, 0, true), 100).first_column;
        CHECK(device.timing.plan(beat(0, 2, 0), 0).precharge[0] == column + 15 + kBurst + 47);
    }
}

TEST_CASE("nRRDS, nRRDL and nFAW: ACT to ACT") {
    SECTION("nRRDS: other group") {
        isa::HbmTimingSpec t = loose();
        t.nrrds = 6;
        Device device(t);
        device.go(beat(0, 1, 0), 100);
        device.activate_at(beat(0, 1, 1), 100 + 6);
    }
    SECTION("nRRDL: same group, other bank") {
        isa::HbmTimingSpec t = loose();
        t.nrrdl = 8;
        Device device(t);
        device.go(beat(0, 1, 0), 100);
        device.activate_at(beat(1, 1, 0), 100 + 8);
        device.activate_at(beat(1, 1, 1), 100 + 1);
    }
    SECTION("nFAW: the fifth") {
        isa::HbmTimingSpec t = loose();
        t.nfaw = 35;
        Device device(t);
        for (std::uint8_t group = 0; group < 4; ++group) {
            device.go(beat(0, 1, group), 100);
        }
        device.activate_at(beat(1, 1, 0), 100 + 35);  // the first of the four went at 100
    }
}

TEST_CASE("nCCDS, nCCDL and nCCDR: column to column") {
    isa::HbmTimingSpec t = loose();
    t.nccdl = 6;
    t.nccdr = 9;
    Device device(t);
    for (std::uint8_t set : {0, 4}) {  // set 4 is the second rank's
        for (std::uint8_t group : {0, 1}) {
            device.go(beat(set, 1, group), 100);
        }
    }
    const Ck last = device.go(beat(0, 1, 0), 1000).first_column;
    CHECK(last == 1000);
    device.column_at(beat(0, 1, 1), last + 2);
    device.column_at(beat(0, 1, 0), last + 6);
    device.column_at(beat(4, 1, 1), last + 9);
}

TEST_CASE("nRTW, nWTRS and nWTRL: turning the bus round") {
    isa::HbmTimingSpec t = loose();
    t.nrtw = 29;
    t.nwtrs = 10;
    t.nwtrl = 15;
    Device device(t);
    device.go(beat(0, 1, 0), 100);
    device.go(beat(0, 1, 1), 100);
    const Ck read = device.go(beat(0, 1, 0), 1000).first_column;
    device.column_at(beat(0, 1, 1, true), read + 29);
    const Ck write = device.go(beat(0, 1, 0, true), 2000).first_column;
    CHECK(write == 2000);
    device.column_at(beat(0, 1, 1), write + 15 + kBurst + 10);
    device.column_at(beat(0, 1, 0), write + 15 + kBurst + 15);
}

TEST_CASE("nRFCpb, nRREFD and nRFC: refresh") {
    isa::HbmTimingSpec t = loose();
    t.nrfcpb = 456;
    t.nrrefd = 19;
    t.nrfc = 798;
    SECTION("of a bank set: staggered, each bank blocked") {
        Device device(t);
        device.timing.refresh_set(2, 500);
        for (std::uint8_t group = 0; group < 4; ++group) {
            device.activate_at(beat(2, 1, group), 500 + group * 19U + 456);
        }
        device.activate_at(beat(3, 1, 0), 500 + 4 * 19);  // another set: after the last REFpb
    }
    SECTION("of an open set: closed first") {
        Device device(t);
        const Ck column = device.go(beat(2, 1, 0), 500).first_column;
        device.timing.refresh_set(2, column);
        CHECK(device.timing.plan(beat(2, 1, 0), 0).activate[0] == column + 1 /* nRTP */ + 1 /* nRP */ + 456);
    }
    SECTION("of all") {
        Device device(t);
        device.timing.refresh_all(500);
        device.activate_at(beat(7, 1, 3), 500 + 798);
    }
}

TEST_CASE("a granule streams without gaps: 32 bursts in 64 CK after its rows are open") {
    const isa::HbmTimingSpec t = test::hbm3e_timing();
    Device device(t);
    const sim::HbmPlan first = device.go({1, 0, 0, 32, false}, 0);
    CHECK(first.activate[3] == 3 * 6);
    CHECK(first.first_column == 3 * 6 + 45 - 3 * 2);  // the last group's first burst comes fourth
    CHECK(first.data_end == first.data_start + 32 * kBurst);
    const sim::HbmPlan second = device.go({1, 0, 0, 32, false}, 0);
    CHECK(second.hit);
    CHECK(second.data_start == first.data_end);
}

TEST_CASE("random accesses and refreshes give a legal command trace") {
    const isa::HbmTimingSpec t = test::hbm3e_timing();
    for (const bool all_bank : {false, true}) {
        Device device(t);
        std::vector<sim::HbmCommand> trace;
        device.timing.record_to(&trace);
        std::mt19937_64 random(all_bank ? 3 : 4);
        Ck now = 0;
        for (int i = 0; i < 1200; ++i) {
            now += random() % 5 == 0 ? random() % 400 : random() % 70;
            if (random() % 12 == 0) {
                if (all_bank) {
                    device.timing.refresh_all(now);
                } else {
                    device.timing.refresh_set(random() % 12, now);
                }
            }
            const bool whole = random() % 3 != 0;
            const auto first = static_cast<std::uint8_t>(whole ? 0 : random() % 32);
            const auto beats = static_cast<std::uint8_t>(whole ? 32 : 1 + random() % (32U - first));
            const HbmAccess access{static_cast<std::uint32_t>(random() % 3), static_cast<std::uint8_t>(random() % 12),
                                   first, beats, random() % 4 == 0};
            const sim::HbmPlan plan = device.go(access, now);
            REQUIRE(plan.first_column >= now);
        }
        REQUIRE(trace.size() > 15'000);
        CHECK(test::HbmChecker(t, 4).check(trace) == "");
        // The trace is tight and the checker not blind: with any gate one longer it finds a violation.
        for (std::int64_t isa::HbmTimingSpec::*gate :
             {&isa::HbmTimingSpec::nrcdrd, &isa::HbmTimingSpec::nrcdwr, &isa::HbmTimingSpec::nrp,
              &isa::HbmTimingSpec::nras, &isa::HbmTimingSpec::nrtp, &isa::HbmTimingSpec::nwr,
              &isa::HbmTimingSpec::nccds, &isa::HbmTimingSpec::nccdr, &isa::HbmTimingSpec::nrrds,
              &isa::HbmTimingSpec::nfaw, &isa::HbmTimingSpec::nwtrs, &isa::HbmTimingSpec::nrtw}) {
            isa::HbmTimingSpec longer = t;
            ++(longer.*gate);
            CHECK(test::HbmChecker(longer, 4).check(trace) != "");
        }
    }
}

TEST_CASE("the scheduler's estimate is exact for whole granules") {
    const isa::HbmTimingSpec t = test::hbm3e_timing();
    Device device(t);
    std::mt19937_64 random(5);
    Ck now = 0;
    for (int i = 0; i < 2000; ++i) {
        now += random() % 80;
        const HbmAccess access{static_cast<std::uint32_t>(random() % 4), static_cast<std::uint8_t>(random() % 12), 0,
                               32, false};
        const Ck estimate = std::max(device.timing.estimate(access, now), now);
        const sim::HbmPlan plan = device.go(access, now);
        REQUIRE(estimate <= plan.first_column);
        if (plan.hit) {
            REQUIRE(estimate == plan.first_column);
        } else {
            REQUIRE(estimate + 12 >= plan.first_column);  // nRRDL and nFAW of the neighbours are left out
        }
    }
}
