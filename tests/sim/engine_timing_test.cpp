// SPDX-License-Identifier: Apache-2.0
// Do the closed forms of the compute engines say what their headers say?
#include "sim/engine/timing.hpp"

#include <catch2/catch.hpp>

#include "tests/sim/test_chip.hpp"

using namespace sluice;
using isa::Format;
using isa::VectorOp;

namespace {

isa::VectorStep step(VectorOp op, Format format = Format::fp32) {
    isa::VectorStep s;
    s.op = op;
    s.format = format;
    return s;
}

Cycle one_pass(std::vector<isa::VectorStep> steps, std::int64_t rows, std::int64_t cols, bool per_row = false) {
    const isa::VectorProgram program{"p", {{per_row, std::move(steps)}}};
    return sim::vector_cycles(program, rows, cols, test::maia200().tvp);
}

constexpr std::int64_t kLatency = 12;

}  // namespace

TEST_CASE("a tensor macro that multiplies: overhead + mb nb ceil(32 kb / k per cycle) + one fill") {
    const isa::TtuSpec ttu = test::maia200().ttu;
    const auto total = [&](std::int64_t mb, std::int64_t nb, std::int64_t kb, Format a, Format b) {
        return sim::tensor_timing(mb, nb, kb, a, b, false, ttu).total;
    };
    CHECK(total(16, 16, 32, Format::mxfp4, Format::mxfp4) == 8 + 16 * 16 * (32 * 32 / 64) + 24);
    CHECK(total(16, 16, 32, Format::mxfp8, Format::mxfp8) == 8 + 16 * 16 * (32 * 32 / 32) + 24);
    CHECK(total(16, 16, 32, Format::e4m3, Format::mxfp4) == 8 + 16 * 16 * (32 * 32 / 32) + 24);
    CHECK(total(3, 5, 7, Format::bf16, Format::bf16) == 8 + 3 * 5 * (7 * 32 / 8) + 24);
}

TEST_CASE("a block of C rounds its whole run over k up once") {
    isa::TtuSpec ttu = test::maia200().ttu;
    ttu.k_per_cycle_fp8 = 48;
    ttu.operand_bytes_per_cycle = 4096;
    ttu.accumulator_bytes_per_cycle = 4096;
    // 3 x 32 = 96 = 2 x 48, while each block alone would take one cycle.
    CHECK(sim::tensor_timing(1, 1, 3, Format::mxfp8, Format::mxfp8, false, ttu).block == 2);
    CHECK(sim::tensor_timing(1, 1, 4, Format::mxfp8, Format::mxfp8, false, ttu).block == 3);
}

TEST_CASE("a narrow operand port or the accumulators bound a block instead") {
    isa::TtuSpec ttu = test::maia200().ttu;
    // 4096 B of FP32 at 1024 B/cycle: 4 cycles, however short the run over k.
    CHECK(sim::tensor_timing(1, 1, 1, Format::mxfp8, Format::mxfp8, false, ttu).block == 4);
    CHECK(sim::tensor_timing(1, 1, 1, Format::mxfp8, Format::mxfp8, true, ttu).block == 4);
    ttu.operand_bytes_per_cycle = 512;
    CHECK(sim::tensor_timing(1, 1, 16, Format::mxfp8, Format::mxfp4, false, ttu).block == (16 * 1056 + 511) / 512);
}

TEST_CASE("block rows finish one after the other, the last with the macro") {
    const sim::TensorTiming t = sim::tensor_timing(4, 8, 16, Format::mxfp8, Format::mxfp8, false, test::maia200().ttu);
    CHECK(t.row == 8 * 16);
    CHECK(t.first_row == 8 + 8 * 16 + 24);
    CHECK(t.first_row + 3 * t.row == t.total);
}

TEST_CASE("lane operations: elements over lanes, times slots over issue slots, plus the latency") {
    // Three one-slot operations fill the three slots: a lane does an element a cycle.
    const std::vector<isa::VectorStep> three{step(VectorOp::add), step(VectorOp::mul), step(VectorOp::fma)};
    CHECK(one_pass(three, 32, 128) == 32 * 128 / 128 + kLatency);
    // Transcendentals take four slots each; a partial last group of lanes counts whole.
    CHECK(one_pass({step(VectorOp::exp)}, 1, 129) == (2 * 4 + 2) / 3 + kLatency);
    CHECK(one_pass({step(VectorOp::exp), step(VectorOp::rsqrt), step(VectorOp::reciprocal)}, 32, 128) ==
          32 * 12 / 3 + kLatency);
    // Constants are free.
    CHECK(one_pass({step(VectorOp::constant), step(VectorOp::add)}, 3, 128) == 1 + kLatency);
}

TEST_CASE("loads spread over two read ports, stores share the write port") {
    constexpr std::int64_t kRows = 64;
    constexpr std::int64_t kCols = 256;
    constexpr std::int64_t kFp32 = kRows * kCols * 4 / 512;
    constexpr std::int64_t kBf16 = kFp32 / 2;
    CHECK(one_pass({step(VectorOp::load)}, kRows, kCols) == kFp32 + kLatency);
    CHECK(one_pass({step(VectorOp::load), step(VectorOp::load)}, kRows, kCols) == kFp32 + kLatency);
    // Longest first: 2 + 1 + 1 halves make 2 and 2.
    CHECK(one_pass({step(VectorOp::load, Format::bf16), step(VectorOp::load, Format::bf16), step(VectorOp::load)},
                   kRows, kCols) == kFp32 + kLatency);
    CHECK(one_pass({step(VectorOp::store), step(VectorOp::store)}, kRows, kCols) == 2 * kFp32 + kLatency);
    // A converting store takes a slot, and moves less.
    CHECK(one_pass({step(VectorOp::store, Format::bf16)}, kRows, kCols) == kBf16 + kLatency);
    // Row and column operands move one value a row or column.
    CHECK(one_pass({step(VectorOp::load_row), step(VectorOp::load_col)}, kRows, kCols) == 2 + kLatency);
    // MX scales travel along: 33 bytes per 32 elements.
    CHECK(one_pass({step(VectorOp::load, Format::mxfp8)}, kRows, kCols) == kRows * kCols / 32 * 33 / 512 + kLatency);
}

TEST_CASE("a reduction adds a latency, a per-row pass has one column, passes follow each other") {
    CHECK(one_pass({step(VectorOp::row_max)}, 32, 128) == (32 + 2) / 3 + 2 * kLatency);
    CHECK(one_pass({step(VectorOp::reciprocal)}, 256, 999, true) == (2 * 4 + 2) / 3 + kLatency);
    const isa::VectorProgram two{"p", {{false, {step(VectorOp::add)}}, {false, {step(VectorOp::add)}}}};
    CHECK(sim::vector_cycles(two, 32, 128, test::maia200().tvp) == 2 * one_pass({step(VectorOp::add)}, 32, 128));
}

TEST_CASE("the reshaper moves elements at the rate of the wider format") {
    const isa::ReshaperSpec reshaper = test::maia200().reshaper;
    const auto cycles = [&](Format a, Format b) { return sim::reshape_cycles(64, 100, a, b, reshaper); };
    CHECK(cycles(Format::mxfp8, Format::mxfp4) == (6400 + 511) / 512 + 16);
    CHECK(cycles(Format::bf16, Format::mxfp4) == 6400 / 256 + 16);
    CHECK(cycles(Format::bf16, Format::fp32) == 6400 / 128 + 16);
}

TEST_CASE("the work of a vector program counts lane operations and bytes") {
    const isa::VectorProgram program{"p",
                                     {{false,
                                       {step(VectorOp::load, Format::bf16), step(VectorOp::exp), step(VectorOp::add),
                                        step(VectorOp::store, Format::bf16)}}}};
    const sim::VectorWork work = sim::vector_work(program, 10, 20);
    CHECK(work.operations == 200);
    CHECK(work.transcendentals == 200);
    CHECK(work.conversions == 200);
    CHECK(work.read == 400);
    CHECK(work.written == 400);
}
