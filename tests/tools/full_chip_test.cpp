// SPDX-License-Identifier: Apache-2.0
// Does the whole chain do on the whole chip what its closed forms and roofs say? The shapes people ask about first.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <tuple>

#include "isa/chip_spec_reader.hpp"
#include "isa/config_file.hpp"
#include "kernels/compile.hpp"
#include "models/decoder_graph.hpp"
#include "sim/run.hpp"
#include "tests/support/dense_model.hpp"
#include "tools/simulate.hpp"

using namespace sluice;
using isa::Format;

namespace {

// Llama 3.1 8B, from its published dimensions.
constexpr double kLayers = 32, kHidden = 4096, kFfn = 14336, kHeads = 32, kKvHeads = 8, kDim = 128, kVocab = 128256;
constexpr double kLayerMatrices = kHidden * kDim * (2 * kHeads + 2 * kKvHeads) + 3 * kHidden * kFfn;
constexpr double kHead = kHidden * kVocab;
constexpr double kMxfp4Bytes = 0.53125;  // half a byte and one scale byte per 32

tools::Outcome run_model(const models::Workload& workload) {
    return tools::simulate({"maia200", {}, tools::ModelWork{"llama-3.1-8b", workload}});
}

double hbm_bytes(const tools::Outcome& outcome) {
    return static_cast<double>(outcome.result.hbm_read + outcome.result.hbm_written);
}

double bound_cycles(const std::vector<kernels::PlanNode>& plan, double kernels::PlanNode::*bound) {
    double sum = 0;
    for (const kernels::PlanNode& node : plan) {
        sum += node.*bound;
    }
    return sum;
}

/// Fraction of the 36 tiles' peak that a product reaches, `macs_per_cycle` per tile.
double gemm_fraction(std::int64_t m, std::int64_t n, std::int64_t k, Format format, double macs_per_cycle) {
    const tools::Outcome outcome =
        tools::simulate({"maia200", {}, tools::GemmWork{m, n, k, format, format, Format::bf16}});
    const double ideal =
        static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / (36 * macs_per_cycle);
    return ideal / static_cast<double>(outcome.result.cycles);
}

}  // namespace

TEST_CASE("a decode step of 8 billion parameters moves its weights and cache once, near the rate of HBM") {
    for (const std::int64_t batch : {1, 32}) {
        INFO(batch << " sequences");
        models::Workload workload;
        workload.phase = models::Phase::decode;
        workload.batch = batch;
        workload.context = 4096;
        const tools::Outcome outcome = run_model(workload);

        // Weights once; K and V of every position once in one byte; logits out in two.
        const auto sequences = static_cast<double>(batch);
        const double kv = kLayers * sequences * 4096 * 2 * kKvHeads * kDim;
        const double closed_form = (kLayers * kLayerMatrices + kHead) * kMxfp4Bytes + kv + sequences * kVocab * 2;
        CHECK(hbm_bytes(outcome) >= closed_form);
        CHECK(hbm_bytes(outcome) <= 1.02 * closed_form);

        const double hbm_bound = closed_form / isa::hbm_bytes_per_cycle(outcome.job.chip.spec);
        const auto cycles = static_cast<double>(outcome.result.cycles);
        CHECK(cycles >= hbm_bound);
        CHECK(hbm_bound / cycles >= 0.88);
    }
}

TEST_CASE("a prefill of 2,048 tokens does its closed form of work, near the rate of the tensor units") {
    models::Workload workload;
    workload.phase = models::Phase::prefill;
    workload.tokens = 2048;
    workload.context = 2048;
    const tools::Outcome outcome = run_model(workload);

    // Projections of every token, causal attention, and the head of the last token.
    const double tensor_flops =
        2 * 2048 * kLayers * kLayerMatrices + kLayers * 2 * 2048.0 * 2049.0 * kHeads * kDim + 2 * kHead;
    double planned = 0;
    for (const kernels::PlanNode& node : outcome.job.plan) {
        planned += node.tensor_flops;
    }
    CHECK(planned == Approx(tensor_flops).epsilon(1e-12));

    const double ttu_bound = tensor_flops / (2 * 32'768.0 * 36);
    const double tvp_bound = bound_cycles(outcome.job.plan, &kernels::PlanNode::tvp_cycles);
    CHECK(ttu_bound > tvp_bound);
    const auto cycles = static_cast<double>(outcome.result.cycles);
    CHECK(cycles >= ttu_bound);
    CHECK(ttu_bound / cycles >= 0.50);
}

// 9,216 columns are 16 blocks for every tile of half the chip.
TEST_CASE("a large BF16 product runs at 99 % of peak") {
    CHECK(gemm_fraction(8192, 9216, 8192, Format::bf16, 8'192) >= 0.99);
}
TEST_CASE("a large FP8 product runs at 92 % of peak, the largest at 95 to 97") {
    CHECK(gemm_fraction(8192, 9216, 8192, Format::mxfp8, 32'768) >= 0.92);
    if (std::getenv("SLUICE_FULL") != nullptr) {
        const double largest = gemm_fraction(16'384, 18'432, 16'384, Format::mxfp8, 32'768);
        CHECK((largest >= 0.95 && largest <= 0.97));
    }
}
// Twice the FP8 rate, 9,437 Tflop/s, but the tile's port brings operands for 94 % of it.
TEST_CASE("a large FP4 product runs at 8.4 to 8.8 Pflop/s") {
    const double pflops = 9.437 * gemm_fraction(8192, 9216, 8192, Format::mxfp4, 65'536);
    CHECK((pflops >= 8.4 && pflops <= 8.8));
}

TEST_CASE("a decode step of experts runs at 80 % of the HBM bound of those that are hit") {
    // Qwen3-30B-A3B from its published dimensions, with three of 48 layers and a small head.
    test::DenseModel model;
    model.layers = 3;
    model.hidden = 2048;
    model.heads = 32;
    model.kv_heads = 4;
    model.head_dim = 128;
    model.head_norms = true;
    model.experts = 128;
    model.chosen = 8;
    model.ffn = 768;
    model.vocab = 2048;
    models::ModelConfig config = model;
    config.max_position_embeddings = 40'960;
    models::Workload workload;
    workload.batch = 64;
    workload.context = 4096;
    const models::Graph graph = models::build_graph(config, workload);
    const isa::ChipSpec chip = isa::read_chip("maia200", {}, isa::configs_directory()).spec;
    const kernels::Compiled compiled = kernels::compile(graph, chip);
    const sim::RunResult result = sim::run(chip, compiled.program);
    double bytes = 0;
    for (const models::Operator& op : graph.operators) {
        const bool embedding = std::holds_alternative<models::Embedding>(op.body);
        const models::OperatorCost cost = models::cost(graph, op);
        bytes += embedding ? 0 : cost.weight_bytes + cost.kv_bytes;
    }
    const double bound = bytes / isa::hbm_bytes_per_cycle(chip);
    INFO(bound << " of " << result.cycles << " cycles");
    CHECK(static_cast<double>(result.cycles) >= bound);
    CHECK(bound >= 0.8 * static_cast<double>(result.cycles));
}

TEST_CASE("prefill attention in FP8 runs at 1.57 to 1.73 Pflop/s, out of the vector unit's schedule") {
    models::AttentionSizes sizes;
    sizes.heads = 32;
    sizes.kv_heads = 8;
    sizes.head_dim = 128;
    sizes.tokens = 8192;
    const tools::Outcome outcome = tools::simulate({"maia200", {}, tools::AttentionWork{sizes}});
    const auto cycles = static_cast<double>(outcome.result.cycles);
    // A score takes 8 issue slots (maximum, scale, exponent 4, sum, conversion), of 3 slots x 128 lanes x 36 tiles.
    const double scores = 32.0 * 8192 * 8192;
    CHECK(cycles >= scores * 8 / (3.0 * 128 * 36));
    const double pflops = scores * 4 * 128 / cycles * 2e9 / 1e15;
    INFO(pflops << " Pflop/s");
    CHECK((pflops >= 1.57 && pflops <= 1.73));
}

// 256 column blocks on nine tiles: the widest takes 29, as 15 and 14, in steps of 16 row blocks. For each block of k it
// multiplies 16 n blocks of C, at `cycles` each, while its port brings 16 + n operand blocks at 128 B a cycle.
double bound_of_widest_tile(double cycles, double block_bytes) {
    const auto step = [&](double n) { return std::max(16 * n * cycles, (16 + n) * block_bytes / 128); };
    return 16 * 256.0 / 9 * cycles / (step(15) + step(14));
}

TEST_CASE("a product whose columns divide badly over the tiles comes near the bound of its widest tile") {
    for (const auto& [format, macs_per_cycle, block_bytes] :
         {std::tuple{Format::bf16, 8'192.0, 2'048.0}, std::tuple{Format::mxfp8, 32'768.0, 1'056.0},
          std::tuple{Format::mxfp4, 65'536.0, 544.0}}) {
        const double bound = bound_of_widest_tile(32'768 / macs_per_cycle, block_bytes);
        const double found = gemm_fraction(8192, 8192, 8192, format, macs_per_cycle);
        INFO(isa::name(format) << ": " << found << " of a bound of " << bound);
        CHECK(found <= bound);
        CHECK(found >= 0.94 * bound);
    }
}
