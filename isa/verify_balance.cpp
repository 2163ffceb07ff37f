// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <numeric>

#include "isa/control_walker.hpp"

namespace sluice::isa {

namespace {

/// Of the walks of all processors: a run takes as many, and much longer for each.
constexpr std::int64_t kMostSteps = 10'000'000;
constexpr std::int64_t kMostSum = std::int64_t{1} << 62;
constexpr std::size_t kMostNamed = 3;
/// A register that only turns rings may take so many values that matter.
constexpr std::int64_t kMostTurns = 4'096;

using Registers = std::bitset<kRegisterCount>;

std::size_t number_of(Var reg) {
    return static_cast<std::size_t>(reg) - static_cast<std::size_t>(Var::r0);
}

/// sum += count * times, if that stays a sane number.
bool add_product(std::int64_t& sum, std::int64_t count, std::int64_t times) {
    __extension__ using Wide = __int128;
    const Wide total = Wide{count} * times + sum;
    if (total > kMostSum || total < -kMostSum) {
        return false;
    }
    sum = static_cast<std::int64_t>(total);
    return true;
}

/// Of each register: it matters only modulo this number; 0: its value matters.
using Turns = std::array<std::int64_t, kRegisterCount>;

// ---- what matters of a control program ------------------------------------------------------------------------------

/// A statement that bears on semaphores.
struct Step {
    enum class Kind : std::uint8_t { take, give, loop, branch, assign, forget };

    Kind kind = Kind::take;
    const SemUse* use = nullptr;
    const Affine* value = nullptr;          ///< times that it is signalled, count, condition, new value of the register
    const Instruction* issued = nullptr;    ///< null: by the control processor itself
    const SetRegister* assigned = nullptr;  ///< of assign
    std::size_t reg = 0;                    ///< of assign and forget
    int depth = 0;                          ///< loops around it
    std::vector<Step> body, other;

    // Of it and its bodies.
    std::uint32_t indices = 0;  ///< bit d: they use the index of the loop at depth d
    Registers reads, writes;
    Registers needs;    ///< read before they are written
    Registers settles;  ///< written in any case
    /// How much each time adds to a register, where that is always the same and all that happens to it.
    std::array<std::optional<std::int64_t>, kRegisterCount> adds;

    // Of a loop.
    bool uses_index = false;
    Registers carried;                                                  ///< from one iteration to the next
    std::array<std::optional<std::int64_t>, kRegisterCount> adds_once;  ///< in an iteration
};

/// What a list of steps is together.
void summarize(Step& whole, const std::vector<Step>& steps) {
    Registers settled;
    std::array<std::optional<std::int64_t>, kRegisterCount> adds;
    adds.fill(0);
    for (const Step& step : steps) {
        whole.indices |= step.indices;
        whole.reads |= step.reads;
        whole.writes |= step.writes;
        whole.needs |= step.needs & ~settled;
        settled |= step.settles;
        for (std::size_t reg = 0; reg < adds.size(); ++reg) {
            adds[reg] = adds[reg] && step.adds[reg] ? std::optional(*adds[reg] + *step.adds[reg]) : std::nullopt;
        }
    }
    whole.settles = settled;
    whole.adds = adds;
}

class Digest {
public:
    explicit Digest(const ControlProgram& control) {
        turns_.fill(1);
        while (true) {  // registers that others are computed from matter too
            const Registers before = wanted_;
            steps_ = block(control.body, 0);
            if (wanted_ == before) {
                return;
            }
        }
    }
    [[nodiscard]] std::vector<Step> take() { return std::move(steps_); }
    [[nodiscard]] const Turns& turns() const { return turns_; }

private:
    std::vector<Step> block(const Block& statements, int depth) {
        std::vector<Step> out;
        for (const Statement& statement : statements) {
            if (const auto* instruction = std::get_if<Instruction>(&statement.body)) {
                issue(out, *instruction, depth);
            } else if (const auto* wait = std::get_if<WaitStatement>(&statement.body)) {
                add_use(out, Step::Kind::take, wait->use, nullptr, nullptr, depth);
            } else if (const auto* signal = std::get_if<SignalStatement>(&statement.body)) {
                add_use(out, Step::Kind::give, signal->use, nullptr, nullptr, depth);
            } else if (const auto* loop = std::get_if<Loop>(&statement.body)) {
                add_loop(out, *loop, depth);
            } else if (const auto* branch = std::get_if<If>(&statement.body)) {
                add_branch(out, *branch, depth);
            } else if (const auto* set = std::get_if<SetRegister>(&statement.body)) {
                add_assignment(out, set->reg, set, depth);
            } else if (const auto* load = std::get_if<LoadIndex>(&statement.body)) {
                add_assignment(out, load->reg, nullptr, depth);
            }
        }
        return out;
    }

    void issue(std::vector<Step>& out, const Instruction& instruction, int depth) {
        for (const SemUse& use : instruction.waits) {
            add_use(out, Step::Kind::take, use, nullptr, &instruction, depth);
        }
        const auto* tensor = std::get_if<TensorMacro>(&instruction.macro);
        if (tensor != nullptr && tensor->row_signal) {
            add_use(out, Step::Kind::give, *tensor->row_signal, &tensor->mb, &instruction, depth);
        }
        for (const SemUse& use : instruction.signals) {
            add_use(out, Step::Kind::give, use, nullptr, &instruction, depth);
        }
    }

    void add_use(std::vector<Step>& out, Step::Kind kind, const SemUse& use, const Affine* times,
                 const Instruction* issued, int depth) {
        Step step;
        step.kind = kind;
        step.use = &use;
        step.value = times;
        step.issued = issued;
        step.depth = depth;
        step.adds.fill(0);
        for (const Affine* part : {&use.sem.unit, &use.count, times}) {
            if (part != nullptr) {
                read(step, *part);
            }
        }
        read(step, use.sem.index, use.sem.index.ring);
        out.push_back(std::move(step));
    }

    void add_loop(std::vector<Step>& out, const Loop& loop, int depth) {
        Step step;
        step.kind = Step::Kind::loop;
        step.value = &loop.count;
        step.depth = depth;
        step.body = loop.body ? block(*loop.body, depth + 1) : std::vector<Step>{};
        if (step.body.empty()) {
            return;
        }
        summarize(step, step.body);
        step.uses_index = (step.indices >> static_cast<unsigned>(depth) & 1U) != 0;
        step.carried = step.needs & step.writes;
        step.adds_once = step.adds;
        for (std::optional<std::int64_t>& add : step.adds) {
            add = add && (*add == 0 || loop.count.is_constant())
                      ? product(*add, std::max<std::int64_t>(loop.count.base, 0))
                      : std::nullopt;
        }
        step.settles.reset();  // it may not run at all
        read(step, loop.count);
        out.push_back(std::move(step));
    }

    void add_branch(std::vector<Step>& out, const If& branch, int depth) {
        Step step;
        step.kind = Step::Kind::branch;
        step.value = &branch.value;
        step.depth = depth;
        step.body = branch.then_body ? block(*branch.then_body, depth) : std::vector<Step>{};
        step.other = branch.else_body ? block(*branch.else_body, depth) : std::vector<Step>{};
        if (step.body.empty() && step.other.empty()) {
            return;
        }
        summarize(step, step.body);
        const Registers settles = step.settles;
        const auto adds = step.adds;
        summarize(step, step.other);
        step.settles &= settles;
        for (std::size_t reg = 0; reg < adds.size(); ++reg) {
            step.adds[reg] = step.adds[reg] == adds[reg] ? adds[reg] : std::nullopt;
        }
        read(step, branch.value);
        out.push_back(std::move(step));
    }

    void add_assignment(std::vector<Step>& out, std::size_t reg, const SetRegister* set, int depth) {
        if (!wanted_[reg]) {
            return;
        }
        Step step;
        step.kind = set != nullptr ? Step::Kind::assign : Step::Kind::forget;
        step.assigned = set;
        step.reg = reg;
        step.depth = depth;
        step.writes.set(reg);
        step.settles.set(reg);
        step.adds.fill(0);
        step.adds[reg].reset();
        if (set != nullptr) {
            step.value = &set->value;
            read(step, set->value);
            if (set->add) {
                step.needs.set(reg);
                step.settles.reset(reg);
                step.adds[reg] = set->value.is_constant() ? std::optional(set->value.base) : std::nullopt;
            }
        }
        out.push_back(std::move(step));
    }

    /// `ring`: the register only turns a ring of that many semaphores.
    void read(Step& step, const Affine& value, std::int64_t ring = 0) {
        for (const Term& term : value.terms) {
            if (is_register(term.var)) {
                const std::size_t reg = number_of(term.var);
                step.reads.set(reg);
                step.needs.set(reg);
                wanted_.set(reg);
                turns_[reg] = ring == 0 ? 0 : std::lcm(turns_[reg], ring);
                turns_[reg] = turns_[reg] > kMostTurns ? 0 : turns_[reg];
            } else if (term.var < loop_var(kMaxLoopDepth)) {
                step.indices |= 1U << static_cast<unsigned>(term.var);
            }
        }
    }
    static std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
        std::int64_t out = 0;
        return add_product(out, a, b) ? std::optional(out) : std::nullopt;
    }

    Registers wanted_;
    Turns turns_;
    std::vector<Step> steps_;
};

// ---- sums -----------------------------------------------------------------------------------------------------------

struct User {
    const Step* step;
    const ControlProgram* control;
    friend bool operator==(const User&, const User&) = default;
};

struct Sum {
    std::int64_t first = 0, given = 0, taken = 0;
    bool known = true;
    std::vector<User> givers, takers;  ///< at most one more than are named
};

class Sums {
public:
    explicit Sums(const ChipLimits& limits) : limits_(limits) {
        for (const Level level : {Level::tile, Level::cluster, Level::chip}) {
            of(level).resize(static_cast<std::size_t>(limits.units(level) * limits.semaphores(level)));
        }
    }

    Sum& at(Level level, std::int64_t unit, std::int64_t index) {
        return of(level).at(static_cast<std::size_t>(unit * limits_.semaphores(level) + index));
    }
    /// Nothing is known of this semaphore, in any unit; without an index, of none of this level.
    void blur(Level level, std::optional<std::int64_t> index) {
        const std::int64_t per_unit = limits_.semaphores(level);
        for (std::size_t i = 0; i < of(level).size(); ++i) {
            if (!index || static_cast<std::int64_t>(i) % per_unit == *index) {
                of(level)[i].known = false;
            }
        }
    }

private:
    std::vector<Sum>& of(Level level) { return sums_.at(static_cast<std::size_t>(level)); }

    const ChipLimits& limits_;
    std::array<std::vector<Sum>, 3> sums_;
};

// ---- the walk -------------------------------------------------------------------------------------------------------

/// Walks one processor's program.
class Walk {
public:
    Walk(Sums& sums, const ControlProgram& control, const Turns& turns, const Environment& ids, std::int64_t& budget)
        : sums_(sums), control_(control), turns_(turns), env_(ids), budget_(budget) {}

    /// False: it was given up.
    bool run(const std::vector<Step>& steps, std::int64_t times = 1) {
        return std::all_of(steps.begin(), steps.end(),
                           [&](const Step& step) { return --budget_ >= 0 && take(step, times); });
    }

    /// All semaphores that these steps may use are unknown.
    void blur(const std::vector<Step>& steps) {
        for (const Step& step : steps) {
            if (step.use != nullptr) {
                const Affine& index = step.use->sem.index;
                sums_.blur(step.use->sem.level,
                           index.is_constant() ? std::optional<std::int64_t>(index.base) : std::nullopt);
            }
            blur(step.body);
            blur(step.other);
        }
    }

private:
    bool take(const Step& step, std::int64_t times) {
        switch (step.kind) {
            case Step::Kind::take:
            case Step::Kind::give: count(step, times); return true;
            case Step::Kind::loop: return loop(step, times);
            case Step::Kind::branch: return branch(step, times);
            case Step::Kind::assign: return assign(step);
            case Step::Kind::forget: unknown_.set(step.reg); return true;
        }
        return true;
    }

    void count(const Step& step, std::int64_t times) {
        if (is_unknown(step.use->sem.unit) || is_unknown(step.use->sem.index) || is_unknown(step.use->count) ||
            (step.value != nullptr && is_unknown(*step.value))) {
            blur({step});
            return;
        }
        const SemRef& sem = step.use->sem;
        const std::int64_t unit = sem.unit.evaluate(env_);
        const std::int64_t index = sem.index.evaluate(env_);
        std::int64_t signals = 0;
        const bool sane = add_product(signals, times, step.value == nullptr ? 1 : step.value->evaluate(env_));
        for_bits(sem.mask == 0 ? 1 : sem.mask, [&](std::int64_t bit) {
            Sum& sum = sums_.at(sem.level, unit + bit, index);
            const bool gives = step.kind == Step::Kind::give;
            sum.known = add_product(gives ? sum.given : sum.taken, step.use->count.evaluate(env_), signals) && sane &&
                        sum.known;
            std::vector<User>& users = gives ? sum.givers : sum.takers;
            const User user{&step, &control_};
            if (users.size() <= kMostNamed && std::find(users.begin(), users.end(), user) == users.end()) {
                users.push_back(user);
            }
        });
    }

    bool loop(const Step& step, std::int64_t times) {
        if (is_unknown(*step.value)) {
            skip(step);
            return true;
        }
        const std::int64_t iterations = step.value->evaluate(env_);
        const std::optional<std::int64_t> period = period_of(step);
        if (!period || iterations <= *period) {
            return iterate(step, iterations, times);
        }
        // Iterations that are a period apart do the same.
        const Environment before = env_;
        env_[static_cast<std::size_t>(loop_var(step.depth))] = 0;
        for (std::int64_t i = 0; i < *period; ++i) {
            std::int64_t all = 0;
            if (!add_product(all, (iterations - i - 1) / *period + 1, times) || !run(step.body, all)) {
                return false;
            }
        }
        return turn(step, before, iterations);
    }

    bool iterate(const Step& step, std::int64_t iterations, std::int64_t times) {
        for (std::int64_t i = 0; i < iterations; ++i) {
            env_[static_cast<std::size_t>(loop_var(step.depth))] = i;
            if (!run(step.body, times)) {
                return false;
            }
        }
        return true;
    }

    /// After so many iterations of a loop its body does the same again.
    [[nodiscard]] std::optional<std::int64_t> period_of(const Step& step) const {
        if (step.uses_index) {
            return std::nullopt;
        }
        std::int64_t period = 1;
        for (std::size_t reg = 0; reg < turns_.size(); ++reg) {
            if (step.carried[reg]) {
                if (turns_[reg] == 0 || !step.adds_once[reg] || unknown_[reg]) {
                    return std::nullopt;
                }
                period = std::lcm(period, turns_[reg] / std::gcd(turns_[reg], *step.adds_once[reg]));
                if (period > kMostTurns) {
                    return std::nullopt;
                }
            }
        }
        return period;
    }

    /// Registers that a loop adds to, after all its iterations.
    bool turn(const Step& step, const Environment& before, std::int64_t iterations) {
        for (std::size_t reg = 0; reg < turns_.size(); ++reg) {
            const auto at = static_cast<std::size_t>(register_var(static_cast<int>(reg)));
            if (step.carried[reg]) {
                env_[at] = before[at];
                if (!add_product(env_[at], *step.adds_once[reg], iterations) ||
                    !keeps_ranges(step.body, reg, env_[at])) {
                    return false;
                }
            }
        }
        return true;
    }
    /// A register that only grows, or only shrinks, has stayed within what its statements declare.
    static bool keeps_ranges(const std::vector<Step>& steps, std::size_t reg, std::int64_t value) {
        return std::all_of(steps.begin(), steps.end(), [&](const Step& step) {
            const bool here = step.kind != Step::Kind::assign || step.reg != reg ||
                              (value >= step.assigned->lowest && value <= step.assigned->highest);
            return here && keeps_ranges(step.body, reg, value) && keeps_ranges(step.other, reg, value);
        });
    }

    bool branch(const Step& step, std::int64_t times) {
        if (is_unknown(*step.value)) {
            skip(step);
            return true;
        }
        return run(step.value->evaluate(env_) >= 0 ? step.body : step.other, times);
    }

    bool assign(const Step& step) {
        const SetRegister& set = *step.assigned;
        if (is_unknown(set.value) || (set.add && unknown_[step.reg])) {
            unknown_.set(step.reg);
            return true;
        }
        std::int64_t& reg = env_[static_cast<std::size_t>(register_var(static_cast<int>(step.reg)))];
        const std::int64_t value = set.value.evaluate(env_) + (set.add ? reg : 0);
        reg = value;
        unknown_.reset(step.reg);
        return value >= set.lowest && value <= set.highest;  // else a run stops here
    }

    /// It is not known which of its steps are done.
    void skip(const Step& step) {
        blur(step.body);
        blur(step.other);
        unknown_ |= step.writes;
    }

    [[nodiscard]] bool is_unknown(const Affine& value) const {
        return unknown_.any() && std::any_of(value.terms.begin(), value.terms.end(), [this](const Term& term) {
                   return is_register(term.var) && unknown_[number_of(term.var)];
               });
    }

    Sums& sums_;
    const ControlProgram& control_;
    const Turns& turns_;
    Environment env_;
    Registers unknown_;
    std::int64_t& budget_;
};

// ---- words ----------------------------------------------------------------------------------------------------------

std::string users(const char* verb, const std::vector<User>& all) {
    std::vector<std::string> names;
    for (const User& user : all) {
        const Instruction* issued = user.step->issued;
        names.push_back(issued == nullptr ? fmt::format("control program {}", user.control->name)
                                          : fmt::format("{}.{} \"{}\"", name(issued->queue.engine), issued->queue.lane,
                                                        issued->label));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.size() > kMostNamed) {
        names.back() = "others";
    }
    return names.empty() ? fmt::format("{} nowhere", verb) : fmt::format("{} by {}", verb, fmt::join(names, ", "));
}

bool balanced(const Sum& sum) {
    return !sum.known || sum.given == sum.taken;
}
bool alike(const Sum& a, const Sum& b) {
    return a.known == b.known && a.first == b.first && a.given == b.given && a.taken == b.taken;
}

void note(const Sum& sum, Problems& problems) {
    const std::string who = fmt::format("({}; {})", users("waited for", sum.takers), users("signalled", sum.givers));
    const std::int64_t end = sum.first + sum.given - sum.taken;
    if (end < 0) {
        problems.note(fmt::format("waits for {} in all, but only {} ever come: it cannot finish {}", sum.taken,
                                  sum.first + sum.given, who));
    } else {
        problems.note(fmt::format("ends at {}, it began with {}: a program leaves its semaphores as it found them {}",
                                  end, sum.first, who));
    }
}

/// Units in a row that have the same problem have it together.
void report(Sums& sums, const ChipLimits& limits, Problems& problems) {
    for (const Level level : {Level::tile, Level::cluster, Level::chip}) {
        for (std::int64_t index = 0; index < limits.semaphores(level); ++index) {
            for (std::int64_t unit = 0; unit < limits.units(level);) {
                const Sum& sum = sums.at(level, unit, index);
                std::int64_t end = unit + 1;
                while (end < limits.units(level) && alike(sum, sums.at(level, end, index))) {
                    ++end;
                }
                if (!balanced(sum)) {
                    problems.at(end == unit + 1
                                    ? fmt::format("semaphore {}({})[{}]", name(level), unit, index)
                                    : fmt::format("semaphores {}({}..{})[{}]", name(level), unit, end - 1, index));
                    note(sum, problems);
                }
                unit = end;
            }
        }
    }
}

}  // namespace

void verify_balance(Verification& all) {
    Sums sums(all.limits);
    for (const SemInit& init : all.program.semaphores) {
        for (std::int64_t i = 0; i < init.units; ++i) {
            sums.at(init.sem.level, init.sem.unit + i, init.sem.index).first = init.value;
        }
    }
    std::vector<std::vector<Step>> digests;  // the sums point into them
    std::int64_t budget = kMostSteps;
    for (const ControlProgram& control : all.program.controls) {
        Digest digest(control);
        const std::vector<Step>& steps = digests.emplace_back(digest.take());
        for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
            Walk walk(sums, control, digest.turns(), processor_ids(control.level, unit, all.limits.tiles_per_cluster()),
                      budget);
            if (!walk.run(steps)) {
                walk.blur(steps);
            }
        }
    }
    report(sums, all.limits, all.problems);
}

}  // namespace sluice::isa
