// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/dram_channel.hpp"

#include "sim/mem/dram_bank_mask.hpp"

namespace sluice::sim {

using isa::DramCommand;

DramChannel::DramChannel(const isa::HbmSpec& spec, const DramTable& table, std::uint64_t number, std::uint64_t total,
                         DramClient& client)
    : client_(client),
      table_(table),
      banks_(table.groups * table.sets),
      capacity_{to_count(spec.read_queue), to_count(spec.write_queue)},
      write_high_(to_count(spec.write_high)),
      write_low_(to_count(spec.write_low)),
      prepare_(to_count(spec.prepare)),
      age_limit_(to_count(spec.age_limit)),
      latency_{to_ck(spec.timing.ncl + spec.timing.nbl), to_ck(spec.timing.ncwl + spec.timing.nbl)},
      granule_bursts_(to_count(spec.granule_bytes / spec.burst_bytes)),
      per_bank_(spec.refresh == "per_bank"),
      all_bank_(spec.refresh == "all_bank"),
      closes_pages_(spec.page != "open"),
      page_timeout_(spec.page == "timeout" ? to_ck(spec.page_timeout) : 0),
      refresh_interval_(static_cast<std::uint64_t>(spec.timing.nrefi)),
      refresh_parts_(per_bank_ ? banks_ : 1),
      postponed_(static_cast<std::uint64_t>(spec.refresh_postponed) * refresh_parts_),
      ahead_(static_cast<std::uint64_t>(spec.refresh_ahead) * refresh_parts_),
      entries_(std::size_t{capacity_[kRead]} + capacity_[kWrite]) {
    // Far more than any request that is served at all has to wait for: its row, all other banks' rows before it, and
    // refreshes in between.
    std::int64_t longest = 1;
    for (const isa::DramConstraint& constraint : spec.rules.constraints) {
        longest = std::max(longest, constraint.gap);
    }
    patience_ = 16 * refresh_interval_ + 256 * static_cast<Ck>(longest) + page_timeout_;
    if (table.longest_run(false) >= granule_bursts_) {
        granule_ck_ = (granule_bursts_ - 1) * table.step(false);
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
    Ck first = sizes_changed_ && wants_turn() ? tick_ : std::max(admission(), tick_);
    for (PseudoChannel& pc : channels_) {
        if (pc.column_stale) {
            choose_column(pc);
        }
        first = std::min({first, pc.column.at, next_look(pc)});
        if (pc.row_stale && pc.rows_free <= first) {
            choose_row(pc);
        }
        if (!pc.row_stale && pc.row.at < first) {
            first = std::min(first, row_start(pc));
        }
    }
    return first;
}

void DramChannel::step(Ck now) {
    tick_ = columns_from_ = now;
    for (PseudoChannel& pc : channels_) {
        pc.nominated = pc.nominated || (!pc.row_stale && pc.row.at < now);
    }
    admit(now);
    turn();
    for (PseudoChannel& pc : channels_) {
        if (next_look(pc) <= now) {
            look_for_refresh(pc, now);
        }
    }
    const std::size_t count = channels_.size();
    std::size_t turn_of = count <= 2 ? now & (count - 1) : now % count;
    PseudoChannel& column = channels_[turn_of];
    if (column.column_stale) {
        choose_column(column);
    }
    if (column.column.at == now) {
        start_run(column, now);
    }
    // Columns of this CK are decided: what a row command makes ready can start in the next.
    columns_from_ = now + 1;
    for (std::size_t i = 0; i < count; ++i) {
        PseudoChannel& pc = channels_[turn_of];
        if (pc.row_stale && pc.rows_free <= now) {
            choose_row(pc);
        }
        if (!pc.row_stale && pc.row.at <= now && row_start(pc) == now) {
            start_train(pc, now);
        }
        turn_of = turn_of + 1 == count ? 0 : turn_of + 1;
    }
    tick_ = now + 1;
}

// ---- queues ---------------------------------------------------------------------------------------------------------

// When the next request enters its queue.
Ck DramChannel::admission() const {
    const Ck read = queued_[kRead] < capacity_[kRead] ? arrival_[kRead] : kNever;
    const Ck write = queued_[kWrite] < capacity_[kWrite] ? arrival_[kWrite] : kNever;
    return std::min(read, write);
}

void DramChannel::push(const DramRequest& request) {
    const std::size_t d = request.write ? kWrite : kRead;
    short_requests_ += request.bursts < granule_bursts_ ? 1U : 0U;
    if (waiting_[d].empty()) {
        arrival_[d] = request.arrival;
    }
    waiting_[d].push_back(request);
}

void DramChannel::admit(Ck now) {
    while (admission() <= now) {
        // Of two of the same time the read comes first.
        const bool read = queued_[kRead] < capacity_[kRead] &&
                          (queued_[kWrite] >= capacity_[kWrite] || arrival_[kRead] <= arrival_[kWrite]);
        const std::size_t d = read ? kRead : kWrite;
        const DramRequest& request = waiting_[d].front();
        enter(request);
        if (request.write) {
            client_.accepted(request.tag, request.arrival, now);
        }
        waiting_[d].pop_front();
        arrival_[d] = waiting_[d].empty() ? kNever : waiting_[d].front().arrival;
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
    Ends& all = pc.queues[d].requests;
    Ends& of_set = pc.sets[request.set].wishes[d].requests;
    Entry& entry = entries_[slot];
    entry = {};
    entry.request = request;
    entry.sequence = next_sequence_++;
    entry.older = of_set.youngest;
    entry.older_of_all = all.youngest;
    entry.rank = static_cast<std::uint8_t>(request.set / table_.sets_per_rank);
    entry.next = static_cast<std::uint8_t>(request.first % table_.interleave);
    set_left(entry, request.bursts);
    (all.youngest == kNone ? all.oldest : entries_[all.youngest].younger_of_all) = slot;
    (of_set.youngest == kNone ? of_set.oldest : entries_[of_set.youngest].younger) = slot;
    all.youngest = of_set.youngest = slot;
    progress_ = entries_in_use_ == 1 ? tick_ : progress_;
    settle_arrival(pc, d, slot);
    pc.look_stale = pc.look_stale || ahead_ > 0;
    entry.hit_at_arrival = entry.hit;
    row_after_arrival(pc, d, slot);
    sizes_changed();
}

void DramChannel::leave(PseudoChannel& pc, Slot slot) {
    const Entry& entry = entries_[slot];
    Ends& all = pc.queues[direction()].requests;
    Ends& of_set = pc.sets[entry.request.set].wishes[direction()].requests;
    (entry.older_of_all == kNone ? all.oldest : entries_[entry.older_of_all].younger_of_all) = entry.younger_of_all;
    (entry.younger_of_all == kNone ? all.youngest : entries_[entry.younger_of_all].older_of_all) = entry.older_of_all;
    (entry.older == kNone ? of_set.oldest : entries_[entry.older].younger) = entry.younger;
    (entry.younger == kNone ? of_set.youngest : entries_[entry.younger].older) = entry.older;
    free_.push_back(slot);
    short_requests_ -= entry.request.bursts < granule_bursts_ ? 1U : 0U;
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
    if (!sizes_changed_) {
        return;
    }
    sizes_changed_ = false;
    const bool full = queued_[kWrite] >= write_high_;
    draining_ = draining_ || full;
    if (!wants_turn()) {
        return;
    }
    sizes_changed_ = true;  // look again
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
    sizes_changed_ = true;
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

void DramChannel::set_left(Entry& entry, std::uint32_t left) {
    entry.left = static_cast<std::uint8_t>(left);
    entry.mask = groups_of(entry.request, entry.next, left);
    entry.whole = table_.whole(run_of(entry)) && !table_.columns_hold_up_their_banks();
}

Ck DramChannel::column_time(const PseudoChannel& pc, const Entry& entry) const {
    if (entry.whole) {
        const DramCommand command = entry.request.write ? DramCommand::write : DramCommand::read;
        return std::max(entry.ready, pc.timing.gate_of_whole(command, entry.rank));
    }
    return pc.timing.earliest(run_of(entry));
}

void DramChannel::choose_column(PseudoChannel& pc) {
    pc.column_stale = false;
    pc.column = {};
    const Queue& queue = pc.queues[direction()];
    if (queue.hits.empty() || pc.refresh.all_under_way) {
        return;
    }
    const std::uint64_t held_back = banks_held_back(pc);
    if (aged(queue, queue.hits.front())) {
        offer_column(pc, queue.hits.front(), held_back);
        return;
    }
    const DramCommand command = writing_ ? DramCommand::write : DramCommand::read;
    const Ck soonest = in_slot(pc, std::max(pc.timing.gate(command), columns_from_));
    for (const Slot slot : queue.hits) {
        // Most that come later are not sooner; that is seen at once.
        if (entries_[slot].ready < pc.column.at) {
            offer_column(pc, slot, held_back);
            if (pc.column.at == soonest) {
                return;
            }
        }
    }
}

// By a refresh of one of them, or by the oldest request if that has waited too long.
std::uint64_t DramChannel::banks_held_back(const PseudoChannel& pc) const {
    std::uint64_t banks = pc.refresh.target >= 0 ? bit(static_cast<Bank>(pc.refresh.target)) : 0;
    const Queue& queue = pc.queues[direction()];
    if (aged(queue, queue.requests.oldest)) {
        const Entry& first = entries_[queue.requests.oldest];
        banks |= std::uint64_t{first.needs()} << first.request.set * table_.groups;
    }
    return banks;
}

void DramChannel::offer_column(PseudoChannel& pc, Slot slot, std::uint64_t held_back) {
    const Entry& entry = entries_[slot];
    if ((banks_of(entry, table_.groups) & held_back) != 0) {
        return;
    }
    const Ck at = in_slot(pc, std::max(column_time(pc, entry), columns_from_));
    if (at < pc.column.at || (at == pc.column.at && entry.sequence < entries_[pc.column.slot].sequence)) {
        pc.column = {at, slot};
    }
}

// A hit more can only bring the choice forward; unless an aged one is alone in question.
void DramChannel::becomes_hit(PseudoChannel& pc, std::size_t d, Slot slot) {
    Queue& queue = pc.queues[d];
    insert_by_age(queue.hits, slot);
    entries_[slot].hit = true;
    entries_[slot].ready = pc.timing.earliest_in_banks(run_of(entries_[slot]));
    if (d != direction() || pc.column_stale || pc.refresh.all_under_way) {
        return;
    }
    if (aged(queue, queue.hits.front())) {
        pc.column_stale = true;
    } else {
        offer_column(pc, slot, banks_held_back(pc));
    }
}

void DramChannel::no_longer_hit(PseudoChannel& pc, std::size_t d, Slot slot) {
    Queue& queue = pc.queues[d];
    queue.hits.erase(std::find(queue.hits.begin(), queue.hits.end(), slot));
    entries_[slot].hit = false;
    pc.column_stale = true;
}

void DramChannel::start_run(PseudoChannel& pc, Ck now) {
    Queue& queue = pc.queues[direction()];
    const Slot slot = pc.column.slot;
    Entry& entry = entries_[slot];
    if (const Slot first = queue.requests.oldest; first != slot) {
        // An aged request may close rows that others keep.
        pc.row_stale = ++entries_[first].passed_over >= age_limit_ || pc.row_stale;
    }
    entry.passed_over = 0;
    progress_ = now;
    const ColumnRun run = run_of(entry);
    pc.timing.issue(run, now);
    const Ck last = now + (run.count - 1) * table_.step(writing_);
    if (trace_ != nullptr || closes_pages_) {
        note_run(pc, run, entry.request.row, now);
    }
    (writing_ ? pc.counts.written_bursts : pc.counts.read_bursts) += run.count;
    entry.next = static_cast<std::uint8_t>((entry.next + run.count) % table_.interleave);
    set_left(entry, entry.left - run.count);
    entry.ready = 0;  // a bound will do for what is left
    pc.column_stale = true;
    if (ahead_ > 0 || pc.refresh.due <= now) {
        pc.refresh.check = pc.look_stale = true;
    }
    if (entry.left == 0) {
        no_longer_hit(pc, direction(), slot);
        ++pc.counts.requests;
        pc.counts.hits += entry.hit_at_arrival ? 1 : 0;
        leave(pc, slot);
        client_.served({entry.request.tag, entry.request.arrival, last + latency_[direction()], entry.activates,
                        entry.request.bursts, entry.hit_at_arrival, writing_});
    }
    settle_run(pc, run.set);
    row_after_run(pc, run, now);
}

void DramChannel::note_run(PseudoChannel& pc, const ColumnRun& run, std::uint32_t row, Ck now) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
        const Bank bank = run.set * table_.groups + run.base + (run.first + i) % table_.interleave;
        const Ck at = now + i * table_.step(writing_);
        pc.used[bank] = at;
        note(pc, writing_ ? DramCommand::write : DramCommand::read, at, bank, row);
    }
}

}  // namespace sluice::sim
