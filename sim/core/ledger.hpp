// SPDX-License-Identifier: Apache-2.0
#pragma once
// The books of a run: energy events and bytes per plan node and per time interval. Everything is an integer; a count
// that belongs to a span is spread over the intervals so that the parts sum to the whole.
#include <array>
#include <cstdint>
#include <vector>

#include "isa/units.hpp"
#include "sim/core/energy.hpp"
#include "sim/core/report.hpp"

namespace sluice::sim {

/// The few kinds of energy event of one activity.
class EnergyList {
public:
    struct Item {
        EnergyEvent event;
        std::uint64_t count;
    };
    void add(EnergyEvent event, std::uint64_t count);
    [[nodiscard]] const Item* begin() const { return items_.data(); }
    [[nodiscard]] const Item* end() const { return items_.data() + size_; }

private:
    std::array<Item, 16> items_;
    std::size_t size_ = 0;
};

/// Bytes moved on behalf of a node, by memory; `noc` counts a byte once when it enters a network.
struct Traffic {
    Bytes hbm_read = 0, hbm_written = 0, csram = 0, tsram = 0, noc = 0;
};

using NodeId = std::uint32_t;
constexpr NodeId kNoNode = ~NodeId{0};

class Ledger {
public:
    /// `interval_cycles` 0: starts fine and doubles so that at most kMaxIntervals are kept.
    explicit Ledger(Cycle interval_cycles);

    /// Books what happened in [from, to) for a node (or none). `to` == `from` books at one moment.
    void book(NodeId node, const EnergyList& list, Cycle from, Cycle to);
    void traffic(NodeId node, const Traffic& traffic);
    /// What the node has written is in its memory at `end`, which may be after its last instruction.
    void written(NodeId node, Cycle end);
    void instruction(NodeId node, bool fetches, bool computes, Cycle start, Cycle end);

    void reserve_nodes(std::size_t count);
    void close(Cycle end);

    [[nodiscard]] const std::vector<NodeAccount>& nodes() const { return nodes_; }
    [[nodiscard]] const std::vector<EnergyCounts>& intervals() const { return intervals_; }
    [[nodiscard]] Cycle interval_cycles() const { return interval_; }
    [[nodiscard]] const EnergyCounts& total() const { return total_; }

    static constexpr std::size_t kMaxIntervals = 1000;

private:
    void spread(EnergyEvent event, std::uint64_t count, Cycle from, Cycle to);
    void reach(Cycle cycle);

    std::vector<NodeAccount> nodes_;
    std::vector<bool> computed_;
    std::vector<bool> fetched_;
    std::vector<EnergyCounts> intervals_;
    EnergyCounts total_{};
    Cycle interval_;
    bool fixed_;
};

}  // namespace sluice::sim
