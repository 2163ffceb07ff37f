// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles, verifies and runs a graph, and checks what must hold for every one of them.
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "isa/chip_spec_reader.hpp"
#include "isa/text.hpp"
#include "isa/verifier.hpp"
#include "kernels/compile.hpp"
#include "models/decoder_graph.hpp"
#include "models/huggingface.hpp"
#include "sim/run.hpp"
#include "tests/kernels/program_walk.hpp"
#include "tests/support/dense_model.hpp"

namespace sluice::test {

inline const std::string kConfigs = std::string(SLUICE_SOURCE_DIR) + "/configs";

inline isa::ChipSpec chip(const std::string& name, const std::vector<std::string>& sets = {}) {
    return isa::read_chip(name, sets, kConfigs).spec;
}

/// A model of the size that a toy chip runs in milliseconds.
inline DenseModel small_model(std::int64_t layers) {
    DenseModel model;
    model.layers = layers;
    return model;
}

inline models::Workload decode(std::int64_t batch, std::int64_t context) {
    models::Workload work;
    work.batch = batch;
    work.context = context;
    return work;
}
inline models::Workload prefill(std::int64_t batch, std::int64_t tokens) {
    models::Workload work;
    work.phase = models::Phase::prefill;
    work.batch = batch;
    work.tokens = work.context = tokens;
    return work;
}

inline void check_round_trip(const isa::Program& program) {
    const std::string text = isa::write_text(program);
    const isa::Program again = isa::read_text(text, "again");
    CHECK((again == program));
    CHECK((isa::write_text(again) == text));
}

inline std::uint64_t count(const sim::RunResult& result, sim::EnergyEvent event) {
    return result.energy[static_cast<std::size_t>(event)];
}
inline std::uint64_t macs(const sim::RunResult& result) {
    using E = sim::EnergyEvent;
    return count(result, E::mac_fp4) + count(result, E::mac_fp6) + count(result, E::mac_fp8) +
           count(result, E::mac_fp8xfp4) + count(result, E::mac_bf16);
}

/// All that two runs of one program must agree in.
inline bool same(const sim::RunResult& a, const sim::RunResult& b) {
    bool equal = a.cycles == b.cycles && a.events == b.events && a.hbm_read == b.hbm_read &&
                 a.hbm_written == b.hbm_written && a.energy == b.energy && a.nodes.size() == b.nodes.size();
    for (std::size_t i = 0; equal && i < a.nodes.size(); ++i) {
        equal = a.nodes[i].start == b.nodes[i].start && a.nodes[i].end == b.nodes[i].end &&
                a.nodes[i].energy == b.nodes[i].energy;
    }
    return equal;
}

struct Ran {
    kernels::Compiled compiled;
    sim::RunResult result;
};

/// Compiles, verifies, writes and reads back, runs; then: the run did what the program says, no part was faster than
/// its lower bound, and every cycle of every engine is accounted for.
inline Ran compile_and_run(const models::Graph& graph, const isa::ChipSpec& chip,
                           kernels::Schedule schedule = kernels::Schedule::fused) {
    Ran ran;
    ran.compiled = kernels::compile(graph, chip, schedule);
    isa::verify(ran.compiled.program, chip);
    check_round_trip(ran.compiled.program);
    ran.result = sim::run(chip, ran.compiled.program);
    const sim::RunResult& result = ran.result;

    const Asked asked = ProgramWalk(ran.compiled.program, chip).asked();
    CHECK(result.hbm_read == asked.hbm_read);
    CHECK(result.hbm_written == asked.hbm_written);
    CHECK(macs(result) == asked.macs);
    CHECK(count(result, sim::EnergyEvent::control_instruction) == asked.issued);

    const auto cycles = static_cast<double>(result.cycles);
    double ttu = 0;
    double tvp = 0;
    double hbm = 0;
    REQUIRE(result.nodes.size() == ran.compiled.nodes.size());
    for (std::size_t i = 0; i < result.nodes.size(); ++i) {
        const kernels::PlanNode& plan = ran.compiled.nodes[i];
        const sim::NodeAccount& account = result.nodes[i];
        INFO(plan.name);
        CHECK(account.instructions > 0);
        CHECK(account.end <= result.cycles);
        const auto compute = static_cast<double>(account.end - account.start);
        CHECK(compute >= plan.ttu_cycles);
        CHECK(compute >= plan.tvp_cycles);
        CHECK(static_cast<double>(account.end - std::min(account.first_fetch, account.start)) >= plan.hbm_cycles);
        ttu += plan.ttu_cycles;
        tvp += plan.tvp_cycles;
        hbm += plan.hbm_cycles;
    }
    CHECK(cycles >= ttu);
    CHECK(cycles >= tvp);
    CHECK(cycles >= hbm);
    for (const sim::EngineAccount& engine : result.engines) {
        const Cycle sum = std::accumulate(engine.waiting.begin(), engine.waiting.end(), engine.busy + engine.idle);
        if (sum != engine.total || engine.total != result.cycles) {
            FAIL_CHECK(engine.path << ": " << sum << " of " << engine.total << " cycles accounted for");
        }
    }
    return ran;
}

}  // namespace sluice::test
