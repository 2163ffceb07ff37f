// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/dram_timing.hpp"

#include <algorithm>

namespace sluice::sim {

using isa::DramCommand;
using isa::DramLevel;

namespace {

void raise(Ck& ready, Ck at) {
    ready = ready > at ? ready : at;
}

}  // namespace

// ---- the table ------------------------------------------------------------------------------------------------------

void DramTable::Updates::add(std::uint32_t to, std::uint32_t gap) {
    for (std::uint32_t i = 0; i < size; ++i) {
        if (list[i].to == to) {
            list[i].gap = std::max(list[i].gap, gap);
            return;
        }
    }
    list[size++] = {to, gap};
}

DramTable::DramTable(const isa::HbmSpec& spec, std::uint32_t visits)
    : groups(to_count(spec.bank_groups)),
      sets(to_count(spec.banks_per_group * spec.ranks)),
      sets_per_rank(to_count(spec.banks_per_group)),
      ranks(to_count(spec.ranks)),
      interleave(visits) {
    for (const isa::DramConstraint& c : spec.rules.constraints) {
        const auto from = static_cast<std::size_t>(c.from);
        const auto to = static_cast<std::uint8_t>(c.to);
        holds_up_others_[from][to] = holds_up_others_[from][to] || c.level != DramLevel::bank;
        if (c.count > 1) {
            windows_[from].push_back(
                {c.level, static_cast<std::uint8_t>(from), to, to_count(c.gap), to_count(c.count)});
        } else if (c.others) {
            other_ranks_[from].add(to, to_count(c.gap));
        } else {
            updates_[from][static_cast<std::size_t>(c.level)].add(to, to_count(c.gap));
        }
    }
    for (Bank bank = 0; bank < sets * groups; ++bank) {
        const std::uint32_t rank = bank / groups / sets_per_rank;
        parts.push_back({static_cast<std::uint8_t>(rank), static_cast<std::uint8_t>(rank * groups + bank % groups)});
    }
    set_steps(static_cast<Ck>(spec.timing.nbl), static_cast<Ck>(spec.pseudo_channels));
    set_row_steps(spec.rules.row_bus_half_clocks);
}

// Between commands in different bank groups only the gaps of the rank and of the pseudo-channel stand; those of a group
// or a bank meet a run again after it has visited the others. A run keeps to its pseudo-channel's turns on the column
// bus, of `turns` in all.
void DramTable::set_steps(Ck burst, Ck turns) {
    for (const bool write : {false, true}) {
        const auto column = static_cast<std::size_t>(write ? DramCommand::write : DramCommand::read);
        Ck step = burst;
        Ck again = 0;
        for (const DramLevel level :
             {DramLevel::pseudo_channel, DramLevel::rank, DramLevel::bank_group, DramLevel::bank}) {
            for (const Update& u : updates(column, level)) {
                if (u.to == column) {
                    raise(level <= DramLevel::rank ? step : again, u.gap);
                }
            }
        }
        step = (step + turns - 1) / turns * turns;
        step_[write ? 1 : 0] = step;
        longest_[write ? 1 : 0] = again <= step * interleave ? ~std::uint32_t{0} : interleave;
    }
}

void DramTable::set_row_steps(const std::array<std::int64_t, isa::kDramCommands>& half_clocks) {
    constexpr std::uint32_t kMaskBits = 64;
    for (std::size_t c = 0; c < isa::kDramCommands; ++c) {
        const std::uint32_t occupied = (to_count(half_clocks[c]) + 1) / 2;
        row_step_[c] = occupied;
        for (const DramLevel level : {DramLevel::pseudo_channel, DramLevel::rank}) {
            for (const Update& u : updates(c, level)) {
                if (u.to == c) {
                    raise(row_step_[c], u.gap);
                }
            }
        }
        std::uint64_t mask = 0;
        std::uint32_t& longest = longest_train_[c];
        for (Ck at = 0; longest < kMaxBankGroups && at + occupied <= kMaskBits; at += row_step_[c]) {
            mask |= ((std::uint64_t{1} << occupied) - 1) << at;
            row_bus_masks_[c][++longest] = mask;
        }
        for (const Window& window : windows_[c]) {
            if (window.to == c) {
                longest = std::min(longest, window.count);
            }
        }
    }
}

// ---- the state ------------------------------------------------------------------------------------------------------

DramTiming::DramTiming(const DramTable& table)
    : table_(&table),
      rank_nodes_(table.ranks),
      group_nodes_(std::size_t{table.ranks} * table.groups),
      bank_nodes_(std::size_t{table.sets} * table.groups) {
    const Bank last = table.sets * table.groups - 1;
    for (std::size_t command = 0; command < isa::kDramCommands; ++command) {
        for (const DramTable::Window& window : table.windows(command)) {
            const std::size_t parts = part(window.level, last) + 1;
            histories_[command].push_back(
                {std::vector<Ck>(parts * window.count, 0), std::vector<std::uint32_t>(parts, 0)});
        }
    }
}

std::uint32_t DramTiming::part(DramLevel level, Bank bank) const {
    switch (level) {
        case DramLevel::pseudo_channel: return 0;
        case DramLevel::rank: return table_->parts[bank].rank;
        case DramLevel::bank_group: return table_->parts[bank].group;
        case DramLevel::bank: break;
    }
    return bank;
}

DramTiming::Node& DramTiming::node(DramLevel level, Bank bank) {
    switch (level) {
        case DramLevel::pseudo_channel: return channel_;
        case DramLevel::rank: return rank_nodes_[part(level, bank)];
        case DramLevel::bank_group: return group_nodes_[part(level, bank)];
        case DramLevel::bank: break;
    }
    return bank_nodes_[bank];
}

Ck DramTiming::earliest_for_all(DramCommand command) const {
    const std::size_t c = index(command);
    Ck ready = channel_.ready[c];
    for (const auto* nodes : {&rank_nodes_, &group_nodes_, &bank_nodes_}) {
        for (const Node& n : *nodes) {
            raise(ready, n.ready[c]);
        }
    }
    return ready;
}

Ck DramTiming::earliest(const ColumnRun& run) const {
    const std::size_t c = index(run.write ? DramCommand::write : DramCommand::read);
    const std::uint32_t rank = run.set / table_->sets_per_rank;
    const Node* groups = &group_nodes_[rank * table_->groups + run.base];
    const Node* banks = &bank_nodes_[run.set * table_->groups + run.base];
    const Ck step = table_->step(run.write);
    const std::uint32_t visits = std::min(run.count, table_->interleave);
    Ck first = latest(channel_.ready[c], rank_nodes_[rank].ready[c]);
    std::uint32_t group = run.first % table_->interleave;
    Ck before = 0;
    for (std::uint32_t i = 0; i < visits; ++i) {
        const Ck ready = latest(groups[group].ready[c], banks[group].ready[c]);
        if (ready > first + before) {
            first = ready - before;
        }
        before += step;
        group = group + 1 == table_->interleave ? 0 : group + 1;
    }
    return first;
}

Ck DramTiming::earliest_in_banks(const RowTrain& train) const {
    const std::size_t c = index(train.command);
    const Ck step = table_->row_step(train.command);
    Ck first = 0;
    Ck before = 0;
    for (std::uint32_t i = 0; i < train.count; ++i) {
        const Ck ready = bank_nodes_[train.banks[i]].ready[c];
        first = ready > first + before ? ready - before : first;
        before += step;
    }
    return first;
}

Ck DramTiming::earliest(const RowTrain& train) const {
    const std::size_t c = index(train.command);
    const Ck step = table_->row_step(train.command);
    Ck first = gate(train.command, table_->parts[train.banks[0]].rank);
    Ck before = 0;
    for (std::uint32_t i = 0; i < train.count; ++i) {
        const Bank bank = train.banks[i];
        const Ck ready = latest(group_nodes_[table_->parts[bank].group].ready[c], bank_nodes_[bank].ready[c]);
        first = ready > first + before ? ready - before : first;
        before += step;
    }
    return earliest_in_windows(train, first);
}

// The first command is held up by the oldest of a full window, as `ready` says; the next by the one after it. Windows
// of a group or a bank meet a train only once.
Ck DramTiming::earliest_in_windows(const RowTrain& train, Ck first) const {
    const std::size_t c = index(train.command);
    const std::vector<DramTable::Window>& windows = table_->windows(c);
    const Ck step = table_->row_step(train.command);
    for (std::size_t w = 0; w < windows.size(); ++w) {
        const DramTable::Window& window = windows[w];
        if (window.to != c || window.level > DramLevel::rank) {
            continue;
        }
        const History& history = histories_[c][w];
        const std::uint32_t p = part(window.level, train.banks[0]);
        const Ck* ring = &history.times[std::size_t{p} * window.count];
        std::uint32_t place = history.oldest[p];
        Ck before = 0;
        for (std::uint32_t i = 0; i < train.count; ++i) {
            first = ring[place] > first + before ? ring[place] - before : first;
            before += step;
            place = place + 1 == window.count ? 0 : place + 1;
        }
    }
    return first;
}

Ck DramTiming::earliest_in_banks(const ColumnRun& run) const {
    const std::size_t c = index(run.write ? DramCommand::write : DramCommand::read);
    const Node* banks = &bank_nodes_[run.set * table_->groups + run.base];
    const Ck step = table_->step(run.write);
    const std::uint32_t visits = std::min(run.count, table_->interleave);
    Ck first = 0;
    std::uint32_t group = run.first;
    Ck before = 0;
    for (std::uint32_t i = 0; i < visits; ++i) {
        const Ck ready = banks[group].ready[c];
        first = ready > first + before ? ready - before : first;
        before += step;
        group = group + 1 == table_->interleave ? 0 : group + 1;
    }
    return first;
}

void DramTiming::update(Node& node, DramCommand from, DramLevel level, Ck at) {
    for (const DramTable::Update& u : table_->updates(index(from), level)) {
        raise(node.ready[u.to], at + u.gap);
    }
}

void DramTiming::update_other_ranks(DramCommand from, std::uint32_t rank, Ck at) {
    for (const DramTable::Update& u : table_->updates_of_other_ranks(index(from))) {
        for (std::uint32_t r = 0; r < table_->ranks; ++r) {
            if (r != rank) {
                raise(rank_nodes_[r].ready[u.to], at + u.gap);
            }
        }
    }
}

void DramTiming::push_windows(DramCommand from, Bank bank, Ck at) {
    const std::vector<DramTable::Window>& windows = table_->windows(index(from));
    for (std::size_t w = 0; w < windows.size(); ++w) {
        const DramTable::Window& window = windows[w];
        History& history = histories_[index(from)][w];
        const std::uint32_t p = part(window.level, bank);
        std::uint32_t& oldest = history.oldest[p];
        Ck* ring = &history.times[std::size_t{p} * window.count];
        ring[oldest] = at + window.gap;
        oldest = oldest + 1 == window.count ? 0 : oldest + 1;
        raise(node(window.level, bank).ready[window.to], ring[oldest]);
    }
}

void DramTiming::issue(DramCommand command, Bank bank, Ck at) {
    const std::uint32_t rank = part(DramLevel::rank, bank);
    update(bank_nodes_[bank], command, DramLevel::bank, at);
    update(group_nodes_[part(DramLevel::bank_group, bank)], command, DramLevel::bank_group, at);
    update(rank_nodes_[rank], command, DramLevel::rank, at);
    update(channel_, command, DramLevel::pseudo_channel, at);
    update_other_ranks(command, rank, at);
    push_windows(command, bank, at);
}

void DramTiming::issue(const RowTrain& train, Ck at) {
    const std::uint32_t rank = table_->parts[train.banks[0]].rank;
    const Ck step = table_->row_step(train.command);
    Ck when = at;
    for (std::uint32_t i = 0; i < train.count; ++i) {
        const Bank bank = train.banks[i];
        update(bank_nodes_[bank], train.command, DramLevel::bank, when);
        update(group_nodes_[table_->parts[bank].group], train.command, DramLevel::bank_group, when);
        push_windows(train.command, bank, when);
        when += step;
    }
    const Ck last = when - step;
    update(rank_nodes_[rank], train.command, DramLevel::rank, last);
    update(channel_, train.command, DramLevel::pseudo_channel, last);
    update_other_ranks(train.command, rank, last);
}

void DramTiming::issue_for_all(DramCommand command, Ck at) {
    update(channel_, command, DramLevel::pseudo_channel, at);
    for (Node& n : rank_nodes_) {
        update(n, command, DramLevel::rank, at);
    }
    for (Node& n : group_nodes_) {
        update(n, command, DramLevel::bank_group, at);
    }
    for (Node& n : bank_nodes_) {
        update(n, command, DramLevel::bank, at);
    }
}

void DramTiming::issue(const ColumnRun& run, Ck at) {
    const DramCommand command = run.write ? DramCommand::write : DramCommand::read;
    const std::uint32_t rank = run.set / table_->sets_per_rank;
    Node* groups = &group_nodes_[rank * table_->groups + run.base];
    Node* banks = &bank_nodes_[run.set * table_->groups + run.base];
    const Ck step = table_->step(run.write);
    // The last `visits` commands are the last in their bank groups.
    const std::uint32_t visits = std::min(run.count, table_->interleave);
    Ck when = at + (run.count - visits) * step;
    std::uint32_t group = (run.first + run.count - visits) % table_->interleave;
    for (std::uint32_t i = 0; i < visits; ++i) {
        update(banks[group], command, DramLevel::bank, when);
        update(groups[group], command, DramLevel::bank_group, when);
        when += step;
        group = group + 1 == table_->interleave ? 0 : group + 1;
    }
    const Ck last = when - step;
    update(rank_nodes_[rank], command, DramLevel::rank, last);
    update(channel_, command, DramLevel::pseudo_channel, last);
    update_other_ranks(command, rank, last);
}

}  // namespace sluice::sim
