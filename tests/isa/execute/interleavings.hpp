// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every interleaving of a tiny program, one by one, from the rules of isa/README.md alone: the reference that the order
// of happens_before.hpp is held against. Knows programs without loops, branches and variables, whose queues never fill.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "isa/program.hpp"

namespace sluice::test {

class Interleavings {
public:
    explicit Interleavings(const isa::Program& program) {
        for (const isa::SemInit& init : program.semaphores) {
            for (std::int64_t i = 0; i < init.units; ++i) {
                initial_[semaphore(init.sem.level, init.sem.unit + i, init.sem.index)] = init.value;
            }
        }
        for (const isa::ControlProgram& control : program.controls) {
            for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
                read(control, unit);
            }
        }
        explore();
    }

    [[nodiscard]] std::size_t instructions() const { return labels_.size(); }
    [[nodiscard]] const std::string& label(std::size_t instruction) const { return labels_[instruction]; }
    [[nodiscard]] std::size_t states() const { return states_; }
    [[nodiscard]] bool can_finish() const { return finishes_; }
    [[nodiscard]] bool can_deadlock() const { return deadlocks_; }
    /// Two waits of different threads on one semaphore that come in this order in one interleaving and in the other
    /// order in another.
    [[nodiscard]] bool waits_compete() const {
        return std::any_of(overtaken_.begin(), overtaken_.end(), [this](const auto& pair) {
            return overtaken_.count({pair.second, pair.first}) != 0;
        });
    }
    /// Neither always ends before the other starts.
    [[nodiscard]] bool unordered(std::size_t a, std::size_t b) const {
        for (std::size_t part_a = 0; part_a < parts_[a]; ++part_a) {
            for (std::size_t part_b = 0; part_b < parts_[b]; ++part_b) {
                if (starts_before_end_.count({b, a, part_a}) != 0 && starts_before_end_.count({a, b, part_b}) != 0) {
                    return true;
                }
            }
        }
        return false;
    }

private:
    using Counts = std::vector<std::pair<std::size_t, std::int64_t>>;  ///< semaphore, units
    struct Item {
        std::size_t instruction;
        Counts waits;
        std::vector<Counts> ends;  ///< what the end of each part signals
    };
    struct Queue {
        bool overlaps = false;
        std::vector<Item> items;
    };
    struct Step {
        bool waits = false, signals = false;
        std::size_t queue = 0;  ///< of an issue
        Counts counts;
    };
    /// How far everybody has come; the semaphores follow from it.
    struct State {
        std::vector<std::uint8_t> processors;              ///< steps done
        std::vector<std::uint8_t> issued, started, ended;  ///< of each queue; `ended` counts parts
        std::vector<std::int64_t> values;
    };

    std::size_t semaphore(isa::Level level, std::int64_t unit, std::int64_t index) {
        const auto number =
            semaphores_.try_emplace({static_cast<int>(level), unit, index}, semaphores_.size()).first->second;
        initial_.resize(semaphores_.size(), 0);
        return number;
    }
    Counts read(const std::vector<isa::SemUse>& uses) {
        Counts out;
        for (const isa::SemUse& use : uses) {
            out.emplace_back(semaphore(use.sem.level, use.sem.unit.base, use.sem.index.base), use.count.base);
        }
        return out;
    }
    void read(const isa::ControlProgram& control, std::int64_t unit) {
        std::vector<Step> steps;
        for (const isa::Statement& statement : control.body) {
            if (const auto* wait = std::get_if<isa::WaitStatement>(&statement.body)) {
                steps.push_back({true, false, 0, read({wait->use})});
            } else if (const auto* signal = std::get_if<isa::SignalStatement>(&statement.body)) {
                steps.push_back({false, true, 0, read({signal->use})});
            } else {
                const std::size_t queue = read(std::get<isa::Instruction>(statement.body), control.level, unit);
                steps.push_back({false, false, queue, {}});
            }
        }
        processors_.push_back(std::move(steps));
    }
    std::size_t read(const isa::Instruction& instruction, isa::Level level, std::int64_t unit) {
        const auto place = std::make_tuple(static_cast<int>(level), unit, static_cast<int>(instruction.queue.engine),
                                           static_cast<int>(instruction.queue.lane));
        const std::size_t number = queue_numbers_.try_emplace(place, queues_.size()).first->second;
        if (number == queues_.size()) {
            queues_.emplace_back();
            const isa::Engine engine = instruction.queue.engine;
            queues_.back().overlaps = engine == isa::Engine::tdma || engine == isa::Engine::cdma;
        }
        Item item{labels_.size(), read(instruction.waits), {}};
        const auto* tensor = std::get_if<isa::TensorMacro>(&instruction.macro);
        const bool by_rows = tensor != nullptr && tensor->row_signal;
        for (std::int64_t row = 0; row < (by_rows ? tensor->mb.base : 1); ++row) {
            item.ends.push_back(by_rows ? read({*tensor->row_signal}) : Counts{});
        }
        for (const auto& signal : read(instruction.signals)) {
            item.ends.back().push_back(signal);
        }
        labels_.push_back(instruction.label);
        parts_.push_back(item.ends.size());
        queues_[number].items.push_back(std::move(item));
        return number;
    }

    // ---- states

    [[nodiscard]] static bool enough(const State& state, const Counts& waits) {
        std::map<std::size_t, std::int64_t> wanted;
        for (const auto& [number, units] : waits) {
            wanted[number] += units;
        }
        return std::all_of(wanted.begin(), wanted.end(),
                           [&state](const auto& wait) { return state.values[wait.first] >= wait.second; });
    }
    static void add(State& state, const Counts& counts, std::int64_t sign) {
        for (const auto& [number, units] : counts) {
            state.values[number] += sign * units;
        }
    }
    /// Instructions of the queue of which all parts have ended, and parts of the next one that have.
    [[nodiscard]] static std::pair<std::size_t, std::size_t> ended(const Queue& queue, std::size_t parts) {
        std::size_t item = 0;
        while (item < queue.items.size() && parts >= queue.items[item].ends.size()) {
            parts -= queue.items[item++].ends.size();
        }
        return {item, parts};
    }
    /// Issuing holds nobody up and nobody sees it: it is done at once.
    void issue(State& state) const {
        for (std::size_t i = 0; i < processors_.size(); ++i) {
            while (state.processors[i] < processors_[i].size()) {
                const Step& step = processors_[i][state.processors[i]];
                if (step.waits || step.signals) {
                    break;
                }
                ++state.issued[step.queue];
                ++state.processors[i];
            }
        }
    }
    [[nodiscard]] static std::string key(const State& state) {
        std::string out(state.processors.begin(), state.processors.end());
        out.append(state.started.begin(), state.started.end());
        out.append(state.ended.begin(), state.ended.end());
        return out;
    }

    void visit(State state) {
        issue(state);
        if (seen_.insert(key(state)).second) {
            open_.push_back(std::move(state));
        }
    }
    void explore() {
        visit({std::vector<std::uint8_t>(processors_.size()), std::vector<std::uint8_t>(queues_.size()),
               std::vector<std::uint8_t>(queues_.size()), std::vector<std::uint8_t>(queues_.size()), initial_});
        while (!open_.empty()) {
            const State state = std::move(open_.front());
            open_.pop_front();
            ++states_;
            std::size_t moves = 0;
            for (std::size_t i = 0; i < processors_.size(); ++i) {
                moves += move_processor(state, i) ? 1U : 0U;
            }
            for (std::size_t q = 0; q < queues_.size(); ++q) {
                moves += start(state, q) ? 1U : 0U;
                moves += end(state, q) ? 1U : 0U;
            }
            if (moves == 0) {
                (is_final(state) ? finishes_ : deadlocks_) = true;
            }
        }
        seen_.clear();
    }
    [[nodiscard]] bool is_final(const State& state) const {
        for (std::size_t i = 0; i < processors_.size(); ++i) {
            if (state.processors[i] != processors_[i].size()) {
                return false;
            }
        }
        for (std::size_t q = 0; q < queues_.size(); ++q) {
            if (ended(queues_[q], state.ended[q]).first != queues_[q].items.size()) {
                return false;
            }
        }
        return true;
    }

    bool move_processor(const State& state, std::size_t i) {
        if (state.processors[i] == processors_[i].size()) {
            return false;
        }
        const Step& step = processors_[i][state.processors[i]];
        if (step.waits && !enough(state, step.counts)) {
            return false;
        }
        if (step.waits) {
            take(state, step.counts, {true, i, state.processors[i]});
        }
        State next = state;
        add(next, step.counts, step.waits ? -1 : 1);
        ++next.processors[i];
        visit(std::move(next));
        return true;
    }
    bool start(const State& state, std::size_t q) {
        const Queue& queue = queues_[q];
        const std::size_t at = state.started[q];
        if (at == state.issued[q] || !enough(state, queue.items[at].waits) ||
            (!queue.overlaps && ended(queue, state.ended[q]).first != at)) {
            return false;
        }
        take(state, queue.items[at].waits, {false, q, at});
        for (std::size_t other = 0; other < queues_.size(); ++other) {
            const auto [items, parts] = ended(queues_[other], state.ended[other]);
            for (std::size_t i = items; i < queues_[other].items.size(); ++i) {
                for (std::size_t part = i == items ? parts : 0; part < queues_[other].items[i].ends.size(); ++part) {
                    starts_before_end_.insert({queue.items[at].instruction, queues_[other].items[i].instruction, part});
                }
            }
        }
        State next = state;
        add(next, queue.items[at].waits, -1);
        ++next.started[q];
        visit(std::move(next));
        return true;
    }
    bool end(const State& state, std::size_t q) {
        const auto [item, part] = ended(queues_[q], state.ended[q]);
        if (item >= state.started[q]) {
            return false;
        }
        State next = state;
        add(next, queues_[q].items[item].ends[part], 1);
        ++next.ended[q];
        visit(std::move(next));
        return true;
    }

    /// A wait: of a processor, or of a queue's instruction; by number within it.
    using Wait = std::tuple<bool, std::size_t, std::size_t>;

    /// The waits of other threads that are still to come have been overtaken by this one.
    void take(const State& state, const Counts& counts, const Wait& wait) {
        const auto overtake = [&](const Counts& others, const Wait& other) {
            if (std::get<0>(other) == std::get<0>(wait) && std::get<1>(other) == std::get<1>(wait)) {
                return;
            }
            for (const auto& [number, units] : counts) {
                for (const auto& [theirs, wanted] : others) {
                    if (number == theirs) {
                        overtaken_.insert({other, wait});
                    }
                }
            }
        };
        for (std::size_t i = 0; i < processors_.size(); ++i) {
            for (std::size_t step = state.processors[i]; step < processors_[i].size(); ++step) {
                if (processors_[i][step].waits) {
                    overtake(processors_[i][step].counts, {true, i, step});
                }
            }
        }
        for (std::size_t q = 0; q < queues_.size(); ++q) {
            for (std::size_t item = state.started[q]; item < queues_[q].items.size(); ++item) {
                overtake(queues_[q].items[item].waits, {false, q, item});
            }
        }
    }

    std::map<std::tuple<int, std::int64_t, std::int64_t>, std::size_t> semaphores_;
    std::vector<std::int64_t> initial_;
    std::map<std::tuple<int, std::int64_t, int, int>, std::size_t> queue_numbers_;
    std::vector<Queue> queues_;
    std::vector<std::vector<Step>> processors_;
    std::vector<std::string> labels_;
    std::vector<std::size_t> parts_;

    std::deque<State> open_;
    std::unordered_set<std::string> seen_;
    std::size_t states_ = 0;
    bool finishes_ = false, deadlocks_ = false;
    struct Triple {
        std::size_t starter, other, part;
        friend bool operator<(const Triple& a, const Triple& b) {
            return std::tie(a.starter, a.other, a.part) < std::tie(b.starter, b.other, b.part);
        }
    };
    std::set<Triple> starts_before_end_;
    std::set<std::pair<Wait, Wait>> overtaken_;  ///< the first, by the second
};

}  // namespace sluice::test
