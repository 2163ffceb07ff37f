// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products: every projection of a model, the LM head and bare GEMMs. Weights stream from HBM into each tile's
// ring; activations are multicast by the cluster to all its tiles, chunk by chunk; FP32 blocks gather in the output
// region; an epilogue takes them away row group by row group while the next rows are computed.
#include <functional>
#include <optional>
#include <string>

#include "kernels/emitter.hpp"

namespace sluice::kernels {

/// A finished piece of C: row blocks [first_row_block, + row_blocks) x units [first_unit, + units), FP32 in the output
/// region from `accumulator` on, row blocks `accumulator_row_stride` apart.
struct Piece {
    isa::Affine first_row_block;
    std::int64_t row_blocks = 1;
    isa::Affine first_unit;
    std::int64_t units = 1;
    std::int64_t accumulator = 0;
    std::int64_t accumulator_row_stride = 0;
    bool first = true, last = true;  ///< of its row group: where the group is waited for, and given back
};

/// A as a whole in the tile's own TSRAM, from `base` on: [row block][k block]. Who emits the product waits for it on
/// the TTU's queue, and gives it back.
struct LocalOperand {
    std::int64_t base = 0;
    isa::Affine rows;  ///< of the last row block
};

struct Product {
    std::string name;
    ProductShape shape;
    Tiling tiling;
    std::int64_t piece_blocks = 1;  ///< most blocks of one epilogue piece
    std::int64_t valid_rows = 32;   ///< of the only row block; 32 if there are several, which are worked on whole
    isa::Affine position;           ///< of a tile among those that split the units
    std::int64_t wide_from = 0;  ///< the tile from which on tiles take one unit more, where units do not divide evenly
    isa::MemRef a;               ///< first block row of A, blocked, as seen by the cluster program
    std::optional<LocalOperand> local;  ///< instead of `a`, which the cluster multicasts
    isa::Affine weights;                ///< HBM offset, as seen by the tile program
    std::int64_t panel = -1;            ///< CSRAM offset of the panel of B, if the tiling keeps one
    int ready = -1;                     ///< cluster semaphore to wait on before A is read; -1: none
    isa::Affine ready_count;
    /// Writes the instructions that take a piece out of the region (see emit_epilogue).
    std::function<void(const Piece&)> epilogue;
    /// Signals per (row group, chunk) of every tile once it is stored, sent on the store channel even by tiles that
    /// have no units there.
    std::vector<isa::SemUse> finished;
};

/// Row blocks that the TVP takes together: as many as make a piece at the widest chunk.
[[nodiscard]] std::int64_t row_group_blocks(const Product& product);
/// Row groups over all row macros: what a consumer must count per tile and chunk.
[[nodiscard]] std::int64_t row_groups(const Product& product);
/// Signals of one `finished` semaphore in all: tiles * chunks * row groups.
[[nodiscard]] std::int64_t finished_count(const Product& product);

/// Bytes from the first weight to block (unit, block of the unit, k block), in the order in which tiles stream them.
[[nodiscard]] std::int64_t weight_offset(const ProductShape& shape, const Tiling& tiling, std::int64_t unit,
                                         std::int64_t block_of_unit, std::int64_t k_block);

void emit_product_tile(Emitter& emit, const Product& product);
void emit_product_cluster(Emitter& emit, const Product& product);

/// A VectorOperand for 32 x 32 FP32 blocks of a piece, starting at column block `first`, one block in `step`.
[[nodiscard]] isa::VectorOperand accumulator_operand(const Piece& piece, std::int64_t first, std::int64_t step);

/// What the first vector instruction of a piece must wait for, and the last one signal, besides its own operands.
[[nodiscard]] std::vector<isa::SemUse> piece_waits(const Piece& piece);
[[nodiscard]] std::vector<isa::SemUse> piece_signals(const Piece& piece);

/// The usual epilogue: one vector program over the piece, its result through the staging ring, `store` on the store
/// channel, then the product's finished signals.
void emit_epilogue(Emitter& emit, const Product& product, const Piece& piece, const isa::VectorMacro& macro,
                   std::vector<isa::SemUse> extra_waits, std::vector<isa::SemUse> extra_signals,
                   const std::vector<isa::DmaMacro>& store);

}  // namespace sluice::kernels
