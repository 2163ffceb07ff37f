// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/dram_channel.hpp"

#include <bit>

namespace sluice::sim {

using isa::DramCommand;

namespace {

constexpr std::size_t kRead = 0;
constexpr std::size_t kWrite = 1;

std::uint32_t narrow(std::int64_t value) {
    return static_cast<std::uint32_t>(value);
}

Ck wide(std::int64_t value) {
    return static_cast<Ck>(value);
}

constexpr std::uint64_t bit(Bank bank) {
    return std::uint64_t{1} << bank;
}

/// Visits the set bits of a mask, lowest first.
template <class Mask, class Visit>
void for_each_bit(Mask mask, Visit&& visit) {
    for (; mask != 0; mask = static_cast<Mask>(mask & (mask - 1))) {
        visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
    }
}

}  // namespace

DramChannel::DramChannel(const isa::HbmSpec& spec, const DramTable& table, std::uint64_t number, std::uint64_t total,
                         DramClient& client)
    : client_(client),
      table_(table),
      banks_(table.groups * table.sets),
      capacity_{narrow(spec.read_queue), narrow(spec.write_queue)},
      write_high_(narrow(spec.write_high)),
      write_low_(narrow(spec.write_low)),
      prepare_(narrow(spec.prepare)),
      age_limit_(narrow(spec.age_limit)),
      latency_{wide(spec.timing.ncl + spec.timing.nbl), wide(spec.timing.ncwl + spec.timing.nbl)},
      per_bank_(spec.refresh == "per_bank"),
      all_bank_(spec.refresh == "all_bank"),
      closes_pages_(spec.page != "open"),
      page_timeout_(spec.page == "timeout" ? wide(spec.page_timeout) : 0),
      refresh_interval_(static_cast<std::uint64_t>(spec.timing.nrefi)),
      refresh_parts_(per_bank_ ? banks_ : 1),
      postponed_(static_cast<std::uint64_t>(spec.refresh_postponed) * refresh_parts_),
      ahead_(static_cast<std::uint64_t>(spec.refresh_ahead) * refresh_parts_),
      entries_(std::size_t{capacity_[kRead]} + capacity_[kWrite]) {
    for (std::size_t c = 0; c < isa::kDramCommands; ++c) {
        row_bus_[c] = (wide(spec.rules.row_bus_half_clocks[c]) + 1) / 2;
    }
    for (std::size_t i = entries_.size(); i-- > 0;) {
        free_.push_back(static_cast<Slot>(i));
    }
    for (std::uint64_t p = 0; p < static_cast<std::uint64_t>(spec.pseudo_channels); ++p) {
        Refresh& refresh = channels_.emplace_back(table).refresh;
        refresh.offset = refresh_interval_ * (number + p + 1) / (refresh_parts_ * total);
        refresh.due = refresh.offset;
    }
}

// ---- time -----------------------------------------------------------------------------------------------------------

void DramChannel::run_until(Ck end) {
    for (;;) {
        if (per_bank_ && entries_in_use_ == 0 && trace_ == nullptr) {
            skip_idle_refreshes(end);
        }
        const Ck at = next();
        if (at >= end) {
            return;
        }
        step(at);
    }
}

// The next CK in which any of the five parts of a CK has something to do.
Ck DramChannel::next() {
    Ck first = wants_turn() ? tick_ : kNever;
    for (const std::size_t d : {kRead, kWrite}) {
        if (!waiting_[d].empty() && queued_[d] < capacity_[d]) {
            first = std::min(first, std::max(waiting_[d].front().arrival, tick_));
        }
    }
    for (PseudoChannel& pc : channels_) {
        if (pc.column_stale) {
            choose_column(pc);
        }
        refresh_row_choice(pc);
        first = std::min(std::min(first, pc.column.at), std::min(pc.row.at, next_look(pc)));
    }
    return first;
}

void DramChannel::step(Ck now) {
    tick_ = now;
    admit(now);
    turn();
    if (per_bank_ || all_bank_) {
        for (PseudoChannel& pc : channels_) {
            look_for_refresh(pc, now);
        }
    }
    PseudoChannel& turn_of = channels_[channels_.size() == 1 ? 0 : now % channels_.size()];
    if (turn_of.column_stale) {
        choose_column(turn_of);
    }
    if (turn_of.column.at == now) {
        start_run(turn_of, now);
    }
    PseudoChannel* chosen = nullptr;
    for (PseudoChannel& pc : channels_) {
        refresh_row_choice(pc);
        if (pc.row.at == now && (chosen == nullptr || before(pc.row, chosen->row))) {
            chosen = &pc;
        }
    }
    // Columns of this CK are decided: what a row command makes ready can start in the next.
    tick_ = now + 1;
    if (chosen != nullptr) {
        issue_row(*chosen, chosen->row, now);
    }
}

// ---- queues ---------------------------------------------------------------------------------------------------------

void DramChannel::admit(Ck now) {
    for (;;) {
        std::size_t first = 2;
        for (const std::size_t d : {kRead, kWrite}) {
            if (!waiting_[d].empty() && queued_[d] < capacity_[d] && waiting_[d].front().arrival <= now &&
                (first == 2 || waiting_[d].front().arrival < waiting_[first].front().arrival)) {
                first = d;
            }
        }
        if (first == 2) {
            return;
        }
        const DramRequest& request = waiting_[first].front();
        enter(request);
        if (request.write) {
            client_.accepted(request.tag, request.arrival, now);
        }
        waiting_[first].pop_front();
    }
}

// The bank groups of `left` bursts from bank group base + next on.
std::uint8_t DramChannel::groups_of(const DramRequest& request, std::uint32_t next, std::uint32_t left) const {
    const std::uint32_t all = (1U << table_.interleave) - 1;
    if (left >= table_.interleave) {
        return static_cast<std::uint8_t>(all << request.base);
    }
    const std::uint32_t run = ((1U << left) - 1) << next;
    return static_cast<std::uint8_t>(((run & all) | run >> table_.interleave) << request.base);
}

// Of a bank among those of the bursts that are left.
std::uint8_t DramChannel::position_of(const Entry& entry, std::uint32_t group) const {
    const std::uint32_t offset = group - entry.request.base;
    return static_cast<std::uint8_t>(offset >= entry.next ? offset - entry.next
                                                          : offset + table_.interleave - entry.next);
}

DramChannel::Slot DramChannel::oldest(const Queue& queue) const {
    if (queue.hits.empty() || queue.misses.empty()) {
        return queue.hits.empty() ? queue.misses.front() : queue.hits.front();
    }
    return entries_[queue.hits.front()].sequence < entries_[queue.misses.front()].sequence ? queue.hits.front()
                                                                                           : queue.misses.front();
}

void DramChannel::insert_by_age(std::vector<Slot>& list, Slot slot) const {
    auto at = list.end();
    while (at != list.begin() && entries_[*(at - 1)].sequence > entries_[slot].sequence) {
        --at;
    }
    list.insert(at, slot);
}

void DramChannel::enter(const DramRequest& request) {
    const Slot slot = free_.back();
    free_.pop_back();
    ++entries_in_use_;
    const std::size_t d = request.write ? kWrite : kRead;
    ++queued_[d];
    PseudoChannel& pc = channels_[request.pseudo_channel];
    Queue& queue = pc.queues[d];
    Queue::Ends& ends = queue.sets[request.set];
    Entry& entry = entries_[slot];
    entry = {request, next_sequence_++, 0, 0, ends.youngest, kNone, 0, 0, request.bursts, 0, false};
    entry.next = static_cast<std::uint8_t>(request.first % table_.interleave);
    entry.mask = groups_of(request, entry.next, request.bursts);
    (ends.youngest == kNone ? ends.oldest : entries_[ends.youngest].younger) = slot;
    ends.youngest = slot;
    for_each_bit(entry.mask, [&](std::uint32_t group) {
        const Bank number = request.set * table_.groups + group;
        BankState& bank = pc.banks[number];
        ++bank.queued;
        pc.wanted |= bit(number);
        if (bank.row == request.row) {
            ++bank.hits[d];
            entry.open = static_cast<std::uint8_t>(entry.open | 1U << group);
        } else if (bank.claim[d] == kNone) {
            bank.claim[d] = slot;
            (bank.row == kNoRow ? queue.claimed_closed : queue.claimed_open) |= bit(number);
        }
    });
    look_who_keeps(pc, d, request.set);
    entry.hit_at_arrival = entry.hit();
    if (entry.hit()) {
        becomes_hit(pc, d, slot);
    } else {
        queue.misses.push_back(slot);
    }
    offer_rows(pc, d, request.set);
    sizes_changed();
}

// A new request brings a row command forward, or keeps a row that was about to be closed.
void DramChannel::offer_rows(PseudoChannel& pc, std::size_t d, std::uint32_t set) {
    const Queue& queue = pc.queues[d];
    const bool counts = d == direction() || prepared_;
    const bool closing = pc.precharge.at != kNever && (banks_of(set) >> pc.precharge.bank & 1U) != 0;
    if (closing || closes_pages_ || (counts && (queue.claimed_open & banks_of(set)) != 0)) {
        pc.precharge_stale = true;
    }
    // A claim of the direction stands before one of the other.
    if (counts && (queue.claimed_closed & banks_of(set)) != 0) {
        pc.activate_stale = true;
        pc.precharge_stale = pc.precharge_stale || prepared_;
    }
    if (counts && (queue.claimed_open & banks_of(set)) != 0) {
        pc.activate_stale = pc.activate_stale || prepared_;
    }
}

void DramChannel::leave(PseudoChannel& pc, Slot slot) {
    const Entry& entry = entries_[slot];
    Queue::Ends& ends = pc.queues[direction()].sets[entry.request.set];
    (entry.older == kNone ? ends.oldest : entries_[entry.older].younger) = entry.younger;
    (entry.younger == kNone ? ends.youngest : entries_[entry.younger].older) = entry.older;
    free_.push_back(slot);
    --entries_in_use_;
    --queued_[direction()];
    sizes_changed();
}

bool DramChannel::wants_turn() const {
    const auto [reads, writes] = queued_;
    if (!writing_) {
        return writes >= write_high_ || (reads == 0 && writes > 0);
    }
    const bool draining = draining_ || writes >= write_high_;
    return writes == 0 || (reads > 0 && (!draining || writes <= write_low_));
}

void DramChannel::turn() {
    const bool full = queued_[kWrite] >= write_high_;
    draining_ = draining_ || full;
    if (!wants_turn()) {
        return;
    }
    writing_ = !writing_;
    draining_ = writing_ && full;
    ++turns_;
    for (PseudoChannel& pc : channels_) {
        pc.column_stale = pc.precharge_stale = pc.activate_stale = true;
    }
    prepared_ = preparing();
}

bool DramChannel::preparing() const {
    return writing_ ? queued_[kWrite] <= write_low_ + prepare_ : queued_[kWrite] + prepare_ >= write_high_;
}

void DramChannel::sizes_changed() {
    if (preparing() != prepared_) {
        prepared_ = !prepared_;
        for (PseudoChannel& pc : channels_) {
            pc.precharge_stale = pc.activate_stale = true;
        }
    }
}

// ---- columns --------------------------------------------------------------------------------------------------------

ColumnRun DramChannel::run_of(const Entry& entry) const {
    const DramRequest& r = entry.request;
    return {r.set, r.base, entry.next, std::min<std::uint32_t>(entry.left, table_.longest_run(r.write)), r.write};
}

// The next CK in which the column bus is this pseudo-channel's.
Ck DramChannel::in_slot(const PseudoChannel& pc, Ck at) const {
    const std::size_t slots = channels_.size();
    if (slots == 1) {
        return at;
    }
    const auto own = static_cast<Ck>(&pc - channels_.data());
    return slots == 2 ? at + ((at ^ own) & 1U) : at + (own + slots - at % slots) % slots;
}

// No hit can start before this.
Ck DramChannel::soonest_column(const PseudoChannel& pc) const {
    const Queue& queue = pc.queues[direction()];
    const DramCommand command = writing_ ? DramCommand::write : DramCommand::read;
    Ck soonest = kNever;
    for (std::uint32_t rank = 0; rank < table_.ranks; ++rank) {
        if (queue.hits_of_rank[rank] != 0) {
            soonest = std::min(soonest, pc.timing.gate(command, rank));
        }
    }
    return in_slot(pc, std::max(soonest, tick_));
}

void DramChannel::choose_column(PseudoChannel& pc) {
    pc.column_stale = false;
    pc.column = {};
    const Queue& queue = pc.queues[direction()];
    if (queue.hits.empty() || pc.refresh.all_under_way) {
        return;
    }
    if (aged(queue, queue.hits.front())) {
        offer_column(pc, queue.hits.front());
        return;
    }
    const Ck soonest = soonest_column(pc);
    for (const Slot slot : queue.hits) {
        offer_column(pc, slot);
        if (pc.column.at == soonest) {
            return;
        }
    }
}

void DramChannel::offer_column(PseudoChannel& pc, Slot slot) {
    const Ck at = in_slot(pc, std::max(pc.timing.earliest(run_of(entries_[slot])), tick_));
    if (at < pc.column.at || (at == pc.column.at && entries_[slot].sequence < entries_[pc.column.slot].sequence)) {
        pc.column = {at, slot};
    }
}

// A hit more can only bring the choice forward; unless an aged one is alone in question.
void DramChannel::becomes_hit(PseudoChannel& pc, std::size_t d, Slot slot) {
    Queue& queue = pc.queues[d];
    insert_by_age(queue.hits, slot);
    ++queue.hits_of_rank[entries_[slot].request.set / table_.sets_per_rank];
    if (d != direction() || pc.column_stale || pc.refresh.all_under_way) {
        return;
    }
    if (aged(queue, queue.hits.front())) {
        pc.column_stale = true;
    } else {
        offer_column(pc, slot);
    }
}

void DramChannel::no_longer_hit(PseudoChannel& pc, std::size_t d, Slot slot) {
    Queue& queue = pc.queues[d];
    queue.hits.erase(std::find(queue.hits.begin(), queue.hits.end(), slot));
    --queue.hits_of_rank[entries_[slot].request.set / table_.sets_per_rank];
    pc.column_stale = true;
}

void DramChannel::start_run(PseudoChannel& pc, Ck now) {
    Queue& queue = pc.queues[direction()];
    const Slot slot = pc.column.slot;
    Entry& entry = entries_[slot];
    if (const Slot first = oldest(queue); first != slot) {
        // An aged request may close rows that others keep.
        pc.precharge_stale = ++entries_[first].passed_over >= age_limit_ || pc.precharge_stale;
    }
    entry.passed_over = 0;
    const ColumnRun run = run_of(entry);
    pc.timing.issue(run, now);
    const Ck last = now + (run.count - 1) * table_.step(writing_);
    for (std::uint32_t i = 0; i < run.count && (trace_ != nullptr || closes_pages_); ++i) {
        const Bank bank = run.set * table_.groups + run.base + (run.first + i) % table_.interleave;
        const Ck at = now + i * table_.step(writing_);
        pc.banks[bank].used = at;
        note(pc, writing_ ? DramCommand::write : DramCommand::read, at, bank, entry.request.row);
    }
    (writing_ ? pc.counts.written_bursts : pc.counts.read_bursts) += run.count;
    entry.left = static_cast<std::uint8_t>(entry.left - run.count);
    entry.next = static_cast<std::uint8_t>((entry.next + run.count) % table_.interleave);
    shrink(pc, entry);
    pc.column_stale = pc.refresh.check = true;
    // Its banks may be precharged later than before, and by others.
    const std::uint64_t claimed = pc.queues[kRead].claimed_open | pc.queues[kWrite].claimed_open;
    const DramCommand command = writing_ ? DramCommand::write : DramCommand::read;
    if ((claimed & banks_of(run.set)) != 0 || pc.refresh.target >= 0 || closes_pages_ ||
        table_.holds_up_others(command, DramCommand::precharge)) {
        pc.precharge_stale = true;
    }
    if (table_.holds_up_others(command, DramCommand::activate)) {
        pc.activate_stale = true;
    }
    if (entry.left == 0) {
        no_longer_hit(pc, direction(), slot);
        ++pc.counts.requests;
        pc.counts.hits += entry.hit_at_arrival ? 1 : 0;
        leave(pc, slot);
        client_.served({entry.request.tag, entry.request.arrival, last + latency_[direction()], entry.activates,
                        entry.request.bursts, entry.hit_at_arrival, writing_});
    }
}

// Gives up the banks that the bursts left do not need.
void DramChannel::shrink(PseudoChannel& pc, Entry& entry) {
    const std::uint8_t mask = groups_of(entry.request, entry.next, entry.left);
    for_each_bit(static_cast<std::uint8_t>(entry.mask & ~mask), [&](std::uint32_t group) {
        const Bank number = entry.request.set * table_.groups + group;
        BankState& bank = pc.banks[number];
        --bank.hits[direction()];
        if (--bank.queued == 0) {
            pc.wanted &= ~bit(number);
        }
    });
    entry.mask = entry.open = mask;
    look_who_keeps(pc, direction(), entry.request.set);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

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

// ---- refresh --------------------------------------------------------------------------------------------------------

// Refresh k falls due at offset + k nREFI / parts, rounded down.
Ck DramChannel::due(const Refresh& refresh, std::uint64_t k) const {
    return refresh.offset + k * refresh_interval_ / refresh_parts_;
}

void DramChannel::count_refresh(PseudoChannel& pc) {
    ++pc.counts.refreshes;
    ++pc.refresh.issued;
    pc.refresh.due = due(pc.refresh, pc.refresh.issued);
    pc.refresh.check = true;
    pc.precharge_stale = pc.activate_stale = true;
}

void DramChannel::look_for_refresh(PseudoChannel& pc, Ck now) {
    Refresh& refresh = pc.refresh;
    refresh.check = false;
    if (refresh.target >= 0 || refresh.all_under_way) {
        return;
    }
    if (refresh.due <= now) {
        if (all_bank_) {
            refresh.all_under_way = pc.precharge_stale = pc.activate_stale = pc.column_stale = true;
        } else {
            pick_target(pc, due(refresh, refresh.issued + postponed_) <= now);
        }
    } else if (per_bank_ && ahead_ > 0 && !has_requests(pc) &&
               (refresh.issued < ahead_ || due(refresh, refresh.issued - ahead_) <= now)) {
        pick_target(pc, false);
    }
}

void DramChannel::pick_target(PseudoChannel& pc, bool forced) {
    Refresh& refresh = pc.refresh;
    const std::uint64_t all = banks_ == 64 ? ~std::uint64_t{0} : bit(banks_) - 1;
    const std::uint64_t left = all & ~refresh.done;
    const std::uint64_t candidates = (left & ~pc.wanted) != 0 ? left & ~pc.wanted : forced ? left : 0;
    if (candidates == 0) {
        return;
    }
    // Counting upwards from `next`, round the end.
    const std::uint64_t upwards = candidates & ~(bit(refresh.next) - 1);
    refresh.target = std::countr_zero(upwards != 0 ? upwards : candidates);
    pc.precharge_stale = pc.activate_stale = true;
}

// When `look_for_refresh` could next find one.
Ck DramChannel::next_look(const PseudoChannel& pc) const {
    const Refresh& refresh = pc.refresh;
    if (!(per_bank_ || all_bank_) || refresh.target >= 0 || refresh.all_under_way) {
        return kNever;
    }
    if (per_bank_ && ahead_ > 0 && !has_requests(pc)) {
        return std::max(tick_, refresh.issued < ahead_ ? 0 : due(refresh, refresh.issued - ahead_));
    }
    if (refresh.due >= tick_) {
        return refresh.due;
    }
    return refresh.check ? tick_ : std::max(tick_, due(refresh, refresh.issued + postponed_));
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
        }
    }
}

}  // namespace sluice::sim
