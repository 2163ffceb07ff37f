// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/hbm_timing.hpp"

#include <algorithm>

namespace sluice::sim {

namespace {

Ck ck(std::int64_t value) {
    return static_cast<Ck>(std::max<std::int64_t>(value, 0));
}

Ck minus(Ck a, Ck b) {
    return a > b ? a - b : 0;
}

constexpr Ck kBurst = 2;  // burst length 8 at two transfers per half CK: JESD238's pseudo-channel, 32 B per 2 CK

}  // namespace

HbmTiming::HbmTiming(const isa::HbmTimingSpec& s, const HbmGeometry& geometry)
    : groups_(geometry.groups),
      sets_per_rank_(geometry.sets_per_rank),
      cl_(ck(s.ncl)),
      cwl_(ck(s.ncwl)),
      rcdrd_(ck(s.nrcdrd)),
      rcdwr_(ck(s.nrcdwr)),
      rp_(ck(s.nrp)),
      ras_(ck(s.nras)),
      rc_(ck(s.nrc)),
      rtp_(ck(s.nrtp)),
      wr_(ck(s.nwr)),
      ccds_(ck(s.nccds)),
      ccdl_(ck(s.nccdl)),
      ccdr_(ck(s.nccdr)),
      rrds_(ck(s.nrrds)),
      rrdl_(ck(s.nrrdl)),
      faw_(ck(s.nfaw)),
      wtrs_(ck(s.nwtrs)),
      wtrl_(ck(s.nwtrl)),
      rtw_(ck(s.nrtw)),
      rfc_(ck(s.nrfc)),
      rfcpb_(ck(s.nrfcpb)),
      rrefd_(ck(s.nrrefd)),
      burst_(kBurst),
      spacing_(std::max({ccds_, kBurst, ceil_div<Ck>(ccdl_, geometry.groups)})),
      spread_(0),
      banks_(geometry.sets * geometry.groups),
      sets_(geometry.sets) {
    spread_ = (groups_ - 1) * minus(rrds_, spacing_);
}

Ck HbmTiming::activate_gate() const {
    return std::max(next_act_, recent_acts_[oldest_act_]);
}

Ck HbmTiming::bus_gate(bool write, std::size_t rank) const {
    Ck gate = std::max(next_column_, write ? next_write_ : next_read_);
    if (any_column_ && rank != last_rank_) {
        gate = std::max(gate, last_column_ + ccdr_);
    }
    return gate;
}

void HbmTiming::plan_rows(const HbmAccess& access, Ck now, HbmPlan& plan) const {
    std::array<Ck, 4> acts = recent_acts_;
    std::size_t oldest = oldest_act_;
    Ck next_act = next_act_;
    const std::size_t touched = std::min<std::size_t>(access.beats, groups_);
    for (std::size_t i = 0; i < touched; ++i) {
        const std::size_t group = (access.first_beat + i) % groups_;
        const Bank& b = bank(access.set, group);
        plan.touched |= 1U << group;
        if (b.row == access.row) {
            continue;
        }
        Ck ready = now;
        if (b.row != kClosed) {
            plan.precharge[group] = std::max(now, b.precharge_ready);
            plan.precharged |= 1U << group;
            ready = plan.precharge[group] + rp_;
        }
        const Ck at = std::max({ready, b.activate_ready, next_act, acts[oldest], group_act_[group]});
        plan.activate[group] = at;
        plan.activated |= 1U << group;
        next_act = at + rrds_;
        acts[oldest] = at + faw_;
        oldest = (oldest + 1) % acts.size();
    }
    plan.hit = plan.activated == 0;
}

Ck HbmTiming::column_gate(const HbmAccess& access, const HbmPlan& plan) const {
    Ck first = bus_gate(access.write, access.set / sets_per_rank_);
    const std::size_t touched = std::min<std::size_t>(access.beats, groups_);
    const Ck rcd = access.write ? rcdwr_ : rcdrd_;
    for (std::size_t i = 0; i < touched; ++i) {
        const std::size_t group = (access.first_beat + i) % groups_;
        const bool opens = (plan.activated >> group & 1U) != 0;
        Ck ready = opens ? plan.activate[group] + rcd : bank(access.set, group).column_ready[access.write ? 1 : 0];
        ready = std::max(ready, group_column_[group]);
        if (!access.write) {
            ready = std::max(ready, group_read_after_write_[group]);
        }
        first = std::max(first, minus(ready, i * spacing_));
    }
    return first;
}

HbmPlan HbmTiming::plan(const HbmAccess& access, Ck now) const {
    HbmPlan plan;
    plan_rows(access, now, plan);
    plan.first_column = std::max(now, column_gate(access, plan));
    plan.data_start = plan.first_column + (access.write ? cwl_ : cl_);
    plan.data_end = plan.data_start + (access.beats - 1U) * spacing_ + burst_;
    return plan;
}

void HbmTiming::commit_rows(const HbmAccess& access, const HbmPlan& plan) {
    const std::size_t touched = std::min<std::size_t>(access.beats, groups_);
    for (std::size_t i = 0; i < touched; ++i) {
        const std::size_t group = (access.first_beat + i) % groups_;
        if ((plan.activated >> group & 1U) == 0) {
            continue;
        }
        Bank& b = bank(access.set, group);
        if ((plan.precharged >> group & 1U) != 0) {
            note(HbmCommandKind::precharge, plan.precharge[group], access.set, group, b.row);
        }
        const Ck at = plan.activate[group];
        note(HbmCommandKind::activate, at, access.set, group, access.row);
        b.row = access.row;
        b.activate_ready = at + rc_;
        b.precharge_ready = at + ras_;
        b.column_ready = {at + rcdrd_, at + rcdwr_};
        recent_acts_[oldest_act_] = at + faw_;
        oldest_act_ = (oldest_act_ + 1) % recent_acts_.size();
        next_act_ = std::max(next_act_, at + rrds_);
        group_act_[group] = at + rrdl_;
        ++activates_;
    }
}

void HbmTiming::commit_columns(const HbmAccess& access, const HbmPlan& plan) {
    const std::size_t touched = std::min<std::size_t>(access.beats, groups_);
    const Ck to_precharge = access.write ? cwl_ + burst_ + wr_ : rtp_;
    for (std::size_t i = 0; i < touched; ++i) {
        const std::size_t group = (access.first_beat + i) % groups_;
        const std::size_t last_burst = i + (access.beats - 1U - i) / groups_ * groups_;
        const Ck last = plan.first_column + last_burst * spacing_;
        Bank& b = bank(access.set, group);
        b.precharge_ready = std::max(b.precharge_ready, last + to_precharge);
        group_column_[group] = last + ccdl_;
        if (access.write) {
            group_read_after_write_[group] = last + cwl_ + burst_ + wtrl_;
        }
    }
    if (trace_ != nullptr) {
        for (std::size_t j = 0; j < access.beats; ++j) {
            note(access.write ? HbmCommandKind::write : HbmCommandKind::read, plan.first_column + j * spacing_,
                 access.set, (access.first_beat + j) % groups_, access.row);
        }
    }
    last_column_ = plan.first_column + (access.beats - 1U) * spacing_;
    last_rank_ = access.set / sets_per_rank_;
    any_column_ = true;
    next_column_ = last_column_ + std::max(ccds_, burst_);
    if (access.write) {
        next_write_ = next_column_;
        next_read_ = last_column_ + cwl_ + burst_ + wtrs_;
    } else {
        next_read_ = next_column_;
        next_write_ = last_column_ + rtw_;
    }
}

void HbmTiming::summarise(std::size_t set) {
    Set& s = sets_[set];
    s = {};
    s.row = bank(set, 0).row;
    for (std::size_t group = 0; group < groups_; ++group) {
        const Bank& b = bank(set, group);
        // The ACTs of a set follow each other at nRRDS at best, so bank i may be ready that much later.
        s.activate_ready = std::max(s.activate_ready, minus(b.activate_ready, group * rrds_));
        s.precharge_ready = std::max(s.precharge_ready, minus(b.precharge_ready, group * rrds_));
        for (std::size_t w = 0; w < 2; ++w) {
            s.column_ready[w] = std::max(s.column_ready[w], minus(b.column_ready[w], group * spacing_));
        }
        s.uniform = s.uniform && b.row == s.row;
    }
}

void HbmTiming::commit(const HbmAccess& access, const HbmPlan& plan) {
    if (plan.activated != 0) {
        commit_rows(access, plan);
    }
    commit_columns(access, plan);
    summarise(access.set);
}

Ck HbmTiming::close_set(std::size_t set, Ck from) {
    Ck closed = from;
    for (std::size_t group = 0; group < groups_; ++group) {
        Bank& b = bank(set, group);
        if (b.row != kClosed) {
            const Ck at = std::max(from, b.precharge_ready);
            note(HbmCommandKind::precharge, at, set, group, b.row);
            b.row = kClosed;
            b.activate_ready = std::max(b.activate_ready, at + rp_);
        }
        closed = std::max(closed, b.activate_ready);
    }
    return closed;
}

void HbmTiming::refresh_set(std::size_t set, Ck due) {
    // Not before the ACTs that are committed already, so that nRREFD holds between commands in either order.
    Ck at = std::max({close_set(set, due), next_refresh_, next_act_});
    for (std::size_t group = 0; group < groups_; ++group) {
        note(HbmCommandKind::refresh_bank, at, set, group, 0);
        bank(set, group).activate_ready = at + rfcpb_;
        at += rrefd_;
    }
    next_refresh_ = at;
    next_act_ = std::max(next_act_, at);
    summarise(set);
}

void HbmTiming::refresh_all(Ck due) {
    Ck at = std::max(due, next_refresh_);
    for (std::size_t set = 0; set < sets_.size(); ++set) {
        at = std::max(at, close_set(set, due));
    }
    note(HbmCommandKind::refresh_all, at, 0, 0, 0);
    for (Bank& b : banks_) {
        b.activate_ready = at + rfc_;
    }
    next_refresh_ = at + rfc_;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
        summarise(set);
    }
}

}  // namespace sluice::sim
