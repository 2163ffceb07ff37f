// SPDX-License-Identifier: Apache-2.0
#pragma once
// An independent checker of DRAM command traces: brute force over pairs of commands, written from the constraint table,
// sharing nothing with the model but the command type.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/mem/hbm_timing.hpp"

namespace sluice::test {

class HbmChecker {
public:
    HbmChecker(const isa::HbmTimingSpec& timing, std::size_t sets_per_rank)
        : t_(timing), sets_per_rank_(sets_per_rank) {}

    /// The first violations, one a line; empty if there is none.
    [[nodiscard]] std::string check(std::vector<sim::HbmCommand> trace) const {
        std::stable_sort(trace.begin(), trace.end(),
                         [](const sim::HbmCommand& a, const sim::HbmCommand& b) { return a.at < b.at; });
        std::string violations;
        for (std::size_t j = 0; j < trace.size(); ++j) {
            // No constraint but the refresh of a bank lasts longer than this.
            const sim::Ck reach = static_cast<sim::Ck>(std::max({t_.nrfc, t_.nrfcpb, t_.nrc}) + 1);
            for (std::size_t i = j; i-- > 0 && trace[i].at + reach > trace[j].at;) {
                const std::int64_t gap = minimum(trace[i], trace[j]);
                if (trace[j].at < trace[i].at + static_cast<sim::Ck>(gap) && violations.size() < 2000) {
                    violations += describe(trace[i]) + " -> " + describe(trace[j]) + fmt::format(" needs {}\n", gap);
                }
            }
        }
        return violations + four_activates(trace) + rows(trace);
    }

private:
    using K = sim::HbmCommandKind;
    static bool is_column(K kind) { return kind == K::read || kind == K::write; }
    [[nodiscard]] std::size_t rank(const sim::HbmCommand& c) const { return c.set / sets_per_rank_; }

    [[nodiscard]] std::int64_t minimum(const sim::HbmCommand& a, const sim::HbmCommand& b) const {
        const bool group = a.group == b.group;
        const bool bank = group && a.set == b.set;
        constexpr std::int64_t kBurst = 2;
        std::int64_t gap = 0;
        const auto need = [&gap](bool applies, std::int64_t value) { gap = applies ? std::max(gap, value) : gap; };
        need(a.kind == K::activate && b.kind == K::activate, t_.nrrds);
        need(a.kind == K::activate && b.kind == K::activate && group, t_.nrrdl);
        need(a.kind == K::activate && b.kind == K::activate && bank, t_.nrc);
        need(a.kind == K::activate && b.kind == K::precharge && bank, t_.nras);
        need(a.kind == K::activate && b.kind == K::read && bank, t_.nrcdrd);
        need(a.kind == K::activate && b.kind == K::write && bank, t_.nrcdwr);
        need(a.kind == K::precharge && b.kind == K::activate && bank, t_.nrp);
        need(a.kind == K::precharge && b.kind == K::refresh_bank && bank, t_.nrp);
        need(a.kind == K::precharge && b.kind == K::refresh_all, t_.nrp);
        need(a.kind == K::read && b.kind == K::precharge && bank, t_.nrtp);
        need(a.kind == K::write && b.kind == K::precharge && bank, t_.ncwl + kBurst + t_.nwr);
        need(is_column(a.kind) && is_column(b.kind), t_.nccds);
        need(is_column(a.kind) && is_column(b.kind) && group, t_.nccdl);
        need(is_column(a.kind) && is_column(b.kind) && rank(a) != rank(b), t_.nccdr);
        need(a.kind == K::read && b.kind == K::write, t_.nrtw);
        need(a.kind == K::write && b.kind == K::read, t_.ncwl + kBurst + t_.nwtrs);
        need(a.kind == K::write && b.kind == K::read && group, t_.ncwl + kBurst + t_.nwtrl);
        need(a.kind == K::refresh_bank && b.kind == K::activate, bank ? t_.nrfcpb : t_.nrrefd);
        need(a.kind == K::refresh_bank && b.kind == K::refresh_bank, bank ? t_.nrfcpb : t_.nrrefd);
        need(a.kind == K::refresh_all, b.kind == K::activate || b.kind == K::refresh_all ? t_.nrfc : 0);
        return gap;
    }

    [[nodiscard]] std::string four_activates(const std::vector<sim::HbmCommand>& trace) const {
        std::vector<sim::Ck> acts;
        for (const sim::HbmCommand& command : trace) {
            if (command.kind == K::activate) {
                acts.push_back(command.at);
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
    [[nodiscard]] std::string rows(const std::vector<sim::HbmCommand>& trace) const {
        std::vector<std::int64_t> open(64 * 8, -1);
        for (const sim::HbmCommand& c : trace) {
            std::int64_t& row = open[c.set * 8U + c.group];
            const bool closed = row < 0;
            bool fine = true;
            switch (c.kind) {
                case K::activate: fine = closed, row = c.row; break;
                case K::precharge: fine = !closed, row = -1; break;
                case K::read:
                case K::write: fine = row == c.row; break;
                case K::refresh_bank: fine = closed; break;
                case K::refresh_all:
                    fine = std::all_of(open.begin(), open.end(), [](std::int64_t r) { return r < 0; });
                    break;
            }
            if (!fine) {
                return describe(c) + fmt::format(" meets row {}\n", row);
            }
        }
        return {};
    }

    [[nodiscard]] static std::string describe(const sim::HbmCommand& c) {
        static constexpr const char* kNames[] = {"ACT", "PRE", "RD", "WR", "REFpb", "REFab"};
        return fmt::format("{} set {} group {} row {} at {}", kNames[static_cast<std::size_t>(c.kind)], c.set, c.group,
                           c.row, c.at);
    }

    const isa::HbmTimingSpec& t_;
    std::size_t sets_per_rank_;
};

}  // namespace sluice::test
