// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of a graph's tensors.
#include <cstdint>
#include <map>
#include <vector>

#include "isa/number/block_scale.hpp"
#include "models/graph.hpp"

namespace sluice::models {

/// Row-major. Token ids are whole numbers below 2^24, which FP32 holds exactly.
struct Matrix {
    std::int64_t rows = 0, cols = 0;
    std::vector<float> values;

    Matrix() = default;
    Matrix(std::int64_t row_count, std::int64_t col_count)
        : rows(row_count), cols(col_count), values(static_cast<std::size_t>(row_count * col_count)) {}
    [[nodiscard]] float& at(std::int64_t row, std::int64_t col) {
        return values[static_cast<std::size_t>(row * cols + col)];
    }
    [[nodiscard]] float at(std::int64_t row, std::int64_t col) const {
        return values[static_cast<std::size_t>(row * cols + col)];
    }
    friend bool operator==(const Matrix&, const Matrix&) = default;
};

using Values = std::map<TensorIndex, Matrix>;

/// What a run needs to be given: weights, operands, token ids, what is updated, and in decode the caches.
[[nodiscard]] std::vector<TensorIndex> inputs_of(const Graph& graph);
/// What a run gives: outputs, what is updated, and the caches.
[[nodiscard]] std::vector<TensorIndex> outputs_of(const Graph& graph);

/// How many token ids there are: rows of the table that they choose from, 1 if there is none.
[[nodiscard]] std::int64_t vocabulary(const Graph& graph);

/// Inputs drawn from a seed, the same on every machine: weights uniform with variance 1 / their inner size, norm
/// weights in [0.75, 1.25], everything else in [-1, 1], token ids below the vocabulary.
[[nodiscard]] Values random_inputs(const Graph& graph, std::uint64_t seed);

/// The values as they are once stored in `format`: each row in groups of 32 from its start.
[[nodiscard]] Matrix stored(const Matrix& matrix, Format format, isa::ScaleRounding rounding);

}  // namespace sluice::models
