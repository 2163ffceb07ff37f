// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/dram_channel.hpp"

#include "sim/mem/dram_bank_mask.hpp"

namespace sluice::sim {

using isa::DramCommand;

namespace {

std::uint32_t narrow(std::int64_t value) {
    return static_cast<std::uint32_t>(value);
}

Ck wide(std::int64_t value) {
    return static_cast<Ck>(value);
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

}  // namespace sluice::sim
