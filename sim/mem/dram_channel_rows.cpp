// SPDX-License-Identifier: Apache-2.0
// DramChannel: which train of row commands goes next, and what it changes.
#include <algorithm>
#include <bit>

#include "sim/mem/dram_bank_mask.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

using isa::DramCommand;

namespace {

constexpr Ck kMaskBits = 64;

}  // namespace

// ---- the choice -----------------------------------------------------------------------------------------------------

bool DramChannel::before(const RowChoice& a, const RowChoice& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.sequence < b.sequence;
}

void DramChannel::offer(const PseudoChannel& pc, const RowChoice& choice, Ck allowed, RowChoice& best) const {
    const Ck at = std::max({allowed, pc.rows_free, tick_});
    if (at < best.at || (at == best.at && before(choice, best))) {
        best = choice;
        best.at = at;
    }
}

void DramChannel::choose_row(PseudoChannel& pc) {
    pc.row_stale = false;
    if (pc.nominated) {
        return;
    }
    pc.row = {};
    choose_refresh_command(pc, pc.row);
    if (pc.refresh.all_under_way) {
        return;
    }
    choose_claim(pc, direction(), pc.row);
    if (closes_pages_) {
        choose_page_closing(pc, pc.row);
    }
    if (prepared_) {
        choose_claim(pc, 1 - direction(), pc.row);
    }
}

void DramChannel::choose_refresh_command(PseudoChannel& pc, RowChoice& best) const {
    RowChoice choice;
    if (pc.refresh.all_under_way) {
        choice.train.command = pc.open == 0 ? DramCommand::refresh_all : DramCommand::precharge_all;
        choice.train.add(0);
        offer(pc, choice, pc.timing.earliest_for_all(choice.train.command), best);
    } else if (pc.refresh.target >= 0) {
        const auto bank = static_cast<Bank>(pc.refresh.target);
        choice.train.command = pc.rows[bank] == kNoRow ? DramCommand::refresh_bank : DramCommand::precharge;
        choice.train.set = static_cast<std::uint8_t>(bank / table_.groups);
        choice.train.add(bank % table_.groups);
        offer(pc, choice, pc.timing.earliest(choice.train), best);
    }
}

// Whatever has been chosen before comes first where times are equal, and so do older claims.
void DramChannel::choose_claim(const PseudoChannel& pc, std::size_t d, RowChoice& best) const {
    const std::vector<Claim>& claims = pc.queues[d].claims;
    if (claims.empty()) {
        return;
    }
    const Ck from = std::max(pc.rows_free, tick_);
    Ck first = best.at;
    const Claim* chosen = nullptr;
    for (const Claim& claim : claims) {
        Ck at = std::max(claim.ready, from);
        if (at >= first) {
            continue;
        }
        const DramCommand command = claim.precharge ? DramCommand::precharge : DramCommand::activate;
        at = std::max(at, claim.whole ? pc.timing.gate_of_whole(command, claim.rank)
                                      : pc.timing.earliest(entries_[claim.slot].train));
        if (at < first && !keeps_from(pc, d, claim)) {
            first = at;
            chosen = &claim;
        }
    }
    if (chosen != nullptr) {
        const Entry& entry = entries_[chosen->slot];
        best = {first, d == direction() ? kDirection : kPrepare, chosen->slot, entry.sequence, entry.train};
    }
}

// Whether a claim has to wait, whatever the standard allows.
bool DramChannel::keeps_from(const PseudoChannel& pc, std::size_t d, const Claim& claim) const {
    const bool ahead = d != direction();
    if (!ahead && (claim.precharge ? !claim.kept : pc.refresh.target < 0)) {
        return false;
    }
    if (!ahead && claim.precharge) {
        return !aged(pc.queues[d], claim.slot);
    }
    const Entry& entry = entries_[claim.slot];
    const Set& set = pc.sets[entry.request.set];
    const Groups needs = entry.needs();
    if (ahead && (needs & set.wishes[direction()].needed) != 0) {
        return true;
    }
    if (claim.precharge) {
        return (needs & (set.wishes[kRead].used | set.wishes[kWrite].used)) != 0;
    }
    const auto target = static_cast<std::uint32_t>(pc.refresh.target);
    return pc.refresh.target >= 0 && target / table_.groups == entry.request.set &&
           (needs >> target % table_.groups & 1U) != 0;
}

void DramChannel::choose_page_closing(const PseudoChannel& pc, RowChoice& best) const {
    for_each_bit(pc.open, [&](Bank bank) {
        const auto& [reads, writes] = pc.sets[bank / table_.groups].wishes;
        if (((reads.used | writes.used) >> bank % table_.groups & 1U) == 0) {
            RowChoice choice;
            choice.priority = kPage;
            choice.sequence = bank;
            choice.train.command = DramCommand::precharge;
            choice.train.set = static_cast<std::uint8_t>(bank / table_.groups);
            choice.train.add(bank % table_.groups);
            offer(pc, choice, std::max(pc.timing.earliest(choice.train), pc.used[bank] + page_timeout_), best);
        }
    });
}

// ---- the row bus ----------------------------------------------------------------------------------------------------

// When the chosen train finds the row bus free for all its commands.
Ck DramChannel::row_start(const PseudoChannel& pc) const {
    Ck at = std::max(pc.row.at, tick_);
    if (at - bus_from_ >= kMaskBits) {
        return at;
    }
    const std::uint64_t mask = table_.row_bus_mask(pc.row.train);
    for (std::uint64_t taken = bus_taken_ >> (at - bus_from_); (taken & mask) != 0; taken >>= 1) {
        ++at;
    }
    return at;
}

void DramChannel::take_row_bus(const RowTrain& train, Ck now) {
    bus_taken_ = now - bus_from_ < kMaskBits ? bus_taken_ >> (now - bus_from_) : 0;
    bus_taken_ |= table_.row_bus_mask(train);
    bus_from_ = now;
}

// ---- trains ---------------------------------------------------------------------------------------------------------

void DramChannel::start_train(PseudoChannel& pc, Ck now) {
    const RowTrain train = pc.row.train;
    const Slot slot = pc.row.slot;
    pc.nominated = false;
    pc.row_stale = true;
    const Ck step = table_.row_step(train.command);
    take_row_bus(train, now);
    pc.rows_free = now + (train.count - 1) * step + 1;
    const Slot first = pc.queues[direction()].requests.oldest;
    pc.column_stale = pc.column_stale || (first != kNone && aged(pc.queues[direction()], first));
    if (train.command == DramCommand::precharge_all || train.command == DramCommand::refresh_all) {
        start_for_all(pc, train.command, now);
        return;
    }
    pc.timing.issue(train, now);
    Ck at = now;
    for (std::uint32_t i = 0; i < train.count; ++i) {
        const Bank bank = train.set * table_.groups + train.groups[i];
        switch (train.command) {
            case DramCommand::activate: open_row(pc, bank, entries_[slot].request.row, at); break;
            case DramCommand::precharge: close_row(pc, bank, at); break;
            default: note(pc, train.command, at, bank, 0); note_bank_refreshed(pc, bank, at);
        }
        at += step;
    }
    if (slot == kNone) {
        settle(pc, train.set);
        return;
    }
    Entry& entry = entries_[slot];
    entry.activates += train.command == DramCommand::activate ? train.count : 0U;
    settle_train(pc, slot);
}

// A train for the only request of its set changes that alone.
void DramChannel::settle_train(PseudoChannel& pc, Slot slot) {
    Entry& entry = entries_[slot];
    const std::size_t d = entry.request.write ? kWrite : kRead;
    Set& set = pc.sets[entry.request.set];
    Wishes& wishes = set.wishes[d];
    if (wishes.requests.oldest != wishes.requests.youngest || set.wishes[1 - d].wanted != 0) {
        settle(pc, entry.request.set);
        return;
    }
    entry.open = static_cast<Groups>(set.open & entry.mask & (entry.open | groups_of(entry.train)));
    wishes.used = entry.open;
    wishes.needed = entry.needs();
    if (entry.needs() != 0) {
        claim(pc, d, slot, 0);
    } else {
        drop_claim(pc, d, slot);
        becomes_hit(pc, d, slot);
    }
}

void DramChannel::open_row(PseudoChannel& pc, Bank bank, std::uint32_t row, Ck at) {
    note(pc, DramCommand::activate, at, bank, row);
    pc.rows[bank] = row;
    pc.used[bank] = at;
    pc.open |= bit(bank);
    Groups& open = pc.sets[bank / table_.groups].open;
    open = static_cast<Groups>(open | 1U << bank % table_.groups);
    ++pc.counts.activates;
}

void DramChannel::close_row(PseudoChannel& pc, Bank bank, Ck at) {
    note(pc, DramCommand::precharge, at, bank, pc.rows[bank]);
    forget_row(pc, bank);
}

void DramChannel::forget_row(PseudoChannel& pc, Bank bank) {
    pc.rows[bank] = kNoRow;
    pc.open &= ~bit(bank);
    Groups& open = pc.sets[bank / table_.groups].open;
    open = static_cast<Groups>(open & ~(1U << bank % table_.groups));
}

void DramChannel::start_for_all(PseudoChannel& pc, DramCommand command, Ck now) {
    note(pc, command, now, 0, 0);
    pc.timing.issue_for_all(command, now);
    if (command == DramCommand::refresh_all) {
        pc.refresh.all_under_way = false;
        pc.column_stale = true;
        count_refresh(pc, now);
    }
    for_each_bit(pc.open, [&](Bank bank) { forget_row(pc, bank); });
    for (std::uint32_t set = 0; set < table_.sets; ++set) {
        settle(pc, set);
    }
}

void DramChannel::note_bank_refreshed(PseudoChannel& pc, Bank bank, Ck now) {
    pc.refresh.done |= bit(bank);
    if (static_cast<std::uint32_t>(std::popcount(pc.refresh.done)) == banks_) {
        pc.refresh.done = 0;
    }
    pc.refresh.next = bank + 1 == banks_ ? 0 : bank + 1;
    pc.refresh.target = -1;
    pc.column_stale = true;
    count_refresh(pc, now);
}

}  // namespace sluice::sim
