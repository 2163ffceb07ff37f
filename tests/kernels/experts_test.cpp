// SPDX-License-Identifier: Apache-2.0
// Layers of experts: the reference's bits, no race, and what is moved.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/kernels/executed.hpp"

namespace sluice::test {
namespace {

using isa::Format;

DenseModel with_experts(std::int64_t experts, std::int64_t chosen) {
    DenseModel model = small_model(1);
    model.hidden = model.ffn = model.vocab = 64;
    model.experts = experts;
    model.chosen = chosen;
    return model;
}

TEST_CASE("experts give the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    for (const auto& [experts, chosen] : {std::pair{1, 1}, std::pair{8, 2}, std::pair{40, 3}}) {
        for (const models::Workload& work : {decode(1, 5), decode(35, 20), prefill(2, 45)}) {
            INFO(experts << " experts, " << chosen << " chosen, " << work.batch << " sequences of " << work.context);
            const models::Graph graph = models::build_graph(with_experts(experts, chosen), work);
            check_values(graph, toy, models::random_inputs(graph, 5));
        }
    }
}

TEST_CASE("layers with and without experts follow one another, on several groups of clusters too") {
    models::ModelConfig mixed = with_experts(8, 2);
    const models::LayerConfig dense = models::ModelConfig(with_experts(0, 0)).layers.at(0);
    mixed.layers = {dense, mixed.layers.at(0), dense, mixed.layers.at(0)};
    for (const isa::ChipSpec& spec : {chip("toy"), chip("maia200")}) {
        for (const models::Workload& work : {decode(40, 20), prefill(2, 140)}) {
            INFO(spec.name << ": " << work.batch << " sequences of " << work.context);
            const models::Graph graph = models::build_graph(mixed, work);
            check_values(graph, spec, models::random_inputs(graph, 5));
        }
    }
}

TEST_CASE("experts of equal score are refused in a run on values") {
    const isa::ChipSpec toy = chip("toy");
    const models::Graph graph = models::build_graph(with_experts(8, 2), decode(3, 5));
    models::Values inputs = models::random_inputs(graph, 5);
    for (const models::Operator& op : graph.operators) {
        if (op.name == "layers.0.router") {
            for (float& value : inputs.at(std::get<models::Linear>(op.body).weight).values) {
                value = 0;
            }
        }
    }
    kernels::Compiled compiled = kernels::compile(graph, toy);
    CHECK_THROWS_WITH(run_values(graph, toy, inputs, compiled),
                      Catch::Contains("layers.0.router") && Catch::Contains("experts 0 and 1 equal scores"));
}

TEST_CASE("more experts of a token than the router's kernel takes are refused") {
    const isa::ChipSpec toy = chip("toy");
    CHECK_NOTHROW(kernels::compile(models::build_graph(with_experts(32, 16), decode(1, 5)), toy));
    CHECK_THROWS_WITH(kernels::compile(models::build_graph(with_experts(32, 17), decode(1, 5)), toy),
                      Catch::Contains("num_experts_per_tok") && Catch::Contains("at most 16"));
}

TEST_CASE("a step with experts moves what its closed form says") {
    for (const isa::ChipSpec& spec : {chip("toy"), chip("maia200")}) {
        for (const models::Workload& work : {decode(1, 5), decode(70, 40), prefill(2, 100)}) {
            INFO(spec.name << ": " << work.batch << " sequences of " << work.context);
            const models::Graph graph = models::build_graph(with_experts(40, 3), work);
            const Ran ran = compile_and_run(graph, spec);
            double weights = 0;
            for (const models::Operator& op : graph.operators) {
                weights +=
                    std::holds_alternative<models::Embedding>(op.body) ? 0 : models::cost(graph, op).weight_bytes;
            }
            CHECK(static_cast<double>(ran.result.hbm_read) >= weights);
            if (work.batch == 1) {
                // One unit for each expert that is hit, which reads its matrices once.
                const auto found = std::find_if(graph.operators.begin(), graph.operators.end(), [](const auto& op) {
                    return std::holds_alternative<models::Experts>(op.body);
                });
                const kernels::PlanNode& node = ran.compiled.nodes.at(7);
                REQUIRE(node.kind == "grouped_gemm");
                CHECK(static_cast<double>(ran.result.nodes.at(7).hbm_read) == models::cost(graph, *found).weight_bytes);
            }
            CHECK(same(sim::run(spec, ran.compiled.program), ran.result));
        }
    }
}

}  // namespace
}  // namespace sluice::test
