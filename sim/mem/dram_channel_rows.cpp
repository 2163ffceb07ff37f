// SPDX-License-Identifier: Apache-2.0
// DramChannel: which row command goes next, and what it changes.
#include <algorithm>
#include <bit>

#include "sim/mem/dram_bank_mask.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

using isa::DramCommand;

bool DramChannel::before(const RowChoice& a, const RowChoice& b) const {
    if (a.priority != b.priority) {
        return a.priority < b.priority;
    }
    if (a.sequence != b.sequence || a.slot == kNone) {
        return a.sequence < b.sequence;
    }
    return position_of(entries_[a.slot], a.bank % table_.groups) <
           position_of(entries_[b.slot], b.bank % table_.groups);
}

void DramChannel::offer(RowChoice& best, RowChoice choice) const {
    choice.at = std::max(choice.at, std::max(row_free_, tick_));
    if (choice.at < best.at || (choice.at == best.at && before(choice, best))) {
        best = choice;
    }
}

inline void DramChannel::offer_for(RowChoice& best, const PseudoChannel& pc, Priority priority, DramCommand command,
                                   Slot slot, Bank bank) const {
    const Ck at = std::max(pc.timing.earliest(command, bank), std::max(row_free_, tick_));
    if (at <= best.at) {
        offer(best, {at, priority, command, slot, bank, entries_[slot].sequence});
    }
}

// Precharges and activates are chosen apart: one seldom changes what is best of the other.
void DramChannel::choose_row(PseudoChannel& pc) {
    const std::size_t d = direction();
    const bool blocked = pc.refresh.all_under_way;
    const std::uint64_t claimed = pc.queues[d].claimed_open | pc.queues[d].claimed_closed;
    if (pc.precharge_stale || pc.precharge.at < row_free_) {
        pc.precharge_stale = false;
        pc.precharge = {};
        choose_refresh_command(pc, pc.precharge);
        if (!blocked) {
            choose_precharge(pc, d, kDirection, 0, pc.precharge);
            if (closes_pages_) {
                choose_page_closing(pc, pc.precharge);
            }
            if (prepared_) {
                choose_precharge(pc, 1 - d, kPrepare, claimed, pc.precharge);
            }
        }
    }
    if (pc.activate_stale || pc.activate.at < row_free_) {
        pc.activate_stale = false;
        pc.activate = {};
        if (!blocked) {
            choose_activate(pc, d, kDirection, 0, pc.activate);
            if (prepared_) {
                choose_activate(pc, 1 - d, kPrepare, claimed, pc.activate);
            }
        }
    }
    const bool first =
        pc.activate.at < pc.precharge.at ||
        (pc.activate.at == pc.precharge.at && pc.activate.at != kNever && before(pc.activate, pc.precharge));
    pc.row = first ? pc.activate : pc.precharge;
}

void DramChannel::choose_refresh_command(PseudoChannel& pc, RowChoice& best) const {
    RowChoice choice;
    choice.sequence = number_of(pc);
    if (pc.refresh.all_under_way) {
        choice.command = pc.open == 0 ? DramCommand::refresh_all : DramCommand::precharge_all;
        choice.at = pc.timing.earliest_for_all(choice.command);
        offer(best, choice);
    } else if (pc.refresh.target >= 0) {
        choice.bank = static_cast<Bank>(pc.refresh.target);
        choice.command = pc.banks[choice.bank].row == kNoRow ? DramCommand::refresh_bank : DramCommand::precharge;
        choice.at = pc.timing.earliest(choice.command, choice.bank);
        offer(best, choice);
    }
}

void DramChannel::choose_precharge(const PseudoChannel& pc, std::size_t d, Priority priority, std::uint64_t except,
                                   RowChoice& best) const {
    const Queue& queue = pc.queues[d];
    std::uint64_t kept = queue.kept;
    if (kept != 0 && !queue.misses.empty() && aged(queue, queue.misses.front())) {
        const Entry& entry = entries_[queue.misses.front()];
        const std::uint64_t closed_to_it = entry.mask & ~entry.open;
        kept &= ~(closed_to_it << entry.request.set * table_.groups);
    }
    for_each_bit(queue.claimed_open & ~except & (priority == kPrepare ? ~std::uint64_t{0} : ~kept), [&](Bank bank) {
        const BankState& state = pc.banks[bank];
        if (priority != kPrepare || state.hits[0] + state.hits[1] == 0) {
            offer_for(best, pc, priority, DramCommand::precharge, state.claim[d], bank);
        }
    });
}

// Whether other requests keep the open row from a claim: one that is older, so that two requests cannot wait for each
// other, or one that is ready.
bool DramChannel::kept(const Queue& queue, Slot claim, Bank bank, std::uint32_t row) const {
    const std::uint32_t group = bank % table_.groups;
    for (Slot slot = queue.sets[bank / table_.groups].oldest; slot != kNone; slot = entries_[slot].younger) {
        const Entry& entry = entries_[slot];
        const bool wants = entry.request.row == row && (entry.open >> group & 1U) != 0;
        if (wants && (entry.hit() || entry.sequence < entries_[claim].sequence)) {
            return true;
        }
    }
    return false;
}

// After anything that changes the requests or the rows of a set.
void DramChannel::look_who_keeps(PseudoChannel& pc, std::size_t d, std::uint32_t set) {
    Queue& queue = pc.queues[d];
    const std::uint64_t banks = banks_of(set);
    queue.kept &= ~banks;
    for_each_bit(queue.claimed_open & banks, [&](Bank bank) {
        const BankState& state = pc.banks[bank];
        if (state.hits[d] > 0 && kept(queue, state.claim[d], bank, state.row)) {
            queue.kept |= bit(bank);
        }
    });
}

// Where many wait, in order of age, so that the search may end at the first that is allowed as soon as any can be.
void DramChannel::choose_activate(const PseudoChannel& pc, std::size_t d, Priority priority, std::uint64_t except,
                                  RowChoice& best) const {
    const Queue& queue = pc.queues[d];
    std::uint64_t left = queue.claimed_closed & ~except;
    if (pc.refresh.target >= 0) {
        left &= ~bit(static_cast<Bank>(pc.refresh.target));
    }
    const Ck soonest = std::max(pc.timing.gate(DramCommand::activate), std::max(row_free_, tick_));
    if (left == 0 || best.at < soonest) {
        return;
    }
    constexpr int kFew = 4;
    if (std::popcount(left) <= kFew) {
        for_each_bit(left, [&](Bank bank) {
            offer_for(best, pc, priority, DramCommand::activate, pc.banks[bank].claim[d], bank);
        });
        return;
    }
    for (std::size_t i = 0; i < queue.misses.size() && left != 0; ++i) {
        const Slot slot = queue.misses[i];
        const Entry& entry = entries_[slot];
        const std::uint64_t wanted = std::uint64_t{entry.mask} << entry.request.set * table_.groups;
        bool found = false;
        for_each_bit(left & wanted, [&](Bank bank) {
            if (pc.banks[bank].claim[d] == slot) {
                left &= ~bit(bank);
                offer_for(best, pc, priority, DramCommand::activate, slot, bank);
                found = found || (best.at == soonest && best.slot == slot);
            }
        });
        if (found) {
            return;
        }
    }
}

void DramChannel::choose_page_closing(const PseudoChannel& pc, RowChoice& best) const {
    for_each_bit(pc.open, [&](Bank bank) {
        const BankState& state = pc.banks[bank];
        if (state.hits[kRead] == 0 && state.hits[kWrite] == 0) {
            const Ck at = std::max(pc.timing.earliest(DramCommand::precharge, bank), state.used + page_timeout_);
            offer(best, {at, kPage, DramCommand::precharge, kNone, bank, number_of(pc) * banks_ + bank});
        }
    });
}

void DramChannel::issue_row(PseudoChannel& pc, const RowChoice& choice, Ck now) {
    row_free_ = now + row_bus_[static_cast<std::size_t>(choice.command)];
    pc.column_stale = pc.column_stale || table_.holds_up_others(choice.command, DramCommand::read) ||
                      table_.holds_up_others(choice.command, DramCommand::write);
    switch (choice.command) {
        case DramCommand::activate: {
            Entry& entry = entries_[choice.slot];
            ++entry.activates;
            ++pc.counts.activates;
            note(pc, choice.command, now, choice.bank, entry.request.row);
            pc.timing.issue(choice.command, choice.bank, now);
            open(pc, choice.bank, entry.request.row);
            pc.banks[choice.bank].used = now;
            after_activate(pc, choice.bank);
            return;
        }
        case DramCommand::precharge:
            note(pc, choice.command, now, choice.bank, pc.banks[choice.bank].row);
            pc.timing.issue(choice.command, choice.bank, now);
            close(pc, choice.bank);
            after_precharge(pc, choice.bank);
            return;
        case DramCommand::precharge_all:
            note(pc, choice.command, now, 0, 0);
            pc.timing.issue_for_all(choice.command, now);
            for_each_bit(pc.open, [&](Bank bank) { close(pc, bank); });
            pc.precharge_stale = pc.activate_stale = true;
            return;
        case DramCommand::refresh_bank:
            note(pc, choice.command, now, choice.bank, 0);
            pc.timing.issue(choice.command, choice.bank, now);
            pc.refresh.done |= bit(choice.bank);
            if (static_cast<std::uint32_t>(std::popcount(pc.refresh.done)) == banks_) {
                pc.refresh.done = 0;
            }
            pc.refresh.next = choice.bank + 1 == banks_ ? 0 : choice.bank + 1;
            pc.refresh.target = -1;
            count_refresh(pc);
            return;
        case DramCommand::refresh_all:
            note(pc, choice.command, now, 0, 0);
            pc.timing.issue_for_all(choice.command, now);
            pc.refresh.all_under_way = false;
            pc.column_stale = true;
            count_refresh(pc);
            return;
        case DramCommand::read:
        case DramCommand::write: return;
    }
}

// The best precharge stands unless it lies in the set, or the bank has a new one to offer.
void DramChannel::after_activate(PseudoChannel& pc, Bank bank) {
    pc.activate_stale = true;
    const std::uint64_t set = banks_of(bank / table_.groups);
    const std::uint64_t claimed = pc.queues[kRead].claimed_open | pc.queues[kWrite].claimed_open;
    pc.precharge_stale = pc.precharge_stale || (claimed & bit(bank)) != 0 || (set >> pc.precharge.bank & 1U) != 0 ||
                         pc.refresh.target >= 0 || closes_pages_ || prepared_ ||
                         table_.holds_up_others(DramCommand::activate, DramCommand::precharge);
}

// The best activate stands, or gives way to one of the bank that was closed.
void DramChannel::after_precharge(PseudoChannel& pc, Bank bank) {
    pc.precharge_stale = true;
    const std::size_t d = direction();
    pc.activate_stale =
        pc.activate_stale || prepared_ || table_.holds_up_others(DramCommand::precharge, DramCommand::activate);
    const Slot claim = pc.banks[bank].claim[d];
    if (!pc.activate_stale && claim != kNone && pc.refresh.target != static_cast<std::int32_t>(bank)) {
        offer_for(pc.activate, pc, kDirection, DramCommand::activate, claim, bank);
    }
}

void DramChannel::claim_anew(PseudoChannel& pc, std::size_t d, Bank bank) {
    Queue& queue = pc.queues[d];
    const std::uint32_t group = bank % table_.groups;
    Slot slot = queue.sets[bank / table_.groups].oldest;
    while (slot != kNone && ((entries_[slot].mask & ~entries_[slot].open) >> group & 1U) == 0) {
        slot = entries_[slot].younger;
    }
    pc.banks[bank].claim[d] = slot;
    queue.claimed_open &= ~bit(bank);
    queue.claimed_closed &= ~bit(bank);
    if (slot != kNone) {
        (pc.banks[bank].row == kNoRow ? queue.claimed_closed : queue.claimed_open) |= bit(bank);
    }
}

void DramChannel::open(PseudoChannel& pc, Bank bank, std::uint32_t row) {
    BankState& state = pc.banks[bank];
    state.row = row;
    pc.open |= bit(bank);
    const auto group = static_cast<std::uint8_t>(1U << bank % table_.groups);
    for (const std::size_t d : {kRead, kWrite}) {
        Queue& queue = pc.queues[d];
        if (queue.sets[bank / table_.groups].oldest == kNone) {
            continue;
        }
        for (Slot slot = queue.sets[bank / table_.groups].oldest; slot != kNone; slot = entries_[slot].younger) {
            Entry& entry = entries_[slot];
            if (entry.request.row != row || (entry.mask & group) == 0) {
                continue;
            }
            ++state.hits[d];
            entry.open = static_cast<std::uint8_t>(entry.open | group);
            if (entry.hit()) {
                queue.misses.erase(std::find(queue.misses.begin(), queue.misses.end(), slot));
                becomes_hit(pc, d, slot);
            }
        }
        claim_anew(pc, d, bank);
        look_who_keeps(pc, d, bank / table_.groups);
    }
}

void DramChannel::close(PseudoChannel& pc, Bank bank) {
    BankState& state = pc.banks[bank];
    const std::uint32_t row = state.row;
    state.row = kNoRow;
    pc.open &= ~bit(bank);
    const auto group = static_cast<std::uint8_t>(1U << bank % table_.groups);
    for (const std::size_t d : {kRead, kWrite}) {
        Queue& queue = pc.queues[d];
        if (queue.sets[bank / table_.groups].oldest == kNone) {
            continue;
        }
        for (Slot slot = queue.sets[bank / table_.groups].oldest; slot != kNone && state.hits[d] > 0;
             slot = entries_[slot].younger) {
            Entry& entry = entries_[slot];
            if (entry.request.row != row || (entry.open & group) == 0) {
                continue;
            }
            if (entry.hit()) {
                no_longer_hit(pc, d, slot);
                insert_by_age(queue.misses, slot);
            }
            entry.open = static_cast<std::uint8_t>(entry.open & ~group);
            --state.hits[d];
        }
        claim_anew(pc, d, bank);
        look_who_keeps(pc, d, bank / table_.groups);
    }
}

}  // namespace sluice::sim
