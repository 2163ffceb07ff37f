// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/dram_table.hpp"

#include <algorithm>

namespace sluice::sim {

using isa::DramCommand;
using isa::DramLevel;

namespace {

bool is_column(DramCommand command) {
    return command == DramCommand::read || command == DramCommand::write;
}

}  // namespace

void DramTable::Updates::add(std::uint32_t command, std::uint32_t gap) {
    for (std::uint32_t i = 0; i < size; ++i) {
        if (list[i].command == command) {
            list[i].gap = std::max(list[i].gap, gap);
            return;
        }
    }
    list[size++] = {command, gap};
}

DramTable::DramTable(const isa::HbmSpec& spec, std::uint32_t visits)
    : groups(to_count(spec.bank_groups)),
      sets(to_count(spec.banks_per_group * spec.ranks)),
      sets_per_rank(to_count(spec.banks_per_group)),
      ranks(to_count(spec.ranks)),
      interleave(visits) {
    const auto given = [&](DramCommand command) {
        switch (command) {
            case DramCommand::refresh_bank: return spec.refresh == "per_bank";
            case DramCommand::refresh_all:
            case DramCommand::precharge_all: return spec.refresh == "all_bank";
            default: return true;
        }
    };
    for (const isa::DramConstraint& c : spec.rules.constraints) {
        if (!given(c.from) || !given(c.to)) {
            continue;
        }
        const auto from = static_cast<std::size_t>(c.from);
        const auto to = static_cast<std::uint8_t>(c.to);
        held_up_[from] |= (c.level != DramLevel::bank ? 1U : 0U) << to;
        if (c.count > 1) {
            fills_windows_[from] |= (from == to ? 1U : 0U) << static_cast<unsigned>(c.level);
            if (c.level > DramLevel::rank) {
                late_windows_[to].push_back(
                    {static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(windows_[from].size())});
            }
            windows_[from].push_back(
                {c.level, static_cast<std::uint8_t>(from), to, to_count(c.gap), to_count(c.count)});
        } else if (c.others) {
            other_ranks_[from].add(to, to_count(c.gap));
        } else {
            updates_[from][static_cast<std::size_t>(c.level)].add(to, to_count(c.gap));
            causes_[to][static_cast<std::size_t>(c.level)].add(static_cast<std::uint32_t>(from), to_count(c.gap));
            columns_hold_up_their_banks_ =
                columns_hold_up_their_banks_ || (c.level == DramLevel::bank && is_column(c.from) && is_column(c.to));
        }
    }
    for (std::uint32_t base = 0; base < groups; ++base) {
        for (std::uint32_t first = 0; first < interleave; ++first) {
            for (std::uint32_t i = 0; i < interleave; ++i) {
                orders_[base][first][i] = static_cast<std::uint8_t>(base + (first + i) % interleave);
            }
        }
    }
    set_steps(static_cast<Ck>(spec.timing.nbl), static_cast<Ck>(spec.pseudo_channels));
    set_row_steps(spec.rules.row_bus_half_clocks);
    for (std::size_t c = 0; c < isa::kDramCommands; ++c) {
        const auto command = static_cast<DramCommand>(c);
        train_step_[c] =
            static_cast<std::int64_t>(is_column(command) ? step(command == DramCommand::write) : row_step(command));
    }
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
                if (u.command == column) {
                    Ck& least = level <= DramLevel::rank ? step : again;
                    least = std::max<Ck>(least, u.gap);
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
                if (u.command == c) {
                    row_step_[c] = std::max<Ck>(row_step_[c], u.gap);
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

}  // namespace sluice::sim
