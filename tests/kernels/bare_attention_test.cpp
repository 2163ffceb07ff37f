// SPDX-License-Identifier: Apache-2.0
// Bare attention: the reference's bits, no race, never faster than its bounds.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "models/bare_operators.hpp"
#include "tests/kernels/compiled.hpp"
#include "tests/kernels/ordered.hpp"

namespace sluice::test {
namespace {

using isa::Format;
using models::AttentionSizes;

std::vector<AttentionSizes> sizes() {
    // heads, KV heads, head dim, tokens, batch, past, causal
    return {{1, 1, 64, 1, 1, 0, false},   {4, 2, 64, 100, 1, 0, false}, {4, 1, 64, 33, 2, 0, true},
            {2, 2, 128, 200, 1, 0, true}, {4, 2, 64, 64, 3, 96, true},  {6, 2, 96, 40, 1, 32, false},
            {4, 4, 64, 500, 1, 0, true},  {8, 1, 64, 257, 1, 64, true}};
}

std::string text(const AttentionSizes& s) {
    return models::build_attention(s).name;
}

TEST_CASE("bare attention gives the reference's bits") {
    for (AttentionSizes s : sizes()) {
        for (const Format format : {Format::e4m3, Format::bf16}) {
            s.format = format;
            s.out = format == Format::e4m3 ? Format::bf16 : Format::fp32;
            INFO(text(s));
            const models::Graph graph = models::build_attention(s);
            check_values(graph, chip("toy"), models::random_inputs(graph, 3));
        }
    }
}

TEST_CASE("bare attention has no race and one result") {
    for (const AttentionSizes& s : sizes()) {
        check_order(text(s), models::build_attention(s), chip("toy"));
    }
}

TEST_CASE("bare attention is never faster than its bounds") {
    for (const AttentionSizes& s : sizes()) {
        INFO(text(s));
        const Ran ran = compile_and_run(models::build_attention(s), chip("toy"));
        const kernels::PlanNode& node = ran.compiled.nodes.at(0);
        // Token i of a causal sequence attends to the past and to i positions of its own.
        const std::int64_t own = s.causal ? s.tokens * (s.tokens + 1) / 2 : s.tokens * s.tokens;
        const auto pairs = static_cast<double>(s.tokens * s.past + own);
        CHECK(node.flops == 4 * pairs * static_cast<double>(s.batch * s.heads * s.head_dim));
        const auto cycles = static_cast<double>(ran.result.cycles);
        CHECK(cycles >= node.ttu_cycles);
        CHECK(cycles >= node.tvp_cycles);
        CHECK(cycles >= node.hbm_cycles);
    }
}

}  // namespace
}  // namespace sluice::test
