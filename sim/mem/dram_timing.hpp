// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a timing standard allows on one pseudo-channel, in cycles of the memory's own clock (CK). The table of
// constraints is compiled. For the pseudo-channel and its ranks the earliest next time of every command is kept; for
// bank groups and banks, of which a train touches many, the last time of every command, and what follows from it is
// worked out when it is asked for. A column *run* is a train of equal column commands, as dense as the data bus allows,
// that visit bank groups in turn; the last command in each part decides what may follow, so that a run costs no more
// than its banks. A run or train is *whole* if it visits all bank groups, from the first: what holds it up outside its
// banks is the same for all sets of a rank, and remembered.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/mem/dram_table.hpp"

namespace sluice::sim {

/// The state of one pseudo-channel.
class DramTiming {
public:
    explicit DramTiming(const DramTable& table);

    /// No such command is allowed earlier in any bank.
    [[nodiscard]] Ck gate(isa::DramCommand command) const { return ck(channel_.ready[index(command)]); }
    /// For a command to the whole pseudo-channel: no bank forbids it.
    [[nodiscard]] Ck earliest_for_all(isa::DramCommand command) const;
    /// Earliest first command of a run such that all of its commands are allowed.
    [[nodiscard]] Ck earliest(const ColumnRun& run) const;
    /// The same as far as its banks are concerned.
    [[nodiscard]] Ck earliest_in_banks(const ColumnRun& run) const;
    /// The same for a train of row commands.
    [[nodiscard]] Ck earliest(const RowTrain& train) const;
    [[nodiscard]] Ck earliest_in_banks(const RowTrain& train) const;
    /// The same for a whole train or run in any set of a rank as far as everything but its banks is concerned.
    [[nodiscard]] Ck gate_of_whole(isa::DramCommand command, std::uint32_t rank) const {
        const std::size_t c = index(command);
        return ck(std::max({whole_gates_[c], rank_nodes_[rank].whole[c], rank_nodes_[rank].ready[c]}));
    }

    void issue(const RowTrain& train, Ck at);
    void issue_for_all(isa::DramCommand command, Ck at);
    void issue(const ColumnRun& run, Ck at);

private:
    /// Signed: what has never happened was long ago.
    using Time = std::int64_t;
    struct Node {
        std::array<Time, isa::kDramCommands> ready{};
    };
    struct RankNode : Node {
        std::array<Time, isa::kDramCommands>
            whole{};  ///< what bank groups and windows of the rank allow to whole trains
    };
    /// A ring of the last times + gap of a window, for each part of its level.
    struct History {
        std::vector<Time> times;
        std::vector<std::uint32_t> oldest;
    };
    /// When the banks of a set, or the bank groups of a rank, were last given each command: all that is to be known of
    /// commands that came in whole trains is when the last of these began. A cache line, for the sake of speed.
    struct alignas(64) Part {
        std::array<Time, isa::kDramCommands> began;
        std::uint32_t scattered = 0;  ///< commands, as bits, whose times stand in `scattered_` instead
    };
    /// A part's number: ranks come first, then sets.
    using PartNumber = std::size_t;
    /// Equal commands in steps to bank groups of a set.
    struct Visits {
        std::size_t command;
        std::uint32_t set;
        std::uint32_t rank;
        std::uint32_t count;
        Time step;
        const std::uint8_t* groups;
        bool whole;
    };

    static Ck ck(Time time) { return static_cast<Ck>(time); }
    static std::size_t index(isa::DramCommand command) { return static_cast<std::size_t>(command); }
    /// Of `count` commands of a run from number `from` on.
    [[nodiscard]] Visits visits(const ColumnRun& run, std::uint32_t from, std::uint32_t count) const;
    [[nodiscard]] Visits visits(const RowTrain& train) const;
    [[nodiscard]] std::uint32_t part(isa::DramLevel level, const Visits& v, std::uint32_t group) const;
    [[nodiscard]] PartNumber banks_of(const Visits& v) const { return table_->ranks + v.set; }
    [[nodiscard]] static PartNumber groups_of(const Visits& v) { return v.rank; }
    [[nodiscard]] Time* scattered(PartNumber part, std::size_t command) {
        return &scattered_[(part * isa::kDramCommands + command) * table_->groups];
    }
    [[nodiscard]] const Time* scattered(PartNumber part, std::size_t command) const {
        return &scattered_[(part * isa::kDramCommands + command) * table_->groups];
    }
    [[nodiscard]] Time after(const Visits& v, const DramTable::Updates& causes, PartNumber part, Time first) const;
    [[nodiscard]] Time after_banks(const Visits& v, Time first) const;
    [[nodiscard]] Time after_others(const Visits& v) const;
    [[nodiscard]] Time after_groups(const Visits& v, Time first) const;
    [[nodiscard]] Time after_windows(const Visits& v, isa::DramLevel level, Time first) const;
    [[nodiscard]] Time after_late_windows(const Visits& v, isa::DramLevel level, Time first) const;
    void note(const Visits& v, PartNumber part, Time at);
    void scatter(PartNumber part, std::size_t command);
    void update(Node& node, std::size_t from, isa::DramLevel level, Time at) const;
    void update_shared(const Visits& v, Time at);
    void push_windows(const Visits& v, Time at);
    void update_whole(std::size_t from, std::uint32_t rank);

    const DramTable* table_;
    Node channel_;
    std::vector<RankNode> rank_nodes_;
    std::array<Time, isa::kDramCommands> whole_gates_{};  ///< what the pseudo-channel allows to whole trains
    std::vector<Part> parts_;
    std::vector<Time> scattered_;                                     ///< by part, command, bank group
    std::array<std::vector<History>, isa::kDramCommands> histories_;  ///< as DramTable::windows
};

}  // namespace sluice::sim
