// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_library.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace sluice::kernels {

namespace {

using isa::Format;
using isa::VectorOp;
using isa::VectorPass;
using isa::VectorProgram;
using isa::VectorStep;

/// Appends steps to one pass; each returns the value register it writes.
class PassBuilder {
public:
    explicit PassBuilder(bool per_row = false) { pass_.per_row = per_row; }

    int load(VectorOp op, int operand, Format format) {
        VectorStep& step = push(op);
        step.operand = static_cast<std::int8_t>(operand);
        step.format = format;
        return define(step);
    }
    void store(VectorOp op, int operand, int value, Format format) {
        VectorStep& step = push(op);
        step.operand = static_cast<std::int8_t>(operand);
        step.a = static_cast<std::int8_t>(value);
        step.format = format;
    }
    int constant(double value) {
        VectorStep& step = push(VectorOp::constant);
        step.value = value;
        return define(step);
    }
    int op(VectorOp op, int a, int b = -1, int c = -1) {
        VectorStep& step = push(op);
        step.a = static_cast<std::int8_t>(a);
        step.b = static_cast<std::int8_t>(b);
        step.c = static_cast<std::int8_t>(c);
        return define(step);
    }
    /// Stores `value` in blocks; a block-scaled format first finds each group's scale.
    void store_blocks(int operand, int value, Format format) {
        if (!isa::info(format).block_scaled) {
            store(VectorOp::store, operand, value, format);
            return;
        }
        const int power = op(VectorOp::block_scale, op(VectorOp::group_max_abs, value));
        pass_.steps.back().format = format;
        store(VectorOp::store, operand, value, format);
        pass_.steps.back().b = static_cast<std::int8_t>(power);
    }
    [[nodiscard]] VectorPass finish() { return std::move(pass_); }
    /// Registers live on across the passes of a program.
    void continue_from(const PassBuilder& earlier) { next_ = earlier.next_; }

private:
    VectorStep& push(VectorOp op) {
        pass_.steps.push_back({});
        pass_.steps.back().op = op;
        return pass_.steps.back();
    }
    int define(VectorStep& step) {
        step.dst = static_cast<std::int8_t>(next_);
        return next_++;
    }
    VectorPass pass_;
    int next_ = 0;
};

}  // namespace

namespace {

/// A value of FP32 blocks, with a bias from operand `bias` if that is not negative.
int biased(PassBuilder& pass, int operand, int bias) {
    const int value = pass.load(VectorOp::load, operand, Format::fp32);
    return bias < 0 ? value : pass.op(VectorOp::add, value, pass.load(VectorOp::load_col, bias, Format::bf16));
}

const char* bias_suffix(bool bias) {
    return bias ? "_bias" : "";
}

/// Per row: rsqrt(sum / width + epsilon).
int norm_factor(PassBuilder& rows, int sum, std::int64_t width, double epsilon) {
    const int mean =
        rows.op(VectorOp::fma, sum, rows.constant(1.0 / static_cast<double>(width)), rows.constant(epsilon));
    return rows.op(VectorOp::rsqrt, mean);
}

}  // namespace

VectorProgram convert_program(Format out, bool bias) {
    PassBuilder pass;
    pass.store_blocks(1, biased(pass, 0, bias ? 2 : -1), out);
    return {fmt::format("convert{}_{}", bias_suffix(bias), name(out)), {pass.finish()}};
}

VectorProgram residual_program(bool bias) {
    PassBuilder pass;
    const int product = biased(pass, 0, bias ? 3 : -1);
    const int residual = pass.load(VectorOp::load, 1, Format::bf16);
    pass.store(VectorOp::store, 2, pass.op(VectorOp::add, product, residual), Format::bf16);
    return {fmt::format("residual_add{}", bias_suffix(bias)), {pass.finish()}};
}

VectorProgram swiglu_program(Format out) {
    PassBuilder pass;
    const int gate = pass.load(VectorOp::load, 0, Format::fp32);
    const int up = pass.load(VectorOp::load, 1, Format::fp32);
    const int negated = pass.op(VectorOp::mul, gate, pass.constant(-1.0));
    const int denominator = pass.op(VectorOp::add, pass.op(VectorOp::exp, negated), pass.constant(1.0));
    const int sigmoid = pass.op(VectorOp::reciprocal, denominator);
    const int silu = pass.op(VectorOp::mul, gate, sigmoid);
    pass.store_blocks(2, pass.op(VectorOp::mul, silu, up), out);
    return {fmt::format("swiglu_{}", name(out)), {pass.finish()}};
}

VectorProgram route_program(std::int64_t chosen) {
    std::vector<VectorPass> passes;
    std::vector<int> largest;
    PassBuilder previous;
    for (std::int64_t i = 0; i < chosen; ++i) {
        PassBuilder pass;
        pass.continue_from(previous);
        int score = pass.load(VectorOp::load, 0, Format::fp32);
        if (i > 0) {
            score = pass.op(VectorOp::keep_below, score, largest.back());
        }
        largest.push_back(pass.op(VectorOp::row_max, score));
        previous = pass;
        passes.push_back(pass.finish());
    }
    PassBuilder rows(true);
    rows.continue_from(previous);
    int sum = -1;
    for (const int score : largest) {
        const int power = rows.op(VectorOp::exp, rows.op(VectorOp::sub, score, largest.front()));
        sum = sum < 0 ? power : rows.op(VectorOp::add, sum, power);
    }
    const int inverse = rows.op(VectorOp::reciprocal, sum);
    PassBuilder gates;
    gates.continue_from(rows);
    const int score = gates.load(VectorOp::load, 0, Format::fp32);
    const int power = gates.op(VectorOp::exp, gates.op(VectorOp::sub, score, largest.front()));
    gates.store(VectorOp::store, 1, gates.op(VectorOp::mul, power, inverse), Format::fp32);
    passes.push_back(rows.finish());
    passes.push_back(gates.finish());
    return {fmt::format("route_{}", chosen), passes};
}

VectorProgram gated_program() {
    PassBuilder pass;
    const int value = pass.load(VectorOp::load, 0, Format::fp32);
    const int gate = pass.load(VectorOp::load_row, 1, Format::fp32);
    pass.store(VectorOp::store, 2, pass.op(VectorOp::mul, value, gate), Format::bf16);
    return {"gated", {pass.finish()}};
}

VectorProgram combine_program(std::int64_t chosen) {
    PassBuilder pass;
    int sum = pass.load(VectorOp::load, 1, Format::bf16);
    for (std::int64_t i = 2; i <= chosen; ++i) {
        sum = pass.op(VectorOp::add, sum, pass.load(VectorOp::load, static_cast<int>(i), Format::bf16));
    }
    const int residual = pass.load(VectorOp::load, 0, Format::bf16);
    pass.store(VectorOp::store, static_cast<int>(chosen) + 1, pass.op(VectorOp::add, residual, sum), Format::bf16);
    return {fmt::format("combine_{}", chosen), {pass.finish()}};
}

VectorProgram rope_program(Format out, const RopeInputs& inputs) {
    const VectorOp table = inputs.one_position ? VectorOp::load_col : VectorOp::load;
    constexpr int kFirstOptional = 6;
    const int first_norm = kFirstOptional + (inputs.bias ? 2 : 0);
    PassBuilder pass;
    const auto half = [&](int operand) {
        const int value = biased(pass, operand, inputs.bias ? kFirstOptional + operand : -1);
        if (!inputs.norm) {
            return value;
        }
        const int scaled = pass.op(VectorOp::mul, value, pass.load(VectorOp::load_row, first_norm, Format::fp32));
        return pass.op(VectorOp::mul, scaled, pass.load(VectorOp::load_col, first_norm + 1 + operand, Format::bf16));
    };
    const int x = half(0);
    const int y = half(1);
    const int cosine = pass.load(table, 2, Format::bf16);
    const int sine = pass.load(table, 3, Format::bf16);
    const int first = pass.op(VectorOp::sub, pass.op(VectorOp::mul, x, cosine), pass.op(VectorOp::mul, y, sine));
    const int second = pass.op(VectorOp::fma, x, sine, pass.op(VectorOp::mul, y, cosine));
    pass.store_blocks(4, first, out);
    pass.store_blocks(5, second, out);
    return {fmt::format("rope{}{}_{}_{}", inputs.norm ? "_norm" : "", bias_suffix(inputs.bias),
                        inputs.one_position ? "decode" : "prefill", name(out)),
            {pass.finish()}};
}

VectorProgram head_factor_program(std::int64_t width, double epsilon, bool bias) {
    PassBuilder squares;
    const int x = biased(squares, 0, bias ? 2 : -1);
    const int sum = squares.op(VectorOp::row_sum, squares.op(VectorOp::mul, x, x));
    PassBuilder rows(true);
    rows.continue_from(squares);
    rows.store(VectorOp::store_row, 1, norm_factor(rows, sum, width, epsilon), Format::fp32);
    return {fmt::format("head_factor{}_{}", bias_suffix(bias), width), {squares.finish(), rows.finish()}};
}

VectorProgram rms_norm_program(Format out, std::int64_t width, double epsilon) {
    PassBuilder squares;
    const int x = squares.load(VectorOp::load, 0, Format::bf16);
    const int sum = squares.op(VectorOp::row_sum, squares.op(VectorOp::mul, x, x));

    PassBuilder scale(true);
    scale.continue_from(squares);
    const int factor = norm_factor(scale, sum, width, epsilon);

    PassBuilder apply;
    apply.continue_from(scale);
    const int again = apply.load(VectorOp::load, 0, Format::bf16);
    const int weight = apply.load(VectorOp::load_col, 1, Format::bf16);
    const int scaled = apply.op(VectorOp::mul, again, factor);
    apply.store_blocks(2, apply.op(VectorOp::mul, scaled, weight), out);
    return {fmt::format("rms_norm_{}_{}", width, name(out)), {squares.finish(), scale.finish(), apply.finish()}};
}

VectorProgram softmax_program(Format out, std::int64_t head_dim, bool first, bool masked) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    const auto scores = [masked](PassBuilder& pass) {
        const int value = pass.load(VectorOp::load, 0, Format::fp32);
        return masked ? pass.op(VectorOp::mask, value) : value;
    };
    PassBuilder maximum;
    const int row_max = maximum.op(VectorOp::row_max, scores(maximum));

    // Per row: the running maximum, and the factor exp(scale * (old - new)) that rescales what was summed before.
    PassBuilder merge(true);
    merge.continue_from(maximum);
    const int factor = merge.constant(scale);
    int top = row_max;
    int rescale = -1;
    if (!first) {
        const int old = merge.load(VectorOp::load_row, 2, Format::fp32);
        top = merge.op(VectorOp::max, old, row_max);
        rescale = merge.op(VectorOp::exp, merge.op(VectorOp::mul, merge.op(VectorOp::sub, old, top), factor));
        merge.store(VectorOp::store_row, 4, rescale, Format::fp32);
    }
    merge.store(VectorOp::store_row, 2, top, Format::fp32);
    const int shift = merge.op(VectorOp::mul, top, merge.constant(-scale));

    PassBuilder exponent;
    exponent.continue_from(merge);
    const int value = scores(exponent);
    const int probability = exponent.op(VectorOp::exp, exponent.op(VectorOp::fma, value, factor, shift));
    const int sum = exponent.op(VectorOp::row_sum, probability);
    exponent.store(VectorOp::store, 1, probability, out);

    PassBuilder total(true);
    total.continue_from(exponent);
    int row_total = sum;
    if (!first) {
        row_total = total.op(VectorOp::fma, total.load(VectorOp::load_row, 3, Format::fp32), rescale, sum);
    }
    total.store(VectorOp::store_row, 3, row_total, Format::fp32);
    return {fmt::format("softmax{}_{}{}_{}", head_dim, first ? "first" : "next", masked ? "_masked" : "", name(out)),
            {maximum.finish(), merge.finish(), exponent.finish(), total.finish()}};
}

namespace {

/// A score, minus infinity where it is masked.
int load_score(PassBuilder& pass, int operand, bool masked) {
    const int value = pass.load(VectorOp::load, operand, Format::fp32);
    return masked ? pass.op(VectorOp::mask, value) : value;
}

/// Per row: the running maximum in operand `first`, then the shift and the factor exp(scale * (old - new)).
void merge_maximum(PassBuilder& rows, int row_max, double scale, int first) {
    const int old = rows.load(VectorOp::load_row, first, Format::fp32);
    const int top = rows.op(VectorOp::max, old, row_max);
    const int difference = rows.op(VectorOp::sub, old, top);
    const int rescale = rows.op(VectorOp::exp, rows.op(VectorOp::mul, difference, rows.constant(scale)));
    rows.store(VectorOp::store_row, first + 2, rescale, Format::fp32);
    rows.store(VectorOp::store_row, first, top, Format::fp32);
    rows.store(VectorOp::store_row, first + 1, rows.op(VectorOp::mul, top, rows.constant(-scale)), Format::fp32);
}

/// Stores the probabilities of operand 0 and returns their sum.
int exponents(PassBuilder& pass, Format out, double scale, bool masked) {
    const int value = load_score(pass, 0, masked);
    const int shift = pass.load(VectorOp::load_row, 2, Format::fp32);
    const int probability = pass.op(VectorOp::exp, pass.op(VectorOp::fma, value, pass.constant(scale), shift));
    const int sum = pass.op(VectorOp::row_sum, probability);
    pass.store(VectorOp::store, 1, probability, out);
    return sum;
}

void merge_sum(PassBuilder& rows, int sum) {
    const int old = rows.load(VectorOp::load_row, 3, Format::fp32);
    const int rescale = rows.load(VectorOp::load_row, 4, Format::fp32);
    rows.store(VectorOp::store_row, 3, rows.op(VectorOp::fma, old, rescale, sum), Format::fp32);
}

double score_scale(std::int64_t head_dim) {
    return 1.0 / std::sqrt(static_cast<double>(head_dim));
}

std::string part_name(const char* part, std::int64_t head_dim, bool masked) {
    return fmt::format("softmax{}_{}{}", head_dim, part, masked ? "_masked" : "");
}

}  // namespace

VectorProgram softmax_start_program() {
    // Below every score, and finite: its distance from a maximum has an exponential, which is 0.
    constexpr double kLowest = std::numeric_limits<float>::lowest();
    PassBuilder rows(true);
    rows.store(VectorOp::store_row, 0, rows.constant(kLowest), Format::fp32);
    rows.store(VectorOp::store_row, 1, rows.constant(0.0), Format::fp32);
    return {"softmax_start", {rows.finish()}};
}

VectorProgram softmax_maximum_program(std::int64_t head_dim, bool masked) {
    PassBuilder pass;
    const int row_max = pass.op(VectorOp::row_max, load_score(pass, 0, masked));
    PassBuilder rows(true);
    rows.continue_from(pass);
    merge_maximum(rows, row_max, score_scale(head_dim), 1);
    return {part_name("maximum", head_dim, masked), {pass.finish(), rows.finish()}};
}

VectorProgram softmax_exponent_program(Format out, std::int64_t head_dim, bool masked) {
    PassBuilder pass;
    const int sum = exponents(pass, out, score_scale(head_dim), masked);
    PassBuilder rows(true);
    rows.continue_from(pass);
    merge_sum(rows, sum);
    return {part_name("exponent", head_dim, masked) + fmt::format("_{}", name(out)), {pass.finish(), rows.finish()}};
}

VectorProgram softmax_step_program(Format out, std::int64_t head_dim, bool masked) {
    const double scale = score_scale(head_dim);
    PassBuilder pass;
    const int sum = exponents(pass, out, scale, masked);
    const int row_max = pass.op(VectorOp::row_max, load_score(pass, 5, masked));
    PassBuilder rows(true);
    rows.continue_from(pass);
    merge_sum(rows, sum);
    merge_maximum(rows, row_max, scale, 6);
    return {part_name("step", head_dim, masked) + fmt::format("_{}", name(out)), {pass.finish(), rows.finish()}};
}

VectorProgram rescale_program() {
    PassBuilder pass;
    const int factor = pass.load(VectorOp::load_row, 1, Format::fp32);
    const int value = pass.load(VectorOp::load, 0, Format::fp32);
    pass.store(VectorOp::store, 0, pass.op(VectorOp::mul, value, factor), Format::fp32);
    return {"attention_rescale", {pass.finish()}};
}

VectorProgram attention_finish_program(Format out) {
    PassBuilder rows(true);
    const int inverse = rows.op(VectorOp::reciprocal, rows.load(VectorOp::load_row, 1, Format::fp32));
    PassBuilder pass;
    pass.continue_from(rows);
    const int value = pass.load(VectorOp::load, 0, Format::fp32);
    pass.store_blocks(2, pass.op(VectorOp::mul, value, inverse), out);
    return {fmt::format("attention_finish_{}", name(out)), {rows.finish(), pass.finish()}};
}

std::int64_t slots_per_element(const VectorProgram& program, const isa::TvpSpec& tvp) {
    std::int64_t slots = 0;
    for (const VectorPass& pass : program.passes) {
        for (const VectorStep& step : pass.steps) {
            if (pass.per_row) {
                continue;
            }
            switch (step.op) {
                case VectorOp::load:
                case VectorOp::load_row:
                case VectorOp::load_col:
                case VectorOp::store_row:
                case VectorOp::constant: break;
                case VectorOp::store: slots += step.format == Format::fp32 ? 0 : 1; break;
                case VectorOp::exp:
                case VectorOp::reciprocal:
                case VectorOp::rsqrt: slots += tvp.transcendental_slots; break;
                default: slots += 1;
            }
        }
    }
    return slots;
}

}  // namespace sluice::kernels
