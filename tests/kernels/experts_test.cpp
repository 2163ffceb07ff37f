// SPDX-License-Identifier: Apache-2.0
// Layers of experts: the reference's bits, no race, and what is moved.
#include <catch2/catch.hpp>

#include "isa/execute/race_check.hpp"
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
            CHECK(same(sim::run(spec, ran.compiled.program), ran.result));
        }
    }
}

}  // namespace
}  // namespace sluice::test
