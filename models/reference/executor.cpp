// SPDX-License-Identifier: Apache-2.0
#include "models/reference/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "isa/errors.hpp"
#include "models/reference/dot.hpp"
#include "models/reference/online_softmax.hpp"
#include "models/reference/rounding.hpp"
#include "models/rotary.hpp"

namespace sluice::models {

namespace {

using isa::kBlockEdge;

class Executor {
public:
    Executor(const Graph& graph, const Values& inputs, const ReferenceOptions& options)
        : graph_(graph), options_(options), values_(inputs) {
        for (const TensorIndex index : inputs_of(graph)) {
            const Tensor& entry = tensor(index);
            const auto found = values_.find(index);
            if (found == values_.end()) {
                throw InputError(entry.name, "no values are given");
            }
            if (found->second.rows != entry.rows || found->second.cols != entry.cols) {
                throw InputError(entry.name, fmt::format("found {} x {} values, allowed: {} x {}", found->second.rows,
                                                         found->second.cols, entry.rows, entry.cols));
            }
            if (entry.role != TensorRole::token_ids) {
                found->second = stored(found->second, entry.format, graph.workload.scale_rounding);
            }
        }
        for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
            const Tensor& entry = graph.tensors[i];
            if (entry.role == TensorRole::kv_cache) {
                values_.try_emplace(static_cast<TensorIndex>(i), entry.rows, entry.cols);
            }
        }
    }

    Values run() {
        for (const Operator& op : graph_.operators) {
            std::visit(*this, op.body);
        }
        return std::move(values_);
    }

    void operator()(const Embedding& op) {
        Matrix& out = result(op.out);
        const Matrix& table = value(op.table);
        const Matrix& ids = value(op.ids);
        for (std::int64_t t = 0; t < out.rows; ++t) {
            const float id = ids.at(t, 0);
            if (!(id >= 0 && id < static_cast<float>(table.rows))) {
                throw InputError(tensor(op.ids).name,
                                 fmt::format("token {} is {:.0f}, allowed: 0 to {}", t, id, table.rows - 1));
            }
            for (std::int64_t j = 0; j < out.cols; ++j) {
                out.at(t, j) = table.at(static_cast<std::int64_t>(id), j);
            }
        }
    }

    void operator()(const RmsNorm& op) {
        const Matrix in = value(op.in);
        const Matrix& weight = value(op.weight);
        Matrix& out = result(op.out);
        const auto inverse_width = static_cast<float>(1.0 / static_cast<double>(in.cols));
        for (std::int64_t t = 0; t < in.rows; ++t) {
            std::vector<float> squares;
            for (std::int64_t j = 0; j < in.cols; ++j) {
                squares.push_back(in.at(t, j) * in.at(t, j));
            }
            const float mean = std::fma(sum_of(squares), inverse_width, static_cast<float>(op.epsilon));
            const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(mean)));
            for (std::int64_t j = 0; j < in.cols; ++j) {
                const float scaled = in.at(t, j) * factor;
                out.at(t, j) = scaled * weight.at(0, j);
            }
        }
    }

    void operator()(const HeadRmsNorm& op) {
        const Matrix in = value(op.in);
        const Matrix& weight = value(op.weight);
        Matrix& out = result(op.out);
        const auto inverse_width = static_cast<float>(1.0 / static_cast<double>(op.head_dim));
        const std::vector<std::int64_t> order = rotary_order(op.head_dim);
        for (std::int64_t t = 0; t < in.rows; ++t) {
            for (std::int64_t head = 0; head < op.heads; ++head) {
                const std::int64_t first = head * op.head_dim;
                std::vector<float> squares;
                squares.reserve(order.size());
                for (const std::int64_t d : order) {
                    squares.push_back(in.at(t, first + d) * in.at(t, first + d));
                }
                const float mean = std::fma(sum_of(squares), inverse_width, static_cast<float>(op.epsilon));
                const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(mean)));
                for (std::int64_t d = 0; d < op.head_dim; ++d) {
                    const float scaled = in.at(t, first + d) * factor;
                    out.at(t, first + d) = scaled * weight.at(0, d);
                }
            }
        }
    }

    void operator()(const Linear& op) {
        const Matrix in = stored(value(op.in), op.operand_format, graph_.workload.scale_rounding);
        const Matrix& weight = value(op.weight);
        const Format weight_format = tensor(op.weight).format;
        Matrix& out = result(op.out);
        for (std::int64_t t = 0; t < out.rows; ++t) {
            const std::vector<float> row = row_of(in, t);
            for (std::int64_t n = 0; n < out.cols; ++n) {
                out.at(t, n) = dot(op.operand_format, row, weight_format, row_of(weight, n), 0.0F);
                if (op.bias != kNoTensor) {
                    out.at(t, n) += value(op.bias).at(0, n);
                }
            }
        }
        round_output(op.out);
    }

    void operator()(const Rope& op) {
        const Matrix in = value(op.in);
        Matrix& out = result(op.out);
        const Workload& work = graph_.workload;
        const std::int64_t half = op.head_dim / 2;
        for (std::int64_t t = 0; t < in.rows; ++t) {
            const std::int64_t position = work.context - work.tokens + t % work.tokens;
            const RotaryRow angles = rotary_row(op, position);
            for (std::int64_t j = 0; j < op.heads * half; ++j) {
                const std::int64_t i = j % half;
                const std::int64_t at = j / half * op.head_dim + i;
                const float x = in.at(t, at);
                const float y = in.at(t, at + half);
                const float cosine = angles.cosine[static_cast<std::size_t>(i)];
                const float sine = angles.sine[static_cast<std::size_t>(i)];
                const float x_cosine = x * cosine;
                const float y_sine = y * sine;
                out.at(t, at) = x_cosine - y_sine;
                out.at(t, at + half) = std::fma(x, sine, y * cosine);
            }
        }
    }

    void operator()(const Attention& op) {
        const Workload& work = graph_.workload;
        const Format format = tensor(op.k_cache).format;
        if (op.k >= 0) {
            append(op.k, op.k_cache, op, format);
            append(op.v, op.v_cache, op, format);
        }
        const Matrix q = stored(value(op.q), format, graph_.workload.scale_rounding);
        const Matrix& keys = value(op.k_cache);
        const Matrix& cached = value(op.v_cache);
        Matrix& out = result(op.out);
        const std::vector<std::int64_t> order = op.k >= 0 ? rotary_order(op.head_dim) : plain_order(op.head_dim);
        const std::int64_t group = op.q_heads / op.kv_heads;
        for (std::int64_t t = 0; t < q.rows; ++t) {
            const std::int64_t sequence = t / work.tokens;
            const std::int64_t visible = op.causal ? work.context - work.tokens + t % work.tokens + 1 : work.context;
            for (std::int64_t head = 0; head < op.q_heads; ++head) {
                const std::int64_t first = (sequence * op.kv_heads + head / group) * work.context;
                std::vector<float> query;
                query.reserve(order.size());
                for (const std::int64_t d : order) {
                    query.push_back(q.at(t, head * op.head_dim + d));
                }
                const auto key = [&](std::int64_t position) {
                    std::vector<float> row;
                    row.reserve(order.size());
                    for (const std::int64_t d : order) {
                        row.push_back(keys.at(first + position, d));
                    }
                    return row;
                };
                const auto value_at = [&](std::int64_t position, std::int64_t d) {
                    return cached.at(first + position, d);
                };
                const std::vector<float> mixed =
                    OnlineSoftmax(op, format, options_.attention_chunk).run(query, visible, key, value_at);
                std::copy(mixed.begin(), mixed.end(), &out.at(t, head * op.head_dim));
            }
        }
        round_output(op.out);
    }

    void operator()(const Swiglu& op) {
        const Matrix gate = value(op.gate);
        const Matrix up = value(op.up);
        Matrix& out = result(op.out);
        for (std::size_t i = 0; i < out.values.size(); ++i) {
            out.values[i] = swiglu(gate.values[i], up.values[i]);
        }
    }

    void operator()(const Add& op) {
        const Matrix a = value(op.a);
        const Matrix b = value(op.b);
        Matrix& out = result(op.out);
        for (std::size_t i = 0; i < out.values.size(); ++i) {
            out.values[i] = bf16(a.values[i] + b.values[i]);
        }
    }

    void operator()(const Route& op) {
        const Matrix scores = value(op.scores);
        Matrix& experts = result(op.experts);
        Matrix& gates = result(op.gates);
        for (std::int64_t t = 0; t < scores.rows; ++t) {
            const std::vector<float> row = row_of(scores, t);
            std::vector<std::int64_t> order(row.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&row](std::int64_t a, std::int64_t b) {
                return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
            });
            for (std::int64_t slot = 0; slot < op.chosen; ++slot) {
                experts.at(t, slot) = static_cast<float>(order[static_cast<std::size_t>(slot)]);
            }
            const float best = row[static_cast<std::size_t>(order.front())];
            float sum = 0;
            for (std::int64_t slot = 0; slot < op.chosen; ++slot) {
                sum += exponential(row[static_cast<std::size_t>(order[static_cast<std::size_t>(slot)])] - best);
            }
            const float inverse = reciprocal(sum);
            for (std::int64_t e = 0; e < scores.cols; ++e) {
                gates.at(t, e) = exponential(row[static_cast<std::size_t>(e)] - best) * inverse;
            }
        }
    }

    void operator()(const Experts& op) {
        const Matrix in = stored(value(op.in), op.operand_format, graph_.workload.scale_rounding);
        const Matrix& experts = value(op.experts);
        const Matrix& gates = value(op.gates);
        Matrix& out = result(op.out);
        for (std::int64_t t = 0; t < in.rows; ++t) {
            const std::vector<float> row = row_of(in, t);
            for (std::int64_t slot = 0; slot < op.chosen; ++slot) {
                const auto expert = static_cast<std::int64_t>(experts.at(t, slot));
                const std::vector<float> given = run_expert(op, expert, row);
                const float gate = gates.at(t, expert);
                for (std::int64_t j = 0; j < out.cols; ++j) {
                    const float part = bf16(given[static_cast<std::size_t>(j)] * gate);
                    out.at(t, j) = slot == 0 ? part : out.at(t, j) + part;
                }
            }
        }
    }

    void operator()(const LastToken& op) {
        const Matrix in = value(op.in);
        Matrix& out = result(op.out);
        const std::int64_t tokens = in.rows / out.rows;
        for (std::int64_t t = 0; t < out.rows; ++t) {
            for (std::int64_t j = 0; j < out.cols; ++j) {
                out.at(t, j) = in.at((t + 1) * tokens - 1, j);
            }
        }
    }

private:
    [[nodiscard]] const Tensor& tensor(TensorIndex index) const {
        return graph_.tensors.at(static_cast<std::size_t>(index));
    }
    [[nodiscard]] const Matrix& value(TensorIndex index) const { return values_.at(index); }
    Matrix& result(TensorIndex index) {
        const Tensor& entry = tensor(index);
        return values_[index] = Matrix(entry.rows, entry.cols);
    }
    static float swiglu(float gate, float up) {
        const float sigmoid = reciprocal(exponential(gate * -1.0F) + 1.0F);
        const float silu = gate * sigmoid;
        return silu * up;
    }

    /// The down projection of one expert for one row.
    std::vector<float> run_expert(const Experts& op, std::int64_t expert, const std::vector<float>& row) {
        const auto product = [&](TensorIndex weight, std::int64_t first, std::int64_t count,
                                 const std::vector<float>& operand) {
            std::vector<float> out;
            out.reserve(static_cast<std::size_t>(count));
            for (std::int64_t i = 0; i < count; ++i) {
                out.push_back(
                    dot(op.operand_format, operand, tensor(weight).format, row_of(value(weight), first + i), 0.0F));
            }
            return out;
        };
        const std::vector<float> gate = product(op.gate, expert * op.width, op.width, row);
        const std::vector<float> up = product(op.up, expert * op.width, op.width, row);
        Matrix mixed(1, op.width);
        for (std::size_t i = 0; i < gate.size(); ++i) {
            mixed.values[i] = swiglu(gate[i], up[i]);
        }
        const Matrix rounded = stored(mixed, op.operand_format, graph_.workload.scale_rounding);
        const std::int64_t hidden = tensor(op.out).cols;
        return product(op.down, expert * hidden, hidden, rounded.values);
    }

    /// What leaves the graph is in its tensor's format.
    void round_output(TensorIndex index) {
        if (tensor(index).role == TensorRole::output) {
            values_[index] = stored(values_[index], tensor(index).format, graph_.workload.scale_rounding);
        }
    }
    static std::vector<float> row_of(const Matrix& matrix, std::int64_t row) {
        const auto first = matrix.values.begin() + row * matrix.cols;
        return {first, first + matrix.cols};
    }

    /// The order in which a score's dimensions are added where nothing rotates.
    static std::vector<std::int64_t> plain_order(std::int64_t head_dim) {
        std::vector<std::int64_t> order(static_cast<std::size_t>(head_dim));
        std::iota(order.begin(), order.end(), 0);
        return order;
    }
    /// The order behind a rotary embedding, of a score's dimensions and of the squares of a head: the 32 dimensions
    /// that rotate and the 32 that they rotate with stand together.
    static std::vector<std::int64_t> rotary_order(std::int64_t head_dim) {
        std::vector<std::int64_t> order;
        for (std::int64_t block = 0; block < head_dim / 2; block += kBlockEdge) {
            for (const std::int64_t half : {std::int64_t{0}, head_dim / 2}) {
                for (std::int64_t i = 0; i < kBlockEdge; ++i) {
                    order.push_back(half + block + i);
                }
            }
        }
        return order;
    }

    /// This step's keys or values become the last positions of every sequence's cache.
    void append(TensorIndex from, TensorIndex to, const Attention& op, Format format) {
        const Workload& work = graph_.workload;
        const Matrix fresh = stored(value(from), format, graph_.workload.scale_rounding);
        Matrix& cache = values_.at(to);
        for (std::int64_t t = 0; t < fresh.rows; ++t) {
            const std::int64_t position = work.context - work.tokens + t % work.tokens;
            for (std::int64_t head = 0; head < op.kv_heads; ++head) {
                const std::int64_t row = (t / work.tokens * op.kv_heads + head) * work.context + position;
                for (std::int64_t d = 0; d < op.head_dim; ++d) {
                    cache.at(row, d) = fresh.at(t, head * op.head_dim + d);
                }
            }
        }
    }

    const Graph& graph_;
    const ReferenceOptions& options_;
    Values values_;
};

}  // namespace

Values execute(const Graph& graph, const Values& inputs, const ReferenceOptions& options) {
    return Executor(graph, inputs, options).run();
}

}  // namespace sluice::models
