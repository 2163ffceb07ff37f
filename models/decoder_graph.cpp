// SPDX-License-Identifier: Apache-2.0
#include "models/decoder_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "isa/errors.hpp"

namespace sluice::models {
namespace {

void require_between(std::int64_t value, std::int64_t lowest, std::int64_t highest, const std::string& where,
                     const std::string& why) {
    if (value < lowest || value > highest) {
        const std::string allowed =
            lowest == highest ? fmt::format("{}", lowest) : fmt::format("{} to {}", lowest, highest);
        throw InputError(where, fmt::format("found {}, allowed: {}{}", value, allowed, why));
    }
}

void require_one_of(Format format, std::initializer_list<Format> allowed, const std::string& where) {
    if (std::find(allowed.begin(), allowed.end(), format) == allowed.end()) {
        std::string names;
        for (const Format each : allowed) {
            names += (names.empty() ? "" : ", ") + std::string(isa::name(each));
        }
        throw InputError(where, fmt::format("found {}, allowed: {}", isa::name(format), names));
    }
}

/// The widest activation within a layer.
std::int64_t widest_layer(const ModelConfig& config) {
    std::int64_t widest = 1;
    for (const LayerConfig& layer : config.layers) {
        if (const auto* attention = std::get_if<AttentionConfig>(&layer.mixer)) {
            widest = std::max(widest, attention->heads * attention->head_dim);
        }
        if (const auto* mlp = std::get_if<MlpConfig>(&layer.feed_forward)) {
            widest = std::max(widest, mlp->width);
        }
        if (const auto* experts = std::get_if<ExpertsConfig>(&layer.feed_forward)) {
            widest = std::max({widest, experts->width, experts->count, experts->chosen * config.hidden_size});
        }
    }
    return widest;
}

/// What a layer has that there are no operators for yet; "" if nothing.
struct Missing {
    std::int64_t context;

    std::string operator()(const std::monostate& /*none*/) const { return "layers of one part"; }
    std::string operator()(const LatentAttentionConfig& /*c*/) const { return "latent attention"; }
    std::string operator()(const MambaConfig& /*c*/) const { return "Mamba-2"; }
    std::string operator()(const ExpertsConfig& c) const {
        const RouterConfig& router = c.router;
        if (router.score != RouterConfig::Score::softmax || !router.normalised || router.groups != 1 ||
            router.correction || router.bias || router.weighs_inputs || router.scale != 1) {
            return "routers other than a softmax over the experts that are chosen";
        }
        if (c.activation != Activation::silu_gated || c.bias) {
            return "experts other than SwiGLU without biases";
        }
        return c.shared_width > 0 ? "shared experts" : "";
    }
    std::string operator()(const AttentionConfig& c) const {
        if (c.head_norm == HeadNorm::plain) {
            return "norms of queries and keys without weights";
        }
        if (c.sinks) {
            return "attention sinks";
        }
        if (!c.rotary) {
            return "attention without a rotary embedding";
        }
        if (c.rotary->dims != c.head_dim || c.rotary->interleaved) {
            return "a rotary embedding of some dimensions, or of neighbours";
        }
        if ((c.window > 0 && context > c.window) || (c.chunk > 0 && context > c.chunk)) {
            return fmt::format("a context beyond the window of {} positions", std::max(c.window, c.chunk));
        }
        return c.scale == 1 / std::sqrt(static_cast<double>(c.head_dim)) ? "" : "a scale of scores of its own";
    }
    std::string operator()(const MlpConfig& c) const {
        return c.activation != Activation::silu_gated || c.bias ? "feed-forward parts other than SwiGLU without biases"
                                                                : "";
    }
};

void check_modelled(const ModelConfig& config, const Workload& work) {
    const auto refuse = [&](const std::string& where, const std::string& what) {
        throw InputError(config.name + where,
                         what + fmt::format(": not simulated yet (model_type {})", config.model_type));
    };
    if (config.norms_add_one || config.embedding_scale != 1) {
        refuse("", "norms that add one to their weights, scaled embeddings");
    }
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
        const LayerConfig& layer = config.layers[i];
        const std::string where = fmt::format(": layers.{}", i);
        for (const std::string& missing :
             {std::visit(Missing{work.context}, layer.mixer), std::visit(Missing{work.context}, layer.feed_forward),
              std::string(layer.output_norms ? "norms behind the parts of a layer" : "")}) {
            if (!missing.empty()) {
                refuse(where, missing);
            }
        }
    }
}

void check_workload(const ModelConfig& config, const Workload& work) {
    constexpr std::int64_t kMaxBatch = 65'536;
    const std::string limit = fmt::format(" (max_position_embeddings of {})", config.name);
    require_between(work.batch, 1, kMaxBatch, "--batch", "");
    require_between(work.context, 1, config.max_position_embeddings, "--context", limit);
    if (work.phase == Phase::decode) {
        require_between(work.tokens, 1, 1, "--tokens", " in decode: one new token a sequence");
    } else {
        require_between(work.tokens, work.context, work.context, "--tokens",
                        " in prefill: the whole context is new (see --context)");
    }
    // Keeps every tensor's element count, and byte offsets within it, far from 63 bits.
    constexpr double kMaxElements = 1e15;
    const auto widest = static_cast<double>(std::max({widest_layer(config), config.hidden_size, config.vocab_size}));
    const double elements = static_cast<double>(work.batch) * static_cast<double>(work.context) * widest;
    if (elements > kMaxElements) {
        throw InputError("--batch", fmt::format("found {} sequences of {} positions, a tensor of {:.3g} elements; "
                                                "allowed: at most {:.0e} elements",
                                                work.batch, work.context, elements, kMaxElements));
    }
    // Every choice is drawn, and stands in a table: a gigabyte of them.
    constexpr std::int64_t kMaxChoices = std::int64_t{1} << 25;
    std::int64_t choices = 0;
    for (const LayerConfig& layer : config.layers) {
        const auto* experts = std::get_if<ExpertsConfig>(&layer.feed_forward);
        choices += experts == nullptr ? 0 : experts->chosen * work.batch * work.tokens;
    }
    if (choices > kMaxChoices) {
        throw InputError(work.batch > 1 ? "--batch" : "--tokens",
                         fmt::format("{} sequences of {} tokens choose {} experts in all layers, allowed: at most {}",
                                     work.batch, work.tokens, choices, kMaxChoices));
    }
    const std::initializer_list<Format> matrix = {Format::mxfp4, Format::mxfp4_e1m2, Format::mxfp6, Format::mxfp6_e3m2,
                                                  Format::mxfp8, Format::mxfp8_e5m2, Format::e2m3,  Format::e3m2,
                                                  Format::e4m3,  Format::e5m2,       Format::bf16};
    require_one_of(work.weights, matrix, "--weights");
    require_one_of(work.activations, matrix, "--act");
    require_one_of(work.kv, {Format::e4m3, Format::bf16}, "--kv");
    static_cast<void>(isa::tensor_rate(work.activations, work.weights, "--act, --weights"));
}

/// Adds tensors and operators in execution order.
class DecoderBuilder {
public:
    DecoderBuilder(const ModelConfig& config, const Workload& work) : config_(config) {
        graph_.name = config.name;
        graph_.workload = work;
    }

    Graph build() {
        const Workload& work = graph_.workload;
        const std::int64_t tokens = work.batch * work.tokens;
        const TensorIndex ids = add_tensor("token_ids", TensorRole::token_ids, tokens, 1, Format::raw);
        const TensorIndex table = add_tensor("model.embed_tokens.weight", TensorRole::weight, config_.vocab_size,
                                             config_.hidden_size, Format::bf16);
        TensorIndex hidden = activation("embed_tokens", tokens, config_.hidden_size);
        add_operator("embed_tokens", Embedding{ids, table, hidden});
        for (layer_ = 0; layer_ < static_cast<std::int64_t>(config_.layers.size()); ++layer_) {
            const LayerConfig& layer = config_.layers[static_cast<std::size_t>(layer_)];
            hidden = attention(std::get<AttentionConfig>(layer.mixer), hidden);
            hidden = std::holds_alternative<ExpertsConfig>(layer.feed_forward)
                         ? experts(std::get<ExpertsConfig>(layer.feed_forward), hidden)
                         : mlp(std::get<MlpConfig>(layer.feed_forward), hidden);
        }
        layer_ = -1;
        if (work.phase == Phase::prefill) {
            const TensorIndex last = activation("last_token", work.batch, config_.hidden_size);
            add_operator("last_token", LastToken{hidden, last});
            hidden = last;
        }
        hidden = norm("final_norm", "model.norm.weight", hidden);
        const TensorIndex logits =
            linear("lm_head", "lm_head.weight", hidden, config_.vocab_size, false, TensorRole::output);
        static_cast<void>(logits);
        if (config_.tie_word_embeddings) {
            find("lm_head.weight").same_values_as = table;
        }
        return std::move(graph_);
    }

private:
    /// "layers.3.q_proj" inside a layer.
    [[nodiscard]] std::string scoped(const std::string& name) const {
        return layer_ < 0 ? name : fmt::format("layers.{}.{}", layer_, name);
    }
    [[nodiscard]] std::string layer_weight(const std::string& name) const {
        return fmt::format("model.layers.{}.{}.weight", layer_, name);
    }
    /// Of the projection whose weight is `weight_name`.
    [[nodiscard]] static std::string bias_name(const std::string& weight_name) {
        const std::string weight = "weight";
        return weight_name.substr(0, weight_name.size() - weight.size()) + "bias";
    }

    TensorIndex add_tensor(std::string name, TensorRole role, std::int64_t rows, std::int64_t cols, Format format) {
        graph_.tensors.push_back({std::move(name), role, rows, cols, format});
        return static_cast<TensorIndex>(graph_.tensors.size() - 1);
    }
    TensorIndex activation(const std::string& name, std::int64_t rows, std::int64_t cols,
                           TensorRole role = TensorRole::activation) {
        return add_tensor(scoped(name) + ".out", role, rows, cols, Format::bf16);
    }
    void add_operator(const std::string& name, OperatorBody body) {
        graph_.operators.push_back({scoped(name), layer_, std::move(body)});
    }
    Tensor& at(TensorIndex index) { return graph_.tensors[static_cast<std::size_t>(index)]; }
    Tensor& find(const std::string& name) {
        return *std::find_if(graph_.tensors.begin(), graph_.tensors.end(),
                             [&name](const Tensor& tensor) { return tensor.name == name; });
    }

    TensorIndex norm(const std::string& name, const std::string& weight_name, TensorIndex in) {
        const TensorIndex weight = add_tensor(weight_name, TensorRole::weight, 1, config_.hidden_size, Format::bf16);
        const TensorIndex out = activation(name, at(in).rows, config_.hidden_size);
        add_operator(name, RmsNorm{in, weight, out, config_.norm_epsilon});
        return out;
    }
    TensorIndex linear(const std::string& name, const std::string& weight_name, TensorIndex in, std::int64_t width,
                       bool has_bias = false, TensorRole role = TensorRole::activation) {
        const Workload& work = graph_.workload;
        const TensorIndex weight = add_tensor(weight_name, TensorRole::weight, width, at(in).cols, work.weights);
        const TensorIndex bias =
            has_bias ? add_tensor(bias_name(weight_name), TensorRole::weight, 1, width, Format::bf16) : kNoTensor;
        const TensorIndex out = activation(name, at(in).rows, width, role);
        add_operator(name, Linear{in, weight, out, work.activations, bias});
        return out;
    }
    TensorIndex head_norm(const std::string& name, const std::string& weight_name, TensorIndex in, std::int64_t heads,
                          const AttentionConfig& c) {
        if (c.head_norm == HeadNorm::none) {
            return in;
        }
        const TensorIndex weight = add_tensor(weight_name, TensorRole::weight, 1, c.head_dim, Format::bf16);
        const TensorIndex out = activation(name, at(in).rows, at(in).cols);
        add_operator(name, HeadRmsNorm{in, weight, out, heads, c.head_dim, config_.norm_epsilon});
        return out;
    }
    TensorIndex rope(const std::string& name, TensorIndex in, std::int64_t heads, const AttentionConfig& c) {
        const TensorIndex out = activation(name, at(in).rows, at(in).cols);
        add_operator(name, Rope{in, out, heads, c.head_dim, c.rotary->theta, c.rotary->scaling});
        return out;
    }
    TensorIndex add(const std::string& name, TensorIndex a, TensorIndex b) {
        const TensorIndex out = activation(name, at(a).rows, at(a).cols);
        add_operator(name, Add{a, b, out});
        return out;
    }
    TensorIndex kv_cache(const std::string& name, const AttentionConfig& c) {
        const Workload& work = graph_.workload;
        return add_tensor(scoped(name), TensorRole::kv_cache, work.batch * c.kv_heads * work.context, c.head_dim,
                          work.kv);
    }

    TensorIndex attention(const AttentionConfig& c, TensorIndex hidden) {
        const std::int64_t q_width = c.heads * c.head_dim;
        const std::int64_t kv_width = c.kv_heads * c.head_dim;
        const TensorIndex in = norm("input_norm", layer_weight("input_layernorm"), hidden);
        const TensorIndex q = linear("q_proj", layer_weight("self_attn.q_proj"), in, q_width, c.qkv_bias);
        const TensorIndex k = linear("k_proj", layer_weight("self_attn.k_proj"), in, kv_width, c.qkv_bias);
        const TensorIndex v = linear("v_proj", layer_weight("self_attn.v_proj"), in, kv_width, c.qkv_bias);
        const TensorIndex q_normed = head_norm("q_norm", layer_weight("self_attn.q_norm"), q, c.heads, c);
        const TensorIndex k_normed = head_norm("k_norm", layer_weight("self_attn.k_norm"), k, c.kv_heads, c);
        const TensorIndex q_rotated = rope("rope_q", q_normed, c.heads, c);
        const TensorIndex k_rotated = rope("rope_k", k_normed, c.kv_heads, c);
        const TensorIndex k_cache = kv_cache("k_cache", c);
        const TensorIndex v_cache = kv_cache("v_cache", c);
        const TensorIndex mixed = activation("attention", at(q).rows, q_width);
        add_operator("attention",
                     Attention{q_rotated, k_rotated, v, k_cache, v_cache, mixed, c.heads, c.kv_heads, c.head_dim});
        const TensorIndex out =
            linear("o_proj", layer_weight("self_attn.o_proj"), mixed, config_.hidden_size, c.out_bias);
        return add("attention_add", hidden, out);
    }

    TensorIndex mlp(const MlpConfig& c, TensorIndex hidden) {
        const TensorIndex in = norm("mlp_norm", layer_weight("post_attention_layernorm"), hidden);
        const TensorIndex gate = linear("gate_proj", layer_weight("mlp.gate_proj"), in, c.width);
        const TensorIndex up = linear("up_proj", layer_weight("mlp.up_proj"), in, c.width);
        const TensorIndex product = activation("swiglu", at(in).rows, c.width);
        add_operator("swiglu", Swiglu{gate, up, product});
        const TensorIndex out = linear("down_proj", layer_weight("mlp.down_proj"), product, config_.hidden_size);
        return add("mlp_add", hidden, out);
    }

    TensorIndex experts(const ExpertsConfig& c, TensorIndex hidden) {
        const Workload& work = graph_.workload;
        const TensorIndex in = norm("mlp_norm", layer_weight("post_attention_layernorm"), hidden);
        const std::int64_t tokens = at(in).rows;
        const TensorIndex scores = linear("router", layer_weight("mlp.gate"), in, c.count);
        Route route;
        route.scores = scores;
        route.experts = add_tensor(scoped("route.experts"), TensorRole::activation, tokens, c.chosen, Format::fp32);
        route.gates = add_tensor(scoped("route.gates"), TensorRole::activation, tokens, c.count, Format::fp32);
        route.chosen = c.chosen;
        route.drawn = draw_routes(work.routing, layer_, tokens, c.count, c.chosen);
        Experts experts;
        experts.in = in;
        experts.experts = route.experts;
        experts.gates = route.gates;
        const auto weight = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
            return add_tensor(layer_weight("mlp.experts." + name), TensorRole::weight, c.count * rows, cols,
                              work.weights);
        };
        experts.gate = weight("gate_proj", c.width, config_.hidden_size);
        experts.up = weight("up_proj", c.width, config_.hidden_size);
        experts.down = weight("down_proj", config_.hidden_size, c.width);
        experts.out = activation("experts", tokens, config_.hidden_size);
        experts.count = c.count;
        experts.chosen = c.chosen;
        experts.width = c.width;
        experts.hit = experts_hit(route.drawn, c.count);
        experts.operand_format = work.activations;
        const TensorIndex out = experts.out;
        add_operator("route", std::move(route));
        add_operator("experts", experts);
        return add("mlp_add", hidden, out);
    }

    const ModelConfig& config_;
    Graph graph_;
    std::int64_t layer_ = -1;
};

}  // namespace

Graph build_graph(const ModelConfig& config, const Workload& workload) {
    check_workload(config, workload);
    check_modelled(config, workload);
    return DecoderBuilder(config, workload).build();
}

Graph build_gemm(std::int64_t m, std::int64_t n, std::int64_t k, Format a_format, Format b_format, Format out_format) {
    constexpr std::int64_t kMaxSize = 1 << 20;
    require_between(m, 1, kMaxSize, "--m", "");
    require_between(n, 1, kMaxSize, "--n", "");
    require_between(k, 1, kMaxSize, "--k", "");
    static_cast<void>(isa::tensor_rate(a_format, b_format, "--a-format, --b-format"));
    if (out_format == Format::raw) {
        throw InputError("--out-format", "found raw, allowed: a number format");
    }
    Graph graph;
    graph.name = fmt::format("gemm-{}x{}x{}-{}", m, n, k, isa::name(a_format));
    if (b_format != a_format) {
        graph.name += fmt::format("-{}", isa::name(b_format));
    }
    graph.bare_operator = true;
    graph.workload.phase = Phase::prefill;
    graph.workload.tokens = m;
    graph.workload.context = m;
    graph.workload.weights = b_format;
    graph.workload.activations = a_format;
    graph.tensors = {{"a", TensorRole::operand, m, k, a_format},
                     {"b", TensorRole::weight, n, k, b_format},
                     {"c", TensorRole::output, m, n, out_format}};
    graph.operators = {{"gemm", -1, Linear{0, 1, 2, a_format}}};
    return graph;
}

}  // namespace sluice::models
