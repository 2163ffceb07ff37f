// SPDX-License-Identifier: Apache-2.0
#pragma once
// RMSNorm of BF16 rows in CSRAM into the operand format of the next product. Rows are dealt to the tiles of each
// cluster, `rows_per_unit` at a time; every cluster of a group does all rows of the group for itself.
#include "kernels/rows.hpp"

namespace sluice::kernels {

struct Norm {
    std::string name;
    std::int64_t width = 0;  ///< columns, a multiple of 32
    double epsilon = 0;
    isa::Format out = isa::Format::mxfp8;
    RowDeal deal;
    std::int64_t in_buffer = 0, out_buffer = 0;  ///< CSRAM, blocked
    isa::Affine weights;                         ///< HBM offset of `width` BF16 values
    int ready = 0;                               ///< cluster semaphore of the input, and its count
    isa::Affine ready_count;
};

/// Loads the weights of a norm into the tiles that will have rows of it, once the norm before it is done: ahead of its
/// input, for they come from HBM, behind all that streams. Each is followed by its norm.
void emit_norm_weights(Emitter& emit, const Norm& norm);
void emit_norm_tile(Emitter& emit, const Norm& norm);
void emit_norm_cluster(Emitter& emit, const Norm& norm);

/// One row: row `row` of row block `row_block` of `in_buffer` to row `out_row` of row block `out_row_block` of
/// out_buffer in every cluster; `finished` after the store, `loaded` after the load.
struct SingleRow {
    isa::Affine row_block, row, out_row_block, out_row;
    std::vector<isa::SemUse> loaded, finished;
};
void emit_single_row_norm(Emitter& emit, const Norm& norm, const SingleRow& single);

}  // namespace sluice::kernels
