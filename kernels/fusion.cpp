// SPDX-License-Identifier: Apache-2.0
#include "kernels/fusion.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::kernels {

namespace {

using models::Graph;
using models::Operator;
using models::Tensor;

/// Walks the operators in order; `take<T>` insists on the next operator's kind.
class Cursor {
public:
    explicit Cursor(const Graph& graph) : graph_(graph) {}

    [[nodiscard]] bool done() const { return next_ == graph_.operators.size(); }
    [[nodiscard]] std::size_t position() const { return next_; }
    [[nodiscard]] std::int64_t layer() const { return graph_.operators[next_].layer; }

    template <class T>
    [[nodiscard]] bool at() const {
        return !done() && std::holds_alternative<T>(graph_.operators[next_].body);
    }
    template <class T>
    const T& take(const char* expected) {
        if (!at<T>()) {
            const std::string found = done() ? "the end of the graph" : "operator " + graph_.operators[next_].name;
            throw InputError("graph " + graph_.name, fmt::format("no kernel for this pattern: found {} where {} is "
                                                                 "expected",
                                                                 found, expected));
        }
        return std::get<T>(graph_.operators[next_++].body);
    }
    [[nodiscard]] const Tensor& tensor(models::TensorIndex index) const {
        return graph_.tensors.at(static_cast<std::size_t>(index));
    }
    void expect(bool condition, const std::string& what) const {
        if (!condition) {
            const std::string& name = graph_.operators[next_ == 0 ? 0 : next_ - 1].name;
            throw InputError("graph " + graph_.name, fmt::format("no kernel for operator {}: {}", name, what));
        }
    }

private:
    const Graph& graph_;
    std::size_t next_ = 0;
};

LayerShape take_layer(Cursor& at) {
    LayerShape shape;
    const auto& norm1 = at.take<models::RmsNorm>("the input norm");
    const auto& q = at.take<models::Linear>("the q projection");
    const auto& k = at.take<models::Linear>("the k projection");
    const auto& v = at.take<models::Linear>("the v projection");
    const auto& rope_q = at.take<models::Rope>("the rotary embedding of q");
    const auto& rope_k = at.take<models::Rope>("the rotary embedding of k");
    at.expect(q.in == norm1.out && k.in == norm1.out && v.in == norm1.out, "q, k and v must read the input norm");
    const auto& attention = at.take<models::Attention>("attention");
    at.expect(attention.q == rope_q.out && attention.k == rope_k.out && attention.v == v.out,
              "attention must read the rotated q and k, and v");
    const auto& o = at.take<models::Linear>("the output projection");
    const auto& add1 = at.take<models::Add>("the attention residual");
    at.expect(o.in == attention.out && (add1.a == o.out || add1.b == o.out), "the residual must add the projection");
    const auto& norm2 = at.take<models::RmsNorm>("the second norm");
    const auto& gate = at.take<models::Linear>("the gate projection");
    const auto& up = at.take<models::Linear>("the up projection");
    const auto& swiglu = at.take<models::Swiglu>("SwiGLU");
    at.expect(gate.in == norm2.out && up.in == norm2.out && swiglu.gate == gate.out && swiglu.up == up.out,
              "SwiGLU must join the gate and up projections of the second norm");
    const auto& down = at.take<models::Linear>("the down projection");
    const auto& add2 = at.take<models::Add>("the second residual");
    at.expect(down.in == swiglu.out && (add2.a == down.out || add2.b == down.out), "the residual must add `down`");

    shape.hidden = at.tensor(q.weight).cols;
    shape.q_heads = attention.q_heads;
    shape.kv_heads = attention.kv_heads;
    shape.head_dim = attention.head_dim;
    shape.ffn = at.tensor(gate.weight).rows;
    shape.epsilon = norm1.epsilon;
    at.expect(norm2.epsilon == norm1.epsilon, "both norms of a layer must share epsilon");
    shape.weights = at.tensor(q.weight).format;
    shape.activations = q.operand_format;
    shape.kv = at.tensor(attention.k_cache).format;
    for (const models::Linear* linear : {&k, &v, &o, &gate, &up, &down}) {
        at.expect(at.tensor(linear->weight).format == shape.weights && linear->operand_format == shape.activations,
                  "all projections of a layer must share weight and operand formats");
    }
    return shape;
}

}  // namespace

DecoderModel fuse_decoder(const Graph& graph) {
    DecoderModel model;
    Cursor at(graph);
    model.embedding_operator = at.position();
    const auto& embedding = at.take<models::Embedding>("the embedding");
    model.vocab = at.tensor(embedding.table).rows;
    model.hidden = at.tensor(embedding.table).cols;
    while (!at.done() && at.layer() >= 0) {
        const std::int64_t layer = at.layer();
        const std::size_t first = at.position();
        const LayerShape shape = take_layer(at);
        if (!model.runs.empty() && model.runs.back().shape == shape) {
            ++model.runs.back().count;
        } else {
            model.runs.push_back({layer, 1, shape, first});
        }
    }
    if (at.at<models::LastToken>()) {
        (void)at.take<models::LastToken>("the last token");
    }
    model.final_norm_operator = at.position();
    model.epsilon = at.take<models::RmsNorm>("the final norm").epsilon;
    model.head_operator = at.position();
    const auto& head = at.take<models::Linear>("the LM head");
    model.head_weights = at.tensor(head.weight).format;
    model.head_activations = head.operand_format;
    at.expect(at.done(), "nothing may follow the LM head");
    return model;
}

}  // namespace sluice::kernels
