// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/timing.hpp"

#include <algorithm>
#include <vector>

namespace sluice::sim {

namespace {

using isa::VectorOp;

bool is_transcendental(VectorOp op) {
    return op == VectorOp::exp || op == VectorOp::reciprocal || op == VectorOp::rsqrt;
}
bool is_reduction(VectorOp op) {
    return op == VectorOp::row_sum || op == VectorOp::row_max || op == VectorOp::group_max_abs;
}
bool is_load(VectorOp op) {
    return op == VectorOp::load || op == VectorOp::load_row || op == VectorOp::load_col;
}
bool is_store(VectorOp op) {
    return op == VectorOp::store || op == VectorOp::store_row;
}

std::int64_t slots(const isa::VectorStep& step, const isa::TvpSpec& tvp) {
    if (is_load(step.op) || step.op == VectorOp::constant) {
        return 0;
    }
    if (is_store(step.op)) {
        return step.format == isa::Format::fp32 ? 0 : 1;
    }
    return is_transcendental(step.op) ? tvp.transcendental_slots : 1;
}

/// Rows and columns that a step touches in a pass.
struct Extent {
    std::int64_t rows, cols;
};
Extent extent(const isa::VectorStep& step, std::int64_t rows, std::int64_t cols) {
    switch (step.op) {
        case VectorOp::load_row:
        case VectorOp::store_row: return {rows, 1};
        case VectorOp::load_col: return {1, cols};
        default: return {rows, cols};
    }
}

std::int64_t memory_bytes(const isa::VectorStep& step, std::int64_t rows, std::int64_t cols) {
    const Extent e = extent(step, rows, cols);
    return e.rows * static_cast<std::int64_t>(isa::row_bytes(step.format, e.cols));
}

}  // namespace

TensorTiming tensor_timing(std::int64_t mb, std::int64_t nb, std::int64_t kb, isa::Format a, isa::Format b,
                           bool accumulate, const isa::TtuSpec& ttu) {
    const std::int64_t k_rate = isa::k_per_cycle(ttu, isa::tensor_rate(a, b, "tensor macro"));
    const std::int64_t wider = static_cast<std::int64_t>(std::max(isa::block_bytes(a), isa::block_bytes(b)));
    const std::int64_t multiply = ceil_div(kb * isa::kBlockEdge, k_rate);
    const std::int64_t operand = ceil_div(kb * wider, ttu.operand_bytes_per_cycle);
    // Reading and writing are separate directions of equal width, so accumulating adds no time to writing.
    (void)accumulate;
    const std::int64_t accumulators = ceil_div(isa::kAccumulatorBlockBytes, ttu.accumulator_bytes_per_cycle);
    TensorTiming timing;
    timing.block = static_cast<Cycle>(std::max({multiply, operand, accumulators}));
    timing.row = static_cast<Cycle>(nb) * timing.block;
    const auto fixed = static_cast<Cycle>(ttu.macro_overhead_cycles + ttu.pipeline_latency_cycles);
    timing.first_row = fixed + timing.row;
    timing.total = fixed + static_cast<Cycle>(mb) * timing.row;
    return timing;
}

PassTiming pass_timing(const isa::VectorPass& pass, std::int64_t rows, std::int64_t cols, const isa::TvpSpec& tvp) {
    cols = pass.per_row ? 1 : cols;
    std::int64_t pass_slots = 0;
    std::int64_t store_cycles = 0;
    std::vector<std::int64_t> loads;
    bool reduces = false;
    for (const isa::VectorStep& step : pass.steps) {
        pass_slots += slots(step, tvp);
        reduces = reduces || is_reduction(step.op);
        if (is_load(step.op)) {
            loads.push_back(ceil_div(memory_bytes(step, rows, cols), tvp.port_bytes_per_cycle));
        } else if (is_store(step.op)) {
            store_cycles += ceil_div(memory_bytes(step, rows, cols), tvp.port_bytes_per_cycle);
        }
    }
    std::sort(loads.rbegin(), loads.rend());
    std::vector<std::int64_t> ports(static_cast<std::size_t>(std::max<std::int64_t>(tvp.read_ports, 1)), 0);
    for (const std::int64_t load : loads) {
        *std::min_element(ports.begin(), ports.end()) += load;
    }
    const std::int64_t issue = ceil_div(ceil_div(rows * cols, tvp.lanes_32b) * pass_slots, tvp.issue_slots);
    const std::int64_t memory = std::max(*std::max_element(ports.begin(), ports.end()), store_cycles);
    const auto work = static_cast<Cycle>(std::max(issue, memory));
    return {work, work + static_cast<Cycle>(tvp.pipeline_latency_cycles) * (reduces ? 2 : 1)};
}

Cycle vector_cycles(const isa::VectorProgram& program, std::int64_t rows, std::int64_t cols, const isa::TvpSpec& tvp) {
    Cycle total = 0;
    for (const isa::VectorPass& pass : program.passes) {
        total += pass_timing(pass, rows, cols, tvp).total;
    }
    return total;
}

Cycle reshape_cycles(std::int64_t rows, std::int64_t cols, isa::Format src, isa::Format dst,
                     const isa::ReshaperSpec& reshaper) {
    const int bits = std::max(isa::info(src).element_bits, isa::info(dst).element_bits);
    const std::int64_t lanes = bits <= 8 ? reshaper.lanes_8b : bits <= 16 ? reshaper.lanes_16b : reshaper.lanes_32b;
    return static_cast<Cycle>(ceil_div(rows * cols, lanes) + reshaper.latency_cycles);
}

VectorWork vector_work(const isa::VectorProgram& program, std::int64_t rows, std::int64_t cols) {
    VectorWork work;
    for (const isa::VectorPass& pass : program.passes) {
        const std::int64_t pass_cols = pass.per_row ? 1 : cols;
        const auto elements = static_cast<std::uint64_t>(rows * pass_cols);
        for (const isa::VectorStep& step : pass.steps) {
            if (is_load(step.op)) {
                work.read += static_cast<Bytes>(memory_bytes(step, rows, pass_cols));
            } else if (is_store(step.op)) {
                const Extent e = extent(step, rows, pass_cols);
                work.written += static_cast<Bytes>(memory_bytes(step, rows, pass_cols));
                work.conversions += step.format == isa::Format::fp32 ? 0 : static_cast<std::uint64_t>(e.rows * e.cols);
            } else if (is_transcendental(step.op)) {
                work.transcendentals += elements;
            } else if (step.op != VectorOp::constant) {
                work.operations += elements;
            }
        }
    }
    return work;
}

}  // namespace sluice::sim
