// SPDX-License-Identifier: Apache-2.0
// Does a product with a panel of B in CSRAM end for any number of row steps, one included? A group with fewer rows than
// the others may have a single one.
#include <catch2/catch.hpp>

#include "kernels/frame.hpp"
#include "kernels/product.hpp"
#include "kernels/tile_memory.hpp"
#include "kernels/vector_library.hpp"
#include "tests/kernels/compiled.hpp"

using namespace sluice;
using isa::Format;
using isa::Space;
using kernels::block;

namespace {

constexpr std::int64_t kColumns = 8, kDepth = 8;

/// C[rows x 8] = A[rows x 8] * B^T in blocks, one row block a step, columns in two chunks, on `toy`.
isa::Program with_panel(const isa::ChipSpec& chip, std::int64_t row_blocks) {
    const kernels::ProductShape shape{
        row_blocks, kColumns, 1, kDepth, Format::mxfp8, Format::mxfp8, isa::tile_count(chip), true, chip.csram.bytes};
    kernels::StagingNeeds needs;
    needs.out_bytes = kernels::piece_blocks(chip) * block(Format::bf16);
    needs.stream_bytes = block(Format::mxfp8);
    const kernels::TilePlan plan = kernels::plan_tile(chip, {shape}, needs);
    const kernels::Grouping grouping{1, chip.soc.clusters, chip.soc.tiles_per_cluster};
    const auto body = [&](kernels::Emitter& emit) {
        kernels::Product product;
        product.name = "panel";
        product.shape = shape;
        product.tiling = {1, 2, 2, 0, 0};
        product.piece_blocks = kernels::piece_blocks(chip);
        product.position = isa::variable(isa::Var::self);
        product.a = {Space::hbm, 0, 0, 0};
        product.weights = 1 << 20;
        product.panel = 0;
        product.epilogue = [&](const kernels::Piece& piece) {
            isa::VectorMacro macro;
            macro.program = emit.vectors.add(kernels::convert_program(Format::bf16));
            macro.rows = piece.row_blocks * 32;
            macro.cols = piece.units * 32;
            const std::int64_t row = piece.units * block(Format::bf16);
            macro.operands = {kernels::accumulator_operand(piece, 0, 1),
                              isa::VectorOperand{emit.memory.out.at(), row, block(Format::bf16)}};
            const isa::DmaMacro store{emit.tsram(emit.memory.out.at()),
                                      {Space::hbm, 0, 0,
                                       piece.first_row_block * (kColumns * block(Format::bf16)) +
                                           piece.first_unit * block(Format::bf16) + (2 << 20)},
                                      row,
                                      {},
                                      Format::raw,
                                      Format::raw};
            kernels::emit_epilogue(emit, product, piece, macro, {}, {}, {store});
        };
        kernels::emit_product_tile(emit, product);
        kernels::emit_product_cluster(emit, product);
    };
    isa::Program program;
    program.name = "panel";
    program.chip = chip.name;
    kernels::emit_groups(program, chip, grouping, plan.memory, isa::ScaleRounding::floor, kernels::Schedule::fused,
                         body);
    isa::verify(program, chip);
    return program;
}

}  // namespace

TEST_CASE("a panel serves any number of row steps") {
    const isa::ChipSpec chip = test::chip("toy");
    for (const std::int64_t row_blocks : {1, 2, 3, 5}) {
        INFO(row_blocks);
        const sim::RunResult result = sim::run(chip, with_panel(chip, row_blocks));
        // B comes from HBM once; A once a row step and chunk of columns.
        const auto b = static_cast<Bytes>(kColumns * kDepth * block(Format::mxfp8));
        const auto a = static_cast<Bytes>(row_blocks * kDepth * 2 * block(Format::mxfp8));
        CHECK(result.hbm_read == a + b);
        CHECK(result.hbm_written == static_cast<Bytes>(row_blocks * kColumns * block(Format::bf16)));
    }
}
