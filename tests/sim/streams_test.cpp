// SPDX-License-Identifier: Apache-2.0
// Does a macro ask the banks for the lines of the bytes that it touches, at the times that its closed form has for
// them?
#include "sim/engine/streams.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "tests/sim/test_chip.hpp"

using namespace sluice;
using isa::Format;
using isa::VectorOp;

namespace {

constexpr std::int64_t kLine = 128;
using Lines = std::multiset<std::int64_t>;

/// Of one run, with all its repetitions.
template <std::size_t Levels>
void collect(Lines& out, std::int64_t offset, std::int64_t run, const std::array<std::int64_t, Levels>& counts,
             const std::array<std::int64_t, Levels>& strides, std::size_t level = 0) {
    if (level < Levels) {
        for (std::int64_t i = 0; i < counts[level]; ++i) {
            collect(out, offset + i * strides[level], run, counts, strides, level + 1);
        }
        return;
    }
    for (std::int64_t line = offset / kLine; line <= (offset + run - 1) / kLine; ++line) {
        out.insert(line);
    }
}

Lines lines_of(const std::vector<sim::LineStream>& streams) {
    Lines out;
    for (const sim::LineStream& stream : streams) {
        collect(out, stream.offset, stream.run, stream.counts, stream.strides);
    }
    return out;
}

std::set<std::int64_t> once(const Lines& lines) {
    return {lines.begin(), lines.end()};
}

std::set<std::int64_t> lines_of(const std::vector<isa::Access>& accesses) {
    Lines out;
    for (const isa::Access& access : accesses) {
        collect(out, access.offset, access.run, access.counts, access.strides);
    }
    return once(out);
}

isa::TensorMacro tensor() {
    isa::TensorMacro macro;
    macro.a_format = Format::mxfp8, macro.b_format = Format::mxfp4;
    macro.a_stride_k = 1056, macro.a_stride_m = 3 * 1056 + 96;
    macro.b_stride_k = 544, macro.b_stride_n = 3 * 544;
    macro.c_stride_n = 4096, macro.c_stride_m = 5 * 4096;
    return macro;
}

}  // namespace

TEST_CASE("a tensor macro reads its operands once for every block of C, and writes C once") {
    const isa::TtuSpec ttu = test::maia200().ttu;
    isa::TensorMacro macro = tensor();
    const isa::TensorOperation operation{2, 4, 3, 262144 + 64, 524288, 0, {}};
    const sim::TensorTiming timing = sim::tensor_timing(2, 4, 3, macro.a_format, macro.b_format, false, ttu);
    std::vector<sim::LineStream> streams = sim::tensor_streams(macro, operation, timing, ttu);
    REQUIRE(streams.size() == 3);
    Lines a;
    Lines c;
    for (std::int64_t m = 0; m < 2; ++m) {
        for (std::int64_t n = 0; n < 4; ++n) {
            // Blocks that follow one another without a gap are one run, whose lines count once.
            collect<1>(a, 262144 + 64 + m * macro.a_stride_m, 3 * 1056, {1}, {0});
            collect<1>(c, m * macro.c_stride_m + n * macro.c_stride_n, 4096, {1}, {0});
        }
    }
    CHECK(lines_of({streams[0]}) == a);
    CHECK(lines_of({streams[2]}) == c);
    // All of B for every block row of C; its rows are one run.
    Lines rows_of_b;
    collect<1>(rows_of_b, 524288, 4 * 3 * 544, {2}, {0});
    CHECK(lines_of({streams[1]}) == rows_of_b);
    for (const sim::LineStream& stream : streams) {
        CHECK(stream.duration == 8 * timing.block);
        CHECK(stream.start + stream.duration <= timing.total);
    }
    CHECK(streams[2].start + streams[2].duration == timing.total);

    macro.accumulate = true;
    streams = sim::tensor_streams(macro, operation, timing, ttu);
    REQUIRE(streams.size() == 4);
    CHECK(lines_of({streams[2]}) == c);
    CHECK(streams[3].start - streams[2].start == static_cast<Cycle>(ttu.pipeline_latency_cycles));
}

TEST_CASE("a vector macro asks for the bytes of its operands, pass by pass") {
    const isa::TvpSpec tvp = test::maia200().tvp;
    const auto step = [](VectorOp op, int operand, Format format) {
        isa::VectorStep s;
        s.op = op;
        s.operand = static_cast<std::int8_t>(operand);
        s.format = format;
        return s;
    };
    const isa::VectorProgram program{
        "p",
        {{false, {step(VectorOp::load, 0, Format::fp32), step(VectorOp::row_max, -1, Format::fp32)}},
         {true, {step(VectorOp::load_row, 1, Format::fp32), step(VectorOp::store_row, 1, Format::fp32)}},
         {false, {step(VectorOp::load, 0, Format::fp32), step(VectorOp::store, 2, Format::bf16)}}}};
    isa::VectorMacro macro;
    macro.program = "p";
    // FP32 in blocks, one value a row, BF16 row after row.
    macro.operands = {{0, 4 * 4096, 4096}, {0, 4, 0}, {0, 1024, 0}};
    const isa::VectorOperation operation{&program, 40, 96, {0, 500'000, 600'064}, 0};
    const std::vector<sim::LineStream> streams = sim::vector_streams(macro, operation, tvp);
    std::vector<isa::Access> accesses;
    std::vector<sim::PassTiming> passes;
    for (const isa::VectorPass& pass : program.passes) {
        passes.push_back(sim::pass_timing(pass, 40, 96, tvp));
        for (const isa::VectorStep& each : pass.steps) {
            if (each.operand >= 0) {
                const auto k = static_cast<std::size_t>(static_cast<std::uint8_t>(each.operand));
                const auto some =
                    isa::step_accesses(macro.operands[k], operation.offsets[k], each, 40, pass.per_row ? 1 : 96, 0);
                accesses.insert(accesses.end(), some.begin(), some.end());
            }
        }
    }
    CHECK(once(lines_of(streams)) == lines_of(accesses));
    const Cycle total = sim::vector_cycles(program, 40, 96, tvp);
    CHECK(total == passes[0].total + passes[1].total + passes[2].total);
    for (const sim::LineStream& stream : streams) {
        CHECK(stream.start + stream.duration <= total);
    }
    CHECK(streams.front().start == 0);
    CHECK(streams.back().start == passes[0].total + passes[1].total + static_cast<Cycle>(tvp.pipeline_latency_cycles));
    CHECK(streams.back().duration == passes[2].work);
}

TEST_CASE("a reshape reads its source and, a latency later, writes its destination") {
    const isa::ReshaperSpec reshaper = test::maia200().reshaper;
    isa::ReshapeMacro macro;
    macro.src_stride = 320, macro.dst_stride = 5 * 2048;
    const isa::ReshapeOperation operation{64, 160, 64, 131072};
    const Cycle cycles = sim::reshape_cycles(64, 160, macro.src_format, macro.dst_format, reshaper);
    const std::vector<sim::LineStream> streams = sim::reshape_streams(macro, operation, cycles, reshaper);
    REQUIRE(streams.size() == 2);
    CHECK(once(lines_of(streams)) == lines_of(isa::reshape_accesses(macro, operation, 0)));
    CHECK(streams[0].start == 0);
    CHECK(streams[1].start == static_cast<Cycle>(reshaper.latency_cycles));
    CHECK(streams[1].start + streams[1].duration == cycles);
}
