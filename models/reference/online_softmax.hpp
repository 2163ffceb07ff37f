// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of one row with an online softmax: chunk by chunk, as the kernels do it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/graph.hpp"
#include "models/reference/dot.hpp"
#include "models/reference/rounding.hpp"
#include "models/values.hpp"

namespace sluice::models {

/// Attention of one query row over positions [0, visible) of one head.
class OnlineSoftmax {
public:
    OnlineSoftmax(const Attention& op, Format format, std::int64_t chunk)
        : op_(op),
          format_(format),
          chunk_(chunk),
          factor_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(op.head_dim)))),
          shift_(static_cast<float>(-1.0 / std::sqrt(static_cast<double>(op.head_dim)))),
          out_(static_cast<std::size_t>(op.head_dim), 0.0F) {}

    template <class Key, class Value>
    std::vector<float> run(const std::vector<float>& query, std::int64_t visible, const Key& key, const Value& value) {
        for (std::int64_t first = 0; first < visible; first += chunk_) {
            step(query, first, std::min(chunk_, visible - first), key, value);
        }
        const float inverse = reciprocal(sum_);
        for (float& element : out_) {
            element *= inverse;
        }
        return out_;
    }

private:
    template <class Key, class Value>
    void step(const std::vector<float>& query, std::int64_t first, std::int64_t count, const Key& key,
              const Value& value) {
        std::vector<float> scores(static_cast<std::size_t>(count));
        float top = -std::numeric_limits<float>::infinity();
        for (std::int64_t j = 0; j < count; ++j) {
            float& score = scores[static_cast<std::size_t>(j)];
            score = dot(format_, query, format_, key(first + j), 0.0F);
            top = std::max(top, score);
        }
        const bool continues = first > 0;
        float rescale = 0;
        if (continues) {
            const float old = top_;
            top = std::max(old, top);
            rescale = exponential((old - top) * factor_);
        }
        top_ = top;
        const float shift = top * shift_;
        std::vector<float> probabilities;
        probabilities.reserve(scores.size());
        for (const float score : scores) {
            probabilities.push_back(exponential(std::fma(score, factor_, shift)));
        }
        const float total = sum_of(probabilities);
        sum_ = continues ? std::fma(sum_, rescale, total) : total;
        Matrix row(1, count);
        row.values = probabilities;
        const Matrix rounded = stored(row, format_, isa::ScaleRounding::floor);
        add_values(rounded.values, first, continues ? rescale : 1.0F, value);
    }

    template <class Value>
    void add_values(const std::vector<float>& probabilities, std::int64_t first, float rescale, const Value& value) {
        std::vector<float> column(probabilities.size());
        for (std::int64_t d = 0; d < op_.head_dim; ++d) {
            for (std::size_t j = 0; j < column.size(); ++j) {
                column[j] = value(first + static_cast<std::int64_t>(j), d);
            }
            float& sum = out_[static_cast<std::size_t>(d)];
            sum = dot(format_, probabilities, format_, column, sum * rescale);
        }
    }

    const Attention& op_;
    Format format_;
    std::int64_t chunk_;
    float factor_, shift_;
    float top_ = 0, sum_ = 0;
    std::vector<float> out_;
};

}  // namespace sluice::models
