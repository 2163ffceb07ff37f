// SPDX-License-Identifier: Apache-2.0
// Is every layer simulated by itself, though the program holds equal layers once?
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/kernels/compiled.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Doubles the FFN of one layer: gate and up give twice the columns, down takes them.
void widen_ffn(models::Graph& graph, std::int64_t layer) {
    const auto tensor = [&graph](models::TensorIndex index) -> models::Tensor& {
        return graph.tensors.at(static_cast<std::size_t>(index));
    };
    for (models::Operator& op : graph.operators) {
        if (op.layer != layer) {
            continue;
        }
        if (auto* linear = std::get_if<models::Linear>(&op.body)) {
            if (op.name.ends_with("gate_proj") || op.name.ends_with("up_proj")) {
                tensor(linear->weight).rows *= 2;
                tensor(linear->out).cols *= 2;
            } else if (op.name.ends_with("down_proj")) {
                tensor(linear->weight).cols *= 2;
            }
        } else if (auto* swiglu = std::get_if<models::Swiglu>(&op.body)) {
            tensor(swiglu->out).cols *= 2;
        }
    }
}

std::map<std::string, double> spans(const Ran& ran) {
    std::map<std::string, double> by_name;
    for (std::size_t i = 0; i < ran.result.nodes.size(); ++i) {
        const sim::NodeAccount& account = ran.result.nodes[i];
        by_name[ran.compiled.nodes[i].name] = static_cast<double>(account.end - account.start);
    }
    return by_name;
}

/// From the end of a layer's predecessor to its own.
std::vector<double> layer_spans(const Ran& ran) {
    std::vector<double> out;
    Cycle last = 0;
    for (std::size_t i = 0; i < ran.result.nodes.size(); ++i) {
        const Cycle end = ran.result.nodes[i].end;
        if (ran.compiled.nodes[i].name == "embedding") {
            last = end;
        } else if (ran.compiled.nodes[i].name.ends_with(".down")) {
            out.push_back(static_cast<double>(end - last));
            last = end;
        }
    }
    return out;
}

/// What a program does, whenever it does it.
std::vector<std::uint64_t> counts_of_program(const sim::RunResult& result) {
    using E = sim::EnergyEvent;
    std::vector<std::uint64_t> out;
    for (const E event : {E::control_instruction, E::dma_descriptor, E::dma_byte, E::hbm_read_byte, E::hbm_write_byte,
                          E::mac_fp8, E::vec_fp32_op, E::tsram_operand_read_byte, E::tsram_read_byte,
                          E::tsram_write_byte, E::semaphore_operation}) {
        out.push_back(count(result, event));
    }
    return out;
}

}  // namespace

TEST_CASE("every layer costs its own events") {
    const isa::ChipSpec toy = chip("toy");
    for (const models::Workload& work : {decode(5, 100), prefill(2, 100)}) {
        std::vector<double> events;
        std::vector<std::vector<std::uint64_t>> done;
        for (const std::int64_t layers : {2, 4, 6, 8}) {
            DenseModel model = small_model(layers);
            model.hidden = 512;
            model.ffn = 2048;
            const Ran ran = compile_and_run(models::build_graph(model, work), toy);
            events.push_back(static_cast<double>(ran.result.events));
            done.push_back(counts_of_program(ran.result));
        }
        for (std::size_t i = 0; i < done[0].size(); ++i) {
            INFO(i);
            CHECK(done[1][i] > done[0][i]);
            CHECK(done[2][i] - done[1][i] == done[1][i] - done[0][i]);
            CHECK(done[3][i] - done[2][i] == done[1][i] - done[0][i]);
        }
        const double step = (events[3] - events[0]) / 3;
        CHECK(step > events[0] / 4);
        for (std::size_t i = 1; i < events.size(); ++i) {
            // Who meets whom at banks and links, and so the number of events, is not the same in every layer: the
            // counts above are exact, this says that no layer was left out.
            CHECK(events[i] - events[i - 1] == Approx(step).epsilon(0.1));
        }
    }
}

TEST_CASE("a layer with a wider FFN takes longer, and no other layer does") {
    const isa::ChipSpec toy = chip("toy");
    DenseModel model = small_model(6);
    model.hidden = 1024;
    model.ffn = 8192;
    model.heads = 8;
    constexpr std::int64_t kWide = 3;
    for (const models::Workload& work : {decode(16, 128), prefill(1, 32)}) {
        models::Graph graph = models::build_graph(model, work);
        const Ran narrow = compile_and_run(graph, toy);
        widen_ffn(graph, kWide);
        const Ran wide = compile_and_run(graph, toy);
        REQUIRE(narrow.compiled.nodes.size() == wide.compiled.nodes.size());
        const std::map<std::string, double> before = spans(narrow);
        const std::vector<double> layers_before = layer_spans(narrow);
        const std::vector<double> layers_after = layer_spans(wide);
        for (const auto& [name, span] : spans(wide)) {
            INFO(name);
            if (name == fmt::format("layers.{}.gate_up", kWide) || name == fmt::format("layers.{}.down", kWide)) {
                CHECK(span >= 1.5 * before.at(name));
                CHECK(span <= 2.5 * before.at(name));
            } else if (name.ends_with(".gate_up") || name.ends_with(".down")) {
                // Fetches for a node's successors run beside it: where the boundary between two nodes falls depends on
                // the order in which the memory serves the streams. The other nodes are too short to tell; their sum
                // is in the layer's span, below.
                CHECK(span == Approx(before.at(name)).epsilon(0.1));
            }
        }
        for (std::size_t layer = 0; layer < layers_after.size(); ++layer) {
            INFO("layer " << layer);
            if (layer == kWide) {
                CHECK(layers_after[layer] >= 1.5 * layers_before[layer]);
            } else {
                CHECK(layers_after[layer] == Approx(layers_before[layer]).epsilon(0.03));
            }
        }
        // Three runs of equal layers: those before it, it, those after it.
        std::map<std::string, std::vector<std::int64_t>> runs;
        for (const isa::NodeRange& range : wide.compiled.program.nodes) {
            runs[range.name].push_back(range.count);
        }
        CHECK(runs.at("layers.{}.down") == std::vector<std::int64_t>{kWide, 1, 6 - kWide - 1});
    }
}

TEST_CASE("eighty layers are hardly more program than one") {
    const isa::ChipSpec maia = chip("maia200");
    models::ModelConfig config = models::read_model_config(kConfigs + "/models/llama-3.1-70b.json");
    for (const models::Workload& work : {decode(32, 4096), prefill(1, 2048)}) {
        const auto compiled = [&](std::int64_t layers) {
            config.layers.resize(static_cast<std::size_t>(layers), config.layers.front());
            kernels::Compiled out = kernels::compile(models::build_graph(config, work), maia);
            isa::verify(out.program, maia);
            check_round_trip(out.program);
            return out;
        };
        const kernels::Compiled one = compiled(1);
        const kernels::Compiled eighty = compiled(80);
        CHECK(isa::statement_count(eighty.program) <= 3 * isa::statement_count(one.program));
        CHECK(isa::write_text(eighty.program).size() <= 3 * isa::write_text(one.program).size());
        const std::vector<std::string> names = isa::node_names(eighty.program);
        REQUIRE(names.size() == eighty.nodes.size());
        std::set<std::int64_t> layers;
        for (std::size_t i = 0; i < names.size(); ++i) {
            CHECK(names[i] == eighty.nodes[i].name);
            layers.insert(eighty.nodes[i].layer);
        }
        for (std::int64_t layer = 0; layer < 80; ++layer) {
            CHECK(layers.contains(layer));
            CHECK(std::count(names.begin(), names.end(), fmt::format("layers.{}.down", layer)) == 1);
        }
    }
}
