// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "isa/text.hpp"

namespace sluice::isa {

namespace {

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Terms and constant as a signed sum; "0" if empty.
std::string sum(std::int64_t constant, const std::vector<Term>& terms) {
    std::string out;
    if (constant != 0 || terms.empty()) {
        out = fmt::format("{}", constant);
    }
    for (const Term& term : terms) {
        const bool negative = term.stride < 0;
        const std::uint64_t magnitude =
            negative ? 0 - static_cast<std::uint64_t>(term.stride) : static_cast<std::uint64_t>(term.stride);
        out += out.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
        out += magnitude == 1 ? std::string(name(term.var)) : fmt::format("{}*{}", magnitude, name(term.var));
    }
    return out;
}

std::string text(const Affine& value) {
    if (value.ring == 0) {
        return sum(value.base, value.terms);
    }
    const std::string ring = fmt::format("({}) % {}", sum(value.phase, value.terms), value.ring);
    return value.base == 0 ? ring : fmt::format("{} + {}", value.base, ring);
}

std::string place(std::string_view kind, const Affine& unit, std::uint64_t mask, const Affine& offset) {
    return mask == 0 ? fmt::format("{}({})[{}]", kind, text(unit), text(offset))
                     : fmt::format("{}({} mask {:#x})[{}]", kind, text(unit), mask, text(offset));
}

std::string text(const MemRef& ref) {
    return place(name(ref.space), ref.unit, ref.mask, ref.offset);
}

std::string text(const SemUse& use) {
    const std::string sem = place(name(use.sem.level), use.sem.unit, use.sem.mask, use.sem.index);
    return use.count == Affine(1) ? sem : fmt::format("{} x {}", sem, text(use.count));
}

struct MacroText {
    std::string operator()(const FenceMacro&) const { return "fence"; }
    std::string operator()(const DmaMacro& dma) const {
        std::string out = fmt::format("dma {} -> {} run {}", text(dma.src), text(dma.dst), text(dma.run_bytes));
        for (const DmaDim& dim : dma.dims) {
            out += fmt::format(" dim {} strides {} {}", text(dim.count), dim.src_stride, dim.dst_stride);
        }
        if (dma.src_format != Format::raw || dma.dst_format != Format::raw) {
            out += fmt::format(" convert {} {}", name(dma.src_format), name(dma.dst_format));
        }
        return out;
    }
    std::string operator()(const TensorMacro& macro) const {
        std::string out = fmt::format("tensor {} x {} x {}", text(macro.mb), text(macro.nb), text(macro.kb));
        out += macro.last_rows == Affine(kBlockEdge) ? "" : fmt::format(" last_rows {}", text(macro.last_rows));
        out += fmt::format(" a [{}] strides {} {} {}", text(macro.a_offset), macro.a_stride_m, macro.a_stride_k,
                           name(macro.a_format));
        out += fmt::format(" b [{}] strides {} {} {}", text(macro.b_offset), macro.b_stride_n, macro.b_stride_k,
                           name(macro.b_format));
        out += macro.b_transposed ? " transposed" : "";
        out += fmt::format(" c [{}] strides {} {}", text(macro.c_offset), macro.c_stride_m, macro.c_stride_n);
        out += macro.accumulate ? " accumulate" : "";
        if (macro.row_signal) {
            out += " row_signal " + text(*macro.row_signal);
        }
        return out;
    }
    std::string operator()(const VectorMacro& macro) const {
        std::string out =
            fmt::format("vector {} rows {} cols {}", quoted(macro.program), text(macro.rows), text(macro.cols));
        for (const VectorOperand& operand : macro.operands) {
            out += fmt::format(" operand [{}] strides {} {}", text(operand.offset), operand.row_stride,
                               operand.block_stride);
            out += operand.block_rows != kBlockEdge ? fmt::format(" block_rows {}", operand.block_rows) : "";
        }
        if (macro.mask_limit != Affine(0) || macro.mask_by_row) {
            out += fmt::format(" mask {}{}", text(macro.mask_limit), macro.mask_by_row ? " by_row" : "");
        }
        return out;
    }
    std::string operator()(const ReshapeMacro& macro) const {
        return fmt::format("reshape {} rows {} cols {} src [{}] stride {} {} dst [{}] stride {} {}", name(macro.kind),
                           text(macro.rows), text(macro.cols), text(macro.src_offset), macro.src_stride,
                           name(macro.src_format), text(macro.dst_offset), macro.dst_stride, name(macro.dst_format));
    }
};

class Writer {
public:
    std::string write(const Program& program) {
        line("disa 1");
        line(fmt::format("program {} chip {}", quoted(program.name), quoted(program.chip)));
        for (const NodeRange& node : program.nodes) {
            line(fmt::format("node {} {} count {} stride {} layer {}", node.first, quoted(node.name), node.count,
                             node.stride, node.first_layer));
        }
        for (const Region& region : program.regions) {
            line(region_text(region));
        }
        for (const IndexTable& table : program.tables) {
            std::string values = table.values.empty() ? "" : " values";
            for (const std::int64_t value : table.values) {
                values += fmt::format(" {}", value);
            }
            line(fmt::format("table {} count {} range {}..{} source {} seed {}{}", quoted(table.name), table.count,
                             table.lowest, table.highest, quoted(table.source), table.seed, values));
        }
        for (const SemInit& init : program.semaphores) {
            line(fmt::format("init {}({})[{}] units {} value {}", name(init.sem.level), init.sem.unit, init.sem.index,
                             init.units, init.value));
        }
        for (const VectorProgram& vector : program.vector_programs) {
            write(vector);
        }
        for (const ControlProgram& control : program.controls) {
            line(fmt::format("control {} {} count {} from {} {{", quoted(control.name), name(control.level),
                             control.count, control.first));
            block(control.body);
            line("}");
        }
        return std::move(out_);
    }

private:
    void line(const std::string& content) {
        out_.append(static_cast<std::size_t>(depth_) * 2, ' ');
        out_ += content;
        out_ += '\n';
    }

    static std::string region_text(const Region& region) {
        std::string out = fmt::format("region {} {} units {} from {} offset {} bytes {}", quoted(region.name),
                                      name(region.space), region.units, region.first_unit, region.offset, region.bytes);
        if (region.holds) {
            out += fmt::format(" holds {} x {} {}{}", region.holds->rows, region.holds->cols,
                               name(region.holds->format), region.holds->row_major ? " row_major" : "");
        }
        out += region.input ? " input" : "";
        out += region.output ? " output" : "";
        return out;
    }

    void write(const VectorProgram& program) {
        line(fmt::format("vector {} {{", quoted(program.name)));
        ++depth_;
        for (const VectorPass& pass : program.passes) {
            line(pass.per_row ? "pass rows {" : "pass {");
            ++depth_;
            for (const VectorStep& step : pass.steps) {
                line(step_text(step));
            }
            --depth_;
            line("}");
        }
        --depth_;
        line("}");
    }

    static std::string step_text(const VectorStep& step) {
        std::string out;
        if (step.dst >= 0) {
            out = fmt::format("v{} = ", step.dst);
        }
        out += name(step.op);
        if (step.operand >= 0) {
            out += fmt::format(" operand {} {}", step.operand, name(step.format));
        }
        if (step.op == VectorOp::constant) {
            out += fmt::format(" {:.17g}", step.value);
        }
        for (const std::int8_t argument : {step.a, step.b, step.c}) {
            if (argument >= 0) {
                out += fmt::format(" v{}", argument);
            }
        }
        if (step.op == VectorOp::block_scale) {
            out += fmt::format(" {} {}", name(step.format), name(step.rounding));
        }
        return out;
    }

    void block(const Block& body) {
        ++depth_;
        for (const Statement& statement : body) {
            std::visit(*this, statement.body);
        }
        --depth_;
    }

    void uses(std::string_view keyword, const std::vector<SemUse>& list) {
        for (const SemUse& use : list) {
            line(fmt::format("{} {}", keyword, text(use)));
        }
    }

public:
    void operator()(const Instruction& instruction) {
        line(fmt::format("issue {}.{} {} node {} {{", name(instruction.queue.engine), instruction.queue.lane,
                         quoted(instruction.label), text(instruction.node)));
        ++depth_;
        uses("wait", instruction.waits);
        line(std::visit(MacroText{}, instruction.macro));
        uses("signal", instruction.signals);
        --depth_;
        line("}");
    }
    void operator()(const Loop& loop) {
        line(fmt::format("loop {} {{", text(loop.count)));
        block(loop.body ? *loop.body : Block{});
        line("}");
    }
    void operator()(const If& branch) {
        line(fmt::format("if {} >= 0 {{", text(branch.value)));
        block(branch.then_body ? *branch.then_body : Block{});
        if (branch.else_body && !branch.else_body->empty()) {
            line("} else {");
            block(*branch.else_body);
        }
        line("}");
    }
    void operator()(const WaitStatement& wait) { line("wait " + text(wait.use)); }
    void operator()(const SignalStatement& signal) { line("signal " + text(signal.use)); }
    void operator()(const DelayStatement& delay) { line("delay " + text(delay.cycles)); }
    void operator()(const LoadIndex& load) {
        line(fmt::format("r{} = table {} [{}]", load.reg, quoted(load.table), text(load.element)));
    }
    void operator()(const SetRegister& set) {
        line(fmt::format("r{} {} {} in {}..{}", set.reg, set.add ? "+=" : "=", text(set.value), set.lowest,
                         set.highest));
    }

private:
    std::string out_;
    int depth_ = 0;
};

}  // namespace

std::string write_text(const Program& program) {
    return Writer().write(program);
}

}  // namespace sluice::isa
