// SPDX-License-Identifier: Apache-2.0
// Does every chunk of every group have rows of its own, in the batch, in the sequence and in the logits?
#include "kernels/decoder_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <utility>

#include "tests/kernels/compiled.hpp"

using namespace sluice;

TEST_CASE("decode: each sequence is in one chunk, each chunk's logits in row blocks of their own") {
    const isa::ChipSpec maia = test::chip("maia200");
    for (const std::int64_t batch : {1, 31, 32, 33, 65, 127, 300}) {
        INFO(batch);
        const models::Graph graph = models::build_graph(test::small_model(2), test::decode(batch, 100));
        const kernels::DecoderPlan plan = kernels::plan_decoder(graph, maia);
        std::int64_t sequence = 0;
        std::int64_t logits_block = 0;
        for (const std::vector<kernels::Chunk>& chunks : plan.chunks) {
            for (const kernels::Chunk& chunk : chunks) {
                CHECK(chunk.first_row == sequence);
                CHECK(chunk.logits_block == logits_block);
                CHECK(chunk.tokens == (chunk.row_blocks - 1) * 32 + chunk.rows);
                CHECK((chunk.rows >= 1 && chunk.rows <= 32));
                sequence += chunk.tokens;
                logits_block += chunk.row_blocks;
            }
        }
        CHECK(sequence == batch);
        CHECK(plan.logits_blocks == logits_block);
    }
}

TEST_CASE("prefill: each token is in one chunk") {
    const isa::ChipSpec maia = test::chip("maia200");
    for (const std::int64_t tokens : {1, 31, 33, 100, 1000, 4096}) {
        INFO(tokens);
        const models::Graph graph = models::build_graph(test::small_model(2), test::prefill(1, tokens));
        const kernels::DecoderPlan plan = kernels::plan_decoder(graph, maia);
        std::int64_t all = 0;
        for (const std::vector<kernels::Chunk>& chunks : plan.chunks) {
            for (const kernels::Chunk& chunk : chunks) {
                all += chunk.tokens;
            }
        }
        CHECK(all == tokens);
    }
}

// What a kernel stages must fit its slot (Ring::check_fits throws else), for small chips and wide heads too.
TEST_CASE("every head size fits the staging of every chip that takes it") {
    for (const std::int64_t head_dim : {64, 128, 256}) {
        test::DenseModel model = test::small_model(1);
        model.head_dim = head_dim;
        for (const models::Workload& work : {test::prefill(1, 300), test::prefill(2, 33), test::decode(33, 70)}) {
            for (const char* name : {"toy", "maia200"}) {
                INFO(head_dim << " on " << name);
                const isa::ChipSpec chip = test::chip(name);
                const isa::Program program = kernels::compile(models::build_graph(model, work), chip).program;
                CHECK_NOTHROW(isa::verify(program, chip));
            }
        }
    }
}

// Bytes that each tile streams in a layer, from the plan's own splits: of the matrices, and of K and V.
TEST_CASE("what tiles stream in a decode step is nearly the same for all") {
    const isa::ChipSpec chip = test::chip("maia200");
    const models::ModelConfig config = models::read_model_config(test::kConfigs + "/models/llama-3.1-8b.json");
    for (const auto& [batch, context] : {std::pair{1, 1024}, std::pair{32, 4096}}) {
        const models::Graph graph = models::build_graph(config, test::decode(batch, context));
        const kernels::DecoderPlan plan = kernels::plan_decoder(graph, chip);
        const std::int64_t tiles = plan.grouping.tiles_per_group();
        std::vector<double> turned(static_cast<std::size_t>(tiles));
        std::vector<double> aligned(turned.size());
        double largest = 2.0 * context * 128;  // unit of any kind
        for (std::int64_t t = 0; t < tiles; ++t) {
            const auto at = static_cast<std::size_t>(t);
            // Sequence and head t, t + tiles, ...: K and V in a byte each.
            const std::int64_t pairs = (batch * 8 - t + tiles - 1) / tiles;
            turned[at] = aligned[at] = static_cast<double>(pairs * 2 * context * 128);
            for (std::size_t i = 0; i < kernels::kProducts; ++i) {
                const kernels::ProductShape shape =
                    kernels::product_shape(plan, plan.model.runs[0].shape, static_cast<kernels::ProductIndex>(i), 1);
                const double unit = static_cast<double>(shape.unit_blocks * shape.k_blocks) * 544;  // MXFP4
                largest = std::max(largest, unit);
                const auto bytes = [&](std::int64_t place) {
                    const std::int64_t units = shape.units / tiles + (place < shape.units % tiles ? 1 : 0);
                    return unit * static_cast<double>(units);
                };
                turned[at] += bytes((t - plan.wide_from[0][i] + tiles) % tiles);
                aligned[at] += bytes(t);
            }
        }
        // How far the busiest tile is above the mean: less than one unit of the largest, for else that one could have
        // gone elsewhere. Were the first tiles the wide ones in every product, it would be more.
        const auto excess = [](const std::vector<double>& bytes) {
            return *std::max_element(bytes.begin(), bytes.end()) -
                   std::accumulate(bytes.begin(), bytes.end(), 0.0) / static_cast<double>(bytes.size());
        };
        INFO(batch << " sequences of " << context << ": " << excess(aligned) << " bytes above the mean become "
                   << excess(turned) << "; a unit has up to " << largest);
        CHECK(excess(turned) < largest);
        CHECK(excess(turned) < excess(aligned));
        if (batch == 1) {
            CHECK(excess(aligned) > largest);
        }
    }
}
