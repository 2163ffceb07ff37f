// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a command is allowed, looked up in all past commands of a pseudo-channel; for dram_reference.hpp.
#include <algorithm>
#include <array>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::test {

using sim::Bank;
using sim::Ck;
using Command = isa::DramCommand;
using Level = isa::DramLevel;

/// All commands that a pseudo-channel was given, and what the constraints make of them.
class DramPast {
public:
    explicit DramPast(const isa::HbmSpec& spec)
        : spec_(spec), groups_(static_cast<Bank>(spec.bank_groups)), sets_(static_cast<Bank>(spec.banks_per_group)) {
        for (const isa::DramConstraint& c : spec.rules.constraints) {
            before_[static_cast<std::size_t>(c.to)].push_back(c);
        }
    }

    void add(Command command, Bank bank, Ck at) {
        for (std::size_t level = 0; level < isa::kDramLevels; ++level) {
            std::vector<Ck>& times =
                times_of(static_cast<Level>(level), part(static_cast<Level>(level), bank), command);
            times.insert(std::upper_bound(times.begin(), times.end(), at), at);
        }
    }

    [[nodiscard]] bool allowed(Command command, Bank bank, Ck at) {
        const std::vector<isa::DramConstraint>& constraints = before_[static_cast<std::size_t>(command)];
        return std::all_of(constraints.begin(), constraints.end(), [&](const isa::DramConstraint& c) {
            const std::size_t own = part(c.level, bank);
            if (!c.others) {
                return kept(c, own, at);
            }
            for (std::size_t rank = 0; rank < static_cast<std::size_t>(spec_.ranks); ++rank) {
                if (rank != own && !kept(c, rank, at)) {
                    return false;
                }
            }
            return true;
        });
    }

    /// The same of commands of one kind, `step` after each other: each counts as given for those after it.
    [[nodiscard]] bool allowed(Command command, const std::vector<Bank>& banks, Ck first, Ck step) {
        std::size_t given = 0;
        while (given < banks.size() && allowed(command, banks[given], first + given * step)) {
            add(command, banks[given], first + given * step);
            ++given;
        }
        const bool all = given == banks.size();
        while (given > 0) {
            --given;
            remove(command, banks[given], first + given * step);
        }
        return all;
    }

private:
    void remove(Command command, Bank bank, Ck at) {
        for (std::size_t level = 0; level < isa::kDramLevels; ++level) {
            std::vector<Ck>& times =
                times_of(static_cast<Level>(level), part(static_cast<Level>(level), bank), command);
            times.erase(std::lower_bound(times.begin(), times.end(), at));
        }
    }
    [[nodiscard]] bool kept(const isa::DramConstraint& c, std::size_t part, Ck at) {
        const std::vector<Ck>& times = times_of(c.level, part, c.from);
        const auto count = static_cast<std::size_t>(c.count);
        return times.size() < count || at >= times[times.size() - count] + static_cast<Ck>(c.gap);
    }
    [[nodiscard]] std::size_t part(Level level, Bank bank) const {
        const Bank rank = bank / groups_ / sets_;
        switch (level) {
            case Level::pseudo_channel: return 0;
            case Level::rank: return rank;
            case Level::bank_group: return rank * groups_ + bank % groups_;
            case Level::bank: break;
        }
        return bank;
    }
    std::vector<Ck>& times_of(Level level, std::size_t part, Command command) {
        std::vector<std::array<std::vector<Ck>, isa::kDramCommands>>& parts = times_[static_cast<std::size_t>(level)];
        if (parts.size() <= part) {
            parts.resize(part + 1);
        }
        return parts[part][static_cast<std::size_t>(command)];
    }

    const isa::HbmSpec& spec_;
    Bank groups_, sets_;
    std::array<std::vector<isa::DramConstraint>, isa::kDramCommands> before_;
    std::array<std::vector<std::array<std::vector<Ck>, isa::kDramCommands>>, isa::kDramLevels> times_;
};

}  // namespace sluice::test
