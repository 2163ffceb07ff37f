// SPDX-License-Identifier: Apache-2.0
// Layers of experts: the reference's bits, no race, and what is moved.
#include <catch2/catch.hpp>

#include "isa/execute/race_check.hpp"
#include "tests/kernels/executed.hpp"

namespace sluice::test {
namespace {

using isa::Format;

DenseModel with_experts(std::int64_t experts, std::int64_t chosen) {
    DenseModel model = small_model(2);
    model.hidden = model.ffn = model.vocab = 64;
    model.experts = experts;
    model.chosen = chosen;
    return model;
}

TEST_CASE("experts give the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    for (const auto& [experts, chosen] : {std::pair{1, 1}, std::pair{8, 2}, std::pair{40, 3}}) {
        for (const models::Workload& work : {decode(1, 5), decode(37, 40), prefill(2, 45), prefill(1, 130)}) {
            INFO(experts << " experts, " << chosen << " chosen, " << work.batch << " sequences of " << work.context);
            const models::Graph graph = models::build_graph(with_experts(experts, chosen), work);
            check_values(graph, toy, models::random_inputs(graph, 5));
        }
    }
}

}  // namespace
}  // namespace sluice::test
