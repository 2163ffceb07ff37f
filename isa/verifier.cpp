// SPDX-License-Identifier: Apache-2.0
#include "isa/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "isa/bounds.hpp"
#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

__extension__ using Wide = __int128;

constexpr std::size_t kMostReported = 10;
constexpr std::int64_t kOperandAlignment = 32;
class Verifier {
public:
    Verifier(const Program& program, const ChipSpec& chip) : program_(program), chip_(chip) {}

    void run() {
        where_ = "program " + program_.name;
        if (program_.chip != chip_.name) {
            note(fmt::format("was written for chip \"{}\", this is \"{}\"", program_.chip, chip_.name));
        }
        most_node_ = std::max<std::int64_t>(0, static_cast<std::int64_t>(node_names(program_).size()) - 1);
        check_declarations();
        check_coverage();
        for (const ControlProgram& control : program_.controls) {
            check(control);
        }
        for (const auto& [sem, place] : waited_) {
            if (!signalled_.contains(sem)) {
                where_ = place;
                note(fmt::format("waits on a {} semaphore {} that nothing signals", name(sem.first), sem.second));
            }
        }
        report();
    }

private:
    // ---- notes

    void note(const std::string& what) {
        if (problems_.size() <= kMostReported) {
            problems_.push_back(where_ + ": " + what);
        }
    }
    void report() const {
        if (problems_.empty()) {
            return;
        }
        std::string all;
        for (std::size_t i = 0; i < std::min(problems_.size(), kMostReported); ++i) {
            all += (i == 0 ? "" : "\n") + problems_[i];
        }
        if (problems_.size() > kMostReported) {
            all += "\n... and more";
        }
        throw InputError("", all);
    }

    /// Bounds of a value that must lie in [lowest, highest].
    std::optional<Interval> require(const Affine& value, std::int64_t lowest, std::int64_t highest, const char* what) {
        const std::optional<Interval> range = scope_.bounds(value);
        if (!range) {
            note(fmt::format("{} has no bounds: it uses a register or index without a range, or overflows", what));
            return std::nullopt;
        }
        if (range->lowest < lowest || range->highest > highest) {
            note(fmt::format("{} reaches {}..{}, allowed is {}..{}", what, range->lowest, range->highest, lowest,
                             highest));
            return std::nullopt;
        }
        return range;
    }

    // ---- the whole

    [[nodiscard]] std::int64_t units(Level level) const {
        switch (level) {
            case Level::tile: return tile_count(chip_);
            case Level::cluster: return chip_.soc.clusters;
            case Level::chip: break;
        }
        return 1;
    }
    [[nodiscard]] std::int64_t units(Space space) const {
        switch (space) {
            case Space::tsram: return tile_count(chip_);
            case Space::csram: return chip_.soc.clusters;
            case Space::hbm: break;
        }
        return 1;
    }
    [[nodiscard]] std::int64_t capacity(Space space) const {
        switch (space) {
            case Space::tsram: return chip_.tsram.bytes;
            case Space::csram: return chip_.csram.bytes;
            case Space::hbm: break;
        }
        return static_cast<std::int64_t>(hbm_bytes(chip_));
    }
    [[nodiscard]] std::int64_t semaphores(Level level) const {
        switch (level) {
            case Level::tile: return chip_.semaphores.per_tile;
            case Level::cluster: return chip_.semaphores.per_cluster;
            case Level::chip: break;
        }
        return chip_.semaphores.per_chip;
    }
    [[nodiscard]] std::int64_t most_count() const { return (std::int64_t{1} << chip_.semaphores.width_bits) - 1; }

    void check_declarations() {
        for (const Region& region : program_.regions) {
            where_ = "region " + region.name;
            if (region.first_unit + region.units > units(region.space)) {
                note(fmt::format("lies in units up to {}, the chip has {}", region.first_unit + region.units - 1,
                                 units(region.space)));
            }
            const auto size = static_cast<Bytes>(capacity(region.space));
            if (region.offset > size || region.bytes > size - region.offset) {
                note(fmt::format("ends at {}, the memory has {} bytes", region.offset + region.bytes, size));
            }
            if (region.space != Space::hbm && (region.input || region.output)) {
                note("cannot be input or output: the host sees HBM alone");
            }
            if (region.holds) {
                check_tensor(*region.holds, region.bytes);
            }
        }
        std::set<std::tuple<Level, std::int64_t, std::int64_t>> initialised;
        for (const SemInit& init : program_.semaphores) {
            where_ = fmt::format("init {}({})[{}]", name(init.sem.level), init.sem.unit, init.sem.index);
            if (init.sem.unit + init.units > units(init.sem.level) || init.sem.index >= semaphores(init.sem.level)) {
                note("no such semaphore on this chip");
            }
            if (init.value > most_count()) {
                note(fmt::format("value {} does not fit {} bits", init.value, chip_.semaphores.width_bits));
            }
            signalled_.insert({init.sem.level, init.sem.index});
            for (std::int64_t i = 0; i < init.units; ++i) {
                if (!initialised.insert({init.sem.level, init.sem.unit + i, init.sem.index}).second) {
                    note(fmt::format("unit {} has an initial value already", init.sem.unit + i));
                    break;
                }
            }
        }
        std::set<std::string> names;
        for (const VectorProgram& vector : program_.vector_programs) {
            where_ = "vector program " + vector.name;
            if (!names.insert(vector.name).second) {
                note("is defined twice");
            }
            check(vector);
        }
    }

    void check_tensor(const RegionTensor& tensor, Bytes bytes) {
        const FormatInfo& format = info(tensor.format);
        if (format.format == Format::raw || (tensor.row_major && format.block_scaled)) {
            note(fmt::format("cannot hold {}{}", format.name, tensor.row_major ? " row_major" : ""));
        } else if (tensor_bytes(tensor) > bytes) {
            note(fmt::format("holds {} x {} {}, {} bytes, but has {}", tensor.rows, tensor.cols, format.name,
                             tensor_bytes(tensor), bytes));
        }
    }

    /// What a value register of a vector program holds: one value a row lives on in later passes, one an element or a
    /// sum that is still being formed does not.
    struct Value {
        std::size_t pass = 0;
        bool of_row = false;
        bool reduction = false;
    };
    using Values = std::map<int, Value>;

    void check(const VectorProgram& vector) {
        Values values;
        std::int64_t operands = 0;
        for (std::size_t pass = 0; pass < vector.passes.size(); ++pass) {
            for (const VectorStep& step : vector.passes[pass].steps) {
                check_step(step, values, pass);
                if (step.dst >= 0) {
                    values[step.dst] = result_of(step, vector.passes[pass].per_row, values, pass);
                }
                operands = std::max<std::int64_t>(operands, step.operand + 1);
            }
        }
        vector_operands_[vector.name] = operands;
    }

    static Value result_of(const VectorStep& step, bool per_row, const Values& values, std::size_t pass) {
        if (step.op == VectorOp::row_sum || step.op == VectorOp::row_max) {
            return {pass, true, true};
        }
        if (per_row || step.op == VectorOp::load_row || step.op == VectorOp::constant) {
            return {pass, true, false};
        }
        bool of_row = step.operand < 0 && step.op != VectorOp::mask;
        for (const std::int8_t argument : {step.a, step.b, step.c}) {
            const auto found = values.find(argument);
            of_row = of_row && (argument < 0 || (found != values.end() && found->second.of_row));
        }
        return {pass, of_row, false};
    }

    void check_step(const VectorStep& step, const Values& values, std::size_t pass) {
        const int arguments = (step.a >= 0 ? 1 : 0) + (step.b >= 0 ? 1 : 0) + (step.c >= 0 ? 1 : 0);
        int wanted = 1;
        bool defines = true;
        bool memory = false;
        switch (step.op) {
            case VectorOp::load:
            case VectorOp::load_row:
            case VectorOp::load_col:
                wanted = 0;
                memory = true;
                break;
            case VectorOp::constant: wanted = 0; break;
            case VectorOp::store:
            case VectorOp::store_row:
                wanted = step.op == VectorOp::store && info(step.format).block_scaled ? 2 : 1;
                defines = false;
                memory = true;
                break;
            case VectorOp::add:
            case VectorOp::sub:
            case VectorOp::mul:
            case VectorOp::max:
            case VectorOp::min: wanted = 2; break;
            case VectorOp::fma: wanted = 3; break;
            default: break;
        }
        if (arguments != wanted || (step.dst >= 0) != defines || (step.operand >= 0) != memory) {
            note(fmt::format("{} takes {} values, {} operand and {} a value", name(step.op), wanted,
                             memory ? "one" : "no", defines ? "defines" : "does not define"));
        }
        if (memory && step.format == Format::raw) {
            note(fmt::format("{} needs a number format", name(step.op)));
        }
        const FormatInfo& format = info(step.format);
        const bool whole_rows = step.op == VectorOp::load || step.op == VectorOp::store;
        if (memory && !whole_rows && (format.block_scaled || format.element_bits < 8)) {
            note(fmt::format("{} takes single values of at least 8 bits, not {}", name(step.op), format.name));
        }
        if (step.op == VectorOp::block_scale && !format.block_scaled) {
            note(fmt::format("block_scale is for block-scaled formats, {} is none", format.name));
        }
        for (const std::int8_t argument : {step.a, step.b, step.c}) {
            if (argument >= 0) {
                check_use(argument, values, pass);
            }
        }
    }

    void check_use(std::int8_t argument, const Values& values, std::size_t pass) {
        const auto found = values.find(argument);
        if (found == values.end()) {
            note(fmt::format("v{} is used before it is defined", argument));
        } else if (found->second.pass == pass && found->second.reduction) {
            note(fmt::format("v{} is a reduction of this pass: it is there for the next one", argument));
        } else if (found->second.pass != pass && !found->second.of_row) {
            note(fmt::format("v{} holds elements of an earlier pass: only values of a row live on", argument));
        }
    }

    void check_coverage() {
        std::set<std::pair<Level, std::int64_t>> covered;
        for (const ControlProgram& control : program_.controls) {
            where_ = "control program " + control.name;
            if (control.count < 1 || control.first < 0 || control.first + control.count > units(control.level)) {
                note(fmt::format("runs on {}s {}..{}, the chip has 0..{}", name(control.level), control.first,
                                 control.first + control.count - 1, units(control.level) - 1));
                continue;
            }
            for (std::int64_t i = 0; i < control.count; ++i) {
                if (!covered.insert({control.level, control.first + i}).second) {
                    note(fmt::format("{} {} has a control program already", name(control.level), control.first + i));
                }
            }
        }
    }

    // ---- one control program

    void check(const ControlProgram& control) {
        where_ = "control program " + control.name;
        if (control.count < 1 || control.first < 0 || control.first + control.count > units(control.level)) {
            return;  // noted already
        }
        control_ = &control;
        scope_ = Scope();
        const std::int64_t per_cluster = chip_.soc.tiles_per_cluster;
        const std::int64_t last = control.first + control.count - 1;
        if (control.level == Level::tile) {
            const std::int64_t first_cluster = control.first / per_cluster;
            const std::int64_t last_cluster = last / per_cluster;
            scope_.define(Var::self, {control.first, last});
            scope_.define(Var::cluster, {first_cluster, last_cluster});
            scope_.define(Var::tile, first_cluster == last_cluster
                                         ? Interval{control.first % per_cluster, last % per_cluster}
                                         : Interval{0, per_cluster - 1});
        } else if (control.level == Level::cluster) {
            scope_.define(Var::cluster, {control.first, last});
        }
        collect_registers(control.body);
        depth_ = 0;
        check(control.body);
    }

    /// A register holds 0 at first, then what its statements declare.
    void collect_registers(const Block& block) {
        const auto widen = [this](std::uint8_t reg, Interval range) {
            const Var var = register_var(reg);
            const std::optional<Interval> known = scope_.interval(var);
            const Interval before = known.value_or(Interval{0, 0});
            scope_.define(var, {std::min(before.lowest, range.lowest), std::max(before.highest, range.highest)});
        };
        for (const Statement& statement : block) {
            if (const auto* set = std::get_if<SetRegister>(&statement.body)) {
                widen(set->reg, {set->lowest, set->highest});
            } else if (const auto* load = std::get_if<LoadIndex>(&statement.body)) {
                if (const IndexTable* table = find_table(load->table)) {
                    widen(load->reg, {table->lowest, table->highest});
                }
            } else if (const auto* loop = std::get_if<Loop>(&statement.body)) {
                collect_registers(loop->body ? *loop->body : Block{});
            } else if (const auto* branch = std::get_if<If>(&statement.body)) {
                collect_registers(branch->then_body ? *branch->then_body : Block{});
                collect_registers(branch->else_body ? *branch->else_body : Block{});
            }
        }
    }
    [[nodiscard]] const IndexTable* find_table(const std::string& table) const {
        const auto found = std::find_if(program_.tables.begin(), program_.tables.end(),
                                        [&table](const IndexTable& entry) { return entry.name == table; });
        return found == program_.tables.end() ? nullptr : &*found;
    }

    void check(const Block& block) {
        for (const Statement& statement : block) {
            where_ = "control program " + control_->name;
            std::visit(*this, statement.body);
        }
    }

public:
    void operator()(const Loop& loop) {
        const std::optional<Interval> count = scope_.bounds(loop.count);
        if (!count) {
            note("a loop's count has no bounds");
            return;
        }
        if (depth_ == kMaxLoopDepth) {
            note(fmt::format("more than {} nested loops", kMaxLoopDepth));
            return;
        }
        if (count->highest <= 0 || !loop.body) {
            return;
        }
        const Var index = loop_var(depth_);
        scope_.define(index, {0, count->highest - 1});
        // index <= count - 1, which is sharper than the box where the count depends on outer indices.
        scope_.push_constraint(loop.count.ring == 0 ? loop.count - variable(index) - 1 : Affine(0));
        ++depth_;
        check(*loop.body);
        --depth_;
        scope_.pop_constraint();
    }
    void operator()(const If& branch) {
        const std::optional<Interval> range = scope_.bounds(branch.value);
        if (!range) {
            note("a condition has no bounds");
            return;
        }
        const Affine& value = branch.value;
        if (range->highest >= 0 && branch.then_body) {
            scope_.push_constraint(value);
            check(*branch.then_body);
            scope_.pop_constraint();
        }
        if (range->lowest < 0 && branch.else_body) {
            scope_.push_constraint(value.ring == 0 ? Affine(-1) - value : Affine(0));
            check(*branch.else_body);
            scope_.pop_constraint();
        }
    }
    void operator()(const WaitStatement& wait) { check_wait(wait.use); }
    void operator()(const SignalStatement& signal) { check_signal(signal.use); }
    void operator()(const LoadIndex& load) {
        const IndexTable* table = find_table(load.table);
        if (table == nullptr) {
            note(fmt::format("no table \"{}\"", load.table));
            return;
        }
        require(load.element, 0, table->count - 1, "a table element");
    }
    void operator()(const SetRegister& set) { require(set.value, -kAnything, kAnything, "a register's value"); }
    void operator()(const Instruction& instruction) {
        where_ = fmt::format("control program {}, {}.{} \"{}\"", control_->name, name(instruction.queue.engine),
                             instruction.queue.lane, instruction.label);
        check_queue(instruction.queue);
        const auto limit = [this](const char* what, std::size_t found, std::int64_t most) {
            if (found > static_cast<std::size_t>(most)) {
                note(fmt::format("{} {}, an instruction has at most {}", found, what, most));
            }
        };
        limit("waits", instruction.waits.size(), chip_.control.max_waits);
        limit("signals", instruction.signals.size(), chip_.control.max_signals);
        for (const SemUse& use : instruction.waits) {
            check_wait(use);
        }
        for (const SemUse& use : instruction.signals) {
            check_signal(use);
        }
        require(instruction.node, 0, most_node_, "the plan node (declare it with `node`)");
        queue_ = instruction.queue;
        std::visit(*this, instruction.macro);
    }

    void operator()(const FenceMacro& /*fence*/) {}
    void operator()(const DmaMacro& dma) {
        if (!on({Engine::tdma, Engine::cdma}, "dma")) {
            return;
        }
        if (dma.dims.size() > 2) {
            note(fmt::format("{} dimensions beside the run, at most 2", dma.dims.size()));
            return;
        }
        const std::optional<Interval> run = require(dma.run_bytes, 1, kAnything, "the run");
        std::int64_t dst_highest = run ? run->highest : 0;
        if (dma.src_format != dma.dst_format) {
            dst_highest = check_conversion(dma, run);
        }
        check_memory(dma.src, dma, run ? run->highest : 0, true);
        check_memory(dma.dst, dma, dst_highest, false);
        check_reach(dma);
    }
    void operator()(const TensorMacro& macro) {
        if (!on({Engine::ttu}, "tensor")) {
            return;
        }
        try {
            (void)tensor_rate(macro.a_format, macro.b_format, "");
        } catch (const InputError& error) {
            note(error.what());
        }
        if (macro.b_transposed && info(macro.b_format).block_scaled) {
            note(fmt::format("b cannot be transposed: the scales of {} run along k", name(macro.b_format)));
        }
        if (macro.a_format == Format::fp16 && chip_.ttu.takes_fp16 == 0) {
            note("the chip's tensor unit does not take fp16 (ttu.takes_fp16)");
        }
        if (macro.last_rows < 1 || macro.last_rows > kBlockEdge) {
            note(fmt::format("{} rows of the last block row, allowed is 1..{}", macro.last_rows, kBlockEdge));
        }
        const std::optional<Interval> m = require(macro.mb, 1, kAnything, "block rows");
        const std::optional<Interval> n = require(macro.nb, 1, kAnything, "block columns");
        const std::optional<Interval> k = require(macro.kb, 1, kAnything, "k blocks");
        if (macro.row_signal) {
            check_signal(*macro.row_signal);
        }
        if (!m || !n || !k) {
            return;
        }
        const auto a = static_cast<std::int64_t>(block_bytes(macro.a_format));
        const auto b = static_cast<std::int64_t>(block_bytes(macro.b_format));
        check_blocks("operand a", macro.a_offset, {{m->highest, macro.a_stride_m}, {k->highest, macro.a_stride_k}}, a,
                     chip_.tsram.bytes);
        check_blocks("operand b", macro.b_offset, {{n->highest, macro.b_stride_n}, {k->highest, macro.b_stride_k}}, b,
                     chip_.tsram.bytes);
        check_blocks("result c", macro.c_offset, {{m->highest, macro.c_stride_m}, {n->highest, macro.c_stride_n}},
                     kAccumulatorBlockBytes, chip_.tsram.output_region_bytes);
    }
    void operator()(const VectorMacro& macro) {
        if (!on({Engine::tvp}, "vector")) {
            return;
        }
        const std::optional<Interval> rows = require(macro.rows, 1, kAnything, "rows");
        const std::optional<Interval> cols = require(macro.cols, 1, kAnything, "cols");
        const auto known = vector_operands_.find(macro.program);
        if (known == vector_operands_.end()) {
            note(fmt::format("no vector program \"{}\"", macro.program));
            return;
        }
        if (static_cast<std::int64_t>(macro.operands.size()) < known->second) {
            note(fmt::format("vector program \"{}\" uses {} operands, {} are given", macro.program, known->second,
                             macro.operands.size()));
        }
        if (rows && cols) {
            check_operands(macro, rows->highest, cols->highest);
            check_groups(macro);
        }
    }
    void operator()(const ReshapeMacro& macro) {
        if (!on({Engine::reshaper}, "reshape")) {
            return;
        }
        const std::optional<Interval> rows = require(macro.rows, 1, kAnything, "rows");
        const std::optional<Interval> cols = require(macro.cols, 1, kAnything, "cols");
        if (!rows || !cols) {
            return;
        }
        const auto converts = [](const FormatInfo& format) {
            return !format.block_scaled && format.element_bits >= 8 && format.format != Format::raw;
        };
        const FormatInfo& from = info(macro.src_format);
        const FormatInfo& to = info(macro.dst_format);
        if (from.format != to.format && !(converts(from) && converts(to))) {
            note(fmt::format("the reshaper does not convert {} to {}", from.name, to.name));
        }
        if (from.block_scaled && macro.kind == ReshapeKind::transpose_blocks) {
            note(fmt::format("{} cannot be transposed: its scales run along the rows", from.name));
        }
        const auto side = [&](const char* what, const Affine& offset, std::int64_t stride, Format format,
                              bool blocked) {
            const std::int64_t steps = blocked ? ceil_div(rows->highest, kBlockEdge) : rows->highest;
            const std::int64_t width = ceil_div(cols->highest, kBlockEdge);
            const auto size = blocked ? width * static_cast<std::int64_t>(block_bytes(format))
                                      : static_cast<std::int64_t>(row_bytes(format, cols->highest));
            check_blocks(what, offset, {{steps, stride}}, size, chip_.tsram.bytes, 1);
        };
        side("the source", macro.src_offset, macro.src_stride, macro.src_format,
             macro.kind != ReshapeKind::pack_blocks);
        side("the destination", macro.dst_offset, macro.dst_stride, macro.dst_format,
             macro.kind != ReshapeKind::unpack_blocks);
    }

private:
    static constexpr std::int64_t kAnything = std::int64_t{1} << 50;

    /// Each operand as its loads and stores use it: one value a row or a column, rows, or blocks, which may hold fewer
    /// than 32 rows.
    void check_operands(const VectorMacro& macro, std::int64_t rows, std::int64_t cols) {
        for (const VectorPass& pass : find_vector_program(program_, macro.program).passes) {
            for (const VectorStep& step : pass.steps) {
                if (step.operand < 0 || step.operand >= static_cast<std::int64_t>(macro.operands.size())) {
                    continue;
                }
                const VectorOperand& operand = macro.operands[static_cast<std::size_t>(step.operand)];
                const FormatInfo& format = info(step.format);
                std::vector<std::pair<std::int64_t, std::int64_t>> steps{{rows, operand.row_stride}};
                auto size = static_cast<std::int64_t>(row_bytes(step.format, cols));
                if (step.op == VectorOp::load_row || step.op == VectorOp::store_row) {
                    size = format.element_bits / 8;
                } else if (step.op == VectorOp::load_col) {
                    steps.clear();
                } else if (operand.block_stride != 0) {
                    steps = {{ceil_div(rows, operand.block_rows), operand.row_stride},
                             {ceil_div(cols, kBlockEdge), operand.block_stride}};
                    // With scales the last row's bytes lie at the end of the block, else right after its own row.
                    const std::int64_t held =
                        format.block_scaled ? operand.block_rows : std::min(rows, operand.block_rows);
                    size = held * (kBlockEdge * format.element_bits / 8 + (format.block_scaled ? 1 : 0));
                }
                check_blocks(fmt::format("operand {}", step.operand).c_str(), operand.offset, steps, size,
                             chip_.tsram.bytes, 1);
            }
        }
    }

    /// Elements of less than a byte and groups that share a scale are worked on whole.
    void check_groups(const VectorMacro& macro) {
        const Affine& cols = macro.cols;
        bool whole = cols.ring == 0 && cols.base % kBlockEdge == 0;
        for (const Term& term : cols.terms) {
            whole = whole && term.stride % kBlockEdge == 0;
        }
        for (const VectorPass& pass : find_vector_program(program_, macro.program).passes) {
            for (const VectorStep& step : pass.steps) {
                if (step.operand < 0 || step.operand >= static_cast<std::int64_t>(macro.operands.size())) {
                    continue;
                }
                const VectorOperand& operand = macro.operands[static_cast<std::size_t>(step.operand)];
                const FormatInfo& format = info(step.format);
                if ((format.block_scaled || format.element_bits < 8) && !whole) {
                    note(fmt::format("cols must be a multiple of {} for {}", kBlockEdge, format.name));
                }
                if (format.block_scaled && operand.block_stride == 0) {
                    note(fmt::format("operand {} must be in blocks: {} has block scales", step.operand, format.name));
                }
            }
        }
    }

    bool on(std::initializer_list<Engine> engines, const char* macro) {
        if (std::find(engines.begin(), engines.end(), queue_.engine) != engines.end()) {
            return true;
        }
        note(fmt::format("engine {} does not run {} macros", name(queue_.engine), macro));
        return false;
    }

    void check_queue(const QueueId& queue) {
        std::int64_t lanes = 1;
        switch (queue.engine) {
            case Engine::tdma: lanes = chip_.tdma.channels; break;
            case Engine::cdma: lanes = chip_.cdma.channels; break;
            case Engine::ttu: lanes = chip_.ttu.contexts; break;
            case Engine::tvp: lanes = chip_.tvp.contexts; break;
            case Engine::reshaper: break;
        }
        if (queue.lane >= lanes) {
            note(fmt::format("{} has channels or contexts 0..{}", name(queue.engine), lanes - 1));
        }
        const Level owner = queue.engine == Engine::cdma ? Level::cluster : Level::tile;
        if (control_->level != owner) {
            note(fmt::format("a {}'s control program cannot issue to {}", name(control_->level), name(queue.engine)));
        }
    }

    /// Highest unit that a mask reaches above its first.
    static std::int64_t mask_reach(std::uint64_t mask) {
        std::int64_t highest = 0;
        for (std::int64_t bit = 0; bit < 64; ++bit) {
            if ((mask >> bit & 1) != 0) {
                highest = bit;
            }
        }
        return highest;
    }

    std::optional<Interval> check_sem(const SemUse& use) {
        const std::int64_t reach = mask_reach(use.sem.mask);
        require(use.sem.unit, 0, units(use.sem.level) - 1 - reach, "a semaphore's unit");
        require(use.count, 0, most_count(), "a semaphore count");
        return require(use.sem.index, 0, semaphores(use.sem.level) - 1, "a semaphore's index");
    }
    void check_wait(const SemUse& use) {
        if (use.sem.mask != 0) {
            note("a wait cannot have a mask");
        }
        if (const std::optional<Interval> index = check_sem(use); index && index->lowest == index->highest) {
            waited_.try_emplace({use.sem.level, index->lowest}, where_);
        }
    }
    void check_signal(const SemUse& use) {
        if (const std::optional<Interval> index = check_sem(use)) {
            for (std::int64_t i = index->lowest; i <= index->highest; ++i) {
                signalled_.insert({use.sem.level, i});
            }
        }
    }

    /// Extent of a strided piece must lie inside its memory.
    void check_memory(const MemRef& ref, const DmaMacro& dma, std::int64_t run, bool is_src) {
        const char* what = is_src ? "the source" : "the destination";
        if (ref.mask != 0 && (is_src || ref.space == Space::hbm)) {
            note(fmt::format("{} cannot have a mask", what));
        }
        require(ref.unit, 0, units(ref.space) - 1 - mask_reach(ref.mask),
                is_src ? "the source's unit" : "the destination's unit");
        std::vector<std::pair<std::int64_t, std::int64_t>> steps;
        for (const DmaDim& dim : dma.dims) {
            const std::optional<Interval> count = require(dim.count, 1, kAnything, "a dimension's count");
            if (!count) {
                return;
            }
            steps.emplace_back(count->highest, is_src ? dim.src_stride : dim.dst_stride);
        }
        check_blocks(what, ref.offset, steps, run, capacity(ref.space), 1);
    }

    void check_blocks(const char* what, const Affine& offset,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& steps, std::int64_t size,
                      std::int64_t capacity, std::int64_t alignment = kOperandAlignment) {
        const std::optional<Interval> range = scope_.bounds(offset);
        if (!range) {
            note(fmt::format("{} has no bounds", what));
            return;
        }
        // A ring starts slots, so its last start is one granule of its strides below its end.
        Wide lowest = range->lowest;
        Wide highest = offset.ring == 0 ? range->highest : last_slot(offset);
        for (const auto& [count, stride] : steps) {
            const Wide reach = Wide{count - 1} * stride;
            lowest += std::min<Wide>(reach, 0);
            highest += std::max<Wide>(reach, 0);
            if (stride % alignment != 0) {
                note(fmt::format("{} has a stride of {}, not a multiple of {}", what, stride, alignment));
            }
        }
        highest += size;
        if (lowest < 0 || highest > capacity) {
            note(fmt::format("{} reaches bytes {}..{}, allowed is 0..{}", what, static_cast<std::int64_t>(lowest),
                             static_cast<std::int64_t>(highest) - 1, capacity - 1));
        }
        if (offset.base % alignment != 0 || offset.phase % alignment != 0 || offset.ring % alignment != 0 ||
            std::any_of(offset.terms.begin(), offset.terms.end(),
                        [alignment](const Term& term) { return term.stride % alignment != 0; })) {
            note(fmt::format("{} is not aligned to {} bytes", what, alignment));
        }
    }
    static std::int64_t last_slot(const Affine& offset) {
        std::int64_t step = offset.ring;
        for (const Term& term : offset.terms) {
            step = std::gcd(step, term.stride);
        }
        step = std::gcd(step, offset.phase);
        return offset.base + offset.ring - (step == 0 ? 1 : step);
    }

    std::int64_t check_conversion(const DmaMacro& dma, const std::optional<Interval>& run) {
        const FormatInfo& from = info(dma.src_format);
        const FormatInfo& to = info(dma.dst_format);
        if (from.format == Format::raw || to.format == Format::raw || from.block_scaled || to.block_scaled) {
            note(fmt::format("the DMA converts between e4m3, bf16 and fp32, not {} to {}", from.name, to.name));
            return run ? run->highest : 0;
        }
        return run ? run->highest * to.element_bits / from.element_bits : 0;
    }

    /// A tile's DMA moves to or from its own TSRAM; a cluster's moves to or from its own CSRAM, or HBM to its tiles.
    void check_reach(const DmaMacro& dma) {
        const auto own = [this](const MemRef& ref, Space space, Var var) {
            return ref.space == space && ref.mask == 0 && ref.unit == variable(var) && control_ != nullptr;
        };
        const auto is_self = [&](const MemRef& ref) {
            if (own(ref, Space::tsram, Var::self)) {
                return true;
            }
            const std::optional<Interval> unit = scope_.bounds(ref.unit);
            const std::optional<Interval> self = scope_.interval(Var::self);
            return ref.space == Space::tsram && ref.mask == 0 && unit && self && *unit == *self &&
                   unit->lowest == unit->highest;
        };
        if (control_->level == Level::tile && !is_self(dma.src) && !is_self(dma.dst)) {
            note("a tile's DMA must have its own TSRAM (tsram(self)) on one side");
        }
        if (control_->level == Level::cluster && dma.src.space == Space::tsram && dma.dst.space == Space::tsram) {
            note("a cluster's DMA does not move from TSRAM to TSRAM");
        }
    }

    const Program& program_;
    const ChipSpec& chip_;
    std::string where_;
    std::vector<std::string> problems_;
    const ControlProgram* control_ = nullptr;
    std::int64_t most_node_ = 0;
    QueueId queue_;
    Scope scope_;
    int depth_ = 0;
    std::map<std::string, std::int64_t> vector_operands_;
    std::map<std::pair<Level, std::int64_t>, std::string> waited_;
    std::set<std::pair<Level, std::int64_t>> signalled_;
};

}  // namespace

void verify(const Program& program, const ChipSpec& chip) {
    Verifier(program, chip).run();
}

}  // namespace sluice::isa
