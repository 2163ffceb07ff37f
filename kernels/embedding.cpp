// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"

#include "kernels/clear.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::Format;
using isa::kBlockEdge;
using isa::Space;

namespace {

/// Token `row` of row block `row_block`, as an index into the workload's token list.
Affine token_index(const DecoderChunk& at, const Affine& row_block, const Affine& row) {
    if (at.plan.prefill()) {
        const Affine position = position_block(at.plan, at.chunk, at.emit.group, row_block) * kBlockEdge + row;
        return at.sequence.cluster * at.plan.graph->workload.tokens + position;
    }
    return row_block * kBlockEdge + row + at.chunk.first_row;
}

void embed_row(const DecoderChunk& at, const Affine& row_block, const Affine& row) {
    ControlBuilder& cluster = at.emit.cluster;
    const std::int64_t row_bytes = at.plan.model.hidden * 2;
    cluster.load_index(reg::token, "token_ids", token_index(at, row_block, row));
    const Affine x = row_block * (at.plan.hidden_blocks() * block(Format::bf16)) + row * 64 + at.plan.csram.x;
    const DmaMacro gather{
        {Space::hbm, 0, 0, isa::variable(isa::register_var(reg::token), row_bytes) + at.plan.embedding},
        at.emit.group_csram(x),
        64,
        {{at.plan.hidden_blocks(), 64, block(Format::bf16)}},
        Format::raw,
        Format::raw};
    cluster.issue(queue::kCluster, {}, gather, {{at.emit.group_sem(cluster_sem::ready_embedding), 1}}, "embed token");
}

}  // namespace

/// The clusters of a group take rows in turn; the first of them clears rows without a token.
void emit_embedding(const DecoderChunk& at) {
    at.emit.set_node(kEmbeddingNode, kEmbeddingNode);
    ControlBuilder& cluster = at.emit.cluster;
    const std::int64_t clusters = at.emit.grouping.clusters_per_group;
    const Affine member = isa::variable(isa::Var::cluster) - at.emit.first_cluster();
    const TokenRows tokens = token_rows(at.plan, at.chunk, at.emit.group);
    const auto rows = [&](const Affine& row_block, std::int64_t valid) {
        cluster.loop(ceil_div(valid, clusters), [&](const Affine& i) {
            const Affine row = i * clusters + member;
            cluster.branch(Affine(valid - 1) - row, [&] { embed_row(at, row_block, row); });
        });
    };
    cluster.loop(tokens.row_blocks - 1, [&](const Affine& row_block) { rows(row_block, kBlockEdge); });
    if (tokens.row_blocks > 0) {
        rows(Affine(tokens.row_blocks - 1), tokens.last_rows);
    }
    const std::vector<DmaMacro> cleared = clear_spare_rows(at.emit, at.plan, at.chunk);
    cluster.branch(member * -1, [&] {
        for (const DmaMacro& clear : cleared) {
            cluster.issue(queue::kCluster, {}, clear, {{at.emit.group_sem(cluster_sem::ready_embedding), 1}},
                          "clear rows without a token");
        }
    });
    const std::int64_t parts = at.chunk.tokens + static_cast<std::int64_t>(cleared.size());
    cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::ready_embedding), parts}},
                  {{own_cluster_sem(cluster_sem::ready_x), at.x_count(0)}}, "embedding complete");
}

}  // namespace sluice::kernels
