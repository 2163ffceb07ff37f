// SPDX-License-Identifier: Apache-2.0
#include "models/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "isa/errors.hpp"

namespace sluice::models {

namespace {

/// splitmix64 (Steele, Lea, Flood 2014): the same numbers everywhere.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }
    /// In [-1, 1), in steps of 2^-23: exact in FP32.
    float symmetric() { return static_cast<float>(static_cast<std::int64_t>(next() >> 40) - (1 << 23)) * 0x1p-23F; }

private:
    std::uint64_t state_;
};

const Tensor& tensor(const Graph& graph, TensorIndex index) {
    return graph.tensors.at(static_cast<std::size_t>(index));
}

/// Weights of norms scale around one.
bool is_norm_weight(const Graph& graph, TensorIndex index) {
    return std::any_of(graph.operators.begin(), graph.operators.end(), [index](const Operator& op) {
        const auto* norm = std::get_if<RmsNorm>(&op.body);
        const auto* head_norm = std::get_if<HeadRmsNorm>(&op.body);
        return (norm != nullptr && norm->weight == index) || (head_norm != nullptr && head_norm->weight == index);
    });
}

Matrix random_matrix(const Graph& graph, TensorIndex index, std::uint64_t seed) {
    const Tensor& entry = tensor(graph, index);
    Random random(seed * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(index));
    Matrix out(entry.rows, entry.cols);
    if (entry.role == TensorRole::token_ids) {
        const auto vocab = static_cast<std::uint64_t>(vocabulary(graph));
        for (float& value : out.values) {
            value = static_cast<float>(random.next() % vocab);
        }
        return out;
    }
    const bool norm = is_norm_weight(graph, index);
    float scale = 1;
    if (norm) {
        scale = 0.25F;
    } else if (entry.role == TensorRole::weight && entry.rows > 1) {
        scale = std::sqrt(3.0F / static_cast<float>(entry.cols));
    }
    for (float& value : out.values) {
        value = random.symmetric() * scale + (norm ? 1.0F : 0.0F);
    }
    return out;
}

}  // namespace

std::vector<TensorIndex> inputs_of(const Graph& graph) {
    std::vector<TensorIndex> out;
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
        const TensorRole role = graph.tensors[i].role;
        const bool cache = role == TensorRole::kv_cache && graph.workload.phase == Phase::decode;
        if (role == TensorRole::weight || role == TensorRole::operand || role == TensorRole::token_ids ||
            role == TensorRole::updated || cache) {
            out.push_back(static_cast<TensorIndex>(i));
        }
    }
    return out;
}

std::vector<TensorIndex> outputs_of(const Graph& graph) {
    std::vector<TensorIndex> out;
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
        const TensorRole role = graph.tensors[i].role;
        if (role == TensorRole::output || role == TensorRole::kv_cache || role == TensorRole::updated) {
            out.push_back(static_cast<TensorIndex>(i));
        }
    }
    return out;
}

std::int64_t vocabulary(const Graph& graph) {
    for (const Operator& op : graph.operators) {
        if (const auto* embedding = std::get_if<Embedding>(&op.body)) {
            return tensor(graph, embedding->table).rows;
        }
    }
    return 1;
}

Values random_inputs(const Graph& graph, std::uint64_t seed) {
    Values out;
    for (const TensorIndex index : inputs_of(graph)) {
        const TensorIndex original = tensor(graph, index).same_values_as;
        out[index] = original >= 0 ? out.at(original) : random_matrix(graph, index, seed);
    }
    return out;
}

Matrix stored(const Matrix& matrix, Format format, isa::ScaleRounding rounding) {
    const isa::FormatInfo& entry = isa::info(format);
    if (format == Format::raw) {
        return matrix;
    }
    Matrix out(matrix.rows, matrix.cols);
    std::array<std::uint32_t, isa::kBlockEdge> codes{};
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
        for (std::int64_t col = 0; col < matrix.cols; col += isa::kBlockEdge) {
            const std::int64_t count = std::min(isa::kBlockEdge, matrix.cols - col);
            const auto at = static_cast<std::size_t>(row * matrix.cols + col);
            const std::span<const float> group(&matrix.values[at], static_cast<std::size_t>(count));
            std::uint8_t scale = 0;
            if (entry.block_scaled) {
                scale = isa::quantise_group(group, entry.element, rounding, codes);
            }
            for (std::size_t i = 0; i < group.size(); ++i) {
                out.values[at + i] = entry.block_scaled
                                         ? isa::decode_scaled(entry.element, codes[i], scale)
                                         : isa::decode(entry.element, isa::encode(entry.element, group[i]));
            }
        }
    }
    return out;
}

}  // namespace sluice::models
