// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/verify_macros.hpp"

namespace sluice::isa {

namespace {

class ControlVerifier {
public:
    ControlVerifier(Verification& all, const ControlProgram& control)
        : checker_(all, control), position_(checker_.position), control_(control) {}

    void run() {
        Registers first = ranges_in(control_.body);
        for (std::optional<Interval>& range : first) {
            range = range ? std::optional<Interval>({0, 0}) : range;  // nothing is known of one that is never set
        }
        set(first);
        check(control_.body);
        checker_.finish();
    }

    void operator()(const Loop& loop) {
        const std::optional<Interval> count = position_.scope.bounds(loop.count);
        if (!count) {
            checker_.note_unbounded("a loop's count");
            return;
        }
        if (position_.depth == kMaxLoopDepth) {
            checker_.note(fmt::format("more than {} nested loops", kMaxLoopDepth));
            return;
        }
        if (count->highest <= 0 || !loop.body) {
            return;
        }
        const Registers before = registers();
        join(ranges_in(*loop.body));  // of earlier iterations
        const Var index = loop_var(position_.depth);
        position_.scope.define(index, {0, count->highest - 1});
        // index <= count - 1, which is sharper than the box where the count depends on outer indices.
        Quantity left(loop.count);
        left.add(variable(index, -1) - 1);
        position_.scope.push_constraint(left);
        ++position_.depth;
        check(*loop.body);
        --position_.depth;
        position_.scope.pop_constraint();
        if (count->lowest < 1) {
            join(before);
        }
    }
    void operator()(const If& branch) {
        const std::optional<Interval> range = position_.scope.bounds(branch.value);
        if (!range) {
            checker_.note_unbounded("a condition");
            return;
        }
        const Registers before = registers();
        if (range->highest >= 0 && branch.then_body) {
            check_under(branch.value, *branch.then_body);
        }
        if (range->lowest >= 0) {
            return;
        }
        const Registers then_end = registers();
        set(before);
        if (branch.else_body) {
            Quantity negative = Quantity(branch.value).negative();
            negative.add(-1);
            check_under(negative, *branch.else_body);
        }
        if (range->highest >= 0) {
            join(then_end);
        }
    }
    void operator()(const WaitStatement& wait) { check_wait(wait.use); }
    void operator()(const SignalStatement& signal) { check_signal(signal.use); }
    void operator()(const DelayStatement& delay) {
        (void)checker_.require(delay.cycles, 0, kMaxDelayCycles, "a delay");
    }
    void operator()(const LoadIndex& load) {
        const IndexTable* table = find_table(load.table);
        if (table == nullptr) {
            checker_.note(fmt::format("no table \"{}\"", load.table));
            return;
        }
        (void)checker_.require(load.element, 0, table->count - 1, "a table element");
        define(load.reg, {table->lowest, table->highest});
    }
    void operator()(const SetRegister& set) {
        // What registers bear on is checked in the run, and taken as declared here.
        const bool known = !set.add && !uses_register(set.value) && !position_.scope.depends_on_registers();
        (void)checker_.require(set.value, known ? set.lowest : -kAnything, known ? set.highest : kAnything,
                               "a register's value");
        define(set.reg, {set.lowest, set.highest});
    }
    void operator()(const Instruction& instruction) {
        checker_.all.problems.at(fmt::format("control program {}, {}.{} \"{}\"", control_.name,
                                             name(instruction.queue.engine), instruction.queue.lane,
                                             instruction.label));
        check_queue(instruction.queue);
        const ControlSpec& limits = checker_.all.limits.chip().control;
        check_number("waits", instruction.waits.size(), limits.max_waits);
        check_number("signals", instruction.signals.size(), limits.max_signals);
        for (const SemUse& use : instruction.waits) {
            check_wait(use);
        }
        check_waits_apart(instruction.waits);
        for (const SemUse& use : instruction.signals) {
            check_signal(use);
        }
        (void)checker_.require(instruction.node, 0, checker_.all.most_node, "the plan node (declare it with `node`)");
        const auto* tensor = std::get_if<TensorMacro>(&instruction.macro);
        if (tensor != nullptr && tensor->row_signal) {
            check_signal(*tensor->row_signal);
        }
        std::visit(MacroVerifier(checker_, instruction.queue), instruction.macro);
    }

private:
    void check(const Block& block) {
        for (const Statement& statement : block) {
            checker_.all.problems.at("control program " + control_.name);
            checker_.at(statement);
            std::visit(*this, statement.body);
        }
    }
    void check_under(const Quantity& constraint, const Block& block) {
        position_.scope.push_constraint(constraint);
        check(block);
        position_.scope.pop_constraint();
    }

    // What each register may hold: what the statements before declare.
    using Registers = std::array<std::optional<Interval>, kRegisterCount>;

    void define(std::uint8_t reg, Interval range) { position_.scope.define(register_var(reg), range); }
    [[nodiscard]] Registers registers() const {
        Registers out;
        for (std::size_t reg = 0; reg < out.size(); ++reg) {
            out[reg] = position_.scope.interval(register_var(static_cast<int>(reg)));
        }
        return out;
    }
    void set(const Registers& values) {
        for (std::size_t reg = 0; reg < values.size(); ++reg) {
            if (values[reg]) {
                define(static_cast<std::uint8_t>(reg), *values[reg]);
            }
        }
    }
    /// They may hold these values too.
    void join(const Registers& values) {
        Registers all = registers();
        for (std::size_t reg = 0; reg < all.size(); ++reg) {
            widen(all[reg], values[reg]);
        }
        set(all);
    }
    static void widen(std::optional<Interval>& range, const std::optional<Interval>& more) {
        if (range && more) {
            range = {std::min(range->lowest, more->lowest), std::max(range->highest, more->highest)};
        } else if (more) {
            range = more;
        }
    }
    /// All values that statements of a block give.
    [[nodiscard]] Registers ranges_in(const Block& block) const {
        Registers out;
        const auto inside = [&](const std::shared_ptr<Block>& body) {
            const Registers more = body ? ranges_in(*body) : Registers{};
            for (std::size_t reg = 0; reg < out.size(); ++reg) {
                widen(out[reg], more[reg]);
            }
        };
        for (const Statement& statement : block) {
            if (const auto* set = std::get_if<SetRegister>(&statement.body)) {
                widen(out.at(set->reg), Interval{set->lowest, set->highest});
            } else if (const auto* load = std::get_if<LoadIndex>(&statement.body)) {
                if (const IndexTable* table = find_table(load->table)) {
                    widen(out.at(load->reg), Interval{table->lowest, table->highest});
                }
            } else if (const auto* loop = std::get_if<Loop>(&statement.body)) {
                inside(loop->body);
            } else if (const auto* branch = std::get_if<If>(&statement.body)) {
                inside(branch->then_body);
                inside(branch->else_body);
            }
        }
        return out;
    }
    [[nodiscard]] const IndexTable* find_table(const std::string& table) const {
        const std::vector<IndexTable>& tables = checker_.all.program.tables;
        const auto found = std::find_if(tables.begin(), tables.end(),
                                        [&table](const IndexTable& entry) { return entry.name == table; });
        return found == tables.end() ? nullptr : &*found;
    }

    void check_queue(const QueueId& queue) {
        const std::int64_t lanes = checker_.all.limits.lanes(queue.engine);
        if (queue.lane >= lanes) {
            checker_.note(fmt::format("{} has channels or contexts 0..{}", name(queue.engine), lanes - 1));
        }
        const Level owner = queue.engine == Engine::cdma ? Level::cluster : Level::tile;
        if (control_.level != owner) {
            checker_.note(
                fmt::format("a {}'s control program cannot issue to {}", name(control_.level), name(queue.engine)));
        }
    }
    void check_number(const char* what, std::size_t found, std::int64_t most) {
        if (found > static_cast<std::size_t>(most)) {
            checker_.note(fmt::format("{} {}, an instruction has at most {}", found, what, most));
        }
    }

    std::optional<Interval> check_semaphore(const SemUse& use) {
        const ChipLimits& limits = checker_.all.limits;
        (void)checker_.require_unit(use.sem.unit, use.sem.mask, limits.units(use.sem.level), "a semaphore's unit");
        (void)checker_.require(use.count, 0, limits.semaphore_value(), "a semaphore count");
        return checker_.require(use.sem.index, 0, limits.semaphores(use.sem.level) - 1, "a semaphore's index");
    }
    void check_wait(const SemUse& use) {
        if (use.sem.mask != 0) {
            checker_.note("a wait cannot have a mask");
        }
        if (const std::optional<Interval> index = check_semaphore(use); index && index->lowest == index->highest) {
            checker_.all.waited.try_emplace({use.sem.level, index->lowest}, checker_.all.problems.where());
        }
    }
    /// Each wait of an instruction is held against its semaphore's value by itself: two on one would take more than
    /// there is.
    void check_waits_apart(const std::vector<SemUse>& waits) {
        for (std::size_t i = 0; i < waits.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                const SemRef& one = waits[i].sem;
                const SemRef& other = waits[j].sem;
                if (one.level == other.level && !differ(one.index, other.index) && check_apart(one, other)) {
                    return;
                }
            }
        }
    }
    /// True: noted.
    bool check_apart(const SemRef& a, const SemRef& b) {
        const auto difference = [](const Affine& from, const Affine& what) {
            Quantity out = from;
            out.add(Quantity(what).negative());
            return out;
        };
        const Quantity units = difference(a.unit, b.unit);
        const Quantity indices = difference(a.index, b.index);
        if (!position_.scope.bounds(units) || !position_.scope.bounds(indices)) {
            return false;  // noted already
        }
        const auto may_be_zero = [](const std::optional<Interval>& range) {
            return !range || (range->lowest <= 0 && range->highest >= 0);
        };
        const Condition same{
            [=](const Scope& scope) { return may_be_zero(scope.bounds(units)) && may_be_zero(scope.bounds(indices)); },
            [=](const Environment& env) { return units.evaluate(env) == 0 && indices.evaluate(env) == 0; },
            {units, indices}};
        return checker_.refuse(same, "waits twice on one semaphore: a single wait must take both counts");
    }
    /// Two rings that turn together never meet, which bounds do not see.
    static bool differ(const Affine& a, const Affine& b) {
        if (a.ring == 0 || a.ring != b.ring || a.terms != b.terms) {
            return false;
        }
        // a - b is one of these two.
        const std::int64_t ahead = a.base - b.base + ((a.phase - b.phase) % a.ring + a.ring) % a.ring;
        return ahead != 0 && ahead != a.ring;
    }
    void check_signal(const SemUse& use) {
        if (const std::optional<Interval> index = check_semaphore(use)) {
            for (std::int64_t i = index->lowest; i <= index->highest; ++i) {
                checker_.all.signalled.insert({use.sem.level, i});
            }
        }
    }

    Checker checker_;
    Position& position_;
    const ControlProgram& control_;
};

}  // namespace

void verify_control_program(Verification& all, const ControlProgram& control) {
    ControlVerifier(all, control).run();
}

}  // namespace sluice::isa
