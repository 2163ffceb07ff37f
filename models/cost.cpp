// SPDX-License-Identifier: Apache-2.0
// Unpadded work of each operator. Conventions: a multiply-accumulate is 2; attention counts its two matrix products
// (softmax is not counted, as in published attention figures); RMSNorm 4 a value, a bias 1, RoPE 3 a value, SwiGLU 5 a
// value.

#include <cstddef>
#include <vector>

#include "isa/errors.hpp"
#include "models/graph.hpp"

namespace sluice::models {
namespace {

const Tensor& tensor(const Graph& graph, TensorIndex index) {
    SLUICE_CHECK(index >= 0 && static_cast<std::size_t>(index) < graph.tensors.size(), "operator names no tensor");
    return graph.tensors[static_cast<std::size_t>(index)];
}

double elements(const Tensor& tensor) {
    return static_cast<double>(tensor.rows) * static_cast<double>(tensor.cols);
}

double bytes(const Tensor& tensor) {
    // Token ids are 32-bit integers, which no number format describes.
    constexpr double kTokenIdBytes = 4;
    return elements(tensor) *
           (tensor.role == TensorRole::token_ids ? kTokenIdBytes : isa::bytes_per_element(tensor.format));
}

class CostOf {
public:
    explicit CostOf(const Graph& graph) : graph_(graph) {}

    OperatorCost operator()(const Embedding& op) const {
        OperatorCost cost;
        const Tensor& out = at(op.out);
        cost.weight_bytes = elements(out) * isa::bytes_per_element(at(op.table).format);
        cost.activation_bytes = bytes(at(op.ids)) + bytes(out);
        return cost;
    }
    OperatorCost operator()(const RmsNorm& op) const {
        OperatorCost cost = elementwise(4, {op.in}, op.out);
        cost.weight_bytes = bytes(at(op.weight));
        return cost;
    }
    OperatorCost operator()(const HeadRmsNorm& op) const {
        OperatorCost cost = elementwise(4, {op.in}, op.out);
        cost.weight_bytes = bytes(at(op.weight));
        return cost;
    }
    OperatorCost operator()(const Linear& op) const {
        OperatorCost cost;
        const Tensor& in = at(op.in);
        cost.flops = 2 * elements(in) * static_cast<double>(at(op.weight).rows);
        cost.tensor_flops = cost.flops;
        cost.weight_bytes = bytes(at(op.weight));
        if (op.bias != kNoTensor) {
            cost.flops += elements(at(op.out));
            cost.weight_bytes += bytes(at(op.bias));
        }
        cost.activation_bytes = bytes(in) + bytes(at(op.out));
        return cost;
    }
    OperatorCost operator()(const Rope& op) const { return elementwise(3, {op.in}, op.out); }
    OperatorCost operator()(const Attention& op) const {
        const Workload& work = graph_.workload;
        OperatorCost cost;
        cost.flops = 4 * attention_pairs(graph_, op) * static_cast<double>(op.q_heads * op.head_dim);
        cost.tensor_flops = cost.flops;
        // The past is read and the new positions are appended (those need not be read back); or all are read.
        const double position_bytes =
            static_cast<double>(op.kv_heads) * static_cast<double>(op.head_dim) *
            (isa::bytes_per_element(at(op.k_cache).format) + isa::bytes_per_element(at(op.v_cache).format));
        cost.kv_bytes = static_cast<double>(work.batch) * static_cast<double>(work.context) * position_bytes;
        cost.activation_bytes = bytes(at(op.q)) + bytes(at(op.out));
        if (op.k >= 0) {
            cost.activation_bytes += bytes(at(op.k)) + bytes(at(op.v));
        }
        return cost;
    }
    OperatorCost operator()(const Swiglu& op) const { return elementwise(5, {op.gate, op.up}, op.out); }
    OperatorCost operator()(const Add& op) const { return elementwise(1, {op.a, op.b}, op.out); }
    /// The largest scores are found one by one, two operations a score each; then a gate is three.
    OperatorCost operator()(const Route& op) const {
        return elementwise(2 * static_cast<double>(op.chosen) + 3, {op.scores}, op.gates);
    }
    OperatorCost operator()(const Experts& op) const {
        OperatorCost cost;
        const auto pairs = static_cast<double>(at(op.in).rows * op.chosen);
        const auto width = static_cast<double>(op.width);
        const auto hidden = static_cast<double>(at(op.in).cols);
        cost.tensor_flops = pairs * 6 * width * hidden;
        // SwiGLU 5 a value; gate and sum 2.
        cost.flops = cost.tensor_flops + pairs * (5 * width + 2 * hidden);
        const double share = static_cast<double>(op.hit) / static_cast<double>(op.count);
        cost.weight_bytes = (bytes(at(op.gate)) + bytes(at(op.up)) + bytes(at(op.down))) * share;
        cost.activation_bytes = bytes(at(op.in)) + bytes(at(op.out));
        return cost;
    }
    OperatorCost operator()(const LastToken& op) const {
        OperatorCost cost;
        cost.activation_bytes = 2 * bytes(at(op.out));
        return cost;
    }

private:
    [[nodiscard]] const Tensor& at(TensorIndex index) const { return tensor(graph_, index); }

    [[nodiscard]] OperatorCost elementwise(double flops_per_value, const std::vector<TensorIndex>& inputs,
                                           TensorIndex out) const {
        OperatorCost cost;
        cost.flops = flops_per_value * elements(at(out));
        cost.activation_bytes = bytes(at(out));
        for (const TensorIndex input : inputs) {
            cost.activation_bytes += bytes(at(input));
        }
        return cost;
    }

    const Graph& graph_;
};

}  // namespace

OperatorCost cost(const Graph& graph, const Operator& op) {
    return std::visit(CostOf(graph), op.body);
}

double attention_pairs(const Graph& graph, const Attention& op) {
    const Workload& work = graph.workload;
    const auto tokens = static_cast<double>(work.tokens);
    const auto context = static_cast<double>(work.context);
    // Causal: token i attends to the past and to i of its own positions, i = 1..tokens.
    const double of_sequence = op.causal ? tokens * (context - tokens) + tokens * (tokens + 1) / 2 : tokens * context;
    return static_cast<double>(work.batch) * of_sequence;
}

std::int64_t parameter_count(const Graph& graph) {
    std::int64_t count = 0;
    for (const Tensor& tensor : graph.tensors) {
        if (tensor.role == TensorRole::weight && tensor.same_values_as < 0) {
            count += tensor.rows * tensor.cols;
        }
    }
    return count;
}

}  // namespace sluice::models
