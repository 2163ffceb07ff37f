// SPDX-License-Identifier: Apache-2.0
// DramChannel: which requests are hits, and which ask for trains of row commands.
#include <algorithm>

#include "sim/mem/dram_bank_mask.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

using isa::DramCommand;

DramChannel::Groups DramChannel::open_to(const PseudoChannel& pc, const Entry& entry) const {
    std::uint32_t open = 0;
    const std::uint32_t* rows = &pc.rows[std::size_t{entry.request.set} * table_.groups];
    for (std::uint32_t group = 0; group < table_.groups; ++group) {
        open |= (rows[group] == entry.request.row ? 1U : 0U) << group;
    }
    return static_cast<Groups>(open & entry.mask);
}

void DramChannel::settle(PseudoChannel& pc, std::uint32_t set) {
    settle(pc, kRead, set);
    settle(pc, kWrite, set);
}

// After anything that changes the requests, the rows or the clocks of a set.
void DramChannel::settle(PseudoChannel& pc, std::size_t d, std::uint32_t set) {
    Wishes& wishes = pc.sets[set].wishes[d];
    if (wishes.wanted == 0) {
        return;
    }
    wishes.wanted = wishes.used = wishes.needed = 0;
    Groups kept = 0;  // by hits
    for (Slot slot = wishes.requests.oldest; slot != kNone; slot = entries_[slot].younger) {
        settle_rows(pc, d, slot);
        const Entry& entry = entries_[slot];
        wishes.wanted = static_cast<Groups>(wishes.wanted | entry.mask);
        wishes.used = static_cast<Groups>(wishes.used | entry.open);
        kept = static_cast<Groups>(kept | (entry.hit ? entry.open : 0));
    }
    update_wanted(pc, d, set);
    // Older requests keep their rows too, so that no two can wait for each other.
    for (Slot slot = wishes.requests.oldest; slot != kNone; slot = entries_[slot].younger) {
        const Entry& entry = entries_[slot];
        if (entry.needs() != 0 && (entry.needs() & wishes.needed) == 0) {
            claim(pc, d, slot, kept);
        } else if (entry.claims) {
            drop_claim(pc, d, slot);
        }
        wishes.needed = static_cast<Groups>(wishes.needed | entry.needs());
        kept = static_cast<Groups>(kept | entry.open);
    }
}

void DramChannel::settle_rows(PseudoChannel& pc, std::size_t d, Slot slot) {
    Entry& entry = entries_[slot];
    entry.open = open_to(pc, entry);
    const bool hit = entry.open == entry.mask;
    if (hit != entry.hit) {
        hit ? becomes_hit(pc, d, slot) : no_longer_hit(pc, d, slot);
    }
}

// The youngest of its set takes no claim from others; if it is a hit it keeps rows from them.
void DramChannel::settle_arrival(PseudoChannel& pc, std::size_t d, Slot slot) {
    Entry& entry = entries_[slot];
    const std::uint32_t set = entry.request.set;
    Wishes& wishes = pc.sets[set].wishes[d];
    entry.open = open_to(pc, entry);
    const Groups needs = entry.needs();
    wishes.wanted = static_cast<Groups>(wishes.wanted | entry.mask);
    pc.wanted[d] |= std::uint64_t{entry.mask} << set * table_.groups;
    if (needs == 0) {
        becomes_hit(pc, d, slot);
        for (Slot other = wishes.claims > 0 ? wishes.requests.oldest : slot; other != slot;
             other = entries_[other].younger) {
            const Entry& older = entries_[other];
            if (older.claims && older.train.command == DramCommand::precharge && (older.needs() & entry.open) != 0) {
                claim_of(pc.queues[d], other)->kept = true;
            }
        }
    } else if ((needs & wishes.needed) == 0) {
        const Groups kept = wishes.used;
        claim(pc, d, slot, kept);
    }
    wishes.used = static_cast<Groups>(wishes.used | entry.open);
    wishes.needed = static_cast<Groups>(wishes.needed | needs);
}

// Where nobody claims anything, all that are left are hits.
void DramChannel::settle_run(PseudoChannel& pc, std::uint32_t set) {
    auto& [reads, writes] = pc.sets[set].wishes;
    if (reads.claims + writes.claims > 0) {
        settle(pc, set);
        return;
    }
    Wishes& wishes = writing_ ? writes : reads;
    wishes.wanted = 0;
    for (Slot slot = wishes.requests.oldest; slot != kNone; slot = entries_[slot].younger) {
        wishes.wanted = static_cast<Groups>(wishes.wanted | entries_[slot].mask);
    }
    wishes.used = wishes.wanted;
    update_wanted(pc, direction(), set);
}

void DramChannel::update_wanted(PseudoChannel& pc, std::size_t d, std::uint32_t set) {
    const std::uint32_t first = set * table_.groups;
    const std::uint64_t all = ((std::uint64_t{1} << table_.groups) - 1) << first;
    pc.wanted[d] = (pc.wanted[d] & ~all) | std::uint64_t{pc.sets[set].wishes[d].wanted} << first;
}

std::vector<DramChannel::Claim>::iterator DramChannel::claim_of(Queue& queue, Slot slot) const {
    return std::find_if(queue.claims.begin(), queue.claims.end(), [&](const Claim& c) { return c.slot == slot; });
}

void DramChannel::drop_claim(PseudoChannel& pc, std::size_t d, Slot slot) {
    Queue& queue = pc.queues[d];
    Entry& entry = entries_[slot];
    queue.claims.erase(claim_of(queue, slot));
    entry.claims = false;
    --pc.sets[entry.request.set].wishes[d].claims;
}

// Makes a claim, or brings it up to date.
void DramChannel::claim(PseudoChannel& pc, std::size_t d, Slot slot, Groups kept) {
    std::vector<Claim>& claims = pc.queues[d].claims;
    Entry& entry = entries_[slot];
    Set& set = pc.sets[entry.request.set];
    auto at = entry.claims ? claim_of(pc.queues[d], slot) : claims.end();
    if (!entry.claims) {
        entry.claims = true;
        ++set.wishes[d].claims;
        while (at != claims.begin() && entries_[(at - 1)->slot].sequence > entry.sequence) {
            --at;
        }
        at = claims.insert(at, Claim{});
    }
    entry.train = train_for(entry, set.open);
    *at = {pc.timing.earliest_in_banks(entry.train),
           slot,
           entry.rank,
           entry.train.command == DramCommand::precharge,
           entry.train.whole,
           (entry.needs() & set.open & kept) != 0};
}

// Precharges of the rows that are in its way, or else activates.
RowTrain DramChannel::train_for(const Entry& entry, Groups open) const {
    const Groups closes = entry.needs() & open;
    const Groups banks = closes != 0 ? closes : entry.needs();
    RowTrain train;
    train.command = closes != 0 ? DramCommand::precharge : DramCommand::activate;
    train.set = entry.request.set;
    const std::uint32_t longest = table_.longest_train(train.command);
    const GroupOrder& order = table_.order(entry.request.base, entry.next);
    train.whole =
        entry.request.base == 0 && entry.next == 0 && longest >= table_.groups && banks == (1U << table_.groups) - 1;
    if (train.whole) {
        train.count = static_cast<std::uint8_t>(table_.groups);
        train.groups = order;
        return train;
    }
    for (std::uint32_t i = 0; i < table_.interleave && train.count < longest; ++i) {
        if ((banks >> order[i] & 1U) != 0) {
            train.add(order[i]);
        }
    }
    return train;
}

// A request more can only bring the choice forward, or keep a row that it would close.
void DramChannel::row_after_arrival(PseudoChannel& pc, std::size_t d, Slot slot) {
    if (pc.row_stale || pc.nominated || pc.refresh.all_under_way) {
        return;
    }
    if (closes_pages_ || (pc.row.at != kNever && pc.row.train.set == entries_[slot].request.set)) {
        pc.row_stale = true;
    } else if (entries_[slot].claims && (d == direction() || prepared_)) {
        const Claim& claim = pc.queues[d].claims.back();  // it is the youngest
        if (!keeps_from(pc, d, claim)) {
            const Entry& entry = entries_[slot];
            offer(pc, {0, d == direction() ? kDirection : kPrepare, slot, entry.sequence, entry.train},
                  pc.timing.earliest(entry.train), pc.row);
        }
    }
}

// Its banks may be precharged later than before, and by others.
void DramChannel::row_after_run(PseudoChannel& pc, const ColumnRun& run, Ck now) {
    const RowTrain& train = pc.row.train;
    const bool of_set = pc.row.at != kNever && train.set == run.set;
    if (pc.nominated) {
        if (of_set && pc.timing.earliest(train) > now) {
            pc.nominated = false;
            pc.row_stale = true;
        }
        return;
    }
    const auto& [reads, writes] = pc.sets[run.set].wishes;
    pc.row_stale =
        pc.row_stale || of_set || reads.claims + writes.claims > 0 || closes_pages_ || pc.refresh.target >= 0;
}

}  // namespace sluice::sim
