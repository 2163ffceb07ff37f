// SPDX-License-Identifier: Apache-2.0
// Whole runs: are cycles, bytes and energy accounted for exactly, and is the result the same every time?
#include "sim/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "isa/errors.hpp"
#include "sim/engine/timing.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr isa::QueueId kTtu{isa::Engine::ttu, 0};
constexpr isa::QueueId kTvp{isa::Engine::tvp, 0};
constexpr isa::QueueId kReshaper{isa::Engine::reshaper, 0};

/// A double-buffered GEMM-like pipeline on every tile: fetch A and B, multiply, post-process, store; semaphores 0
/// counts full buffers, 1 free ones, 2 finished block rows, 3 free output.
isa::Program pipeline(const isa::ChipSpec& chip, std::int64_t steps) {
    constexpr std::int64_t kOperandBytes = 4 * 4 * 1056;  // 128 x 128 of MXFP8
    constexpr std::int64_t kRing = 2 * 65536;
    const isa::Affine buffer(1 << 20, {{isa::Var::i0, 65536}});
    const auto ring = [&](std::int64_t extra) {
        isa::Affine a = buffer;
        a.ring = kRing;
        a.base += extra;
        return a;
    };
    const isa::Affine source(0, {{isa::Var::self, 1 << 22}, {isa::Var::i0, kOperandBytes}});
    isa::TensorMacro tensor;
    tensor.mb = tensor.nb = tensor.kb = 4;
    tensor.a_offset = ring(0);
    tensor.b_offset = ring(32768);
    tensor.c_offset = 0;
    tensor.a_stride_m = tensor.b_stride_n = 4 * 1056;
    tensor.a_stride_k = tensor.b_stride_k = 1056;
    tensor.c_stride_m = 4 * 4096;
    tensor.c_stride_n = 4096;
    tensor.a_format = tensor.b_format = isa::Format::mxfp8;
    tensor.row_signal = own_sem(2);
    const isa::VectorMacro post{"post", 128, 128, {{isa::Affine(0), 512, 0}, {isa::Affine(2 << 20), 256, 0}}};
    const isa::Affine node(0, {{isa::Var::i0, 1}});
    const auto use = [](std::int64_t index, std::int64_t count = 1) { return own_sem(index, count); };
    isa::Block body{
        instruction(tdma(0), copy(hbm_at(source), own_tsram(ring(0)), kOperandBytes), "fetch A", {use(1)}, {use(0)},
                    node),
        instruction(tdma(1), copy(csram_at(of(isa::Var::cluster), 0), own_tsram(ring(32768)), kOperandBytes), "fetch B",
                    {use(4)}, {use(0)}, node),
        instruction(kTtu, tensor, "multiply", {use(0, 2), use(3)}, {use(1), use(4)}, node),
        instruction(kTvp, post, "post", {use(2, 4)}, {use(3), use(5)}, node),
        instruction(tdma(2), copy(own_tsram(2 << 20), hbm_at(isa::Affine(std::int64_t{1} << 34, source.terms)), 32768),
                    "store", {use(5)}, {}, node),
    };
    isa::Program p = program({control(isa::Level::tile, 0, isa::tile_count(chip), {loop(steps, body)})});
    isa::VectorStep load{isa::VectorOp::load, 0, -1, -1, -1, 0, isa::Format::fp32, 0};
    isa::VectorStep exp{isa::VectorOp::exp, 1, 0, -1, -1, -1, isa::Format::fp32, 0};
    isa::VectorStep store{isa::VectorOp::store, -1, 1, -1, -1, 1, isa::Format::bf16, 0};
    p.vector_programs.push_back({"post", {{false, {load, exp, store}}}});
    p.nodes.push_back({0, steps, 1, 0, "step {}"});
    const auto tiles = isa::tile_count(chip);
    for (const std::uint16_t index : {1, 3, 4}) {
        p.semaphores.push_back({{0, isa::Level::tile, 0, index}, tiles, index == 3 ? 1 : 2});
    }
    return p;
}

std::uint64_t count(const sim::EnergyCounts& counts, sim::EnergyEvent event) {
    return counts[static_cast<std::size_t>(event)];
}

std::string fingerprint(const sim::RunResult& r) {
    std::string text = fmt::format("{} {}\n", r.cycles, r.events);
    for (const sim::EngineAccount& e : r.engines) {
        text += fmt::format("{} {} {} {}\n", e.path, e.busy, e.idle, fmt::join(e.waiting, ","));
    }
    for (const sim::NodeAccount& n : r.nodes) {
        text += fmt::format("{} {} {} {}\n", n.first_fetch, n.start, n.end, fmt::join(n.energy, ","));
    }
    for (const sim::CriticalSegment& s : r.critical_path) {
        text += fmt::format("{} {}\n", s.resource, s.cycles);
    }
    for (const sim::EnergyCounts& bin : r.intervals) {
        text += fmt::format("{}\n", fmt::join(bin, ","));
    }
    for (const sim::StatValue& s : r.stats) {
        text += fmt::format("{} {}\n", s.path, s.value);
    }
    return text;
}

}  // namespace

TEST_CASE("every cycle of every lane is accounted for, the critical path spans the run") {
    const isa::ChipSpec chip = maia200();
    const sim::RunResult r = sim::run(chip, pipeline(chip, 20));
    // Lanes: per tile 4 channels, 2 + 2 contexts, the reshaper; 8 channels per cluster; the processors; the idle ports.
    CHECK(r.engines.size() == 36 * 9 + 4 * 8 + (36 + 4 + 1) + 29);
    for (const sim::EngineAccount& e : r.engines) {
        INFO(e.path);
        CHECK(e.total == r.cycles);
        CHECK(e.busy + e.idle + std::accumulate(e.waiting.begin(), e.waiting.end(), Cycle{0}) == e.total);
    }
    Cycle path = 0;
    for (const sim::CriticalSegment& segment : r.critical_path) {
        path += segment.cycles;
        CHECK(segment.resource != "unrecorded");
    }
    CHECK(path == r.cycles);
    CHECK(r.seconds == Approx(isa::seconds(chip, r.cycles)).epsilon(1e-12));
}

TEST_CASE("energy of nodes, of intervals and of the run is one and the same, and counts the work") {
    const isa::ChipSpec chip = maia200();
    constexpr std::uint64_t kSteps = 12;
    const sim::RunResult r = sim::run(chip, pipeline(chip, kSteps));
    REQUIRE(r.nodes.size() == kSteps);
    constexpr std::array kNoNode{sim::EnergyEvent::hbm_refresh_bank, sim::EnergyEvent::hbm_standby_cycle};
    for (std::size_t e = 0; e < sim::kEnergyEventCount; ++e) {
        INFO(sim::energy_events()[e].name);
        std::uint64_t nodes = 0;
        std::uint64_t intervals = 0;
        for (const sim::NodeAccount& node : r.nodes) {
            nodes += node.energy[e];
        }
        for (const sim::EnergyCounts& bin : r.intervals) {
            intervals += bin[e];
        }
        CHECK(intervals == r.energy[e]);
        if (std::find(kNoNode.begin(), kNoNode.end(), static_cast<sim::EnergyEvent>(e)) == kNoNode.end()) {
            CHECK(nodes == r.energy[e]);
        }
    }
    const std::uint64_t macros = 36 * kSteps;
    CHECK(count(r.energy, sim::EnergyEvent::mac_fp8) == macros * 128 * 128 * 128);
    CHECK(count(r.energy, sim::EnergyEvent::tsram_operand_read_byte) == macros * 4 * 4 * 4 * 2 * 1056);
    CHECK(count(r.energy, sim::EnergyEvent::vec_transcendental) == macros * 128 * 128);
    CHECK(count(r.energy, sim::EnergyEvent::vec_convert) == macros * 128 * 128);
    CHECK(count(r.energy, sim::EnergyEvent::dma_descriptor) == macros * 3);
    CHECK(count(r.energy, sim::EnergyEvent::control_instruction) == macros * 5);
    CHECK(count(r.energy, sim::EnergyEvent::semaphore_operation) == macros * (2 + 2 + (2 + 2 + 4) + 3 + 1));
    CHECK(count(r.energy, sim::EnergyEvent::hbm_standby_cycle) == 192 * r.cycles);
}

TEST_CASE("bytes are conserved from memory to memory") {
    const isa::ChipSpec chip = maia200();
    constexpr std::uint64_t kSteps = 9;
    const sim::RunResult r = sim::run(chip, pipeline(chip, kSteps));
    constexpr std::uint64_t kOperand = 4 * 4 * 1056;
    const std::uint64_t macros = 36 * kSteps;
    CHECK(r.hbm_read == macros * kOperand);
    CHECK(r.hbm_written == macros * 32768);
    CHECK(count(r.energy, sim::EnergyEvent::hbm_read_byte) == r.hbm_read);
    CHECK(count(r.energy, sim::EnergyEvent::hbm_phy_byte) == r.hbm_read + r.hbm_written);
    CHECK(count(r.energy, sim::EnergyEvent::csram_read_byte) == macros * kOperand);
    sim::NodeAccount sum;
    for (const sim::NodeAccount& node : r.nodes) {
        sum.hbm_read += node.hbm_read;
        sum.hbm_written += node.hbm_written;
        sum.csram += node.csram;
        sum.noc += node.noc;
        CHECK(node.instructions == 36 * 5);
        CHECK(node.first_fetch < node.start);
        CHECK(node.start < node.end);
    }
    CHECK(sum.hbm_read == r.hbm_read);
    CHECK(sum.hbm_written == r.hbm_written);
    CHECK(sum.csram == macros * kOperand);
    CHECK(sum.noc == macros * (2 * kOperand + 32768));
    double ingress = 0;
    double egress = 0;
    for (const sim::StatValue& s : r.stats) {
        ingress += s.path.ends_with(".ingress.bytes") ? s.value : 0;
        egress += s.path.ends_with(".egress.bytes") ? s.value : 0;
        if (s.unit == "fraction") {
            INFO(s.path);
            CHECK(s.value >= 0);
            CHECK(s.value <= 1);
        }
        CHECK_FALSE(s.description.empty());
    }
    CHECK(ingress == static_cast<double>(macros * 2 * kOperand));
    CHECK(egress == static_cast<double>(macros * 32768));
}

TEST_CASE("the same inputs give the same result, and the order of construction changes nothing") {
    const isa::ChipSpec chip = maia200();
    const isa::Program p = pipeline(chip, 10);
    const std::string first = fingerprint(sim::run(chip, p));
    CHECK(fingerprint(sim::run(chip, p)) == first);
    sim::RunOptions options;
    options.reverse_construction = true;
    CHECK(fingerprint(sim::run(chip, p, options)) == first);
}

/// Runs of A begin at bank 0, those of B half a turn (2 KiB) away, and both go round at one pace: they never meet, and
/// what C asks for fits between them. So the macro takes its closed form.
void lay_out(isa::TensorMacro& tensor, std::int64_t block) {
    const std::int64_t nb = tensor.nb.evaluate({});
    const std::int64_t kb = tensor.kb.evaluate({});
    constexpr std::int64_t kTurn = 32 * 128;
    tensor.a_offset = 131072, tensor.b_offset = 262144 + kTurn / 2;
    tensor.a_stride_k = tensor.b_stride_k = block;
    tensor.a_stride_m = tensor.b_stride_n = ceil_div(kb * block, kTurn) * kTurn;
    tensor.c_stride_n = isa::kAccumulatorBlockBytes;
    tensor.c_stride_m = nb * isa::kAccumulatorBlockBytes;
}

TEST_CASE("a lone tensor macro takes its closed form, and block rows signal as they finish") {
    const isa::ChipSpec chip = toy();
    isa::TensorMacro tensor;
    tensor.mb = 3, tensor.nb = 2, tensor.kb = 8;
    lay_out(tensor, 544);
    tensor.a_format = tensor.b_format = isa::Format::mxfp4;
    tensor.row_signal = own_sem(0);
    const sim::TensorTiming timing =
        sim::tensor_timing(3, 2, 8, isa::Format::mxfp4, isa::Format::mxfp4, false, chip.ttu);
    const auto cycles = [&](std::int64_t rows) {
        isa::Block body{instruction(kTtu, tensor, "multiply")};
        if (rows > 0) {
            body.push_back(instruction(kTvp, isa::FenceMacro{}, "after", {own_sem(0, rows)}));
        }
        const sim::RunResult r = sim::run(chip, program({control(isa::Level::tile, 0, 1, body)}));
        return std::pair{r.cycles, r.engines};
    };
    CHECK(cycles(0).first == 8 + timing.total);
    CHECK(cycles(3).first == 8 + timing.total + 4 + 1);  // a local signal, and the fence
    // The vector queue goes on when the rows it asked for are there.
    for (const std::int64_t rows : {1, 2}) {
        const auto [end, engines] = cycles(rows);
        for (const sim::EngineAccount& e : engines) {
            if (e.path == "chip.cluster0.tile0.tvp0") {
                const Cycle row = 8 + timing.first_row + static_cast<Cycle>(rows - 1) * timing.row;
                CHECK(e.waiting[static_cast<std::size_t>(sim::WaitKind::semaphore)] == row + 4 - 2 * 8);
            }
        }
        CHECK(end == 8 + timing.total);
    }
}

TEST_CASE("two contexts share the array, one macro at a time, without a gap") {
    const isa::ChipSpec chip = toy();
    isa::ReshapeMacro reshape;
    reshape.rows = 64, reshape.cols = 512;
    reshape.src_stride = 1024, reshape.dst_stride = 16 * 2048, reshape.dst_offset = 64 * 1024;
    isa::TensorMacro tensor;
    tensor.mb = 4, tensor.nb = 4, tensor.kb = 8;
    lay_out(tensor, 1056);
    tensor.a_format = tensor.b_format = isa::Format::mxfp8;
    const Cycle macro = sim::tensor_timing(4, 4, 8, isa::Format::mxfp8, isa::Format::mxfp8, false, chip.ttu).total;
    const isa::QueueId other{isa::Engine::ttu, 1};
    const sim::RunResult r = sim::run(
        chip,
        program({control(isa::Level::tile, 0, 1, {loop(5, {instruction(kTtu, tensor), instruction(other, tensor)})})}));
    CHECK(r.cycles == 8 + 10 * macro);
    const Cycle moved = sim::reshape_cycles(64, 512, isa::Format::bf16, isa::Format::bf16, chip.reshaper);
    CHECK(sim::run(chip, program({control(isa::Level::tile, 0, 1, {loop(3, {instruction(kReshaper, reshape)})})}))
              .cycles == 8 + 3 * moved);
    for (const sim::EngineAccount& e : r.engines) {
        if (e.path == "chip.cluster0.tile0.ttu1") {
            CHECK(e.busy == 5 * macro);
            CHECK(e.waiting[static_cast<std::size_t>(sim::WaitKind::engine)] > 0);
        }
    }
}

TEST_CASE("limits and progress are the caller's") {
    const isa::ChipSpec chip = maia200();
    sim::RunOptions options;
    options.max_cycles = 100;
    CHECK_THROWS_AS(sim::run(chip, pipeline(chip, 3), options), InputError);
    options = {};
    options.power_interval_cycles = 500;
    const sim::RunResult r = sim::run(chip, pipeline(chip, 3), options);
    CHECK(r.power_interval_cycles == 500);
    CHECK(r.intervals.size() == (r.cycles + 499) / 500);
    options.power_interval_cycles = 0;
    CHECK(sim::run(chip, pipeline(chip, 60), options).intervals.size() <= 1000);
}

TEST_CASE("an empty program takes no time") {
    const sim::RunResult r = sim::run(toy(), program({}));
    CHECK(r.cycles == 0);
    CHECK(r.critical_path.empty());
    CHECK(r.hbm_read == 0);
}
