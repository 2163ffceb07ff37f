// SPDX-License-Identifier: Apache-2.0
// Does an eager schedule run one operator after the other, each launched once, and is a fused one without launches?
#include <catch2/catch.hpp>

#include "tests/kernels/compiled.hpp"

using namespace sluice;
using namespace sluice::test;
using kernels::Schedule;

namespace {

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kNodesOfLayer = 7;

/// Cycles that the chip's control processor stood for launches.
Cycle launch_cycles(const sim::RunResult& result) {
    for (const sim::EngineAccount& engine : result.engines) {
        if (engine.path == "chip.control") {
            return engine.waiting[static_cast<std::size_t>(sim::WaitKind::launch)];
        }
    }
    FAIL("no account of the chip's control processor");
    return 0;
}

Cycle on_path(const sim::RunResult& result, const std::string& resource) {
    for (const sim::CriticalSegment& segment : result.critical_path) {
        if (segment.resource == resource) {
            return segment.cycles;
        }
    }
    return 0;
}

/// Every launch is a cut through the run, so all of them lie on the critical path.
void check_launches(const sim::RunResult& result, const isa::ChipSpec& chip, std::int64_t launches) {
    const auto cycles = static_cast<Cycle>(launches * chip.schedule.eager_launch_cycles);
    CHECK(launch_cycles(result) == cycles);
    CHECK(on_path(result, "launch") == cycles);
}

/// Operators in the order of their nodes. From the end of one to the first instruction of the next: the clusters' word
/// to the chip, the launch, the chip's signal and its way, a cluster's signal to its tiles, an issue. What was written
/// to HBM is visible before it is in the DRAM, so an operator that writes there may end later.
void check_apart(const Ran& ran, const isa::ChipSpec& chip) {
    const auto least = static_cast<Cycle>(chip.schedule.eager_launch_cycles +
                                          2 * chip.semaphores.latency_global_cycles + 3 * chip.control.issue_cycles);
    for (std::size_t i = 1; i < ran.result.nodes.size(); ++i) {
        const sim::NodeAccount& before = ran.result.nodes[i - 1];
        const sim::NodeAccount& node = ran.result.nodes[i];
        INFO(ran.compiled.nodes[i].name);
        const Cycle end = before.hbm_written == 0 ? before.end : std::max(before.first_fetch, before.start);
        CHECK(std::min(node.first_fetch, node.start) >= end + least);
    }
}

std::vector<isa::ChipSpec> chips() {
    return {chip("toy"), chip("maia200", {"soc.clusters=3"}), chip("maia200")};
}

}  // namespace

TEST_CASE("a decode step launches every node once, and none before the one before is complete") {
    for (const isa::ChipSpec& chip : chips()) {
        for (const auto& [batch, context] : {std::pair{1, 1}, std::pair{5, 300}, std::pair{40, 100}}) {
            INFO(batch << " sequences of " << context << " on " << chip.name);
            const models::Graph graph = models::build_graph(small_model(kLayers), decode(batch, context));
            const Ran ran = compile_and_run(graph, chip, Schedule::eager);
            check_launches(ran.result, chip, kNodesOfLayer * kLayers + 3);
            check_apart(ran, chip);
        }
    }
}

TEST_CASE("a layer of experts is eight launches") {
    constexpr std::int64_t kNodesOfExperts = 8;
    DenseModel model = small_model(kLayers);
    model.experts = 8;
    model.chosen = 2;
    for (const isa::ChipSpec& chip : chips()) {
        const Ran ran = compile_and_run(models::build_graph(model, decode(5, 40)), chip, Schedule::eager);
        check_launches(ran.result, chip, kNodesOfExperts * kLayers + 3);
        check_apart(ran, chip);
    }
}

TEST_CASE("a prefill launches embedding, layers and final norm for every sequence, and the head once") {
    for (const isa::ChipSpec& chip : chips()) {
        for (const std::int64_t batch : {1, 3}) {
            INFO(batch << " sequences on " << chip.name);
            const models::Graph graph = models::build_graph(small_model(kLayers), prefill(batch, 145));
            const Ran ran = compile_and_run(graph, chip, Schedule::eager);
            check_launches(ran.result, chip, batch * (kNodesOfLayer * kLayers + 2) + 1);
            if (batch == 1) {
                check_apart(ran, chip);
            }
        }
    }
}

TEST_CASE("rows in chunks launch the layers for every chunk, and what follows them where there is something to do") {
    // Two row blocks of this model fit: 2 x (8 x (2048 + 1056) + 8 x (1024 + 1056) + 16 x 1056) bytes, and slack.
    const isa::ChipSpec small = chip("toy", {"csram.bytes=128KiB"});
    const Ran decoded =
        compile_and_run(models::build_graph(small_model(kLayers), decode(70, 40)), small, Schedule::eager);
    check_launches(decoded.result, small, 2 * (kNodesOfLayer * kLayers + 3));
    // Seven row blocks in four chunks; the last token is in the last one.
    const Ran filled =
        compile_and_run(models::build_graph(small_model(kLayers), prefill(2, 200)), small, Schedule::eager);
    check_launches(filled.result, small, 2 * (4 * (kNodesOfLayer * kLayers + 1) + 1) + 1);
}

TEST_CASE("a product is launched once") {
    const models::Graph graph =
        models::build_gemm(100, 70, 200, isa::Format::mxfp8, isa::Format::mxfp4, isa::Format::bf16);
    for (const isa::ChipSpec& chip : chips()) {
        const Ran eager = compile_and_run(graph, chip, Schedule::eager);
        check_launches(eager.result, chip, 1);
        const sim::NodeAccount& node = eager.result.nodes.at(0);
        CHECK(node.first_fetch >= static_cast<Cycle>(chip.schedule.eager_launch_cycles));
        const Ran fused = compile_and_run(graph, chip);
        check_launches(fused.result, chip, 0);
        CHECK(fused.result.nodes.at(0).first_fetch < node.first_fetch);
    }
}

TEST_CASE("a launch of no cycles keeps the barrier") {
    const isa::ChipSpec free = chip("toy", {"schedule.eager_launch_cycles=0"});
    const models::Graph graph = models::build_graph(small_model(kLayers), decode(3, 100));
    const Ran eager = compile_and_run(graph, free, Schedule::eager);
    check_launches(eager.result, free, 0);
    check_apart(eager, free);
    CHECK(eager.result.cycles > compile_and_run(graph, free).result.cycles);
}

TEST_CASE("an eager program of many layers is as long as one of few") {
    const isa::ChipSpec toy = chip("toy");
    const auto statements = [&toy](std::int64_t layers, const models::Workload& work) {
        const models::Graph graph = models::build_graph(small_model(layers), work);
        return isa::statement_count(kernels::compile(graph, toy, Schedule::eager).program);
    };
    CHECK(statements(20, decode(3, 100)) == statements(2, decode(3, 100)));
    CHECK(statements(20, prefill(5, 100)) == statements(2, prefill(2, 100)));
}
