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

#include "isa/chip_spec.hpp"

namespace sluice::sim {

/// Cycles of the memory's clock.
using Ck = std::uint64_t;
constexpr Ck kNever = ~Ck{0};

/// Fields of a spec, which are checked to be small and not negative.
constexpr Ck to_ck(std::int64_t value) {
    return static_cast<Ck>(value);
}
constexpr std::uint32_t to_count(std::int64_t value) {
    return static_cast<std::uint32_t>(value);
}

constexpr std::size_t kMaxRanks = 16;
constexpr std::size_t kMaxBankGroups = 8;
constexpr std::uint32_t kNoRow = ~std::uint32_t{0};

/// A bank of a pseudo-channel: number = set * bank groups + group, where the sets count through the ranks.
using Bank = std::uint32_t;

/// A train of column commands: command i goes to bank group base + (first + i) mod interleave.
struct ColumnRun {
    std::uint32_t set = 0;
    std::uint32_t base = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool write = false;
};

/// Bank groups in the order in which a train or run visits them.
using GroupOrder = std::array<std::uint8_t, kMaxBankGroups>;

/// Row commands of one kind to banks of a set, in steps of `DramTable::row_step`.
struct RowTrain {
    isa::DramCommand command = isa::DramCommand::activate;
    std::uint8_t set = 0;
    std::uint8_t count = 0;
    bool whole = false;
    GroupOrder groups{};

    void add(std::uint32_t group) { groups[count++] = static_cast<std::uint8_t>(group); }
};

/// A table of constraints, compiled: what a command holds up. One for all pseudo-channels of a chip.
class DramTable {
public:
    /// `interleave`: bank groups that a granule visits in turn.
    DramTable(const isa::HbmSpec& spec, std::uint32_t interleave);

    struct Update {
        std::uint32_t command;
        std::uint32_t gap;
    };
    /// `count` commands `from` make a window.
    struct Window {
        isa::DramLevel level;
        std::uint8_t from, to;
        std::uint32_t gap, count;
    };
    static constexpr std::size_t kMostUpdates = isa::kDramCommands;
    struct Updates {
        std::uint32_t size = 0;
        std::array<Update, kMostUpdates> list{};  ///< one for each other command: the longest gap

        void add(std::uint32_t command, std::uint32_t gap);
        [[nodiscard]] const Update* begin() const { return list.data(); }
        [[nodiscard]] const Update* end() const { return list.data() + size; }
    };

    /// What a command holds up.
    [[nodiscard]] const Updates& updates(std::size_t command, isa::DramLevel level) const {
        return updates_[command][static_cast<std::size_t>(level)];
    }
    /// What holds a command up.
    [[nodiscard]] const Updates& causes(std::size_t command, isa::DramLevel level) const {
        return causes_[command][static_cast<std::size_t>(level)];
    }
    [[nodiscard]] const Updates& updates_of_other_ranks(std::size_t command) const { return other_ranks_[command]; }
    [[nodiscard]] const std::vector<Window>& windows(std::size_t command) const { return windows_[command]; }
    /// Whether windows of a command in parts of a level hold up others of it.
    [[nodiscard]] bool fills_windows(std::size_t command, isa::DramLevel level) const {
        return (fills_windows_[command] >> static_cast<unsigned>(level) & 1U) != 0;
    }
    /// Windows of bank groups or banks that hold a command up: the command whose they are, and which of its windows.
    struct LateWindow {
        std::uint8_t from, number;
    };
    [[nodiscard]] const std::vector<LateWindow>& late_windows(std::size_t command) const {
        return late_windows_[command];
    }
    /// Whether one command holds up another in other banks than its own.
    [[nodiscard]] bool holds_up_others(isa::DramCommand from, isa::DramCommand to) const {
        return (held_up_by(from) >> static_cast<unsigned>(to) & 1U) != 0;
    }
    /// All such, as bits.
    [[nodiscard]] std::uint32_t held_up_by(isa::DramCommand from) const {
        return held_up_[static_cast<std::size_t>(from)];
    }
    /// Whether a column command of a bank holds up others of it for longer than those of other banks.
    [[nodiscard]] bool columns_hold_up_their_banks() const { return columns_hold_up_their_banks_; }
    /// CK between the commands of a run.
    [[nodiscard]] Ck step(bool write) const { return step_[write ? 1 : 0]; }
    /// The most commands that a run may have: any number if its bank groups recover while the others are visited, else
    /// one each.
    [[nodiscard]] std::uint32_t longest_run(bool write) const { return longest_[write ? 1 : 0]; }
    /// CK between the commands of a train of row commands.
    [[nodiscard]] Ck row_step(isa::DramCommand command) const { return row_step_[static_cast<std::size_t>(command)]; }
    /// The same for runs and trains.
    [[nodiscard]] std::int64_t train_step(std::size_t command) const { return train_step_[command]; }
    /// CKs of the row bus that a train takes, from its first command on.
    [[nodiscard]] std::uint64_t row_bus_mask(const RowTrain& train) const {
        return row_bus_masks_[static_cast<std::size_t>(train.command)][train.count];
    }
    /// The most commands that a train may have: one fills no window of the standard, and takes no more than 64 CK.
    [[nodiscard]] std::uint32_t longest_train(isa::DramCommand command) const {
        return longest_train_[static_cast<std::size_t>(command)];
    }

    [[nodiscard]] bool whole(const ColumnRun& run) const {
        return run.base == 0 && run.first == 0 && interleave == groups && run.count >= groups;
    }
    /// The order in which a run visits bank groups, from its first on.
    [[nodiscard]] const GroupOrder& order(std::uint32_t base, std::uint32_t first) const {
        return orders_[base][first];
    }

    std::uint32_t groups, sets, sets_per_rank, ranks, interleave;

private:
    void set_steps(Ck burst, Ck turns);
    void set_row_steps(const std::array<std::int64_t, isa::kDramCommands>& half_clocks);

    std::array<std::int64_t, isa::kDramCommands> train_step_{};
    std::array<Ck, 2> step_{};
    std::array<std::uint32_t, 2> longest_{};
    std::array<Ck, isa::kDramCommands> row_step_{};
    std::array<std::array<std::uint64_t, kMaxBankGroups + 1>, isa::kDramCommands> row_bus_masks_{};
    std::array<std::uint32_t, isa::kDramCommands> longest_train_{};
    std::array<std::array<Updates, isa::kDramLevels>, isa::kDramCommands> updates_{}, causes_{};
    std::array<std::array<GroupOrder, kMaxBankGroups>, kMaxBankGroups> orders_{};
    std::array<Updates, isa::kDramCommands> other_ranks_{};
    std::array<std::vector<Window>, isa::kDramCommands> windows_;
    std::array<std::vector<LateWindow>, isa::kDramCommands> late_windows_;
    std::array<std::uint32_t, isa::kDramCommands> held_up_{}, fills_windows_{};
    bool columns_hold_up_their_banks_ = false;
};

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
