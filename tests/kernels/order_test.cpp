// SPDX-License-Identifier: Apache-2.0
// Programs of the library have no race, leave their semaphores as they found them, and give the same bytes in other
// interleavings. All waits on a semaphore are ordered (check_races would say otherwise), so none can take another's
// units: what is enabled stays enabled, and since one interleaving finishes, all do.
#include <catch2/catch.hpp>

#include "tests/kernels/ordered.hpp"

namespace sluice::test {
namespace {

using isa::Format;
using kernels::Schedule;
using models::Graph;

/// The chips that the compiler treats differently: one tile, two, a cluster, several groups of clusters.
std::vector<isa::ChipSpec> chips() {
    return {chip("toy"), chip("maia200", {"soc.clusters=1", "soc.tiles_per_cluster=1"}),
            chip("maia200", {"soc.clusters=1"}), chip("maia200", {"soc.clusters=3"}), chip("maia200")};
}

models::Workload with_formats(models::Workload work, Format weights, Format activations, Format kv) {
    work.weights = weights;
    work.activations = activations;
    work.kv = kv;
    return work;
}

TEST_CASE("products have no race and one result") {
    for (const isa::ChipSpec& chip : chips()) {
        for (const auto& [m, n, k] :
             {std::tuple{1, 1, 1}, std::tuple{5, 300, 64}, std::tuple{100, 70, 200}, std::tuple{700, 500, 300}}) {
            for (const Format format : {Format::mxfp4, Format::mxfp8, Format::bf16}) {
                check_order("gemm", models::build_gemm(m, n, k, format, format, Format::bf16), chip);
            }
        }
    }
}

TEST_CASE("decode steps have no race and one result") {
    for (const isa::ChipSpec& chip : chips()) {
        for (const auto& [batch, context] :
             {std::pair{1, 1}, std::pair{3, 300}, std::pair{40, 100}, std::pair{70, 40}}) {
            check_order("decode", models::build_graph(small_model(2), decode(batch, context)), chip);
        }
        DenseModel rich = small_model(2);
        rich.qkv_bias = rich.out_bias = rich.head_norms = true;
        rich.head_dim = 128;
        rich.hidden = rich.ffn = rich.vocab = 64;
        for (const models::Workload& work : {decode(3, 70), prefill(1, 70)}) {
            check_order("biases and norms of heads", models::build_graph(rich, work), chip);
        }
        DenseModel experts = small_model(2);
        experts.experts = 40;
        experts.chosen = 3;
        experts.hidden = experts.ffn = experts.vocab = 64;
        for (const models::Workload& work : {decode(37, 20), prefill(2, 70)}) {
            check_order("experts", models::build_graph(experts, work), chip);
        }
        check_order(
            "decode in BF16",
            models::build_graph(small_model(2), with_formats(decode(2, 70), Format::bf16, Format::bf16, Format::bf16)),
            chip);
    }
}

TEST_CASE("prefills have no race and one result") {
    for (const isa::ChipSpec& chip : chips()) {
        for (const auto& [batch, tokens] : {std::pair{1, 1}, std::pair{2, 145}, std::pair{3, 200}, std::pair{34, 5}}) {
            check_order("prefill", models::build_graph(small_model(2), prefill(batch, tokens)), chip);
        }
        check_order("prefill in FP4",
                    models::build_graph(small_model(2),
                                        with_formats(prefill(2, 70), Format::mxfp4, Format::mxfp4, Format::e4m3)),
                    chip);
    }
}

TEST_CASE("eager schedules have no race and one result") {
    const auto check = [](const std::string& what, const Graph& graph, const isa::ChipSpec& chip) {
        check_order("eager " + what, graph, chip, Schedule::eager);
    };
    const Graph product = models::build_gemm(100, 70, 200, Format::mxfp8, Format::mxfp4, Format::bf16);
    check("gemm", product, chip("maia200"));
    for (const isa::ChipSpec& chip : {chip("toy"), chip("maia200", {"soc.clusters=3"})}) {
        check("gemm", product, chip);
        for (const auto& [batch, context] : {std::pair{1, 1}, std::pair{40, 100}}) {
            check("decode", models::build_graph(small_model(2), decode(batch, context)), chip);
        }
        for (const auto& [batch, tokens] : {std::pair{2, 145}, std::pair{34, 5}}) {
            check("prefill", models::build_graph(small_model(2), prefill(batch, tokens)), chip);
        }
    }
    const isa::ChipSpec chunked = chip("toy", {"csram.bytes=128KiB"});
    check("decode in chunks", models::build_graph(small_model(2), decode(70, 40)), chunked);
    check("prefill in chunks", models::build_graph(small_model(2), prefill(2, 200)), chunked);
}

}  // namespace
}  // namespace sluice::test
