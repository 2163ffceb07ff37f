// SPDX-License-Identifier: Apache-2.0
// Models: a config.json is refused by name, or gives a model with a number of parameters and a graph.
#include "models/decoder_graph.hpp"
#include "models/huggingface.hpp"
#include "tests/fuzz/fuzzer.hpp"

using namespace sluice;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kFewLayers = 64;  // more are as much work again, and no other case
    static const fuzz::InputFile kFile("config.json");
    const std::filesystem::path& path = kFile.write(fuzz::text_of(data, size));
    (void)fuzz::accepts([&] {
        const models::ModelConfig config = models::read_model_config(path);
        fuzz::require(models::parameter_count(config) > 0, "a model has parameters");
        models::Workload step;
        step.batch = 3;
        step.context = 40;
        if (config.layers.size() <= kFewLayers) {
            fuzz::require(!models::build_graph(config, step).operators.empty(), "a model's step does something");
        }
    });
    return 0;
}
