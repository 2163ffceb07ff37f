// SPDX-License-Identifier: Apache-2.0
// Is every graph well formed, and does its work equal the closed forms?
#include "models/graph.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "models/decoder_graph.hpp"
#include "models/huggingface.hpp"
#include "tests/support/files.hpp"

namespace sluice::models {
namespace {

using Catch::Matchers::Contains;
using test::input_error;

ModelConfig model(const std::string& name) {
    return read_model_config(std::filesystem::path(SLUICE_SOURCE_DIR) / "configs" / "models" / (name + ".json"));
}

Workload decode(std::int64_t batch, std::int64_t context) {
    Workload work;
    work.batch = batch;
    work.context = context;
    return work;
}

Workload prefill(std::int64_t batch, std::int64_t tokens) {
    Workload work;
    work.phase = Phase::prefill;
    work.batch = batch;
    work.tokens = tokens;
    work.context = tokens;
    return work;
}

struct Ports {
    std::vector<TensorIndex> in;
    TensorIndex out = -1;
};

Ports ports(const OperatorBody& body) {
    struct Visitor {
        Ports operator()(const Embedding& op) const { return {{op.ids, op.table}, op.out}; }
        Ports operator()(const RmsNorm& op) const { return {{op.in, op.weight}, op.out}; }
        Ports operator()(const HeadRmsNorm& op) const { return {{op.in, op.weight}, op.out}; }
        Ports operator()(const Linear& op) const {
            Ports ports{{op.in, op.weight}, op.out};
            if (op.bias != kNoTensor) {
                ports.in.push_back(op.bias);
            }
            return ports;
        }
        Ports operator()(const Rope& op) const { return {{op.in}, op.out}; }
        Ports operator()(const Attention& op) const { return {{op.q, op.k, op.v, op.k_cache, op.v_cache}, op.out}; }
        Ports operator()(const Swiglu& op) const { return {{op.gate, op.up}, op.out}; }
        Ports operator()(const Add& op) const { return {{op.a, op.b}, op.out}; }
        Ports operator()(const Route& op) const { return {{op.scores}, op.gates}; }
        Ports operator()(const Experts& op) const { return {{op.in, op.gates, op.gate, op.up, op.down}, op.out}; }
        Ports operator()(const LastToken& op) const { return {{op.in}, op.out}; }
    };
    return std::visit(Visitor{}, body);
}

const Tensor& at(const Graph& graph, TensorIndex index) {
    return graph.tensors.at(static_cast<std::size_t>(index));
}

void check_shapes(const Graph& graph, const Operator& op) {
    INFO(op.name);
    if (const auto* linear = std::get_if<Linear>(&op.body)) {
        CHECK(at(graph, linear->in).cols == at(graph, linear->weight).cols);
        CHECK(at(graph, linear->in).rows == at(graph, linear->out).rows);
        CHECK(at(graph, linear->weight).rows == at(graph, linear->out).cols);
    } else if (const auto* attention = std::get_if<Attention>(&op.body)) {
        const Workload& work = graph.workload;
        CHECK(at(graph, attention->q).cols == attention->q_heads * attention->head_dim);
        CHECK(at(graph, attention->k).cols == attention->kv_heads * attention->head_dim);
        CHECK(at(graph, attention->k_cache).rows == work.batch * attention->kv_heads * work.context);
        CHECK(at(graph, attention->v_cache).cols == attention->head_dim);
        CHECK(at(graph, attention->out).cols == at(graph, attention->q).cols);
    } else if (const auto* last = std::get_if<LastToken>(&op.body)) {
        CHECK(at(graph, last->out).rows == graph.workload.batch);
    }
}

// Every input is a weight, cache, token ids or written before; every tensor but the output is read; one output.
void check_well_formed(const Graph& graph) {
    std::set<TensorIndex> written;
    std::set<TensorIndex> read;
    std::set<std::string> names;
    for (const Operator& op : graph.operators) {
        INFO(op.name);
        CHECK(names.insert(op.name).second);
        const Ports port = ports(op.body);
        for (const TensorIndex in : port.in) {
            const bool produced = at(graph, in).role == TensorRole::activation;
            CHECK((!produced || written.contains(in)));
            read.insert(in);
        }
        CHECK(written.insert(port.out).second);
        check_shapes(graph, op);
    }
    std::set<std::string> tensor_names;
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
        const Tensor& tensor = graph.tensors[i];
        INFO(tensor.name);
        CHECK(tensor_names.insert(tensor.name).second);
        CHECK(tensor.rows > 0);
        CHECK(tensor.cols > 0);
        CHECK(read.contains(static_cast<TensorIndex>(i)) == (tensor.role != TensorRole::output));
    }
    CHECK(at(graph, ports(graph.operators.back().body).out).role == TensorRole::output);
}

const Operator& find(const Graph& graph, const std::string& name) {
    for (const Operator& op : graph.operators) {
        if (op.name == name) {
            return op;
        }
    }
    FAIL("no operator " << name);
    return graph.operators.front();
}

TEST_CASE("graphs are well formed for odd batches and contexts") {
    const ModelConfig config = model("toy-llama");
    for (const std::int64_t batch : {1, 2, 3, 7, 33}) {
        for (const std::int64_t context : {1, 2, 31, 33, 127, 2'048}) {
            INFO(batch << " x " << context);
            check_well_formed(build_graph(config, decode(batch, context)));
            check_well_formed(build_graph(config, prefill(batch, context)));
        }
    }
    check_well_formed(build_graph(model("llama-3.1-70b"), decode(5, 8'191)));
    check_well_formed(build_gemm(33, 65, 127, Format::mxfp8, Format::mxfp4, Format::bf16));
}

TEST_CASE("a graph holds the model's parameters, once each") {
    for (const char* name : {"toy-llama", "llama-3.1-8b", "llama-3.1-70b"}) {
        const ModelConfig config = model(name);
        CHECK(parameter_count(build_graph(config, decode(3, 17))) == parameter_count(config));
        CHECK(parameter_count(build_graph(config, prefill(1, 5))) == parameter_count(config));
    }
    ModelConfig tied = model("toy-llama");
    tied.tie_word_embeddings = true;
    const Graph graph = build_graph(tied, decode(1, 1));
    CHECK(parameter_count(graph) == parameter_count(tied));
    CHECK(parameter_count(tied) == parameter_count(model("toy-llama")) - 512 * 128);
    check_well_formed(graph);
}

TEST_CASE("a matrix product is 2 m n k and its compulsory bytes") {
    const double m = 100;
    const double n = 200;
    const double k = 320;
    const Graph graph = build_gemm(100, 200, 320, Format::mxfp8, Format::mxfp4, Format::bf16);
    const OperatorCost work = cost(graph, graph.operators.front());
    CHECK(work.flops == 2 * m * n * k);
    CHECK(work.tensor_flops == work.flops);
    CHECK(work.weight_bytes == n * k * 0.53125);
    CHECK(work.activation_bytes == m * k * 1.03125 + m * n * 2);
    CHECK(work.kv_bytes == 0);
}

TEST_CASE("decode attention is 4 B L H d, and moves each cached position once") {
    const ModelConfig config = model("llama-3.1-8b");
    for (const auto& [format, bytes] : {std::pair{Format::e4m3, 1.0}, std::pair{Format::bf16, 2.0}}) {
        Workload work = decode(7, 4'097);
        work.kv = format;
        const Graph graph = build_graph(config, work);
        const OperatorCost found = cost(graph, find(graph, "layers.31.attention"));
        CHECK(found.flops == 4.0 * 7 * 4'097 * 32 * 128);
        CHECK(found.kv_bytes == 2.0 * 7 * 4'097 * 8 * 128 * bytes);
    }
}

TEST_CASE("causal prefill attention is 2 B S (S + 1) H d, and appends the cache") {
    const Graph graph = build_graph(model("llama-3.1-8b"), prefill(3, 511));
    const OperatorCost found = cost(graph, find(graph, "layers.0.attention"));
    CHECK(found.flops == 2.0 * 3 * 511 * 512 * 32 * 128);
    CHECK(found.kv_bytes == 2.0 * 3 * 511 * 8 * 128);
}

TEST_CASE("a prefill of one token and a decode at context one do the same work") {
    const ModelConfig config = model("toy-llama");
    const auto flops = [&config](const Workload& work) {
        const Graph graph = build_graph(config, work);
        double sum = 0;
        for (const Operator& op : graph.operators) {
            sum += cost(graph, op).flops;
        }
        return sum;
    };
    CHECK(flops(decode(4, 1)) == flops(prefill(4, 1)));
}

TEST_CASE("matrix work of a step is 2 flop a parameter and token, the head once a sequence") {
    const ModelConfig config = model("llama-3.1-8b");
    const double head = 128'256.0 * 4'096;
    // Matrices of all layers: the total without embedding, head and norms.
    const double layers = static_cast<double>(parameter_count(config)) - 2 * head - (2 * 32 + 1) * 4'096.0;
    for (const Workload& work : {decode(32, 100), prefill(3, 100)}) {
        const Graph graph = build_graph(config, work);
        double flops = 0;
        double weights = 0;
        for (const Operator& op : graph.operators) {
            if (std::holds_alternative<Linear>(op.body)) {
                flops += cost(graph, op).flops;
                weights += cost(graph, op).weight_bytes;
            }
        }
        const auto sequences = static_cast<double>(work.batch);
        const double tokens = sequences * static_cast<double>(work.tokens);
        CHECK(flops == Approx(2 * tokens * layers + 2 * sequences * head).epsilon(1e-12));
        CHECK(weights == Approx((layers + head) * 0.53125).epsilon(1e-12));
    }
}

TEST_CASE("vector operators have the work of their formulas") {
    const Graph graph = build_graph(model("toy-llama"), decode(5, 9));
    CHECK(cost(graph, find(graph, "layers.0.input_norm")).flops == 4.0 * 5 * 128);
    CHECK(cost(graph, find(graph, "layers.0.input_norm")).weight_bytes == 128 * 2.0);
    CHECK(cost(graph, find(graph, "layers.1.rope_q")).flops == 3.0 * 5 * 4 * 32);
    CHECK(cost(graph, find(graph, "layers.1.rope_k")).flops == 3.0 * 5 * 2 * 32);
    CHECK(cost(graph, find(graph, "layers.1.swiglu")).flops == 5.0 * 5 * 256);
    CHECK(cost(graph, find(graph, "layers.1.mlp_add")).flops == 1.0 * 5 * 128);
    const OperatorCost embedding = cost(graph, find(graph, "embed_tokens"));
    CHECK(embedding.flops == 0);
    CHECK(embedding.weight_bytes == 5.0 * 128 * 2);
    CHECK(embedding.activation_bytes == 5.0 * 4 + 5.0 * 128 * 2);
}

TEST_CASE("formats are those asked for, and embedding and norms stay BF16") {
    Workload work = decode(2, 8);
    work.weights = Format::mxfp8;
    work.kv = Format::bf16;
    const Graph graph = build_graph(model("toy-llama"), work);
    for (const Operator& op : graph.operators) {
        INFO(op.name);
        if (const auto* linear = std::get_if<Linear>(&op.body)) {
            CHECK(at(graph, linear->weight).format == Format::mxfp8);
            CHECK(linear->operand_format == Format::mxfp8);
        } else if (const auto* norm = std::get_if<RmsNorm>(&op.body)) {
            CHECK(at(graph, norm->weight).format == Format::bf16);
        } else if (const auto* attention = std::get_if<Attention>(&op.body)) {
            CHECK(at(graph, attention->k_cache).format == Format::bf16);
        } else if (const auto* embedding = std::get_if<Embedding>(&op.body)) {
            CHECK(at(graph, embedding->table).format == Format::bf16);
        }
    }
}

TEST_CASE("a workload that makes no sense is refused by flag") {
    const ModelConfig config = model("toy-llama");
    const auto error_of = [&config](const Workload& work) {
        return input_error([&] { static_cast<void>(build_graph(config, work)); });
    };
    CHECK_THAT(error_of(decode(0, 1)), Contains("--batch: found 0"));
    CHECK_THAT(error_of(decode(-5, 1)), Contains("--batch: found -5"));
    CHECK_THAT(error_of(decode(1LL << 40, 1)), Contains("--batch"));
    CHECK_THAT(error_of(decode(1, 0)), Contains("--context: found 0"));
    CHECK_THAT(error_of(decode(1, 2'049)), Contains("--context: found 2049") && Contains("2048"));
    Workload work = decode(1, 8);
    work.tokens = 2;
    CHECK_THAT(error_of(work), Contains("--tokens: found 2"));
    work = prefill(1, 8);
    work.tokens = 4;
    CHECK_THAT(error_of(work), Contains("--tokens: found 4"));
    work = decode(1, 8);
    work.kv = Format::mxfp4;
    CHECK_THAT(error_of(work), Contains("--kv: found mxfp4, allowed: e4m3, bf16"));
    work = decode(1, 8);
    work.weights = Format::fp32;
    CHECK_THAT(error_of(work), Contains("--weights: found fp32"));
    work = decode(1, 8);
    work.weights = Format::bf16;
    CHECK_THAT(error_of(work), Contains("--act, --weights"));
    work.activations = Format::bf16;
    CHECK(error_of(work).empty());
}

TEST_CASE("sizes of a matrix product are checked one by one") {
    const auto error_of = [](std::int64_t m, std::int64_t n, std::int64_t k) {
        return input_error([&] { static_cast<void>(build_gemm(m, n, k, Format::mxfp8, Format::mxfp8, Format::bf16)); });
    };
    constexpr std::int64_t kLargest = 1 << 20;
    CHECK_THAT(error_of(0, 1, 1), Contains("--m: found 0, allowed: 1 to 1048576"));
    CHECK_THAT(error_of(1, -1, 1), Contains("--n: found -1"));
    CHECK_THAT(error_of(1, 1, kLargest + 1), Contains("--k: found 1048577"));
    CHECK(error_of(kLargest, kLargest, kLargest).empty());
    CHECK(error_of(1, 1, 1).empty());
    CHECK_THAT(input_error([] { static_cast<void>(build_gemm(1, 1, 1, Format::bf16, Format::mxfp4, Format::bf16)); }),
               Contains("--a-format, --b-format"));
}

}  // namespace
}  // namespace sluice::models
