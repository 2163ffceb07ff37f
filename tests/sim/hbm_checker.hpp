// SPDX-License-Identifier: Apache-2.0
#pragma once
// An independent checker of a channel's command trace: brute force over pairs of commands, written from the parameters
// of the standard by name. Shares nothing with the controller but the type of an entry, and nothing with its table.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::test {

class HbmChecker {
public:
    using Trace = std::vector<sim::DramTraceEntry>;

    explicit HbmChecker(const isa::HbmSpec& spec) : spec_(spec), t_(spec.timing) {}

    /// The first violations, one a line; empty if there is none.
    [[nodiscard]] std::string check(Trace trace) const {
        std::stable_sort(trace.begin(), trace.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
        std::string said = buses(trace);
        for (std::int64_t p = 0; p < spec_.pseudo_channels; ++p) {
            Trace own;
            std::copy_if(trace.begin(), trace.end(), std::back_inserter(own),
                         [p](const auto& e) { return e.pseudo_channel == p; });
            said += pairs(own) + four_activates(own) + rows(own) + rounds(own);
        }
        return said.substr(0, 2000);
    }

private:
    using Entry = sim::DramTraceEntry;
    using C = isa::DramCommand;

    static bool is_column(C c) { return c == C::read || c == C::write; }
    [[nodiscard]] std::int64_t rank(const Entry& e) const {
        return e.bank / (spec_.bank_groups * spec_.banks_per_group);
    }
    [[nodiscard]] bool same_group(const Entry& a, const Entry& b) const {
        return rank(a) == rank(b) && a.bank % spec_.bank_groups == b.bank % spec_.bank_groups;
    }

    [[nodiscard]] std::int64_t minimum(const Entry& a, const Entry& b) const {
        const bool bank = a.bank == b.bank;
        const bool group = same_group(a, b);
        const std::int64_t write_end = t_.ncwl + t_.nbl;
        std::int64_t gap = 0;
        const auto need = [&](C from, C to, bool applies, std::int64_t value) {
            gap = a.command == from && b.command == to && applies ? std::max(gap, value) : gap;
        };
        need(C::activate, C::activate, true, t_.nrrds);
        need(C::activate, C::activate, group, t_.nrrdl);
        need(C::activate, C::activate, bank, t_.nrc);
        need(C::activate, C::read, bank, t_.nrcdrd);
        need(C::activate, C::write, bank, t_.nrcdwr);
        need(C::activate, C::precharge, bank, t_.nras);
        need(C::activate, C::precharge_all, true, t_.nras);
        need(C::precharge, C::activate, bank, t_.nrp);
        need(C::precharge, C::refresh_bank, bank, t_.nrp);
        need(C::precharge, C::refresh_all, true, t_.nrp);
        need(C::precharge, C::precharge, true, t_.nppd);
        need(C::precharge_all, C::activate, true, t_.nrp);
        need(C::precharge_all, C::refresh_all, true, t_.nrp);
        need(C::read, C::precharge, bank, t_.nrtp);
        need(C::read, C::precharge_all, true, t_.nrtp);
        need(C::write, C::precharge, bank, write_end + t_.nwr);
        need(C::write, C::precharge_all, true, write_end + t_.nwr);
        for (const C column : {C::read, C::write}) {
            need(column, column, true, std::max(t_.nccds, t_.nbl));
            need(column, column, group, t_.nccdl);
        }
        need(C::read, C::read, rank(a) != rank(b), t_.nccdr);
        need(C::read, C::write, true, t_.nrtw);
        need(C::write, C::read, true, write_end + t_.nwtrs);
        need(C::write, C::read, group, write_end + t_.nwtrl);
        need(C::refresh_bank, C::activate, true, bank ? t_.nrfcpb : t_.nrrefd);
        need(C::refresh_bank, C::refresh_bank, true, bank ? t_.nrfcpb : t_.nrrefd);
        need(C::refresh_all, C::activate, true, t_.nrfc);
        need(C::refresh_all, C::refresh_all, true, t_.nrfc);
        return gap;
    }

    [[nodiscard]] std::string pairs(const Trace& trace) const {
        std::string said;
        // No gap is longer than this.
        const auto reach = static_cast<sim::Ck>(
            std::max({t_.nrfc, t_.nrfcpb, t_.nrc, t_.ncwl + t_.nbl + std::max(t_.nwr, t_.nwtrl), t_.nrtw}));
        for (std::size_t j = 0; j < trace.size(); ++j) {
            for (std::size_t i = j; i-- > 0 && trace[i].at + reach > trace[j].at;) {
                const auto gap = static_cast<sim::Ck>(minimum(trace[i], trace[j]));
                if (trace[j].at < trace[i].at + gap) {
                    said += described(trace[i]) + " -> " + described(trace[j]) + fmt::format(" needs {}\n", gap);
                }
            }
        }
        return said;
    }

    [[nodiscard]] std::string four_activates(const Trace& trace) const {
        std::vector<sim::Ck> acts;
        for (const Entry& e : trace) {
            if (e.command == C::activate) {
                acts.push_back(e.at);
            }
        }
        for (std::size_t i = 4; i < acts.size(); ++i) {
            if (acts[i] < acts[i - 4] + static_cast<sim::Ck>(t_.nfaw)) {
                return fmt::format("five ACTs from {} to {}\n", acts[i - 4], acts[i]);
            }
        }
        return {};
    }

    /// Columns meet their own open row; ACT and REF meet closed banks.
    [[nodiscard]] std::string rows(const Trace& trace) const {
        std::vector<std::int64_t> open(64, -1);
        const auto all_closed = [&open] {
            return std::all_of(open.begin(), open.end(), [](std::int64_t row) { return row < 0; });
        };
        for (const Entry& e : trace) {
            std::int64_t& row = open[e.bank];
            bool fine = true;
            switch (e.command) {
                case C::activate: fine = row < 0, row = e.row; break;
                case C::precharge: fine = row >= 0, row = -1; break;
                case C::precharge_all: std::fill(open.begin(), open.end(), -1); break;
                case C::read:
                case C::write: fine = row == e.row; break;
                case C::refresh_bank: fine = row < 0; break;
                case C::refresh_all: fine = all_closed(); break;
            }
            if (!fine) {
                return described(e) + " meets the wrong row\n";
            }
        }
        return {};
    }

    /// Every bank once in a round, and no bank later than the intervals that may be postponed and one more.
    [[nodiscard]] std::string rounds(const Trace& trace) const {
        const std::int64_t banks = spec_.bank_groups * spec_.banks_per_group * spec_.ranks;
        std::vector<bool> done(static_cast<std::size_t>(banks), false);
        std::int64_t count = 0;
        for (const Entry& e : trace) {
            if (e.command != C::refresh_bank) {
                continue;
            }
            if (done[e.bank]) {
                return described(e) + " comes twice in a round\n";
            }
            done[e.bank] = true;
            if (++count % banks == 0) {
                std::fill(done.begin(), done.end(), false);
            }
            // The refresh that is `count`-th has been due since (count - 1) / banks intervals at most.
            const std::int64_t due = (count - 1) * t_.nrefi / banks;
            const std::int64_t late = static_cast<std::int64_t>(e.at) - due;
            // It takes a while to close the bank once it must be.
            if (late > (spec_.refresh_postponed + 1) * t_.nrefi + t_.nrc + t_.nwr + t_.nrfcpb) {
                return described(e) + " comes too late\n";
            }
        }
        return {};
    }

    /// ACT holds the row bus for 1.5 CK, other row commands for 0.5; the column bus carries one command a CK; bursts do
    /// not overlap on a pseudo-channel's data bus (columns of a kind are at least nBL apart, turns are gaps above).
    [[nodiscard]] static std::string buses(const Trace& trace) {
        sim::Ck row_free = 0;
        sim::Ck column_free = 0;
        for (const Entry& e : trace) {
            sim::Ck& free = is_column(e.command) ? column_free : row_free;
            if (e.at < free) {
                return described(e) + " finds its command bus taken\n";
            }
            free = e.at + (e.command == C::activate ? 2 : 1);
        }
        return {};
    }

    [[nodiscard]] static std::string described(const Entry& e) {
        return fmt::format("{} pc {} bank {} row {} at {}", isa::name(e.command), e.pseudo_channel, e.bank, e.row,
                           e.at);
    }

    const isa::HbmSpec& spec_;
    const isa::HbmTimingSpec& t_;
};

}  // namespace sluice::test
