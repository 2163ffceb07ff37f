// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of many query rows, bound by the vector unit: FlashAttention-2 with several row sets in turn.
//
// A work unit is a KV head of one sequence and `unit_blocks` consecutive position blocks of its queries, with all query
// heads of the group. Its rows are taken `step_heads` row blocks at a time (heads of one position block): a *row set*.
// For every chunk of K and V, all row sets take a *step* each, so that a chunk is read once for the whole unit.
//
//     TVP  exponents 0, maximum 1 | exponents 1, maximum 2 | exponents 2, maximum 3 | ...
//     TTU    scores 2, values -   |   scores 3, values 0   |   scores 4, values 1   | ...
//
// A step's vector macro takes the exponents of one row set and the maximum of the next: exponents fill the issue slots,
// maxima hardly any, and the scores of both come through a read port each. The TTU is a step ahead with scores and a
// step behind with values, so that neither waits for the other one's latencies. Three score slots are enough: one
// read for exponents, one for the maximum, one written.
#include "kernels/interleaving.hpp"

namespace sluice::kernels {

struct InterleavedAttention {
    InterleavedShape shape;
    Interleaving cut;
    /// HBM. Q and O in blocks, [sequence][position block][column block]; K and V [sequence][KV head][position block]
    /// [dimension block].
    std::int64_t q_base = 0, k_base = 0, v_base = 0, o_base = 0;
};

/// All tiles of the group share the units; the cluster has no part in it.
void emit_interleaved_tile(Emitter& emit, const InterleavedAttention& attention);

}  // namespace sluice::kernels
