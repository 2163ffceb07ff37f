// SPDX-License-Identifier: Apache-2.0
// A whole tiny model writes text: a prefill, then eight decode steps over the growing cache, each token chosen by the
// logits of the step before. Program and reference go their own ways; every logit and every cached value agrees.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/kernels/executed.hpp"

namespace sluice::test {
namespace {

using isa::Format;
using models::Graph;
using models::Matrix;
using models::TensorIndex;
using models::TensorRole;
using models::Values;

constexpr std::int64_t kSteps = 8;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kPrompt = 27;  ///< with the steps, positions cross a block of 32

DenseModel tiny_model() {
    DenseModel model = small_model(2);
    model.hidden = 128;
    model.ffn = 256;
    model.vocab = 200;
    return model;
}

models::Workload with_formats(models::Workload work, Format weights, Format activations, Format kv) {
    work.weights = weights;
    work.activations = activations;
    work.kv = kv;
    return work;
}

TensorIndex find(const Graph& graph, const std::string& name) {
    const auto found = std::find_if(graph.tensors.begin(), graph.tensors.end(),
                                    [&name](const models::Tensor& tensor) { return tensor.name == name; });
    REQUIRE(found != graph.tensors.end());
    return static_cast<TensorIndex>(found - graph.tensors.begin());
}

/// Rows of every sequence and head move apart: the cache of the next step has one position more.
Matrix grown(const Matrix& cache, std::int64_t context) {
    Matrix out(cache.rows / context * (context + 1), cache.cols);
    for (std::int64_t row = 0; row < cache.rows; ++row) {
        for (std::int64_t d = 0; d < cache.cols; ++d) {
            out.at(row / context * (context + 1) + row % context, d) = cache.at(row, d);
        }
    }
    return out;
}

/// Inputs of a decode step after a step that left `outputs`.
Values next_inputs(const Graph& next, const Graph& last, const Values& outputs, const Values& weights) {
    Values inputs;
    for (const TensorIndex index : models::inputs_of(next)) {
        const models::Tensor& tensor = next.tensors[static_cast<std::size_t>(index)];
        const TensorIndex before = find(last, tensor.name);
        if (tensor.role == TensorRole::kv_cache) {
            inputs[index] = grown(outputs.at(before), last.workload.context);
        } else if (tensor.role == TensorRole::token_ids) {
            const Matrix& logits = outputs.at(find(last, "lm_head.out"));
            Matrix& ids = inputs[index] = Matrix(tensor.rows, 1);
            for (std::int64_t t = 0; t < ids.rows; ++t) {
                const auto first = logits.values.begin() + t * logits.cols;
                ids.at(t, 0) = static_cast<float>(std::max_element(first, first + logits.cols) - first);
            }
        } else {
            inputs[index] = weights.at(before);
        }
    }
    return inputs;
}

void check_generation(const isa::ChipSpec& chip, Format weights, Format activations, Format kv) {
    const DenseModel model = tiny_model();
    Graph graph = models::build_graph(model, with_formats(prefill(kBatch, kPrompt), weights, activations, kv));
    Values inputs = models::random_inputs(graph, 11);
    Values outputs = check_values(graph, chip, inputs);
    for (std::int64_t step = 1; step <= kSteps; ++step) {
        INFO("step " << step);
        const Graph next =
            models::build_graph(model, with_formats(decode(kBatch, kPrompt + step), weights, activations, kv));
        inputs = next_inputs(next, graph, outputs, inputs);
        outputs = check_values(next, chip, inputs);
        graph = next;
    }
}

void check_all_formats(const isa::ChipSpec& chip) {
    {
        INFO("FP4");
        check_generation(chip, Format::mxfp4, Format::mxfp4, Format::e4m3);
    }
    {
        INFO("FP8");
        check_generation(chip, Format::mxfp8, Format::mxfp8, Format::e4m3);
    }
    {
        INFO("BF16");
        check_generation(chip, Format::bf16, Format::bf16, Format::bf16);
    }
}

TEST_CASE("a tiny model generates the reference's tokens on one tile") {
    check_all_formats(chip("maia200", {"soc.clusters=1", "soc.tiles_per_cluster=1"}));
}

TEST_CASE("a tiny model generates the reference's tokens on one cluster") {
    check_all_formats(chip("maia200", {"soc.clusters=1"}));
}

TEST_CASE("a tiny model generates the reference's tokens on the whole chip") {
    check_all_formats(chip("maia200"));
}

}  // namespace
}  // namespace sluice::test
