// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timing standard's table of constraints, compiled: what each command holds up and what holds it up, for each level.
// One serves all pseudo-channels of a chip; `dram_timing` keeps the state of one. Commands come in trains: a column
// *run* is a train of equal column commands, as dense as the data bus allows, that visit bank groups in turn.
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
        std::uint8_t from, number;  ///< isa limits windows to far fewer than 256
    };
    [[nodiscard]] const std::vector<LateWindow>& late_windows(std::size_t command) const {
        return late_windows_[command];
    }
    /// Commands that one holds up in other banks than its own, as bits.
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

}  // namespace sluice::sim
