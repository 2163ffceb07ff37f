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
    /// Whether the next operator is a router.
    [[nodiscard]] bool linear_before_route() const {
        return at<models::Linear>() && next_ + 1 < graph_.operators.size() &&
               std::holds_alternative<models::Route>(graph_.operators[next_ + 1].body);
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

/// Takes the operators of one layer.
class LayerReader {
public:
    LayerReader(Cursor& at, LayerRun& run) : at_(at), run_(run), first_(at.position()), part_(first_) {}

    void take() {
        const auto& norm1 = at_.take<models::RmsNorm>("the input norm");
        run_.shape.epsilon = norm1.epsilon;
        end_part(kNorm1Node);
        take_attention(norm1.out);
        const auto& norm2 = at_.take<models::RmsNorm>("the second norm");
        at_.expect(norm2.epsilon == norm1.epsilon, "both norms of a layer must share epsilon");
        end_part(kNorm2Node);
        if (at_.linear_before_route()) {
            take_experts(norm2.out);
        } else {
            take_mlp(norm2.out);
        }
        run_.operators = at_.position() - first_;
        for (const models::Linear* linear : linears_) {
            at_.expect(at_.tensor(linear->weight).format == run_.shape.weights &&
                           linear->operand_format == run_.shape.activations,
                       "all projections of a layer must share weight and operand formats");
        }
    }

private:
    void end_part(LayerNode node) {
        run_.parts.push_back({node, part_ - first_, at_.position() - part_});
        part_ = at_.position();
    }
    const models::Linear& linear(const char* expected) {
        const auto& found = at_.take<models::Linear>(expected);
        linears_.push_back(&found);
        return found;
    }
    static bool has_bias(const models::Linear& linear) { return linear.bias != models::kNoTensor; }

    void take_attention(models::TensorIndex in) {
        LayerShape& shape = run_.shape;
        const auto& q = linear("the q projection");
        const auto& k = linear("the k projection");
        const auto& v = linear("the v projection");
        at_.expect(q.in == in && k.in == in && v.in == in, "q, k and v must read the input norm");
        at_.expect(has_bias(k) == has_bias(q) && has_bias(v) == has_bias(q),
                   "q, k and v must all have a bias, or none");
        shape.qkv_bias = has_bias(q);
        models::TensorIndex to_rotate_q = q.out;
        models::TensorIndex to_rotate_k = k.out;
        if (at_.at<models::HeadRmsNorm>()) {
            const auto& norm_q = at_.take<models::HeadRmsNorm>("the norm of q");
            const auto& norm_k = at_.take<models::HeadRmsNorm>("the norm of k");
            at_.expect(norm_q.in == q.out && norm_k.in == k.out, "the norms of heads must read q and k");
            at_.expect(norm_q.epsilon == norm_k.epsilon, "the norms of q and k must share epsilon");
            shape.head_norms = true;
            shape.head_epsilon = norm_q.epsilon;
            to_rotate_q = norm_q.out;
            to_rotate_k = norm_k.out;
        }
        const auto& rope_q = at_.take<models::Rope>("the rotary embedding of q");
        const auto& rope_k = at_.take<models::Rope>("the rotary embedding of k");
        at_.expect(rope_q.in == to_rotate_q && rope_k.in == to_rotate_k, "the rotary embedding must read q and k");
        end_part(kQkvNode);
        const auto& attention = at_.take<models::Attention>("attention");
        at_.expect(attention.q == rope_q.out && attention.k == rope_k.out && attention.v == v.out,
                   "attention must read the rotated q and k, and v");
        end_part(kAttentionNode);
        const auto& o = linear("the output projection");
        const auto& add = at_.take<models::Add>("the attention residual");
        at_.expect(o.in == attention.out && (add.a == o.out || add.b == o.out), "the residual must add the projection");
        end_part(kONode);
        shape.o_bias = has_bias(o);
        shape.hidden = at_.tensor(q.weight).cols;
        shape.q_heads = attention.q_heads;
        shape.kv_heads = attention.kv_heads;
        shape.head_dim = attention.head_dim;
        shape.weights = at_.tensor(q.weight).format;
        shape.activations = q.operand_format;
        shape.kv = at_.tensor(attention.k_cache).format;
    }

    void take_mlp(models::TensorIndex in) {
        const auto& gate = linear("the gate projection");
        const auto& up = linear("the up projection");
        const auto& swiglu = at_.take<models::Swiglu>("SwiGLU");
        at_.expect(gate.in == in && up.in == in && swiglu.gate == gate.out && swiglu.up == up.out,
                   "SwiGLU must join the gate and up projections of the second norm");
        end_part(kGateUpNode);
        const auto& down = linear("the down projection");
        const auto& add = at_.take<models::Add>("the second residual");
        at_.expect(down.in == swiglu.out && (add.a == down.out || add.b == down.out), "the residual must add `down`");
        at_.expect(!has_bias(gate) && !has_bias(up) && !has_bias(down), "no biases in a feed-forward part");
        end_part(kDownNode);
        run_.shape.ffn = at_.tensor(gate.weight).rows;
    }

    void take_experts(models::TensorIndex in) {
        const auto& router = linear("the router");
        const auto& route = at_.take<models::Route>("the choice of experts");
        at_.expect(router.in == in && route.scores == router.out && !has_bias(router),
                   "the router must read the second norm, without a bias");
        end_part(kRouterNode);
        const auto& experts = at_.take<models::Experts>("experts");
        at_.expect(experts.in == in && experts.experts == route.experts && experts.gates == route.gates,
                   "experts must read the second norm and the choice");
        for (const models::TensorIndex weight : {experts.gate, experts.up, experts.down}) {
            at_.expect(
                at_.tensor(weight).format == run_.shape.weights && experts.operand_format == run_.shape.activations,
                "experts must share weight and operand formats with the other projections");
        }
        end_part(kExpertsNode);
        const auto& add = at_.take<models::Add>("the second residual");
        at_.expect(add.a == experts.out || add.b == experts.out, "the residual must add the experts");
        end_part(kCombineNode);
        run_.shape.experts = {experts.count, experts.chosen, experts.width};
    }

    Cursor& at_;
    LayerRun& run_;
    std::size_t first_, part_;
    std::vector<const models::Linear*> linears_;
};

}  // namespace

DecoderModel fuse_decoder(const Graph& graph) {
    DecoderModel model;
    Cursor at(graph);
    model.embedding_operator = at.position();
    const auto& embedding = at.take<models::Embedding>("the embedding");
    model.vocab = at.tensor(embedding.table).rows;
    model.hidden = at.tensor(embedding.table).cols;
    while (!at.done() && at.layer() >= 0) {
        LayerRun run;
        run.first_layer = at.layer();
        run.count = 1;
        run.first_operator = at.position();
        LayerReader(at, run).take();
        if (!model.runs.empty() && model.runs.back().shape == run.shape) {
            ++model.runs.back().count;
        } else {
            model.runs.push_back(std::move(run));
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
