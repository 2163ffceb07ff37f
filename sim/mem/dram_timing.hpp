// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a timing standard allows on one pseudo-channel, in cycles of the memory's own clock (CK). The table of
// constraints is compiled into "earliest next" times for every command in every bank, bank group, rank and in the
// pseudo-channel. A column *run* is a train of equal column commands, as dense as the data bus allows, that visit bank
// groups in turn; the last command in each part decides what may follow, so that a run costs no more than its banks.
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

/// Row commands of one kind to banks of different bank groups of one rank, in steps of `DramTable::row_step`.
struct RowTrain {
    isa::DramCommand command = isa::DramCommand::activate;
    std::uint8_t count = 0;
    std::array<std::uint8_t, kMaxBankGroups> banks{};

    void add(Bank bank) { banks[count++] = static_cast<std::uint8_t>(bank); }
};

/// A table of constraints, compiled: what a command holds up. One for all pseudo-channels of a chip.
class DramTable {
public:
    /// `interleave`: bank groups that a granule visits in turn.
    DramTable(const isa::HbmSpec& spec, std::uint32_t interleave);

    struct Update {
        std::uint32_t to;
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
        std::array<Update, kMostUpdates> list{};  ///< one for each command held up: the longest gap

        void add(std::uint32_t to, std::uint32_t gap);
        [[nodiscard]] const Update* begin() const { return list.data(); }
        [[nodiscard]] const Update* end() const { return list.data() + size; }
    };

    [[nodiscard]] const Updates& updates(std::size_t command, isa::DramLevel level) const {
        return updates_[command][static_cast<std::size_t>(level)];
    }
    [[nodiscard]] const Updates& updates_of_other_ranks(std::size_t command) const { return other_ranks_[command]; }
    [[nodiscard]] const std::vector<Window>& windows(std::size_t command) const { return windows_[command]; }
    /// Whether one command holds up another in other banks than its own.
    [[nodiscard]] bool holds_up_others(isa::DramCommand from, isa::DramCommand to) const {
        return holds_up_others_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    }
    /// CK between the commands of a run.
    [[nodiscard]] Ck step(bool write) const { return step_[write ? 1 : 0]; }
    /// The most commands that a run may have: any number if its bank groups recover while the others are visited, else
    /// one each.
    [[nodiscard]] std::uint32_t longest_run(bool write) const { return longest_[write ? 1 : 0]; }
    /// CK between the commands of a train of row commands.
    [[nodiscard]] Ck row_step(isa::DramCommand command) const { return row_step_[static_cast<std::size_t>(command)]; }
    /// CKs of the row bus that a train takes, from its first command on.
    [[nodiscard]] std::uint64_t row_bus_mask(const RowTrain& train) const {
        return row_bus_masks_[static_cast<std::size_t>(train.command)][train.count];
    }
    /// The most commands that a train may have: one fills no window of the standard, and takes no more than 64 CK.
    [[nodiscard]] std::uint32_t longest_train(isa::DramCommand command) const {
        return longest_train_[static_cast<std::size_t>(command)];
    }

    std::uint32_t groups, sets, sets_per_rank, ranks, interleave;
    /// Of a bank: its rank, and its bank group counted through the ranks.
    struct Parts {
        std::uint8_t rank, group;
    };
    std::vector<Parts> parts;

private:
    void set_steps(Ck burst, Ck turns);
    void set_row_steps(const std::array<std::int64_t, isa::kDramCommands>& half_clocks);

    std::array<Ck, 2> step_{};
    std::array<std::uint32_t, 2> longest_{};
    std::array<Ck, isa::kDramCommands> row_step_{};
    std::array<std::array<std::uint64_t, kMaxBankGroups + 1>, isa::kDramCommands> row_bus_masks_{};
    std::array<std::uint32_t, isa::kDramCommands> longest_train_{};
    std::array<std::array<Updates, isa::kDramLevels>, isa::kDramCommands> updates_{};
    std::array<Updates, isa::kDramCommands> other_ranks_{};
    std::array<std::vector<Window>, isa::kDramCommands> windows_;
    std::array<std::array<bool, isa::kDramCommands>, isa::kDramCommands> holds_up_others_{};
};

/// The state of one pseudo-channel.
class DramTiming {
public:
    explicit DramTiming(const DramTable& table);

    [[nodiscard]] Ck earliest(isa::DramCommand command, Bank bank) const {
        const std::size_t c = index(command);
        const DramTable::Parts parts = table_->parts[bank];
        return latest(latest(channel_.ready[c], rank_nodes_[parts.rank].ready[c]),
                      latest(group_nodes_[parts.group].ready[c], bank_nodes_[bank].ready[c]));
    }
    /// No such command is allowed earlier in any bank.
    [[nodiscard]] Ck gate(isa::DramCommand command) const { return channel_.ready[index(command)]; }
    /// The same in a rank.
    [[nodiscard]] Ck gate(isa::DramCommand command, std::uint32_t rank) const {
        return latest(channel_.ready[index(command)], rank_nodes_[rank].ready[index(command)]);
    }
    /// For a command to the whole pseudo-channel: no bank forbids it.
    [[nodiscard]] Ck earliest_for_all(isa::DramCommand command) const;
    /// Earliest first command of a run such that all of its commands are allowed.
    [[nodiscard]] Ck earliest(const ColumnRun& run) const;
    [[nodiscard]] Ck earliest_in_banks(const ColumnRun& run) const;

    /// The same for a train of row commands, and what its banks alone forbid.
    [[nodiscard]] Ck earliest(const RowTrain& train) const;
    [[nodiscard]] Ck earliest_in_banks(const RowTrain& train) const;

    void issue(isa::DramCommand command, Bank bank, Ck at);
    void issue(const RowTrain& train, Ck at);
    void issue_for_all(isa::DramCommand command, Ck at);
    void issue(const ColumnRun& run, Ck at);

    [[nodiscard]] const DramTable& table() const { return *table_; }

private:
    struct alignas(64) Node {
        std::array<Ck, isa::kDramCommands> ready{};
    };
    /// A ring of the last times + gap of a window, for each part of its level.
    struct History {
        std::vector<Ck> times;
        std::vector<std::uint32_t> oldest;
    };

    static Ck latest(Ck a, Ck b) { return a > b ? a : b; }
    static std::size_t index(isa::DramCommand command) { return static_cast<std::size_t>(command); }
    [[nodiscard]] std::uint32_t part(isa::DramLevel level, Bank bank) const;
    [[nodiscard]] Node& node(isa::DramLevel level, Bank bank);
    void update(Node& node, isa::DramCommand from, isa::DramLevel level, Ck at);
    void update_other_ranks(isa::DramCommand from, std::uint32_t rank, Ck at);
    [[nodiscard]] Ck earliest_in_windows(const RowTrain& train, Ck first) const;
    void push_windows(isa::DramCommand from, Bank bank, Ck at);

    const DramTable* table_;
    Node channel_;
    std::vector<Node> rank_nodes_, group_nodes_, bank_nodes_;
    std::array<std::vector<History>, isa::kDramCommands> histories_;  ///< as DramTable::windows
};

}  // namespace sluice::sim
