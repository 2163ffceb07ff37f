// SPDX-License-Identifier: Apache-2.0
#include "kernels/clear.hpp"

namespace sluice::kernels {

using isa::DmaMacro;
using isa::Format;
using isa::kBlockEdge;
using isa::MemRef;
using isa::Space;

namespace {

/// `count` pieces of `run` bytes, `stride` apart, all from the one block of zeros.
DmaMacro zeros(const DecoderPlan& plan, MemRef dst, std::int64_t offset, std::int64_t run, std::int64_t count,
               std::int64_t stride) {
    dst.offset = dst.offset + offset;
    return {{Space::hbm, 0, 0, plan.zeros}, dst, run, {{count, 0, stride}}, Format::raw, Format::raw};
}

/// Rows from `first_row` on, and their scales, of each of the `columns` blocks of block row `row_block`.
void clear_rows(std::vector<DmaMacro>& macros, const DecoderPlan& plan, const MemRef& buffer, Format format,
                std::int64_t columns, std::int64_t row_block, std::int64_t first_row) {
    const std::int64_t row_data = isa::row_data_bytes(format);
    const std::int64_t base = row_block * columns * block(format);
    const std::int64_t spare = kBlockEdge - first_row;
    macros.push_back(zeros(plan, buffer, base + first_row * row_data, spare * row_data, columns, block(format)));
    if (isa::info(format).block_scaled) {
        macros.push_back(zeros(plan, buffer, base + kBlockEdge * row_data + first_row, spare, columns, block(format)));
    }
}

}  // namespace

std::vector<DmaMacro> clear_spare_rows(const Emitter& emit, const DecoderPlan& plan, const Chunk& chunk) {
    std::vector<DmaMacro> macros;
    if (chunk.row_blocks == 1 && !plan.prefill()) {
        return macros;
    }
    const TokenRows tokens = token_rows(plan, chunk, emit.group);
    if (tokens.row_blocks > 0 && tokens.last_rows < kBlockEdge) {
        clear_rows(macros, plan, emit.group_csram(plan.csram.x), Format::bf16, plan.hidden_blocks(),
                   tokens.row_blocks - 1, tokens.last_rows);
        if (!plan.prefill()) {
            // Prefill attention works on whole row blocks; decode attention on tokens.
            clear_rows(macros, plan, emit.group_csram(plan.csram.attention), plan.attention.out,
                       plan.attention.q_heads * plan.attention.dim_blocks(), tokens.row_blocks - 1, tokens.last_rows);
        }
    }
    if (const std::int64_t spare = chunk.row_blocks - tokens.row_blocks; spare > 0) {
        const std::int64_t row = plan.hidden_blocks() * block(Format::bf16);
        macros.push_back(zeros(plan, emit.group_csram(plan.csram.x), tokens.row_blocks * row, block(Format::bf16),
                               spare * plan.hidden_blocks(), block(Format::bf16)));
    }
    return macros;
}

std::vector<DmaMacro> clear_last_rows(const Emitter& emit, const DecoderPlan& plan) {
    std::vector<DmaMacro> macros;
    const std::int64_t batch = plan.graph->workload.batch;
    if (plan.prefill() && batch > kBlockEdge && batch % kBlockEdge != 0) {
        clear_rows(macros, plan, emit.all_csram(plan.csram.last), plan.model.head_activations, plan.hidden_blocks(),
                   batch / kBlockEdge, batch % kBlockEdge);
    }
    return macros;
}

}  // namespace sluice::kernels
