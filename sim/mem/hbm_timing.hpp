// SPDX-License-Identifier: Apache-2.0
#pragma once
// DRAM timing of one pseudo-channel, in cycles of the memory's own clock (CK), at the granularity of an access: up to a
// granule of beats that lie in one row set, spread burst by burst over the bank groups. `plan` is a pure question (when
// would each command go?), `commit` takes the answer. Commands are exact; gates as in JESD238:
//   bank:   PRE -nRP-> ACT, ACT -nRCDRD/nRCDWR-> RD/WR, ACT -nRAS-> PRE, ACT -nRC-> ACT, RD -nRTP-> PRE,
//           WR -(nCWL + burst + nWR)-> PRE
//   group:  ACT -nRRDL-> ACT, RD/WR -nCCDL-> RD/WR, WR -(nCWL + burst + nWTRL)-> RD
//   all:    ACT -nRRDS-> ACT, 4 ACTs in nFAW, RD/WR -nCCDS-> RD/WR (nCCDR to another rank), RD -nRTW-> WR,
//           WR -(nCWL + burst + nWTRS)-> RD, REFpb -nRREFD-> REFpb or ACT
// Simplified: the bursts of an access follow each other without gaps; the command buses, which two pseudo-channels
// share, are not modelled (at one ACT and one PRE per 8 bursts they are less than half used). Nanosecond gates that the
// spec gives as counts of CK scale with it. tests/sim/hbm_timing_test.cpp holds every gate at n - 1 and n, and checks
// the commands of random traffic with an independent brute-force checker.
#include <array>
#include <cstdint>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/mem/hbm_geometry.hpp"

namespace sluice::sim {

/// Cycles of the memory's clock.
using Ck = std::uint64_t;

struct HbmAccess {
    std::uint32_t row = 0;
    std::uint8_t set = 0;
    std::uint8_t first_beat = 0;
    std::uint8_t beats = 0;
    bool write = false;
};

enum class HbmCommandKind : std::uint8_t { activate, precharge, read, write, refresh_bank, refresh_all };
struct HbmCommand {
    HbmCommandKind kind;
    Ck at;
    std::uint8_t set;
    std::uint8_t group;
    std::uint32_t row;
};

constexpr std::size_t kMaxBankGroups = 8;

/// When the commands of an access would go. Arrays are by bank group; only those touched count.
struct HbmPlan {
    bool hit = false;
    std::array<Ck, kMaxBankGroups> precharge{};
    std::array<Ck, kMaxBankGroups> activate{};
    std::uint32_t touched = 0;    ///< groups
    std::uint32_t activated = 0;  ///< groups whose row must be opened
    std::uint32_t precharged = 0;
    Ck first_column = 0;
    Ck data_start = 0;
    Ck data_end = 0;
};

class HbmTiming {
public:
    HbmTiming(const isa::HbmTimingSpec& spec, const HbmGeometry& geometry);

    /// The earliest commands for `access` if none goes before `now`.
    [[nodiscard]] HbmPlan plan(const HbmAccess& access, Ck now) const;
    void commit(const HbmAccess& access, const HbmPlan& plan);

    /// plan().first_column for a scheduler that looks at many accesses: quick where the banks of a set have the same
    /// row open and the access touches all of them (then it may be up to the stagger of four ACTs too early), else
    /// exact.
    [[nodiscard]] Ck estimate(const HbmAccess& access, Ck now) const {
        const Set& set = sets_[access.set];
        if (!set.uniform || access.beats < groups_) {
            return plan(access, now).first_column;
        }
        Ck column = bus_gate(access.write, access.set / sets_per_rank_);
        Ck ready = 0;
        if (set.row == access.row) {
            ready = set.column_ready[access.write ? 1 : 0];
        } else {
            const Ck precharged =
                set.row == kClosed ? now : (now > set.precharge_ready ? now : set.precharge_ready) + rp_;
            const Ck first_act = precharged > set.activate_ready ? precharged : set.activate_ready;
            const Ck gate = activate_gate();
            ready = (first_act > gate ? first_act : gate) + spread_ + (access.write ? rcdwr_ : rcdrd_);
        }
        return column > ready ? column : ready;
    }
    /// Earliest column command of this direction on the data bus and in this rank.
    [[nodiscard]] Ck bus_gate(bool write, std::size_t rank) const;
    /// The column command after which nothing is committed yet.
    [[nodiscard]] Ck bus_free() const { return next_column_; }

    /// Refreshes all banks of a set, from the first CK >= due at which its rows can be closed; the set is blocked for
    /// nRFCpb plus the stagger of its banks.
    void refresh_set(std::size_t set, Ck due);
    /// Closes all rows and blocks everything for nRFC.
    void refresh_all(Ck due);

    void record_to(std::vector<HbmCommand>* trace) { trace_ = trace; }
    [[nodiscard]] std::uint64_t activates() const { return activates_; }
    [[nodiscard]] Ck burst_ck() const { return burst_; }

private:
    static constexpr std::uint32_t kClosed = ~std::uint32_t{0};
    struct Bank {
        Ck activate_ready = 0;   // tRC, tRP, refresh
        Ck precharge_ready = 0;  // tRAS, tRTP, tWR
        std::array<Ck, 2> column_ready{};
        std::uint32_t row = kClosed;
    };
    struct Set {
        // The latest over the set's banks, less their stagger, so that a scheduler can look at many accesses cheaply.
        Ck activate_ready = 0;
        Ck precharge_ready = 0;
        std::array<Ck, 2> column_ready{};  // of the first burst: bank i has 2i CK longer
        std::uint32_t row = kClosed;       // of all banks, if they are uniform
        bool uniform = true;
    };

    [[nodiscard]] Bank& bank(std::size_t set, std::size_t group) { return banks_[set * groups_ + group]; }
    [[nodiscard]] const Bank& bank(std::size_t set, std::size_t group) const { return banks_[set * groups_ + group]; }
    [[nodiscard]] Ck activate_gate() const;
    void plan_rows(const HbmAccess& access, Ck now, HbmPlan& plan) const;
    [[nodiscard]] Ck column_gate(const HbmAccess& access, const HbmPlan& plan) const;
    void commit_rows(const HbmAccess& access, const HbmPlan& plan);
    void commit_columns(const HbmAccess& access, const HbmPlan& plan);
    void summarise(std::size_t set);
    Ck close_set(std::size_t set, Ck from);
    void note(HbmCommandKind kind, Ck at, std::size_t set, std::size_t group, std::uint32_t row) const {
        if (trace_ != nullptr) {
            trace_->push_back({kind, at, static_cast<std::uint8_t>(set), static_cast<std::uint8_t>(group), row});
        }
    }

    std::size_t groups_, sets_per_rank_;
    Ck cl_, cwl_, rcdrd_, rcdwr_, rp_, ras_, rc_, rtp_, wr_, ccds_, ccdl_, ccdr_, rrds_, rrdl_, faw_, wtrs_, wtrl_,
        rtw_;
    Ck rfc_, rfcpb_, rrefd_;
    Ck burst_;    // data bus cycles of one burst
    Ck spacing_;  // between column commands of one access
    Ck spread_;   // from the first ACT of a set to the time at which the last bank no longer holds up the first burst
    std::vector<Bank> banks_;
    std::vector<Set> sets_;
    std::array<Ck, 4> recent_acts_{};  // ring of the last four; entries hold time + nFAW
    std::size_t oldest_act_ = 0;
    Ck next_act_ = 0;  // by nRRDS and nRREFD
    std::array<Ck, kMaxBankGroups> group_act_{};
    std::array<Ck, kMaxBankGroups> group_column_{};  // next by nCCDL
    std::array<Ck, kMaxBankGroups> group_read_after_write_{};
    Ck next_column_ = 0;  // by nCCDS
    Ck next_read_ = 0, next_write_ = 0;
    Ck last_column_ = 0;
    std::size_t last_rank_ = 0;
    bool any_column_ = false;
    Ck next_refresh_ = 0;
    std::uint64_t activates_ = 0;
    std::vector<HbmCommand>* trace_ = nullptr;
};

}  // namespace sluice::sim
