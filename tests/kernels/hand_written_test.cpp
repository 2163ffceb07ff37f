// SPDX-License-Identifier: Apache-2.0
// Does the worked example of isa/README.md do what the text beside it says?
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "isa/text.hpp"
#include "tests/kernels/compiled.hpp"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("the worked example of the machine language runs, and multiplies eight slabs a tile") {
    std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/isa/README.md");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string fence = "```disa\n";
    const std::size_t at = text.find(fence) + fence.size();
    REQUIRE(at > fence.size());
    const isa::Program program = isa::read_text(text.substr(at, text.find("```", at) - at), "isa/README.md");
    const isa::ChipSpec toy = chip("toy");
    isa::verify(program, toy);
    const sim::RunResult result = sim::run(toy, program);
    constexpr std::uint64_t kTiles = 2, kSlabs = 8;
    CHECK(macs(result) == kTiles * kSlabs * 64 * 64 * 128);
    CHECK(result.hbm_read == kTiles * (kSlabs * isa::row_bytes(isa::Format::mxfp8, 64 * 128) +
                                       isa::row_bytes(isa::Format::mxfp4, 64 * 128)));
    CHECK(result.hbm_written == kTiles * kSlabs * isa::row_bytes(isa::Format::bf16, 64 * 64));
    // Slabs overlap: less time than one after the other, each at the latency of a lone one.
    isa::Program one = program;
    for (isa::Statement& statement : one.controls.at(0).body) {
        if (auto* loop = std::get_if<isa::Loop>(&statement.body)) {
            loop->count = 1;
        }
    }
    CHECK(result.cycles < kSlabs * sim::run(toy, one).cycles);
}
