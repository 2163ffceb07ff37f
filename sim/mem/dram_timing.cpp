// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/dram_timing.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace sluice::sim {

using isa::DramCommand;
using isa::DramLevel;

namespace {

/// What has never happened: as long ago as no constraint reaches.
constexpr std::int64_t kLongAgo = -(std::int64_t{1} << 62);

template <class T>
void raise(T& ready, T at) {
    ready = ready > at ? ready : at;
}

/// Commands that may come in whole trains, as bits.
constexpr std::uint32_t kTrains =
    1U << static_cast<unsigned>(DramCommand::activate) | 1U << static_cast<unsigned>(DramCommand::precharge) |
    1U << static_cast<unsigned>(DramCommand::read) | 1U << static_cast<unsigned>(DramCommand::write);

}  // namespace

DramTiming::DramTiming(const DramTable& table)
    : table_(&table),
      rank_nodes_(table.ranks),
      parts_(std::size_t{table.ranks} + table.sets),
      scattered_(parts_.size() * isa::kDramCommands * table.groups, kLongAgo) {
    for (Part& part : parts_) {
        part.began.fill(kLongAgo);
    }
    const Visits last{0, table.sets - 1, table.ranks - 1, 0, 0, nullptr, false};
    for (std::size_t command = 0; command < isa::kDramCommands; ++command) {
        for (const DramTable::Window& window : table.windows(command)) {
            const std::size_t parts = part(window.level, last, table.groups - 1) + 1;
            histories_[command].push_back(
                {std::vector<Time>(parts * window.count, 0), std::vector<std::uint32_t>(parts, 0)});
        }
    }
}

std::uint32_t DramTiming::part(DramLevel level, const Visits& v, std::uint32_t group) const {
    switch (level) {
        case DramLevel::pseudo_channel: return 0;
        case DramLevel::rank: return v.rank;
        case DramLevel::bank_group: return v.rank * table_->groups + group;
        case DramLevel::bank: break;
    }
    return v.set * table_->groups + group;
}

DramTiming::Visits DramTiming::visits(const ColumnRun& run, std::uint32_t from, std::uint32_t count) const {
    const std::uint32_t first = (run.first + from) % table_->interleave;
    return {index(run.write ? DramCommand::write : DramCommand::read),
            run.set,
            run.set / table_->sets_per_rank,
            count,
            static_cast<Time>(table_->step(run.write)),
            table_->order(run.base, first).data(),
            run.base == 0 && first == 0 && count == table_->groups};
}

DramTiming::Visits DramTiming::visits(const RowTrain& train) const {
    return {index(train.command),
            train.set,
            train.set / table_->sets_per_rank,
            train.count,
            static_cast<Time>(table_->row_step(train.command)),
            train.groups.data(),
            train.whole};
}

// ---- when -----------------------------------------------------------------------------------------------------------

DramTiming::Time DramTiming::after(const Visits& v, const DramTable::Updates& causes, PartNumber number,
                                   Time first) const {
    const Part& part = parts_[number];
    for (const DramTable::Update& cause : causes) {
        const std::size_t c = cause.command;
        Time gap = cause.gap;
        if ((part.scattered >> c & 1U) == 0) {
            const Time began = part.began[c] + gap;
            const Time step = table_->train_step(c);
            if (v.whole) {
                raise(first, began + std::max<Time>(0, (v.count - 1) * (step - v.step)));
                continue;
            }
            for (std::uint32_t i = 0; i < v.count; ++i) {
                raise(first, began + v.groups[i] * step - i * v.step);
            }
            continue;
        }
        const Time* times = scattered(number, c);
        for (std::uint32_t i = 0; i < v.count; ++i) {
            raise(first, times[v.groups[i]] + gap);
            gap -= v.step;
        }
    }
    return first;
}

DramTiming::Time DramTiming::after_banks(const Visits& v, Time first) const {
    first = after(v, table_->causes(v.command, DramLevel::bank), banks_of(v), first);
    return table_->late_windows(v.command).empty() ? first : after_late_windows(v, DramLevel::bank, first);
}

DramTiming::Time DramTiming::after_others(const Visits& v) const {
    const Time first = std::max(channel_.ready[v.command], rank_nodes_[v.rank].ready[v.command]);
    return after_windows(v, DramLevel::pseudo_channel, after_windows(v, DramLevel::rank, after_groups(v, first)));
}

DramTiming::Time DramTiming::after_groups(const Visits& v, Time first) const {
    first = after(v, table_->causes(v.command, DramLevel::bank_group), groups_of(v), first);
    return table_->late_windows(v.command).empty() ? first : after_late_windows(v, DramLevel::bank_group, first);
}

// The first command is held up by the oldest of a full window, as `ready` says; the next by the one after it.
DramTiming::Time DramTiming::after_windows(const Visits& v, DramLevel level, Time first) const {
    if (!table_->fills_windows(v.command, level)) {
        return first;
    }
    const std::vector<DramTable::Window>& windows = table_->windows(v.command);
    for (std::size_t w = 0; w < windows.size(); ++w) {
        const DramTable::Window& window = windows[w];
        if (window.to != v.command || window.level != level) {
            continue;
        }
        const History& history = histories_[v.command][w];
        const std::uint32_t p = part(window.level, v, 0);
        const Time* ring = &history.times[std::size_t{p} * window.count];
        std::uint32_t place = history.oldest[p];
        Time before = 0;
        for (std::uint32_t i = 0; i < v.count; ++i) {
            raise(first, ring[place] - before);
            before += v.step;
            place = place + 1 == window.count ? 0 : place + 1;
        }
    }
    return first;
}

// Windows of a group or a bank meet a train only once.
DramTiming::Time DramTiming::after_late_windows(const Visits& v, DramLevel level, Time first) const {
    for (const DramTable::LateWindow& late : table_->late_windows(v.command)) {
        const DramTable::Window& window = table_->windows(late.from)[late.number];
        if (window.level != level) {
            continue;
        }
        const History& history = histories_[late.from][late.number];
        for (std::uint32_t i = 0; i < v.count; ++i) {
            const std::uint32_t p = part(level, v, v.groups[i]);
            raise(first, history.times[std::size_t{p} * window.count + history.oldest[p]] - i * v.step);
        }
    }
    return first;
}

Ck DramTiming::earliest_for_all(DramCommand command) const {
    const std::size_t c = index(command);
    Time ready = channel_.ready[c];
    for (const Node& rank : rank_nodes_) {
        raise(ready, rank.ready[c]);
    }
    RowTrain all{command, 0, static_cast<std::uint8_t>(table_->groups), false, {}};
    std::iota(all.groups.begin(), all.groups.end(), std::uint8_t{0});
    Visits v = visits(all);
    v.step = 0;
    for (v.set = 0; v.set < table_->sets; ++v.set) {
        v.rank = v.set / table_->sets_per_rank;
        ready = after(v, table_->causes(c, DramLevel::bank_group), groups_of(v), ready);
        ready = after_late_windows(v, DramLevel::bank_group, after_banks(v, ready));
    }
    return ck(ready);
}

Ck DramTiming::earliest(const ColumnRun& run) const {
    const Visits v = visits(run, 0, std::min(run.count, table_->interleave));
    return ck(after_banks(v, after_others(v)));
}

Ck DramTiming::earliest_in_banks(const ColumnRun& run) const {
    return ck(after_banks(visits(run, 0, std::min(run.count, table_->interleave)), 0));
}

Ck DramTiming::earliest(const RowTrain& train) const {
    const Visits v = visits(train);
    return ck(after_banks(v, after_others(v)));
}

Ck DramTiming::earliest_in_banks(const RowTrain& train) const {
    return ck(after_banks(visits(train), 0));
}

// ---- what has been given --------------------------------------------------------------------------------------------

void DramTiming::update(Node& node, std::size_t from, DramLevel level, Time at) const {
    for (const DramTable::Update& u : table_->updates(from, level)) {
        raise(node.ready[u.command], at + u.gap);
    }
}

void DramTiming::note(const Visits& v, PartNumber number, Time at) {
    Part& part = parts_[number];
    const bool was_whole = (part.scattered >> v.command & 1U) == 0;
    if (v.whole && (!was_whole || at >= part.began[v.command])) {
        part.began[v.command] = at;
        part.scattered &= ~(1U << v.command);
        return;
    }
    if (was_whole) {
        scatter(number, v.command);
    }
    Time* times = scattered(number, v.command);
    for (std::uint32_t i = 0; i < v.count; ++i) {
        raise(times[v.groups[i]], at);
        at += v.step;
    }
}

void DramTiming::scatter(PartNumber number, std::size_t command) {
    Part& part = parts_[number];
    Time* times = scattered(number, command);
    for (std::uint32_t group = 0; group < table_->groups; ++group) {
        times[group] = part.began[command] + group * table_->train_step(command);
    }
    part.scattered |= 1U << command;
}

// Of a train whose last command is given at `at`.
void DramTiming::update_shared(const Visits& v, Time at) {
    update(rank_nodes_[v.rank], v.command, DramLevel::rank, at);
    update(channel_, v.command, DramLevel::pseudo_channel, at);
    for (const DramTable::Update& u : table_->updates_of_other_ranks(v.command)) {
        for (std::uint32_t r = 0; r < table_->ranks; ++r) {
            if (r != v.rank) {
                raise(rank_nodes_[r].ready[u.command], at + u.gap);
            }
        }
    }
    update_whole(v.command, v.rank);
}

void DramTiming::push_windows(const Visits& v, Time at) {
    const std::vector<DramTable::Window>& windows = table_->windows(v.command);
    for (std::size_t w = 0; w < windows.size(); ++w) {
        const DramTable::Window& window = windows[w];
        History& history = histories_[v.command][w];
        const bool shared = window.level <= DramLevel::rank;
        std::uint32_t p = part(window.level, v, v.groups[0]);
        Time when = at + window.gap;
        for (std::uint32_t i = 0; i < v.count; ++i) {
            p = shared ? p : part(window.level, v, v.groups[i]);
            std::uint32_t& oldest = history.oldest[p];
            history.times[std::size_t{p} * window.count + oldest] = when;
            oldest = oldest + 1 == window.count ? 0 : oldest + 1;
            when += v.step;
        }
        if (shared) {
            Node& node = window.level == DramLevel::rank ? rank_nodes_[p] : channel_;
            raise(node.ready[window.to], history.times[std::size_t{p} * window.count + history.oldest[p]]);
        }
    }
}

// What a command in a rank means to whole trains.
void DramTiming::update_whole(std::size_t from, std::uint32_t rank) {
    RankNode& node = rank_nodes_[rank];
    for (std::uint32_t held = table_->held_up_by(static_cast<DramCommand>(from)) & kTrains; held != 0;
         held &= held - 1) {
        const auto c = static_cast<std::size_t>(std::countr_zero(held));
        const Visits v{
            c,   rank * table_->sets_per_rank, rank, table_->groups, table_->train_step(c), table_->order(0, 0).data(),
            true};
        node.whole[c] = after_windows(v, DramLevel::rank, after_groups(v, 0));
        whole_gates_[c] = after_windows(v, DramLevel::pseudo_channel, channel_.ready[c]);
    }
}

void DramTiming::issue(const RowTrain& train, Ck at) {
    const Visits v = visits(train);
    note(v, banks_of(v), static_cast<Time>(at));
    note(v, groups_of(v), static_cast<Time>(at));
    push_windows(v, static_cast<Time>(at));
    update_shared(v, static_cast<Time>(at) + (v.count - 1) * v.step);
}

void DramTiming::issue_for_all(DramCommand command, Ck at) {
    const std::size_t c = index(command);
    const auto time = static_cast<Time>(at);
    update(channel_, c, DramLevel::pseudo_channel, time);
    for (RankNode& rank : rank_nodes_) {
        update(rank, c, DramLevel::rank, time);
    }
    for (PartNumber number = 0; number < parts_.size(); ++number) {
        parts_[number].scattered |= 1U << c;
        std::fill_n(scattered(number, c), table_->groups, time);
    }
    for (std::uint32_t rank = 0; rank < table_->ranks; ++rank) {
        update_whole(c, rank);
    }
}

void DramTiming::issue(const ColumnRun& run, Ck at) {
    // The last `count` commands are the last in their bank groups.
    const std::uint32_t count = std::min(run.count, table_->interleave);
    const Visits v = visits(run, run.count - count, count);
    const Time last = static_cast<Time>(at) + (run.count - 1) * v.step;
    note(v, banks_of(v), last - (count - 1) * v.step);
    note(v, groups_of(v), last - (count - 1) * v.step);
    update_shared(v, last);
}

}  // namespace sluice::sim
