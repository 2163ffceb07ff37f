// SPDX-License-Identifier: Apache-2.0
#include "models/bare_operators.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::models {

namespace {

constexpr std::int64_t kMaxSize = 1 << 20;

void require_between(std::int64_t value, std::int64_t lowest, std::int64_t highest, const std::string& where) {
    if (value < lowest || value > highest) {
        throw InputError(where, fmt::format("found {}, allowed: {} to {}", value, lowest, highest));
    }
}

void require_multiple(std::int64_t value, std::int64_t of, const std::string& where, const std::string& why) {
    if (value % of != 0) {
        throw InputError(where, fmt::format("found {}, allowed: a multiple of {}{}", value, of, why));
    }
}

void check(const AttentionSizes& sizes) {
    constexpr std::int64_t kMaxHeads = 1024, kMaxHeadDim = 1024;
    require_between(sizes.heads, 1, kMaxHeads, "--heads");
    require_between(sizes.kv_heads, 1, kMaxHeads, "--kv-heads");
    require_multiple(sizes.heads, sizes.kv_heads, "--heads", " (--kv-heads)");
    require_between(sizes.head_dim, 1, kMaxHeadDim, "--head-dim");
    require_multiple(sizes.head_dim, isa::kBlockEdge, "--head-dim", "");
    require_between(sizes.tokens, 1, kMaxSize, "--tokens");
    require_between(sizes.batch, 1, kMaxSize, "--batch");
    require_between(sizes.past, 0, kMaxSize, "--past");
    require_multiple(sizes.past, isa::kBlockEdge, "--past", ": cached positions fill their blocks");
    if (sizes.format != Format::e4m3 && sizes.format != Format::bf16) {
        throw InputError("--format", fmt::format("found {}, allowed: e4m3 (fp8), bf16", isa::name(sizes.format)));
    }
    if (sizes.out == Format::raw) {
        throw InputError("--out-format", "found raw, allowed: a number format");
    }
    // Keeps the number of elements of every tensor, and byte offsets within it, far from 63 bits.
    constexpr double kMaxElements = 1e15;
    const double elements = static_cast<double>(sizes.batch) * static_cast<double>(sizes.past + sizes.tokens) *
                            static_cast<double>(sizes.heads * sizes.head_dim);
    if (elements > kMaxElements) {
        throw InputError("--batch", fmt::format("found {} sequences, a tensor of {:.3g} elements; allowed: at most "
                                                "{:.0e} elements",
                                                sizes.batch, elements, kMaxElements));
    }
}

std::string graph_name(const AttentionSizes& sizes) {
    std::string name = fmt::format("attention-b{}-t{}", sizes.batch, sizes.tokens);
    if (sizes.past > 0) {
        name += fmt::format("-p{}", sizes.past);
    }
    return name + fmt::format("-h{}-kv{}-d{}-{}{}", sizes.heads, sizes.kv_heads, sizes.head_dim,
                              isa::name(sizes.format), sizes.causal ? "-causal" : "");
}

}  // namespace

Graph build_attention(const AttentionSizes& sizes) {
    check(sizes);
    Graph graph;
    graph.name = graph_name(sizes);
    graph.bare_operator = true;
    graph.workload.phase = Phase::prefill;
    graph.workload.batch = sizes.batch;
    graph.workload.tokens = sizes.tokens;
    graph.workload.context = sizes.past + sizes.tokens;
    graph.workload.kv = sizes.format;
    graph.workload.activations = sizes.format;
    const std::int64_t width = sizes.heads * sizes.head_dim;
    const std::int64_t positions = sizes.batch * sizes.kv_heads * graph.workload.context;
    graph.tensors = {{"q", TensorRole::operand, sizes.batch * sizes.tokens, width, sizes.format},
                     {"k", TensorRole::operand, positions, sizes.head_dim, sizes.format},
                     {"v", TensorRole::operand, positions, sizes.head_dim, sizes.format},
                     {"o", TensorRole::output, sizes.batch * sizes.tokens, width, sizes.out}};
    graph.operators = {
        {"attention", -1, Attention{0, -1, -1, 1, 2, 3, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.causal}}};
    return graph;
}

}  // namespace sluice::models
