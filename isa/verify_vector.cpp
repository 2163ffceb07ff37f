// SPDX-License-Identifier: Apache-2.0
// Vector programs: steps are complete, values are defined before they are used and live long enough.
#include <fmt/format.h>

#include <algorithm>

#include "isa/verify_declarations.hpp"

namespace sluice::isa {

namespace {

/// What a value register holds: one value a row lives on in later passes, one an element or a sum that is still being
/// formed does not.
struct Value {
    std::size_t pass = 0;
    bool of_row = false;
    bool reduction = false;
};

/// What a step must have.
struct Shape {
    int arguments = 1;
    bool defines = true;
    bool memory = false;
};
Shape shape_of(const VectorStep& step) {
    switch (step.op) {
        case VectorOp::load:
        case VectorOp::load_row:
        case VectorOp::load_col: return {0, true, true};
        case VectorOp::store: return {info(step.format).block_scaled ? 2 : 1, false, true};
        case VectorOp::store_row: return {1, false, true};
        case VectorOp::constant: return {0, true, false};
        case VectorOp::add:
        case VectorOp::sub:
        case VectorOp::mul:
        case VectorOp::max:
        case VectorOp::min:
        case VectorOp::keep_below: return {2, true, false};
        case VectorOp::fma: return {3, true, false};
        default: return {1, true, false};
    }
}

class VectorVerifier {
public:
    explicit VectorVerifier(Problems& problems) : problems_(problems) {}

    void verify(const VectorProgram& program) {
        for (pass_ = 0; pass_ < program.passes.size(); ++pass_) {
            per_row_ = program.passes[pass_].per_row;
            for (const VectorStep& step : program.passes[pass_].steps) {
                check(step);
                if (step.dst >= 0) {
                    values_[step.dst] = result_of(step);
                }
                operands_ = std::max<std::int64_t>(operands_, step.operand + 1);
            }
        }
    }
    [[nodiscard]] std::int64_t operands() const { return operands_; }

private:
    [[nodiscard]] Value result_of(const VectorStep& step) const {
        if (step.op == VectorOp::row_sum || step.op == VectorOp::row_max) {
            return {pass_, true, true};
        }
        if (per_row_ || step.op == VectorOp::load_row || step.op == VectorOp::constant) {
            return {pass_, true, false};
        }
        bool of_row = step.operand < 0 && step.op != VectorOp::mask;
        for (const std::int8_t argument : {step.a, step.b, step.c}) {
            const auto found = values_.find(argument);
            of_row = of_row && (argument < 0 || (found != values_.end() && found->second.of_row));
        }
        return {pass_, of_row, false};
    }

    void check(const VectorStep& step) {
        const Shape shape = shape_of(step);
        const int arguments = (step.a >= 0 ? 1 : 0) + (step.b >= 0 ? 1 : 0) + (step.c >= 0 ? 1 : 0);
        if (arguments != shape.arguments || (step.dst >= 0) != shape.defines || (step.operand >= 0) != shape.memory) {
            problems_.note(fmt::format("{} takes {} values, {} operand and {} a value", name(step.op), shape.arguments,
                                       shape.memory ? "one" : "no", shape.defines ? "defines" : "does not define"));
        }
        check_format(step, shape.memory);
        for (const std::int8_t argument : {step.a, step.b, step.c}) {
            if (argument >= 0) {
                check_use(argument);
            }
        }
    }

    void check_format(const VectorStep& step, bool memory) {
        const FormatInfo& format = info(step.format);
        if (memory && step.format == Format::raw) {
            problems_.note(fmt::format("{} needs a number format", name(step.op)));
        }
        const bool elements = !per_row_ && (step.op == VectorOp::load || step.op == VectorOp::store);
        if (memory && !elements && (format.block_scaled || format.element_bits < 8)) {
            problems_.note(fmt::format("{}{} takes single values of at least 8 bits, not {}", name(step.op),
                                       per_row_ ? " in a pass over rows" : "", format.name));
        }
        if (step.op == VectorOp::block_scale && !format.block_scaled) {
            problems_.note(fmt::format("block_scale is for block-scaled formats, {} is none", format.name));
        }
    }

    void check_use(std::int8_t argument) {
        const auto found = values_.find(argument);
        if (found == values_.end()) {
            problems_.note(fmt::format("v{} is used before it is defined", argument));
        } else if (found->second.pass == pass_ && found->second.reduction) {
            problems_.note(fmt::format("v{} is a reduction of this pass: it is there for the next one", argument));
        } else if (found->second.pass != pass_ && !found->second.of_row) {
            problems_.note(
                fmt::format("v{} holds elements of an earlier pass: only values of a row live on", argument));
        }
    }

    Problems& problems_;
    std::map<int, Value> values_;
    std::size_t pass_ = 0;
    bool per_row_ = false;
    std::int64_t operands_ = 0;
};

}  // namespace

void verify_vector_programs(Verification& all) {
    std::set<std::string> names;
    for (const VectorProgram& program : all.program.vector_programs) {
        all.problems.at("vector program " + program.name);
        if (!names.insert(program.name).second) {
            all.problems.note("is defined twice");
        }
        VectorVerifier verifier(all.problems);
        verifier.verify(program);
        all.vector_operands[program.name] = verifier.operands();
    }
}

}  // namespace sluice::isa
