// SPDX-License-Identifier: Apache-2.0
// Inputs from a seed, which tensors a run is given and gives, and values as their formats store them.
#include "models/values.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

#include "models/decoder_graph.hpp"
#include "tests/support/dense_model.hpp"

namespace sluice::models {
namespace {

ModelConfig tiny(bool tied) {
    test::DenseModel model;
    model.name = "tiny";
    model.layers = 2;
    model.hidden = 128;
    model.ffn = 256;
    model.heads = 2;
    model.kv_heads = 1;
    model.vocab = 320;
    model.tied = tied;
    return model;
}

Graph step(Phase phase, bool tied = false) {
    Workload work;
    work.phase = phase;
    work.batch = 3;
    work.tokens = phase == Phase::prefill ? 7 : 1;
    work.context = 7;
    return build_graph(tiny(tied), work);
}

const Tensor& tensor(const Graph& graph, TensorIndex index) {
    return graph.tensors.at(static_cast<std::size_t>(index));
}

bool ends_with(const std::string& name, const std::string& end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

std::set<std::string> names(const Graph& graph, const std::vector<TensorIndex>& indices) {
    std::set<std::string> out;
    for (const TensorIndex index : indices) {
        out.insert(tensor(graph, index).name);
    }
    return out;
}

std::set<std::string> names(const Graph& graph, std::initializer_list<TensorRole> roles) {
    std::set<std::string> out;
    for (const Tensor& entry : graph.tensors) {
        if (std::find(roles.begin(), roles.end(), entry.role) != roles.end()) {
            out.insert(entry.name);
        }
    }
    return out;
}

TEST_CASE("the same seed gives the same inputs, another one other inputs") {
    const Graph graph = step(Phase::decode);
    const Values first = random_inputs(graph, 7);
    CHECK(first == random_inputs(graph, 7));
    const Values other = random_inputs(graph, 8);
    REQUIRE(other.size() == first.size());
    for (const auto& [index, matrix] : first) {
        INFO(tensor(graph, index).name);
        CHECK(matrix != other.at(index));
    }
}

TEST_CASE("inputs have the shape of their tensors and stay within their ranges") {
    const Graph graph = step(Phase::decode);
    const Values inputs = random_inputs(graph, 7);
    for (const auto& [index, matrix] : inputs) {
        const Tensor& entry = tensor(graph, index);
        INFO(entry.name);
        CHECK(matrix.rows == entry.rows);
        CHECK(matrix.cols == entry.cols);
        CHECK(matrix.values.size() == static_cast<std::size_t>(entry.rows * entry.cols));
        float low = -1;
        float high = 1;
        if (entry.role == TensorRole::token_ids) {
            low = 0;
            high = 319;
            CHECK(
                std::all_of(matrix.values.begin(), matrix.values.end(), [](float id) { return id == std::floor(id); }));
        } else if (ends_with(entry.name, "norm.weight")) {
            low = 0.75F;
            high = 1.25F;
        } else if (entry.role == TensorRole::weight) {
            high = std::sqrt(3.0F / static_cast<float>(entry.cols));
            low = -high;
        }
        CHECK(*std::min_element(matrix.values.begin(), matrix.values.end()) >= low);
        CHECK(*std::max_element(matrix.values.begin(), matrix.values.end()) <= high);
    }
}

TEST_CASE("a weight's variance is one by its inner size") {
    const Graph graph = build_gemm(4, 200, 500, Format::bf16, Format::bf16, Format::bf16);
    const Matrix weight = random_inputs(graph, 1).at(1);
    double sum = 0;
    double squares = 0;
    for (const float value : weight.values) {
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
    }
    // Of n uniform values the mean spreads by sqrt(variance / n), the variance by variance x sqrt(0.8 / n): five of
    // each.
    const auto count = static_cast<double>(weight.values.size());
    const double variance = 1.0 / 500;
    CHECK(std::abs(sum / count) < 5 * std::sqrt(variance / count));
    CHECK(std::abs(squares / count - variance) < 5 * variance * std::sqrt(0.8 / count));
}

TEST_CASE("a tied head is given the embedding's values") {
    const Graph graph = step(Phase::decode, true);
    const Values inputs = random_inputs(graph, 7);
    std::size_t copies = 0;
    for (const auto& [index, matrix] : inputs) {
        if (const TensorIndex original = tensor(graph, index).same_values_as; original >= 0) {
            CHECK(matrix == inputs.at(original));
            ++copies;
        }
    }
    CHECK(copies == 1);
}

TEST_CASE("a step is given weights, tokens and what was cached before, and gives logits and caches") {
    using R = TensorRole;
    const Graph prefill = step(Phase::prefill);
    CHECK(names(prefill, inputs_of(prefill)) == names(prefill, {R::weight, R::token_ids}));
    CHECK(names(prefill, outputs_of(prefill)) == names(prefill, {R::output, R::kv_cache}));
    const Graph decode = step(Phase::decode);
    CHECK(names(decode, inputs_of(decode)) == names(decode, {R::weight, R::token_ids, R::kv_cache}));
    CHECK(names(decode, outputs_of(decode)) == names(decode, {R::output, R::kv_cache}));
    CHECK(vocabulary(decode) == 320);
}

TEST_CASE("a product is given its operands and gives its result") {
    const Graph graph = build_gemm(4, 5, 6, Format::bf16, Format::bf16, Format::fp32);
    CHECK(names(graph, inputs_of(graph)) == std::set<std::string>{"a", "b"});
    CHECK(names(graph, outputs_of(graph)) == std::set<std::string>{"c"});
    CHECK(vocabulary(graph) == 1);
}

TEST_CASE("what is updated is given and given back") {
    Graph graph;
    graph.tensors = {{"read", TensorRole::operand, 1, 1, Format::bf16},
                     {"both", TensorRole::updated, 1, 1, Format::bf16},
                     {"written", TensorRole::output, 1, 1, Format::bf16}};
    CHECK(names(graph, inputs_of(graph)) == std::set<std::string>{"read", "both"});
    CHECK(names(graph, outputs_of(graph)) == std::set<std::string>{"both", "written"});
}

TEST_CASE("a plain format stores every element by itself") {
    Matrix matrix(2, 3);
    // BF16 has 8 significant bits: 257 lies between 256 and 258, 1 + 2^-8 between 1 and 1 + 2^-7; ties go to even.
    matrix.values = {257, 1 + 0x1p-8F, 1 + 0x3p-8F, -257, 0.5F, 3};
    CHECK(stored(matrix, Format::bf16, isa::ScaleRounding::floor).values ==
          std::vector<float>{256, 1, 1 + 0x1p-6F, -256, 0.5F, 3});
    CHECK(stored(matrix, Format::fp32, isa::ScaleRounding::floor) == matrix);
    CHECK(stored(matrix, Format::raw, isa::ScaleRounding::floor) == matrix);
}

/// E2M1 with a scale for every 32 elements of a row, by search among all that the format has.
std::vector<float> nearest_mxfp4(const std::vector<float>& group) {
    float most = 0;
    for (const float value : group) {
        most = std::max(most, std::abs(value));
    }
    const float scale = std::exp2(std::floor(std::log2(most)) - 2);
    std::vector<float> out;
    for (const float value : group) {
        const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
        float best = 0;
        for (const float magnitude : magnitudes) {
            if (std::abs(std::abs(value) / scale - magnitude) < std::abs(std::abs(value) / scale - best)) {
                best = magnitude;
            }
        }
        out.push_back(std::copysign(best * scale, value));
    }
    return out;
}

TEST_CASE(
    "a block-scaled format takes 32 elements from the start of each row, and what is left as a group of its own") {
    constexpr std::int64_t kCols = 75;
    Matrix matrix(4, kCols);
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
        // No ties: an odd number of 1/1024ths of ever other magnitudes.
        matrix.values[i] = std::ldexp(static_cast<float>(static_cast<int>(i * 7919 % 2047) - 1023) + 0.125F,
                                      static_cast<int>(i / 32 % 5) - 10);
    }
    const Matrix found = stored(matrix, Format::mxfp4, isa::ScaleRounding::floor);
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
        for (std::int64_t first = 0; first < kCols; first += 32) {
            const std::int64_t count = std::min<std::int64_t>(32, kCols - first);
            std::vector<float> group;
            for (std::int64_t i = 0; i < count; ++i) {
                group.push_back(matrix.at(row, first + i));
            }
            const std::vector<float> wanted = nearest_mxfp4(group);
            for (std::int64_t i = 0; i < count; ++i) {
                INFO(row << ", " << first + i << ": " << group[static_cast<std::size_t>(i)]);
                CHECK(found.at(row, first + i) == wanted[static_cast<std::size_t>(i)]);
            }
        }
    }
    CHECK(stored(found, Format::mxfp4, isa::ScaleRounding::floor) == found);
}

}  // namespace
}  // namespace sluice::models
