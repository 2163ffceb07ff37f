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
    for (std::size_t p = 0; p < channels_.size(); ++p) {
        PseudoChannel& pc = channels_[p];
        if (pc.column_stale) {
            choose_column(pc, p);
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
    const std::size_t slot = channels_.size() == 1 ? 0 : now % channels_.size();
    PseudoChannel& turn_of = channels_[slot];
    if (turn_of.column_stale) {
        choose_column(turn_of, slot);
    }
    if (turn_of.column.at == now) {
        start_run(turn_of, now);
    }
    PseudoChannel* chosen = nullptr;
    for (PseudoChannel& pc : channels_) {
        refresh_row_choice(pc);
        if (pc.row.at == now && (chosen == nullptr || pc.row.before(chosen->row))) {
            chosen = &pc;
        }
    }
    if (chosen != nullptr) {
        issue_row(*chosen, chosen->row, now);
    }
    tick_ = now + 1;
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

std::uint8_t DramChannel::groups_of(const DramRequest& request, std::uint32_t from) const {
    std::uint32_t mask = 0;
    const std::uint32_t end = std::min<std::uint32_t>(request.bursts, from + table_.interleave);
    for (std::uint32_t j = from; j < end; ++j) {
        mask |= 1U << (request.base + (request.first + j) % table_.interleave);
    }
    return static_cast<std::uint8_t>(mask);
}

// Of a bank among those of the bursts that are left.
std::uint8_t DramChannel::position_of(const Entry& entry, std::uint32_t group) const {
    const DramRequest& r = entry.request;
    const std::uint32_t next = (r.first + r.bursts - entry.left) % table_.interleave;
    return static_cast<std::uint8_t>((group - r.base + table_.interleave - next) % table_.interleave);
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
    entry = {request, next_sequence_++, 0, 0, ends.youngest, kNone, groups_of(request, 0), 0, request.bursts, false};
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
    entry.hit_at_arrival = entry.hit();
    (entry.hit() ? queue.hits : queue.misses).push_back(slot);
    pc.column_stale = pc.column_stale || entry.hit();
    pc.row_stale = true;
    sizes_changed();
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
        pc.column_stale = pc.row_stale = true;
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
            pc.row_stale = true;
        }
    }
}

// ---- columns --------------------------------------------------------------------------------------------------------

ColumnRun DramChannel::run_of(const Entry& entry) const {
    const DramRequest& r = entry.request;
    const std::uint32_t done = r.bursts - entry.left;
    return {r.set, r.base, r.first + done, std::min<std::uint32_t>(entry.left, table_.longest_run(r.write)), r.write};
}

void DramChannel::choose_column(PseudoChannel& pc, std::size_t number) {
    pc.column_stale = false;
    pc.column = {};
    const Queue& queue = pc.queues[direction()];
    if (queue.hits.empty() || pc.refresh.all_under_way) {
        return;
    }
    const std::size_t slots = channels_.size();
    const auto align = [slots, number](Ck at) { return slots == 1 ? at : at + (number + slots - at % slots) % slots; };
    const Ck soonest = align(std::max(pc.timing.gate(writing_ ? DramCommand::write : DramCommand::read), tick_));
    const std::size_t candidates = aged(queue, queue.hits.front()) ? 1 : queue.hits.size();
    for (std::size_t i = 0; i < candidates; ++i) {
        const Ck at = align(std::max(pc.timing.earliest(run_of(entries_[queue.hits[i]])), tick_));
        if (at < pc.column.at) {
            pc.column = {at, i};
            if (at == soonest) {
                return;
            }
        }
    }
}

void DramChannel::start_run(PseudoChannel& pc, Ck now) {
    Queue& queue = pc.queues[direction()];
    const Slot slot = queue.hits[pc.column.position];
    Entry& entry = entries_[slot];
    if (const Slot first = oldest(queue); first != slot) {
        ++entries_[first].passed_over;
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
    shrink(pc, entry);
    pc.column_stale = pc.row_stale = pc.refresh.check = true;
    if (entry.left == 0) {
        queue.hits.erase(queue.hits.begin() + static_cast<std::ptrdiff_t>(pc.column.position));
        ++pc.counts.requests;
        pc.counts.hits += entry.hit_at_arrival ? 1 : 0;
        leave(pc, slot);
        client_.served({entry.request.tag, entry.request.arrival, last + latency_[direction()], entry.activates,
                        entry.request.bursts, entry.hit_at_arrival, writing_});
    }
}

// Gives up the banks that the bursts left do not need.
void DramChannel::shrink(PseudoChannel& pc, Entry& entry) {
    const std::uint8_t mask =
        entry.left == 0 ? std::uint8_t{0} : groups_of(entry.request, entry.request.bursts - entry.left);
    for_each_bit(static_cast<std::uint8_t>(entry.mask & ~mask), [&](std::uint32_t group) {
        const Bank number = entry.request.set * table_.groups + group;
        BankState& bank = pc.banks[number];
        --bank.hits[direction()];
        if (--bank.queued == 0) {
            pc.wanted &= ~bit(number);
        }
    });
    entry.mask = entry.open = mask;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

void DramChannel::offer(RowChoice& best, RowChoice choice) const {
    choice.at = std::max(choice.at, std::max(row_free_, tick_));
    if (choice.at < best.at || (choice.at == best.at && choice.before(best))) {
        best = choice;
    }
}

void DramChannel::choose_row(PseudoChannel& pc) {
    pc.row_stale = false;
    pc.row = {};
    choose_refresh_command(pc, pc.row);
    if (pc.refresh.all_under_way) {
        return;
    }
    const std::size_t d = direction();
    choose_precharge(pc, d, kDirection, 0, pc.row);
    choose_activate(pc, d, kDirection, 0, pc.row);
    if (closes_pages_) {
        choose_page_closing(pc, pc.row);
    }
    if (prepared_) {
        const std::uint64_t claimed = pc.queues[d].claimed_open | pc.queues[d].claimed_closed;
        choose_precharge(pc, 1 - d, kPrepare, claimed, pc.row);
        choose_activate(pc, 1 - d, kPrepare, claimed, pc.row);
    }
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
    for_each_bit(pc.queues[d].claimed_open & ~except, [&](Bank bank) {
        const BankState& state = pc.banks[bank];
        const Slot slot = state.claim[d];
        if (priority == kPrepare ? state.hits[0] + state.hits[1] > 0
                                 : state.hits[d] > 0 && !may_take(pc.queues[d], slot, bank, state.row)) {
            return;
        }
        const Entry& entry = entries_[slot];
        offer(best, {pc.timing.earliest(DramCommand::precharge, bank), priority,
                     position_of(entry, bank % table_.groups), DramCommand::precharge, slot, bank, entry.sequence});
    });
}

// Whether a claim may close a row that other requests want: not if one of them is older, so that two requests cannot
// wait for each other, nor if one is ready, unless the claim has waited too long.
bool DramChannel::may_take(const Queue& queue, Slot claim, Bank bank, std::uint32_t row) const {
    if (aged(queue, claim)) {
        return true;
    }
    const std::uint32_t group = bank % table_.groups;
    for (Slot slot = queue.sets[bank / table_.groups].oldest; slot != kNone; slot = entries_[slot].younger) {
        const Entry& entry = entries_[slot];
        const bool wants = entry.request.row == row && (entry.open >> group & 1U) != 0;
        if (wants && (entry.hit() || entry.sequence < entries_[claim].sequence)) {
            return false;
        }
    }
    return true;
}

// In order of age, so that the search may end at the first that is allowed as soon as any can be.
void DramChannel::choose_activate(const PseudoChannel& pc, std::size_t d, Priority priority, std::uint64_t except,
                                  RowChoice& best) const {
    const Queue& queue = pc.queues[d];
    std::uint64_t left = queue.claimed_closed & ~except;
    const Ck soonest = std::max(pc.timing.gate(DramCommand::activate), std::max(row_free_, tick_));
    if (best.at < soonest) {
        return;
    }
    for (std::size_t i = 0; i < queue.misses.size() && left != 0; ++i) {
        const Slot slot = queue.misses[i];
        const Entry& entry = entries_[slot];
        bool found = false;
        for_each_bit(static_cast<std::uint8_t>(entry.mask & ~entry.open), [&](std::uint32_t group) {
            const Bank bank = entry.request.set * table_.groups + group;
            if ((left & bit(bank)) == 0 || pc.banks[bank].claim[d] != slot) {
                return;
            }
            left &= ~bit(bank);
            if (pc.refresh.target != static_cast<std::int32_t>(bank)) {
                const Ck at = pc.timing.earliest(DramCommand::activate, bank);
                found = found || at <= soonest;
                offer(best,
                      {at, priority, position_of(entry, group), DramCommand::activate, slot, bank, entry.sequence});
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
            offer(best, {at, kPage, 0, DramCommand::precharge, kNone, bank, number_of(pc) * banks_ + bank});
        }
    });
}

void DramChannel::issue_row(PseudoChannel& pc, const RowChoice& choice, Ck now) {
    row_free_ = now + row_bus_[static_cast<std::size_t>(choice.command)];
    pc.row_stale = true;
    switch (choice.command) {
        case DramCommand::activate: {
            Entry& entry = entries_[choice.slot];
            ++entry.activates;
            ++pc.counts.activates;
            note(pc, choice.command, now, choice.bank, entry.request.row);
            pc.timing.issue(choice.command, choice.bank, now);
            open(pc, choice.bank, entry.request.row);
            pc.banks[choice.bank].used = now;
            return;
        }
        case DramCommand::precharge:
            note(pc, choice.command, now, choice.bank, pc.banks[choice.bank].row);
            pc.timing.issue(choice.command, choice.bank, now);
            close(pc, choice.bank);
            return;
        case DramCommand::precharge_all:
            note(pc, choice.command, now, 0, 0);
            pc.timing.issue_for_all(choice.command, now);
            for_each_bit(pc.open, [&](Bank bank) { close(pc, bank); });
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
        for (Slot slot = queue.sets[bank / table_.groups].oldest; slot != kNone; slot = entries_[slot].younger) {
            Entry& entry = entries_[slot];
            if (entry.request.row != row || (entry.mask & group) == 0) {
                continue;
            }
            ++state.hits[d];
            entry.open = static_cast<std::uint8_t>(entry.open | group);
            if (entry.hit()) {
                queue.misses.erase(std::find(queue.misses.begin(), queue.misses.end(), slot));
                insert_by_age(queue.hits, slot);
                pc.column_stale = true;
            }
        }
        claim_anew(pc, d, bank);
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
        for (Slot slot = queue.sets[bank / table_.groups].oldest; slot != kNone && state.hits[d] > 0;
             slot = entries_[slot].younger) {
            Entry& entry = entries_[slot];
            if (entry.request.row != row || (entry.open & group) == 0) {
                continue;
            }
            if (entry.hit()) {
                queue.hits.erase(std::find(queue.hits.begin(), queue.hits.end(), slot));
                insert_by_age(queue.misses, slot);
                pc.column_stale = true;
            }
            entry.open = static_cast<std::uint8_t>(entry.open & ~group);
            --state.hits[d];
        }
        claim_anew(pc, d, bank);
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
}

void DramChannel::look_for_refresh(PseudoChannel& pc, Ck now) {
    Refresh& refresh = pc.refresh;
    refresh.check = false;
    if (refresh.target >= 0 || refresh.all_under_way) {
        return;
    }
    if (refresh.due <= now) {
        if (all_bank_) {
            refresh.all_under_way = pc.row_stale = pc.column_stale = true;
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
    pc.row_stale = true;
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

// The refreshes of a channel without requests repeat every nREFI: whole rounds are counted, not performed. Two are
// left, so that what the last of them forbid is known when the next request comes.
void DramChannel::skip_idle_refreshes(Ck end) {
    for (const std::deque<DramRequest>& waiting : waiting_) {
        end = waiting.empty() ? end : std::min(end, waiting.front().arrival);
    }
    const std::uint64_t rounds = end > tick_ ? (end - tick_) / refresh_interval_ : 0;
    if (rounds <= 2) {
        return;
    }
    for (PseudoChannel& pc : channels_) {
        if (pc.refresh.target < 0 && pc.refresh.done == 0 && pc.open == 0) {
            pc.refresh.issued += (rounds - 2) * refresh_parts_;
            pc.refresh.due = due(pc.refresh, pc.refresh.issued);
            pc.counts.refreshes += (rounds - 2) * refresh_parts_;
        }
    }
}

}  // namespace sluice::sim
