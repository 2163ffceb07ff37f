// SPDX-License-Identifier: Apache-2.0
// DramChannel: when refreshes fall due, and which bank is next.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "isa/errors.hpp"
#include "sim/mem/dram_bank_mask.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

using isa::DramCommand;

// Refresh k falls due at offset + k nREFI / parts, rounded down.
Ck DramChannel::due(const Refresh& refresh, std::uint64_t k) const {
    return refresh.offset + k * refresh_interval_ / refresh_parts_;
}

// Without refreshes every request is served some time; with a table that leaves none of them time between two refreshes
// a run would never end. A pseudo-channel alone says nothing: its writes wait as long as the other one reads.
void DramChannel::check_progress(Ck now) const {
    if (entries_in_use_ > 0 && now > progress_ + patience_) {
        throw InputError("hbm.timing",
                         fmt::format("refreshes leave requests no time: a channel has given no column command for {} "
                                     "CK; allowed: a longer nrefi, shorter gaps, or hbm.refresh \"none\"",
                                     now - progress_));
    }
}

void DramChannel::count_refresh(PseudoChannel& pc, Ck now) {
    check_progress(now);
    ++pc.counts.refreshes;
    ++pc.refresh.issued;
    pc.refresh.due = due(pc.refresh, pc.refresh.issued);
    pc.refresh.check = true;
    pc.row_stale = pc.look_stale = true;
}

void DramChannel::look_for_refresh(PseudoChannel& pc, Ck now) {
    Refresh& refresh = pc.refresh;
    refresh.check = false;
    pc.look_stale = true;
    if (refresh.target >= 0 || refresh.all_under_way) {
        return;
    }
    if (refresh.due <= now) {
        if (all_bank_) {
            refresh.all_under_way = pc.row_stale = pc.column_stale = true;
            pc.nominated = false;
        } else {
            pick_target(pc, due(refresh, refresh.issued + postponed_) <= now);
        }
    } else if (per_bank_ && ahead_ > 0 && wanted(pc) == 0 &&
               (refresh.issued < ahead_ || due(refresh, refresh.issued - ahead_) <= now)) {
        pick_target(pc, false);
    }
}

void DramChannel::pick_target(PseudoChannel& pc, bool forced) {
    Refresh& refresh = pc.refresh;
    const std::uint64_t all = banks_ == 64 ? ~std::uint64_t{0} : bit(banks_) - 1;
    const std::uint64_t left = all & ~refresh.done;
    const std::uint64_t candidates = (left & ~wanted(pc)) != 0 ? left & ~wanted(pc) : forced ? left : 0;
    if (candidates == 0) {
        return;
    }
    // Counting upwards from `next`, round the end.
    const std::uint64_t upwards = candidates & ~(bit(refresh.next) - 1);
    refresh.target = std::countr_zero(upwards != 0 ? upwards : candidates);
    pc.row_stale = pc.column_stale = true;
}

// When `look_for_refresh` could next find one.
Ck DramChannel::find_next_look(const PseudoChannel& pc) const {
    const Refresh& refresh = pc.refresh;
    if (!(per_bank_ || all_bank_) || refresh.target >= 0 || refresh.all_under_way) {
        return kNever;
    }
    if (per_bank_ && ahead_ > 0 && wanted(pc) == 0) {
        return refresh.issued < ahead_ ? 0 : due(refresh, refresh.issued - ahead_);
    }
    if (refresh.due >= tick_) {
        return refresh.due;
    }
    return refresh.check ? tick_ : due(refresh, refresh.issued + postponed_);
}

// The refreshes of a channel without requests repeat every nREFI, once none is late or still to be pulled in: whole
// rounds are counted, not performed. Two are left, so that what the last of them forbid is known when the next request
// comes.
void DramChannel::skip_idle_refreshes(Ck end) {
    for (const std::deque<DramRequest>& waiting : waiting_) {
        end = waiting.empty() ? end : std::min(end, waiting.front().arrival);
    }
    if (end <= tick_ + 2 * refresh_interval_) {
        return;
    }
    for (PseudoChannel& pc : channels_) {
        Refresh& refresh = pc.refresh;
        if (refresh.target >= 0 || refresh.done != 0 || pc.open != 0 || refresh.issued < ahead_ ||
            due(refresh, refresh.issued - ahead_ + 1) < tick_) {
            continue;
        }
        const Ck next = due(refresh, refresh.issued - ahead_);
        const std::uint64_t rounds = end > next ? (end - next) / refresh_interval_ : 0;
        if (rounds > 2) {
            refresh.issued += (rounds - 2) * refresh_parts_;
            refresh.due = due(refresh, refresh.issued);
            pc.counts.refreshes += (rounds - 2) * refresh_parts_;
            pc.look_stale = true;
        }
    }
}

}  // namespace sluice::sim
