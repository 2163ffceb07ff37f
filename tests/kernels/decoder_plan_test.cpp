// SPDX-License-Identifier: Apache-2.0
// Does every chunk of every group have rows of its own, in the batch, in the sequence and in the logits?
#include "kernels/decoder_plan.hpp"

#include <catch2/catch.hpp>

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
