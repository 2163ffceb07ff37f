// SPDX-License-Identifier: Apache-2.0
#include "sim/core/ledger.hpp"

#include <algorithm>

#include "isa/errors.hpp"
#include "sim/core/clock.hpp"

namespace sluice::sim {

namespace {
constexpr Cycle kFinestInterval = 64;
}

void EnergyList::add(EnergyEvent event, std::uint64_t count) {
    if (count == 0) {
        return;
    }
    SLUICE_CHECK(size_ < items_.size(), "too many kinds of energy event in one activity");
    items_[size_++] = {event, count};
}

Ledger::Ledger(Cycle interval_cycles)
    : interval_(interval_cycles == 0 ? kFinestInterval : interval_cycles), fixed_(interval_cycles != 0) {}

void Ledger::reserve_nodes(std::size_t count) {
    if (count > nodes_.size()) {
        nodes_.resize(count);
        computed_.resize(count);
        fetched_.resize(count);
    }
}

void Ledger::reach(Cycle cycle) {
    while (!fixed_ && cycle / interval_ >= kMaxIntervals) {
        const std::size_t half = (intervals_.size() + 1) / 2;
        for (std::size_t i = 0; i < half; ++i) {
            EnergyCounts sum = intervals_[2 * i];
            if (2 * i + 1 < intervals_.size()) {
                for (std::size_t e = 0; e < kEnergyEventCount; ++e) {
                    sum[e] += intervals_[2 * i + 1][e];
                }
            }
            intervals_[i] = sum;
        }
        intervals_.resize(half);
        interval_ *= 2;
    }
    if (cycle / interval_ >= intervals_.size()) {
        intervals_.resize(cycle / interval_ + 1);
    }
}

void Ledger::spread(EnergyEvent event, std::uint64_t count, Cycle from, Cycle to) {
    const auto e = static_cast<std::size_t>(event);
    const Cycle last = to > from ? to - 1 : from;
    const std::size_t first_bin = from / interval_;
    const std::size_t last_bin = last / interval_;
    if (first_bin == last_bin) {
        intervals_[first_bin][e] += count;
        return;
    }
    // Up to the end of each interval: floor(count * elapsed / span), so that the differences sum to count.
    std::uint64_t given = 0;
    for (std::size_t bin = first_bin; bin <= last_bin; ++bin) {
        const Cycle until = std::min<Cycle>((bin + 1) * interval_, to);
        const auto due = static_cast<std::uint64_t>(Wide{count} * (until - from) / (to - from));
        intervals_[bin][e] += due - given;
        given = due;
    }
}

void Ledger::book(NodeId node, const EnergyList& list, Cycle from, Cycle to) {
    reach(to > from ? to - 1 : from);
    for (const EnergyList::Item& item : list) {
        const auto e = static_cast<std::size_t>(item.event);
        total_[e] += item.count;
        if (node != kNoNode) {
            nodes_[node].energy[e] += item.count;
        }
        spread(item.event, item.count, from, to);
    }
}

void Ledger::traffic(NodeId node, const Traffic& traffic) {
    NodeAccount& account = nodes_[node];
    account.hbm_read += traffic.hbm_read;
    account.hbm_written += traffic.hbm_written;
    account.csram += traffic.csram;
    account.tsram += traffic.tsram;
    account.noc += traffic.noc;
}

void Ledger::written(NodeId node, Cycle end) {
    nodes_[node].end = std::max(nodes_[node].end, end);
}

void Ledger::instruction(NodeId node, bool fetches, bool computes, Cycle start, Cycle end) {
    NodeAccount& account = nodes_[node];
    const bool first = account.instructions == 0;
    ++account.instructions;
    if (fetches && (!fetched_[node] || start < account.first_fetch)) {
        account.first_fetch = start;
        fetched_[node] = true;
    }
    if (computes && !computed_[node]) {
        account.start = start;
        computed_[node] = true;
    } else if (first || (computes == computed_[node] && start < account.start)) {
        account.start = start;
    }
    account.end = std::max(account.end, end);
}

void Ledger::close(Cycle end) {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
        if (nodes_[node].instructions > 0 && !fetched_[node]) {
            nodes_[node].first_fetch = nodes_[node].start;
        }
    }
    if (end > 0) {
        reach(end - 1);
    }
}

}  // namespace sluice::sim
