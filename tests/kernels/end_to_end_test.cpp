// SPDX-License-Identifier: Apache-2.0
// Does compiled code run to its end on the simulated chip, move and multiply what its closed form says, and never beat
// a lower bound?
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "kernels/layout.hpp"
#include "tests/kernels/compiled.hpp"

using namespace sluice;
using namespace sluice::test;
using isa::Format;

namespace {

struct Gemm {
    std::int64_t m, n, k;
    Format a = Format::mxfp8, b = Format::mxfp8, out = Format::bf16;
};

std::int64_t block(Format format) {
    return static_cast<std::int64_t>(isa::block_bytes(format));
}

/// Bytes of `rows` rows of a block, as whole beats: rows together, scales together.
std::int64_t block_rows(Format format, std::int64_t rows) {
    if (rows == 32) {
        return block(format);
    }
    const isa::FormatInfo& info = isa::info(format);
    return round_up<std::int64_t>(rows * 32 * info.element_bits / 8, 32) + (info.block_scaled ? 32 : 0);
}

void check_gemm(const isa::ChipSpec& chip, const Gemm& g) {
    INFO(fmt::format("{}: {} x {} x {}, {} x {} -> {}", chip.name, g.m, g.n, g.k, name(g.a), name(g.b), name(g.out)));
    const Ran ran = compile_and_run(models::build_gemm(g.m, g.n, g.k, g.a, g.b, g.out), chip);
    const std::int64_t rows = ceil_div<std::int64_t>(g.m, 32);
    const std::int64_t columns = ceil_div<std::int64_t>(g.n, 32);
    const std::int64_t depth = ceil_div<std::int64_t>(g.k, 32);
    const std::int64_t valid = rows == 1 ? g.m : 32;  // a lone row block moves its valid rows alone
    CHECK(macs(ran.result) == static_cast<std::uint64_t>(rows * columns * depth * 32 * 32 * 32));
    const std::int64_t a = rows * depth * block_rows(g.a, valid);
    const std::int64_t b = columns * depth * block(g.b);
    const std::int64_t c = rows * columns * block_rows(g.out, valid);
    CHECK(ran.result.hbm_written == static_cast<Bytes>(c));
    CHECK(ran.result.hbm_read >= static_cast<Bytes>(a + b));
    if (rows == 1 && columns <= isa::tile_count(chip)) {
        // One row step, one column chunk: each cluster reads A once, each tile its own B once.
        CHECK(ran.result.hbm_read == static_cast<Bytes>(a * chip.soc.clusters + b));
    }
}

constexpr Format kBlockFormats[] = {Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::e4m3};

void check_decoder(const isa::ChipSpec& chip, const models::ModelConfig& config, const models::Workload& work) {
    INFO(fmt::format("{} of {} clusters of {} tiles: {}, batch {}, context {}", chip.name, chip.soc.clusters,
                     chip.soc.tiles_per_cluster, work.phase == models::Phase::decode ? "decode" : "prefill", work.batch,
                     work.context));
    const Ran ran = compile_and_run(models::build_graph(config, work), chip);
    const std::int64_t hidden = ceil_div<std::int64_t>(config.hidden_size, 32);
    const std::int64_t ffn =
        ceil_div<std::int64_t>(std::get<models::MlpConfig>(config.layers[0].feed_forward).width, 32);
    const std::int64_t vocab = ceil_div<std::int64_t>(config.vocab_size, 32);
    const auto& attention = std::get<models::AttentionConfig>(config.layers[0].mixer);
    const std::int64_t q = attention.heads * attention.head_dim / 32;
    const std::int64_t kv = attention.kv_heads * attention.head_dim / 32;
    const auto layers = static_cast<std::int64_t>(config.layers.size());
    const std::int64_t blocks = layers * hidden * (q + 2 * kv + q + 3 * ffn) + vocab * hidden;
    const std::int64_t position = 2 * 32 * kv * isa::info(work.kv).element_bits / 8;  // K and V, one layer
    const bool decoding = work.phase == models::Phase::decode;
    const std::int64_t past = decoding ? layers * work.batch * (work.context - 1) * position : 0;
    const std::int64_t appended = layers * work.batch * work.tokens * position;
    CHECK(ran.result.hbm_read >= static_cast<Bytes>(blocks * block(work.weights) + past));
    CHECK(ran.result.hbm_written >= static_cast<Bytes>(appended + work.batch * config.vocab_size * 2));
    CHECK(same(sim::run(chip, ran.compiled.program), ran.result));
}

constexpr std::pair<std::int64_t, std::int64_t> kDecode[] = {{1, 1}, {1, 33}, {5, 100}, {33, 64}, {64, 2048}};
constexpr std::pair<std::int64_t, std::int64_t> kPrefill[] = {{1, 1}, {1, 33}, {3, 100}, {1, 1000}, {40, 32}};

models::ModelConfig toy_llama() {
    return models::read_model_config(kConfigs + "/models/toy-llama.json");
}

/// With biases and norms of heads.
DenseModel rich_model() {
    DenseModel model = small_model(2);
    model.qkv_bias = model.out_bias = model.head_norms = true;
    model.head_dim = 128;
    return model;
}

void check_steps(const isa::ChipSpec& chip) {
    check_decoder(chip, rich_model(), decode(33, 64));
    check_decoder(chip, rich_model(), prefill(3, 100));
    for (const auto& [batch, context] : kDecode) {
        check_decoder(chip, toy_llama(), decode(batch, context));
    }
    for (const auto& [batch, tokens] : kPrefill) {
        check_decoder(chip, toy_llama(), prefill(batch, tokens));
    }
}

}  // namespace

TEST_CASE("products of every shape run on the toy chip and move their closed form") {
    const isa::ChipSpec toy = chip("toy");
    for (const Gemm& g : std::vector<Gemm>{{1, 1, 1},
                                           {1, 64, 8192},
                                           {1, 8192, 64},
                                           {17, 33, 17},
                                           {31, 64, 33},
                                           {32, 64, 32},
                                           {33, 64, 32},
                                           {64, 64, 256},
                                           {33, 4096, 17},
                                           {257, 129, 8191},
                                           {1000, 1000, 100},
                                           {2048, 32, 32}}) {
        check_gemm(toy, g);
    }
}

TEST_CASE("products of every shape run on maia200 and move their closed form") {
    const isa::ChipSpec maia = chip("maia200");
    for (const Gemm& g : std::vector<Gemm>{{1, 1, 1},
                                           {1, 8192, 512},
                                           {1, 1152, 1024},
                                           {17, 33, 17},
                                           {32, 1153, 64},
                                           {33, 4096, 17},
                                           {257, 129, 8191},
                                           {129, 5000, 300},
                                           {2048, 2048, 512}}) {
        check_gemm(maia, g);
    }
}

TEST_CASE("products of every pair of formats run") {
    for (const isa::ChipSpec& spec : {chip("toy"), chip("maia200")}) {
        for (const Format a : kBlockFormats) {
            for (const Format b : kBlockFormats) {
                check_gemm(spec, {17, 33, 100, a, b});
                check_gemm(spec, {70, 200, 260, a, b});
            }
        }
        check_gemm(spec, {17, 33, 100, Format::bf16, Format::bf16});
        check_gemm(spec, {70, 200, 260, Format::bf16, Format::bf16});
    }
}

TEST_CASE("multiply-accumulates are counted by the formats of their operands") {
    using E = sim::EnergyEvent;
    const isa::ChipSpec toy = chip("toy");
    const auto counted = [&toy](Format a, Format b, E event) {
        const Ran ran = compile_and_run(models::build_gemm(32, 64, 96, a, b, Format::bf16), toy);
        return count(ran.result, event);
    };
    constexpr std::uint64_t kMacs = 32 * 64 * 96;
    CHECK(counted(Format::mxfp4, Format::mxfp4, E::mac_fp4) == kMacs);
    CHECK(counted(Format::mxfp6, Format::mxfp6, E::mac_fp6) == kMacs);
    CHECK(counted(Format::mxfp8, Format::mxfp8, E::mac_fp8) == kMacs);
    CHECK(counted(Format::mxfp8, Format::mxfp4, E::mac_fp8xfp4) == kMacs);
    CHECK(counted(Format::bf16, Format::bf16, E::mac_bf16) == kMacs);
}

TEST_CASE("products store results in every format") {
    for (const Format out : {Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::e4m3, Format::bf16, Format::fp32}) {
        check_gemm(chip("toy"), {32, 96, 64, Format::mxfp8, Format::mxfp4, out});
        check_gemm(chip("toy"), {100, 96, 64, Format::mxfp8, Format::mxfp4, out});
        check_gemm(chip("toy"), {7, 96, 64, Format::mxfp8, Format::mxfp4, out});
    }
}

TEST_CASE("a product gives the same result twice") {
    const isa::ChipSpec maia = chip("maia200");
    const Ran ran =
        compile_and_run(models::build_gemm(300, 700, 500, Format::mxfp8, Format::mxfp4, Format::bf16), maia);
    CHECK(same(sim::run(maia, ran.compiled.program), ran.result));
}

TEST_CASE("a decoder runs on the toy chip") {
    check_steps(chip("toy"));
}

TEST_CASE("a decoder runs on maia200") {
    check_steps(chip("maia200"));
}

TEST_CASE("a decoder runs on one cluster") {
    check_steps(chip("maia200", {"soc.clusters=1"}));
}

TEST_CASE("a decoder runs on two clusters") {
    check_steps(chip("maia200", {"soc.clusters=2"}));
}

TEST_CASE("a decoder runs on eight tiles a cluster") {
    check_steps(chip("maia200", {"soc.tiles_per_cluster=8"}));
}

TEST_CASE("a decoder runs on one tile a cluster") {
    check_steps(chip("maia200", {"soc.tiles_per_cluster=1"}));
}

TEST_CASE("a decoder runs with every format of weights, activations and cache") {
    const isa::ChipSpec toy = chip("toy");
    for (const Format weights : kBlockFormats) {
        for (const Format kv : {Format::e4m3, Format::bf16}) {
            for (models::Workload work : {decode(3, 70), prefill(2, 70)}) {
                work.weights = weights;
                work.kv = kv;
                check_decoder(toy, toy_llama(), work);
            }
        }
    }
    models::Workload work = decode(3, 70);
    work.weights = work.activations = work.kv = Format::bf16;
    check_decoder(toy, toy_llama(), work);
}
