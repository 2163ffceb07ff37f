// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "isa/errors.hpp"
#include "isa/text.hpp"
#include "isa/text_lexer.hpp"

namespace sluice::isa {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 48;  ///< any count, offset or stride: sums of a few stay in int64
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  ///< of one side of a matrix
constexpr int kMaxNesting = 64;

template <class Enum, std::size_t N>
Enum choose(Lexer& in, const char* what, const std::array<Enum, N>& all) {
    std::string known;
    for (const Enum value : all) {
        if (in.accept(name(value))) {
            return value;
        }
        known += (known.empty() ? "" : ", ") + std::string(name(value));
    }
    in.fail(fmt::format("{} ({})", what, known));
}

constexpr std::array kLevels{Level::tile, Level::cluster, Level::chip};
constexpr std::array kSpaces{Space::hbm, Space::csram, Space::tsram};
constexpr std::array kEngines{Engine::tdma, Engine::ttu, Engine::tvp, Engine::reshaper, Engine::cdma};
constexpr std::array kKinds{ReshapeKind::pack_blocks, ReshapeKind::unpack_blocks, ReshapeKind::transpose_blocks};
constexpr std::array kOps{VectorOp::load,       VectorOp::store,    VectorOp::load_row,   VectorOp::store_row,
                          VectorOp::load_col,   VectorOp::constant, VectorOp::add,        VectorOp::sub,
                          VectorOp::mul,        VectorOp::fma,      VectorOp::max,        VectorOp::min,
                          VectorOp::keep_below, VectorOp::exp,      VectorOp::reciprocal, VectorOp::rsqrt,
                          VectorOp::mask,       VectorOp::row_sum,  VectorOp::row_max,    VectorOp::group_max_abs,
                          VectorOp::block_scale};
constexpr std::array kRoundings{ScaleRounding::floor, ScaleRounding::ceil, ScaleRounding::even};

class Reader {
public:
    Reader(std::string_view text, const std::string& source) : in_(text, source), source_(source) {}

    Program read() {
        in_.expect("disa");
        (void)in_.integer("the version", 1, 1);
        in_.expect("program");
        program_.name = in_.string("the program's name");
        in_.expect("chip");
        program_.chip = in_.string("the chip's name");
        while (in_.peek().kind != Lexer::Kind::end) {
            declaration();
        }
        return std::move(program_);
    }

private:
    void declaration() {
        if (in_.accept("node")) {
            node();
        } else if (in_.accept("region")) {
            region();
        } else if (in_.accept("table")) {
            table();
        } else if (in_.accept("init")) {
            init();
        } else if (in_.accept("vector")) {
            vector_program();
        } else if (in_.accept("control")) {
            control();
        } else {
            in_.fail("a declaration (node, region, table, init, vector, control)");
        }
    }

    void node() {
        NodeRange node;
        node.first = in_.integer("a node id", 0, kMost);
        node.name = in_.string("the node's name");
        in_.expect("count");
        node.count = in_.integer("a count", 1, kMost);
        in_.expect("stride");
        node.stride = in_.integer("a stride", 1, kMost);
        in_.expect("layer");
        node.first_layer = in_.integer("a layer", -kMost, kMost);
        program_.nodes.push_back(node);
    }

    void region() {
        Region region;
        region.name = in_.string("the region's name");
        region.space = choose(in_, "a memory", kSpaces);
        in_.expect("units");
        region.units = in_.integer("a number of units", 1, 256);
        in_.expect("from");
        region.first_unit = in_.integer("a unit", 0, 255);
        in_.expect("offset");
        region.offset = static_cast<std::uint64_t>(in_.integer("an offset", 0, kMost));
        in_.expect("bytes");
        region.bytes = static_cast<std::uint64_t>(in_.integer("a size", 0, kMost));
        if (in_.accept("holds")) {
            RegionTensor tensor;
            tensor.rows = in_.integer("a number of rows", 1, kMostElements);
            in_.expect("x");
            tensor.cols = in_.integer("a number of columns", 1, kMostElements);
            tensor.format = format();
            tensor.row_major = in_.accept("row_major");
            region.holds = tensor;
        }
        region.input = in_.accept("input");
        region.output = in_.accept("output");
        program_.regions.push_back(region);
    }

    void table() {
        IndexTable table;
        table.name = in_.string("the table's name");
        in_.expect("count");
        table.count = in_.integer("a count", 1, kMost);
        in_.expect("range");
        table.lowest = in_.integer("the lowest value", 0, kMost);
        in_.expect("..");
        table.highest = in_.integer("the highest value", table.lowest, kMost);
        in_.expect("source");
        const std::size_t at = in_.peek().at;
        table.source = in_.string("the source of the values");
        if (table.source != "uniform" && table.source != "sequence") {
            in_.fail_at(at, "expected \"uniform\" or \"sequence\"");
        }
        in_.expect("seed");
        table.seed = in_.unsigned_integer("a seed");
        if (in_.accept("values")) {
            for (std::int64_t i = 0; i < table.count; ++i) {
                table.values.push_back(in_.integer("a value in the table's range", table.lowest, table.highest));
            }
        }
        program_.tables.push_back(table);
    }

    void init() {
        SemInit init;
        init.sem.level = choose(in_, "a level", kLevels);
        in_.expect("(");
        init.sem.unit = static_cast<std::uint8_t>(in_.integer("a unit", 0, 255));
        in_.expect(")");
        in_.expect("[");
        init.sem.index = static_cast<std::uint16_t>(in_.integer("a semaphore", 0, 65535));
        in_.expect("]");
        in_.expect("units");
        init.units = in_.integer("a number of units", 1, 256);
        in_.expect("value");
        init.value = in_.integer("a value", 0, kMost);
        program_.semaphores.push_back(init);
    }

    // ---- vector programs

    void vector_program() {
        VectorProgram vector;
        vector.name = in_.string("the vector program's name");
        in_.expect("{");
        while (!in_.accept("}")) {
            in_.expect("pass");
            VectorPass pass;
            pass.per_row = in_.accept("rows");
            in_.expect("{");
            while (!in_.accept("}")) {
                pass.steps.push_back(step());
            }
            vector.passes.push_back(std::move(pass));
        }
        program_.vector_programs.push_back(std::move(vector));
    }

    /// "v12" -> 12; -1 if the next word is not a value register.
    std::int8_t value_register() {
        const Lexer::Token& token = in_.peek();
        if (token.kind != Lexer::Kind::word || token.text.size() < 2 || token.text.size() > 4 || token.text[0] != 'v' ||
            token.text.find_first_not_of("0123456789", 1) != std::string_view::npos) {
            return -1;
        }
        const int number = std::stoi(std::string(token.text.substr(1)));
        if (number > 127) {
            in_.fail("a value register v0..v127");
        }
        (void)in_.next();
        return static_cast<std::int8_t>(number);
    }

    VectorStep step() {
        VectorStep step;
        step.dst = value_register();
        if (step.dst >= 0) {
            in_.expect("=");
        }
        step.op = choose(in_, "a vector operation", kOps);
        if (in_.accept("operand")) {
            step.operand = static_cast<std::int8_t>(in_.integer("an operand number", 0, 127));
            step.format = format();
        }
        if (step.op == VectorOp::constant) {
            step.value = in_.real("a constant");
        }
        std::int8_t* const arguments[] = {&step.a, &step.b, &step.c};
        for (std::int8_t* argument : arguments) {
            // The next step may begin with "vN =": an argument never stands before "=".
            if (next_is_definition()) {
                break;
            }
            const std::int8_t number = value_register();
            if (number < 0) {
                break;
            }
            *argument = number;
        }
        if (step.op == VectorOp::block_scale) {
            step.format = format();
            step.rounding = choose(in_, "a scale rounding", kRoundings);
        }
        return step;
    }
    [[nodiscard]] bool next_is_definition() const {
        Lexer ahead = in_;
        if (ahead.peek().kind != Lexer::Kind::word) {
            return false;
        }
        (void)ahead.next();
        return ahead.at("=");
    }

    Format format() {
        const std::size_t at = in_.peek().at;
        const std::string text = in_.word("a number format");
        try {
            return parse_format(text, "");
        } catch (const InputError& error) {
            in_.fail_at(at, error.what());
        }
    }

    // ---- expressions

    std::optional<Var> variable_name() {
        for (std::size_t i = 0; i < kVarCount; ++i) {
            const auto var = static_cast<Var>(i);
            if (in_.at(name(var))) {
                if (i < kMaxLoopDepth && static_cast<int>(i) >= loop_depth_) {
                    in_.fail(fmt::format("an index of a loop that is open here ({} are)", loop_depth_));
                }
                (void)in_.next();
                return var;
            }
        }
        return std::nullopt;
    }

    void add_term(std::vector<Term>& terms, Var var, std::int64_t stride, std::size_t at) {
        for (const Term& term : terms) {
            if (term.var == var) {
                in_.fail_at(at, "this variable stands in the sum already");
            }
        }
        terms.push_back({var, stride});
    }

    /// item (+|- item)*; item: number, number*variable, variable.
    void sum(std::int64_t& constant, std::vector<Term>& terms, const std::function<bool(bool)>& other) {
        bool negative = in_.accept("-");
        while (true) {
            const std::size_t at = in_.peek().at;
            if (other && other(negative)) {
                // handled
            } else if (const std::optional<Var> var = variable_name()) {
                add_term(terms, *var, negative ? -1 : 1, at);
            } else {
                std::int64_t value = in_.integer("a number or an index variable", 0, kMost);
                value = negative ? -value : value;
                if (in_.accept("*")) {
                    const std::size_t var_at = in_.peek().at;
                    const std::optional<Var> factor = variable_name();
                    if (!factor) {
                        in_.fail("an index variable (i0.., r0.., tile, cluster, self)");
                    }
                    add_term(terms, *factor, value, var_at);
                } else {
                    constant += value;
                    if (constant > kMost || constant < -kMost) {
                        in_.fail_at(at, "the constant is too large");
                    }
                }
            }
            if (in_.accept("+")) {
                negative = false;
            } else if (in_.accept("-")) {
                negative = true;
            } else {
                return;
            }
        }
    }

    Affine affine() {
        Affine value;
        const std::size_t at = in_.peek().at;
        sum(value.base, value.terms, [&](bool negative) {
            if (!in_.at("(")) {
                return false;
            }
            if (negative || value.ring != 0) {
                in_.fail("at most one ring `(...) % size`, added");
            }
            in_.expect("(");
            std::vector<Term> inner;
            sum(value.phase, inner, nullptr);
            in_.expect(")");
            in_.expect("%");
            value.ring = in_.integer("a ring size", 1, kMost);
            if (!value.terms.empty()) {
                in_.fail_at(at, "only a constant may stand beside a ring");
            }
            ring_terms_ = std::move(inner);
            return true;
        });
        if (value.ring != 0) {
            if (!value.terms.empty()) {
                in_.fail_at(at, "only a constant may stand beside a ring");
            }
            value.terms = std::move(ring_terms_);
        }
        return value;
    }

    template <class Ref>
    void place(Ref& ref, Affine& offset) {
        in_.expect("(");
        ref.unit = affine();
        if (in_.accept("mask")) {
            const std::size_t at = in_.peek().at;
            ref.mask = in_.unsigned_integer("a mask");
            if (ref.mask == 0) {
                in_.fail_at(at, "a mask needs at least one bit");
            }
        }
        in_.expect(")");
        in_.expect("[");
        offset = affine();
        in_.expect("]");
    }

    MemRef memory() {
        MemRef ref;
        ref.space = choose(in_, "a memory", kSpaces);
        place(ref, ref.offset);
        return ref;
    }

    SemUse semaphore() {
        SemUse use;
        use.sem.level = choose(in_, "a semaphore's level", kLevels);
        place(use.sem, use.sem.index);
        if (in_.accept("x")) {
            use.count = affine();
        }
        return use;
    }

    std::int64_t stride() { return in_.integer("a stride in bytes", -kMost, kMost); }

    // ---- macros

    Macro macro() {
        if (in_.accept("fence")) {
            return FenceMacro{};
        }
        if (in_.accept("dma")) {
            return dma();
        }
        if (in_.accept("tensor")) {
            return tensor();
        }
        if (in_.accept("vector")) {
            return vector_macro();
        }
        if (in_.accept("reshape")) {
            return reshape();
        }
        in_.fail("wait or a macro (fence, dma, tensor, vector, reshape)");
    }

    DmaMacro dma() {
        DmaMacro macro;
        macro.src = memory();
        in_.expect("->");
        macro.dst = memory();
        in_.expect("run");
        macro.run_bytes = affine();
        while (in_.accept("dim")) {
            DmaDim dim;
            dim.count = affine();
            in_.expect("strides");
            dim.src_stride = stride();
            dim.dst_stride = stride();
            macro.dims.push_back(dim);
        }
        if (in_.accept("convert")) {
            macro.src_format = format();
            macro.dst_format = format();
        }
        return macro;
    }

    Affine bracketed() {
        in_.expect("[");
        Affine value = affine();
        in_.expect("]");
        return value;
    }

    TensorMacro tensor() {
        TensorMacro macro;
        macro.mb = affine();
        in_.expect("x");
        macro.nb = affine();
        in_.expect("x");
        macro.kb = affine();
        if (in_.accept("last_rows")) {
            macro.last_rows = affine();
        }
        in_.expect("a");
        macro.a_offset = bracketed();
        in_.expect("strides");
        macro.a_stride_m = stride();
        macro.a_stride_k = stride();
        macro.a_format = format();
        in_.expect("b");
        macro.b_offset = bracketed();
        in_.expect("strides");
        macro.b_stride_n = stride();
        macro.b_stride_k = stride();
        macro.b_format = format();
        macro.b_transposed = in_.accept("transposed");
        in_.expect("c");
        macro.c_offset = bracketed();
        in_.expect("strides");
        macro.c_stride_m = stride();
        macro.c_stride_n = stride();
        macro.accumulate = in_.accept("accumulate");
        if (in_.accept("row_signal")) {
            macro.row_signal = semaphore();
        }
        return macro;
    }

    VectorMacro vector_macro() {
        VectorMacro macro;
        macro.program = in_.string("a vector program's name");
        in_.expect("rows");
        macro.rows = affine();
        in_.expect("cols");
        macro.cols = affine();
        while (in_.accept("operand")) {
            VectorOperand operand;
            operand.offset = bracketed();
            in_.expect("strides");
            operand.row_stride = stride();
            operand.block_stride = stride();
            if (in_.accept("block_rows")) {
                operand.block_rows = in_.integer("a number of rows", 1, kBlockEdge);
            }
            macro.operands.push_back(operand);
        }
        if (in_.accept("mask")) {
            macro.mask_limit = affine();
            macro.mask_by_row = in_.accept("by_row");
        }
        return macro;
    }

    ReshapeMacro reshape() {
        ReshapeMacro macro;
        macro.kind = choose(in_, "a rearrangement", kKinds);
        in_.expect("rows");
        macro.rows = affine();
        in_.expect("cols");
        macro.cols = affine();
        in_.expect("src");
        macro.src_offset = bracketed();
        in_.expect("stride");
        macro.src_stride = stride();
        macro.src_format = format();
        in_.expect("dst");
        macro.dst_offset = bracketed();
        in_.expect("stride");
        macro.dst_stride = stride();
        macro.dst_format = format();
        return macro;
    }

    // ---- control

    void control() {
        ControlProgram control;
        control.name = in_.string("the control program's name");
        control.level = choose(in_, "a level", kLevels);
        in_.expect("count");
        control.count = in_.integer("a number of processors", 1, 256);
        in_.expect("from");
        control.first = in_.integer("a processor", 0, 255);
        control.body = block();
        program_.controls.push_back(std::move(control));
    }

    Block block() {
        if (++nesting_ > kMaxNesting) {
            in_.fail(fmt::format("at most {} nested blocks", kMaxNesting));
        }
        Block body;
        in_.expect("{");
        while (!in_.accept("}")) {
            body.push_back(statement());
        }
        --nesting_;
        return body;
    }
    std::shared_ptr<Block> shared_block() { return std::make_shared<Block>(block()); }

    Statement statement() {
        if (in_.accept("issue")) {
            return {issue()};
        }
        if (in_.accept("loop")) {
            if (loop_depth_ == kMaxLoopDepth) {
                in_.fail(fmt::format("at most {} nested loops", kMaxLoopDepth));
            }
            Loop loop;
            loop.count = affine();
            ++loop_depth_;
            loop.body = shared_block();
            --loop_depth_;
            return {loop};
        }
        if (in_.accept("if")) {
            If branch;
            branch.value = affine();
            in_.expect(">=");
            (void)in_.integer("the right side", 0, 0);
            branch.then_body = shared_block();
            branch.else_body = in_.accept("else") ? shared_block() : std::make_shared<Block>();
            return {branch};
        }
        if (in_.accept("wait")) {
            return {WaitStatement{semaphore()}};
        }
        if (in_.accept("signal")) {
            return {SignalStatement{semaphore()}};
        }
        if (in_.accept("delay")) {
            return {DelayStatement{affine()}};
        }
        for (int reg = 0; reg < kRegisterCount; ++reg) {
            if (in_.accept(fmt::format("r{}", reg))) {
                return register_statement(static_cast<std::uint8_t>(reg));
            }
        }
        in_.fail("a statement (issue, loop, if, wait, signal, delay, r0..r15) or `}`");
    }

    Statement register_statement(std::uint8_t reg) {
        const bool add = in_.accept("+=");
        if (!add) {
            in_.expect("=");
            if (in_.accept("table")) {
                LoadIndex load{reg, in_.string("a table's name"), {}};
                load.element = bracketed();
                return {load};
            }
        }
        SetRegister set{reg, add, affine(), 0, 0};
        in_.expect("in");
        set.lowest = in_.integer("the lowest value", -kMost, kMost);
        in_.expect("..");
        set.highest = in_.integer("the highest value", set.lowest, kMost);
        return {set};
    }

    Instruction issue() {
        Instruction out;
        out.queue.engine = choose(in_, "an engine", kEngines);
        in_.expect(".");
        out.queue.lane = static_cast<std::uint8_t>(in_.integer("a channel or context", 0, 255));
        out.label = in_.string("a label");
        in_.expect("node");
        out.node = affine();
        in_.expect("{");
        while (in_.accept("wait")) {
            out.waits.push_back(semaphore());
        }
        out.macro = macro();
        while (in_.accept("signal")) {
            out.signals.push_back(semaphore());
        }
        in_.expect("}");
        return out;
    }

    Lexer in_;
    std::string source_;
    Program program_;
    std::vector<Term> ring_terms_;
    int loop_depth_ = 0;
    int nesting_ = 0;
};

}  // namespace

Program read_text(std::string_view text, const std::string& source) {
    return Reader(text, source).read();
}

}  // namespace sluice::isa
