// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/race_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "isa/control_walker.hpp"
#include "isa/execute/happens_before.hpp"
#include "isa/execute/reachability.hpp"
#include "isa/execute/self_conflict.hpp"
#include "isa/execute/shadow_memory.hpp"

namespace sluice::isa {

namespace {

constexpr std::size_t kReplaysAtOnce = 32;

class RaceCheck {
public:
    RaceCheck(const Program& program, const ChipSpec& chip, const Trace& trace)
        : program_(program),
          chip_(chip),
          trace_(trace),
          numbers_(chip),
          resolver_(program, chip, numbers_),
          order_(trace),
          reachability_(trace) {}

    /// Looks for pairs that the counting of signals leaves unordered, and asks a replay about each; what it shows to be
    /// ordered orders others too. What is left are races.
    RaceReport run() {
        find_self_conflicts();
        order_.solve();
        find_competing_waits();
        do {
            order_.solve();
            forget();
            order_.replay([this](std::uint32_t item, const Clock& clock) { start(item, clock); });
        } while (explain_some());
        find_overflows();
        for (const Race& race : races_) {
            report_.races.push_back(describe(race));
        }
        return std::move(report_);
    }

private:
    struct Run {
        std::uint64_t low = 0, high = 0;  ///< bytes [low, high)
    };
    struct Race {
        AccessId first, second;
        bool first_writes = false, second_writes = false;
        Space space = Space::hbm;
        std::int64_t unit = 0;
        std::vector<Run> bytes;                                          ///< that these two executions meet in
        std::set<std::pair<std::uint32_t, std::uint32_t>> executions{};  ///< instructions
        std::int64_t known = -1;  ///< last instruction of the first one's queue that the second one does come after
    };

    void forget() {
        races_.clear();
        found_.clear();
        suspects_.clear();
        for (const Space space : {Space::hbm, Space::csram, Space::tsram}) {
            std::vector<ShadowMemory>& memories = memories_.at(static_cast<std::size_t>(space));
            memories.clear();
            for (std::int64_t unit = 0; unit < memory_units(chip_, space); ++unit) {
                memories.emplace_back(memory_bytes(chip_, space));
            }
        }
    }

    void find_self_conflicts() {
        std::set<const Instruction*> reported;
        for (std::uint32_t item = 0; item < trace_.instructions.size(); ++item) {
            const Operation& operation = trace_.instructions[item].operation;
            if (reported.count(operation.text) != 0) {
                continue;
            }
            std::vector<Access> all;
            for (std::int64_t part = 0; part < operation.parts(); ++part) {
                const std::vector<Access> of_part = resolver_.accesses(operation, part);
                all.insert(all.end(), of_part.begin(), of_part.end());
            }
            if (const std::optional<std::string> conflict = self_conflict(all)) {
                reported.insert(operation.text);
                report_.self_conflicts.push_back(
                    fmt::format("{} {}: within an instruction nothing is ordered", name_of(item), *conflict));
            }
        }
    }

    /// Semaphores that producers who run ahead can fill beyond their bits.
    void find_overflows() {
        const std::int64_t limit = (std::int64_t{1} << chip_.semaphores.width_bits) - 1;
        for (std::uint32_t semaphore = 0; semaphore < numbers_.count(); ++semaphore) {
            if (const std::int64_t most = order_.highest_value(semaphore); most > limit) {
                report_.races.push_back(
                    fmt::format("semaphore {} may overflow: nothing keeps it from holding {} in some interleaving, and "
                                "it holds {}",
                                numbers_.describe(semaphore), most, limit));
            }
        }
    }

    /// Waits that can take each other's units, one pair a semaphore. Without any, all interleavings do the same things.
    void find_competing_waits() {
        const std::vector<PossibleOvertaking> possible = order_.possible_overtakings();
        for (const PossibleOvertaking& waits : possible) {
            overtakings_[waits.second][waits.semaphore].push_back(waits.first);
        }
        std::set<std::uint32_t> reported;
        for (const PossibleOvertaking& waits : possible) {
            if (reported.count(waits.semaphore) == 0 && can_overtake(waits)) {
                reported.insert(waits.semaphore);
                report_.races.push_back(describe(waits));
            }
        }
    }

    /// The second wait may be early at several semaphores at once: every choice of where it is has to be tried. More
    /// than kMostOvertakingTries count as a yes.
    bool can_overtake(const PossibleOvertaking& waits) {
        std::vector<std::vector<std::uint32_t>> tries{{waits.first}};
        for (const auto& [semaphore, earlier] : overtakings_.at(waits.second)) {
            if (semaphore == waits.semaphore) {
                continue;
            }
            if (tries.size() * (earlier.size() + 1) > kMostOvertakingTries) {
                return true;
            }
            const std::size_t before = tries.size();
            for (const std::uint32_t first : earlier) {
                for (std::size_t i = 0; i < before; ++i) {
                    tries.push_back(tries[i]);
                    tries.back().push_back(first);
                }
            }
        }
        return std::any_of(tries.begin(), tries.end(), [&](const std::vector<std::uint32_t>& earlier) {
            return reachability_.can_take_without(earlier, waits.second);
        });
    }

    /// True if a replay without the end of some suspect showed order that was not known.
    bool explain_some() {
        bool any = false;
        std::size_t replays = 0;
        for (const auto& [first, seconds] : suspects_) {
            if (replays == kReplaysAtOnce && any) {
                break;
            }
            const std::pair<std::uint32_t, std::uint32_t> end{first.first, first.second};
            if (!replayed_.insert(end).second) {
                continue;
            }
            ++replays;
            reachability_.run_without(end.first, end.second);
            if (std::any_of(seconds.begin(), seconds.end(),
                            [this](std::uint32_t second) { return !reachability_.started(second); })) {
                order_.add_order(end.first, end.second, reachability_.stuck());
                any = true;
            }
        }
        return any;
    }

    void start(std::uint32_t item, const Clock& clock) {
        const Operation& operation = trace_.instructions[item].operation;
        const auto ordered = [&](AccessId earlier) {
            const std::uint32_t queue = trace_.instructions[earlier.instruction].queue;
            // A queue does its parts in order; what overlaps in it are whole instructions.
            return (queue == trace_.instructions[item].queue && !trace_.threads[queue].overlaps) ||
                   clock[queue] >= order_.end_tick(earlier.instruction, earlier.part);
        };
        for (std::int64_t part = 0; part < operation.parts(); ++part) {
            const AccessId id{item, static_cast<std::uint32_t>(part)};
            for (const Access& access : resolver_.accesses(operation, part)) {
                ShadowMemory& memory =
                    memories_.at(static_cast<std::size_t>(access.space)).at(static_cast<std::size_t>(access.unit));
                const auto conflict = [&](AccessId earlier, bool wrote, std::uint64_t at, Bytes bytes) {
                    if (earlier.instruction != item) {
                        add({earlier, id, wrote, access.write, access.space, access.unit, {{at, at + bytes}}}, clock);
                    }
                };
                for (std::int64_t outer = 0; outer < access.counts[1]; ++outer) {
                    for (std::int64_t inner = 0; inner < access.counts[0]; ++inner) {
                        const std::int64_t at = access.offset + outer * access.strides[1] + inner * access.strides[0];
                        memory.access(static_cast<std::uint64_t>(at), static_cast<Bytes>(access.run), id, access.write,
                                      ordered, conflict);
                    }
                }
            }
        }
    }

    void add(Race race, const Clock& clock) {
        suspects_[{race.first.instruction, race.first.part}].insert(race.second.instruction);
        const TracedInstruction& first = trace_.instructions[race.first.instruction];
        const TracedInstruction& second = trace_.instructions[race.second.instruction];
        // Either may come first in one execution or another: they are one pair all the same.
        const std::pair<const Instruction*, const Instruction*> texts =
            std::minmax(first.operation.text, second.operation.text, std::less<>());
        const auto [entry, fresh] = found_.try_emplace(texts, races_.size());
        if (fresh) {
            race.known = last_known(first.queue, clock[first.queue]);
            races_.push_back(race);
        }
        Race& known = races_[entry->second];
        known.executions.insert({race.first.instruction, race.second.instruction});
        if (!fresh && known.first.instruction == race.first.instruction &&
            known.second.instruction == race.second.instruction && known.space == race.space &&
            known.unit == race.unit) {
            const Run& more = race.bytes.front();
            if (known.bytes.back().high == more.low) {
                known.bytes.back().high = more.high;
            } else {
                known.bytes.push_back(more);
            }
        }
    }

    /// In their order, with no gap of nothing between two.
    [[nodiscard]] static std::vector<Run> merged(std::vector<Run> runs) {
        std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.low < b.low; });
        std::vector<Run> out;
        for (const Run& run : runs) {
            if (!out.empty() && run.low <= out.back().high) {
                out.back().high = std::max(out.back().high, run.high);
            } else {
                out.push_back(run);
            }
        }
        return out;
    }

    /// The last instruction of a queue that has ended at its tick `tick`.
    [[nodiscard]] std::int64_t last_known(std::uint32_t queue, std::uint32_t tick) const {
        std::int64_t last = -1;
        for (std::uint32_t i = 0; i < trace_.instructions.size(); ++i) {
            const TracedInstruction& entry = trace_.instructions[i];
            if (entry.queue == queue && order_.end_tick(i, entry.operation.parts() - 1) <= tick) {
                last = i;
            }
        }
        return last;
    }

    [[nodiscard]] std::string name_of(std::uint32_t item) const {
        const TracedInstruction& entry = trace_.instructions[item];
        const Place issuer = trace_.threads[entry.processor].place;
        return fmt::format("{} of {}{}", isa::describe(*entry.operation.text), isa::describe(entry.operation.place),
                           loop_indices(program_, chip_, issuer, entry.number));
    }

    [[nodiscard]] std::string describe(const Race& race) const {
        const auto verb = [](bool writes) { return writes ? "writes" : "reads"; };
        const std::vector<Run> bytes = merged(race.bytes);
        const Run& run = bytes.front();
        std::string out = fmt::format("race on {}({}) bytes {}..{}{}", name(race.space), race.unit, run.low,
                                      run.high - 1, region_at(program_, race.space, race.unit, run.low));
        if (bytes.size() > 1) {
            out += fmt::format(", and {} more run{} up to byte {}", bytes.size() - 1, bytes.size() > 2 ? "s" : "",
                               bytes.back().high - 1);
        }
        out += ":\n";
        out += fmt::format("    {} {} them\n", name_of(race.first.instruction), verb(race.first_writes));
        out += fmt::format("    {} {} them\n", name_of(race.second.instruction), verb(race.second_writes));
        out += fmt::format("    missing: an order from the end of the one to the start of the other; the second {}",
                           race.known < 0 ? "comes after nothing of the first one's queue"
                                          : "is only known to come after " +
                                                name_of(static_cast<std::uint32_t>(race.known)) + " in that queue");
        if (race.executions.size() > 1) {
            out += fmt::format("\n    {} executions of this pair in all", race.executions.size());
        }
        return out;
    }

    [[nodiscard]] std::string waiter(std::uint32_t number) const {
        const TraceEvent& event = trace_.events[number];
        return event.kind == EventKind::wait
                   ? "the control program of " + isa::describe(trace_.threads[event.thread].place)
                   : name_of(event.item);
    }
    [[nodiscard]] std::string describe(const PossibleOvertaking& waits) const {
        return fmt::format("race for {}: {} and {} wait for it, and either may take the other's units",
                           numbers_.describe(waits.semaphore), waiter(waits.first), waiter(waits.second));
    }

    const Program& program_;
    const ChipSpec& chip_;
    const Trace& trace_;
    SemaphoreNumbers numbers_;
    Resolver resolver_;
    HappensBefore order_;
    Reachability reachability_;
    std::array<std::vector<ShadowMemory>, 3> memories_;
    std::map<std::pair<const Instruction*, const Instruction*>, std::size_t> found_;  ///< in races_
    std::vector<Race> races_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::uint32_t>> suspects_;  ///< end -> later starts
    std::set<std::pair<std::uint32_t, std::uint32_t>> replayed_;
    RaceReport report_;
    std::map<std::uint32_t, std::map<std::uint32_t, std::vector<std::uint32_t>>>
        overtakings_;  ///< second wait -> semaphore -> first waits that it may overtake
};

}  // namespace

RaceReport check_races(const Program& program, const ChipSpec& chip, const Trace& trace) {
    return RaceCheck(program, chip, trace).run();
}

}  // namespace sluice::isa
