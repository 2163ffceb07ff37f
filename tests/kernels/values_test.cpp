// SPDX-License-Identifier: Apache-2.0
// Compiled programs compute what the operator graph says, bit by bit.
#include <catch2/catch.hpp>

#include "tests/kernels/executed.hpp"

namespace sluice::test {
namespace {

using isa::Format;

TEST_CASE("a product in every format of the tensor unit gives the reference's bits") {
    const isa::ChipSpec takes_fp16 = chip("toy", {"ttu.takes_fp16=1"});
    std::size_t compared = 0;
    for (const isa::FormatInfo& format : isa::all_formats()) {
        if (format.rate == isa::TensorRate::none) {
            continue;
        }
        for (const Format out : {format.format, Format::fp32}) {
            INFO(format.name << " to " << name(out));
            const models::Graph graph = models::build_gemm(40, 33, 96, format.format, format.format, out);
            check_values(graph, takes_fp16, models::random_inputs(graph, 2));
            ++compared;
        }
    }
    CHECK(compared == 2 * 12);
}

TEST_CASE("every rule for block scales gives the reference's bits") {
    for (const isa::ScaleRounding rounding :
         {isa::ScaleRounding::floor, isa::ScaleRounding::ceil, isa::ScaleRounding::even}) {
        models::Workload work = decode(3, 40);
        work.scale_rounding = rounding;
        work.weights = Format::mxfp4;
        work.activations = Format::mxfp4;
        const models::Graph graph = models::build_graph(small_model(1), work);
        check_values(graph, chip("toy"), models::random_inputs(graph, 4));
    }
}

TEST_CASE("a product of any operand formats gives the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    for (const auto& [a, b] : {std::pair{Format::mxfp4, Format::mxfp4}, std::pair{Format::mxfp8, Format::mxfp4},
                               std::pair{Format::mxfp6, Format::mxfp8}, std::pair{Format::mxfp8, Format::mxfp8},
                               std::pair{Format::e4m3, Format::mxfp6}, std::pair{Format::bf16, Format::bf16}}) {
        for (const auto& [m, n, k] :
             {std::tuple{1, 1, 1}, std::tuple{17, 33, 17}, std::tuple{33, 65, 96}, std::tuple{100, 70, 200}}) {
            INFO(name(a) << " x " << name(b) << ": " << m << " x " << n << " x " << k);
            const models::Graph graph = models::build_gemm(m, n, k, a, b, Format::bf16);
            check_values(graph, toy, models::random_inputs(graph, 7));
        }
    }
}

TEST_CASE("a decode step gives the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    for (const auto& [batch, context] : {std::pair{1, 1}, std::pair{3, 40}, std::pair{32, 64}, std::pair{35, 70}}) {
        INFO(batch << " sequences of " << context);
        const models::Graph graph = models::build_graph(small_model(1), decode(batch, context));
        check_values(graph, toy, models::random_inputs(graph, 3));
    }
}

TEST_CASE("biases and norms of heads give the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    for (const auto& [biases, head_norms, head_dim] :
         {std::tuple{true, false, 64}, std::tuple{true, false, 128}, std::tuple{false, true, 64},
          std::tuple{false, true, 128}, std::tuple{true, true, 128}}) {
        DenseModel model = small_model(1);
        model.hidden = model.ffn = model.vocab = 64;
        model.qkv_bias = biases;
        model.out_bias = biases;
        model.head_norms = head_norms;
        model.head_dim = head_dim;
        for (const models::Workload& work : {decode(35, 34), prefill(2, 45)}) {
            INFO("biases " << biases << ", norms " << head_norms << ", heads of " << head_dim << ", " << work.batch
                           << " sequences of " << work.context);
            const models::Graph graph = models::build_graph(model, work);
            check_values(graph, toy, models::random_inputs(graph, 5));
        }
    }
}

TEST_CASE("a prefill gives the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    for (const auto& [batch, tokens] : {std::pair{1, 1}, std::pair{1, 32}, std::pair{2, 45}, std::pair{1, 200}}) {
        INFO(batch << " sequences of " << tokens);
        const models::Graph graph = models::build_graph(small_model(1), prefill(batch, tokens));
        check_values(graph, toy, models::random_inputs(graph, 3));
    }
}

TEST_CASE("an eager schedule gives the reference's bits") {
    const isa::ChipSpec toy = chip("toy");
    const auto check = [&toy](const models::Graph& graph) {
        check_values(graph, toy, models::random_inputs(graph, 3), {}, kernels::Schedule::eager);
    };
    check(models::build_gemm(100, 70, 200, Format::mxfp8, Format::mxfp4, Format::bf16));
    for (const auto& [batch, context] : {std::pair{1, 1}, std::pair{35, 70}}) {
        INFO(batch << " sequences of " << context);
        check(models::build_graph(small_model(2), decode(batch, context)));
    }
    for (const auto& [batch, tokens] : {std::pair{2, 45}, std::pair{1, 200}}) {
        INFO(batch << " sequences of " << tokens);
        check(models::build_graph(small_model(2), prefill(batch, tokens)));
    }
}

}  // namespace
}  // namespace sluice::test
