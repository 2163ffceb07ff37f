// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/streams.hpp"

namespace sluice::sim {

namespace {

struct Interval {
    Cycle start, duration;
};

/// Runs that follow one another without a gap are one.
LineStream joined(LineStream stream) {
    for (std::size_t i = stream.counts.size(); i-- > 0;) {
        if (stream.counts[i] == 1) {
            continue;
        }
        if (stream.strides[i] != stream.run) {
            break;
        }
        stream.run *= stream.counts[i];
        stream.counts[i] = 1;
    }
    return stream;
}

/// Accesses' first dimension is the faster one.
void add(std::vector<LineStream>& out, const std::vector<isa::Access>& accesses, Interval when) {
    for (const isa::Access& access : accesses) {
        LineStream stream;
        stream.offset = access.offset;
        stream.run = access.run;
        stream.counts = {1, access.counts[1], access.counts[0]};
        stream.strides = {0, access.strides[1], access.strides[0]};
        stream.start = when.start;
        stream.duration = when.duration;
        out.push_back(joined(stream));
    }
}

}  // namespace

std::vector<LineStream> tensor_streams(const isa::TensorMacro& macro, const isa::TensorOperation& operation,
                                       const TensorTiming& timing, const isa::TtuSpec& ttu) {
    const std::int64_t mb = operation.mb;
    const std::int64_t nb = operation.nb;
    const std::int64_t kb = operation.kb;
    const auto overhead = static_cast<Cycle>(ttu.macro_overhead_cycles);
    const Cycle duration = static_cast<Cycle>(mb) * timing.row;
    LineStream a{operation.a,  static_cast<std::int64_t>(isa::block_bytes(macro.a_format)),
                 {mb, nb, kb}, {macro.a_stride_m, 0, macro.a_stride_k},
                 overhead,     duration};
    LineStream b{operation.b,  static_cast<std::int64_t>(isa::block_bytes(macro.b_format)),
                 {mb, nb, kb}, {0, macro.b_stride_n, macro.b_stride_k},
                 overhead,     duration};
    LineStream c{operation.c, isa::kAccumulatorBlockBytes,
                 {1, mb, nb}, {0, macro.c_stride_m, macro.c_stride_n},
                 overhead,    duration};
    std::vector<LineStream> out{joined(a), joined(b)};
    if (macro.accumulate) {
        out.push_back(joined(c));
    }
    c.start += static_cast<Cycle>(ttu.pipeline_latency_cycles);
    out.push_back(joined(c));
    return out;
}

std::vector<LineStream> vector_streams(const isa::VectorMacro& macro, const isa::VectorOperation& operation,
                                       const isa::TvpSpec& tvp) {
    std::vector<LineStream> out;
    Cycle start = 0;
    for (const isa::VectorPass& pass : operation.program->passes) {
        const PassTiming timing = pass_timing(pass, operation.rows, operation.cols, tvp);
        for (const isa::VectorStep& step : pass.steps) {
            if (step.operand < 0) {
                continue;
            }
            const auto k = static_cast<std::size_t>(static_cast<std::uint8_t>(step.operand));
            const bool stores = step.op == isa::VectorOp::store || step.op == isa::VectorOp::store_row;
            const Cycle later = stores ? static_cast<Cycle>(tvp.pipeline_latency_cycles) : 0;
            add(out,
                isa::step_accesses(macro.operands.at(k), operation.offsets.at(k), step, operation.rows,
                                   pass.per_row ? 1 : operation.cols, 0),
                {start + later, timing.work});
        }
        start += timing.total;
    }
    return out;
}

std::vector<LineStream> reshape_streams(const isa::ReshapeMacro& macro, const isa::ReshapeOperation& operation,
                                        Cycle cycles, const isa::ReshaperSpec& reshaper) {
    const auto latency = static_cast<Cycle>(reshaper.latency_cycles);
    std::vector<LineStream> out;
    for (const isa::Access& access : isa::reshape_accesses(macro, operation, 0)) {
        add(out, {access}, {access.write ? latency : 0, cycles - latency});
    }
    return out;
}

}  // namespace sluice::sim
