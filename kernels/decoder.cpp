// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "kernels/clear.hpp"
#include "kernels/decoder_nodes.hpp"
#include "kernels/decoder_placement.hpp"
#include "kernels/decoder_plan.hpp"
#include "kernels/experts.hpp"
#include "kernels/frame.hpp"
#include "kernels/head.hpp"
#include "kernels/norm.hpp"
#include "kernels/product.hpp"
#include "kernels/qkv.hpp"
#include "kernels/vector_library.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::Format;
using isa::kBlockEdge;
using isa::SemUse;
using isa::Space;
using isa::VectorMacro;
using isa::VectorOperand;

namespace {

/// Where the layer loop stands, in both programs.
struct LayerIndex {
    Affine tile, cluster;
};

/// Emits one chunk of one group through all layers.
class ChunkEmitter {
public:
    /// `sequence`: prefill: index of the sequence in both programs (0 in decode).
    ChunkEmitter(Emitter& emit, const DecoderPlan& plan, const Chunk& chunk, std::size_t chunk_index,
                 LayerIndex sequence)
        : emit_(emit), plan_(plan), chunk_(chunk), chunk_index_(chunk_index), sequence_(std::move(sequence)) {}

    void emit() {
        emit_embedding();
        launch_operator(emit_);
        if (!emit_.eager()) {
            load_first_norm(0, {0, 0});
        }
        for (std::size_t run = 0; run < plan_.model.runs.size(); ++run) {
            if (run > 0) {
                restate_ready_x(x_count(run - 1), x_count(run));
            }
            emit_run(run);
        }
        const std::int64_t final_count = x_count(plan_.model.runs.size() - 1);
        if (plan_.prefill()) {
            emit_last_token(final_count);
        } else {
            emit_decode_head(final_count);
        }
    }

private:
    // ---- embedding ------------------------------------------------------------------------------------------------

    /// Token `row` of row block `row_block`, as an index into the workload's token list.
    [[nodiscard]] Affine token_index(const Affine& row_block, const Affine& row) const {
        if (plan_.prefill()) {
            return sequence_.cluster * plan_.graph->workload.tokens + position(row_block) * kBlockEdge + row;
        }
        return row_block * kBlockEdge + row + chunk_.first_row;
    }
    [[nodiscard]] Affine position(const Affine& row_block) const {
        return position_block(plan_, chunk_, emit_.group, row_block);
    }

    void embed_row(const Affine& row_block, const Affine& row) {
        ControlBuilder& cluster = emit_.cluster;
        const std::int64_t row_bytes = plan_.model.hidden * 2;
        cluster.load_index(reg::token, "token_ids", token_index(row_block, row));
        const Affine x = row_block * (plan_.hidden_blocks() * block(Format::bf16)) + row * 64 + plan_.csram.x;
        const DmaMacro gather{
            {Space::hbm, 0, 0, isa::variable(isa::register_var(reg::token), row_bytes) + plan_.embedding},
            emit_.group_csram(x),
            64,
            {{plan_.hidden_blocks(), 64, block(Format::bf16)}},
            Format::raw,
            Format::raw};
        cluster.issue(queue::kCluster, {}, gather, {{emit_.group_sem(cluster_sem::ready_embedding), 1}}, "embed token");
    }

    /// The clusters of a group take rows in turn; the first of them clears rows without a token.
    void emit_embedding() {
        emit_.set_node(kEmbeddingNode, kEmbeddingNode);
        ControlBuilder& cluster = emit_.cluster;
        const std::int64_t clusters = emit_.grouping.clusters_per_group;
        const Affine member = isa::variable(isa::Var::cluster) - emit_.first_cluster();
        const TokenRows tokens = token_rows(plan_, chunk_, emit_.group);
        const auto rows = [&](const Affine& row_block, std::int64_t valid) {
            cluster.loop(ceil_div(valid, clusters), [&](const Affine& i) {
                const Affine row = i * clusters + member;
                cluster.branch(Affine(valid - 1) - row, [&] { embed_row(row_block, row); });
            });
        };
        cluster.loop(tokens.row_blocks - 1, [&](const Affine& row_block) { rows(row_block, kBlockEdge); });
        if (tokens.row_blocks > 0) {
            rows(Affine(tokens.row_blocks - 1), tokens.last_rows);
        }
        const std::vector<DmaMacro> cleared = clear_spare_rows(emit_, plan_, chunk_);
        cluster.branch(member * -1, [&] {
            for (const DmaMacro& clear : cleared) {
                cluster.issue(queue::kCluster, {}, clear, {{emit_.group_sem(cluster_sem::ready_embedding), 1}},
                              "clear rows without a token");
            }
        });
        const std::int64_t parts = chunk_.tokens + static_cast<std::int64_t>(cleared.size());
        cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::ready_embedding), parts}},
                      {{own_cluster_sem(cluster_sem::ready_x), x_count(0)}}, "embedding complete");
    }

    // ---- layers ---------------------------------------------------------------------------------------------------

    /// Signals of ready_x when a layer of a run is complete in this group.
    [[nodiscard]] std::int64_t x_count(std::size_t run) const {
        if (plan_.model.runs[run].shape.experts.count > 0) {
            return combine_count(token_deal(run));
        }
        return finished_count(product(run, kDown));
    }

    void restate_ready_x(std::int64_t from, std::int64_t to) {
        if (from != to) {
            emit_.cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::ready_x), from}},
                                {{own_cluster_sem(cluster_sem::ready_x), to}}, "residual complete");
        }
    }

    void emit_run(std::size_t run) {
        const LayerRun& layers = plan_.model.runs[run];
        if (layers.count == 1) {
            emit_layer(run, {0, 0});
            return;
        }
        const LayerIndex index{emit_.tile.begin_loop(layers.count), emit_.cluster.begin_loop(layers.count)};
        emit_layer(run, index);
        emit_.tile.end();
        emit_.cluster.end();
    }

    void set_node(std::size_t run, LayerNode node, const LayerIndex& layer) {
        const std::int64_t first = first_node(plan_, run, node);
        const std::int64_t stride = nodes_of_layer(plan_.model.runs[run]);
        emit_.set_node(layer.tile * stride + first, layer.cluster * stride + first);
    }

    void emit_layer(std::size_t run, const LayerIndex& layer) {
        const LayerPlace& place = plan_.layers[run];
        const Affine weights = layer_weights(run, layer);
        const Norm norm2 =
            norm("norm2", run, cluster_sem::ready_x, finished_count(product(run, kO)), weights + place.norm2);
        set_node(run, kNorm1Node, layer);
        emit_norm(first_norm(run, layer));
        launch_operator(emit_);
        if (!emit_.eager()) {
            set_node(run, kNorm2Node, layer);
            emit_norm_weights(emit_, norm2);
        }
        set_node(run, kQkvNode, layer);
        emit_qkv(run, layer, weights + place.qkv);
        launch_operator(emit_);
        set_node(run, kAttentionNode, layer);
        emit_attention(run, layer);
        launch_operator(emit_);
        set_node(run, kONode, layer);
        emit_residual_product(run, kO, layer, plan_.csram.attention, cluster_sem::ready_attention,
                              work_units(attention(run, layer)));
        launch_operator(emit_);
        set_node(run, kNorm2Node, layer);
        emit_norm(norm2);
        launch_operator(emit_);
        if (!emit_.eager()) {
            load_next_norm(run, layer);
        }
        if (plan_.model.runs[run].shape.experts.count > 0) {
            emit_experts_layer(run, layer);
            return;
        }
        set_node(run, kGateUpNode, layer);
        emit_gate_up(run, weights + place.gate_up);
        launch_operator(emit_);
        set_node(run, kDownNode, layer);
        emit_residual_product(run, kDown, layer, plan_.csram.ffn, cluster_sem::ready_ffn,
                              finished_count(product(run, kGateUp)));
        launch_operator(emit_);
    }

    /// HBM offset of what a layer has there but its caches.
    [[nodiscard]] Affine layer_weights(std::size_t run, const LayerIndex& layer) const {
        return layer.tile * plan_.layers[run].stride + plan_.layers[run].base;
    }
    [[nodiscard]] Norm first_norm(std::size_t run, const LayerIndex& layer) const {
        return norm("norm1", run, cluster_sem::ready_x, x_count(run),
                    layer_weights(run, layer) + plan_.layers[run].norm1);
    }
    [[nodiscard]] Norm final_norm(std::int64_t x_ready) const {
        Norm last = norm("final_norm", 0, cluster_sem::ready_x, x_ready, plan_.final_norm);
        last.epsilon = plan_.model.epsilon;
        last.out = plan_.model.head_activations;
        return last;
    }
    void load_first_norm(std::size_t run, const LayerIndex& layer) {
        set_node(run, kNorm1Node, layer);
        emit_norm_weights(emit_, first_norm(run, layer));
    }
    /// The weights of the norm that begins what comes after a layer.
    void load_next_norm(std::size_t run, const LayerIndex& layer) {
        const auto within = [&] { load_first_norm(run, {layer.tile + 1, layer.cluster + 1}); };
        const auto behind = [&] {
            if (run + 1 < plan_.model.runs.size()) {
                load_first_norm(run + 1, {0, 0});
            } else if (!plan_.prefill()) {
                emit_.set_node(final_norm_node(plan_), final_norm_node(plan_));
                emit_norm_weights(emit_, final_norm(0));
            }
        };
        const std::int64_t count = plan_.model.runs[run].count;
        if (count == 1) {
            behind();
        } else {
            emit_.tile.branch(Affine(count - 2) - layer.tile, within, behind);
        }
    }

    [[nodiscard]] Norm norm(const std::string& name, std::size_t run, int ready, std::int64_t count,
                            const Affine& weights) const {
        const LayerShape& shape = plan_.model.runs[run].shape;
        Norm norm;
        norm.name = name;
        norm.width = plan_.model.hidden;
        norm.epsilon = shape.epsilon;
        norm.out = shape.activations;
        const std::int64_t slot = std::min(plan_.tile.memory.in.slot_bytes, plan_.tile.memory.out.slot_bytes);
        norm.deal = deal(chunk_.row_blocks, worked_rows(), slot / (norm.width * 2));
        norm.in_buffer = plan_.csram.x;
        norm.out_buffer = plan_.csram.norm;
        norm.weights = weights;
        norm.ready = ready;
        norm.ready_count = count;
        return norm;
    }
    [[nodiscard]] RowDeal deal(std::int64_t row_blocks, std::int64_t rows, std::int64_t fit) const {
        return {row_blocks, rows, choose_rows_per_unit(row_blocks, rows, plan_.grouping.tiles_per_cluster, fit)};
    }
    /// In a fused schedule its weights have been asked for before.
    void emit_norm(const Norm& norm) {
        if (emit_.eager()) {
            emit_norm_weights(emit_, norm);
        }
        emit_norm_tile(emit_, norm);
        emit_norm_cluster(emit_, norm);
    }

    // ---- products -------------------------------------------------------------------------------------------------

    /// A product of this chunk without its epilogue.
    [[nodiscard]] Product product(std::size_t run, ProductIndex index) const {
        Product out;
        out.shape = product_shape(plan_, plan_.model.runs[run].shape, index, chunk_.row_blocks);
        out.tiling = plan_.tilings[run][index];
        out.wide_from = plan_.wide_from[run][index];
        complete(out);
        out.valid_rows = worked_rows();
        if (index == kQkv) {
            out.piece_blocks = qkv_piece_blocks(plan_, plan_.model.runs[run].shape, emit_.chip);
        }
        return out;
    }
    void complete(Product& out) const {
        out.tiling.m = std::min(out.tiling.m, out.shape.row_blocks);
        out.piece_blocks = piece_blocks(emit_.chip);
        out.position = isa::variable(isa::Var::self) - emit_.first_tile();
    }

    void emit_product(const Product& product) {
        emit_product_tile(emit_, product);
        emit_product_cluster(emit_, product);
    }

    /// Rows of the last row block that are worked on: of a lone one those that hold tokens; several are worked on
    /// whole, with zeros where there is no token.
    [[nodiscard]] std::int64_t worked_rows() const { return chunk_.row_blocks == 1 ? chunk_.rows : kBlockEdge; }
    [[nodiscard]] std::int64_t piece_rows(const Piece& piece) const {
        return (piece.row_blocks - 1) * kBlockEdge + worked_rows();
    }
    [[nodiscard]] BlockRows staged(const Piece& piece, Format format, std::int64_t columns) const {
        emit_.memory.out.check_fits(piece.row_blocks * piece.units * block(format), "a piece of results");
        BlockRows out;
        out.src = emit_.tsram(emit_.memory.out.at());
        out.format = format;
        out.blocks = piece.units;
        out.row_blocks = piece.row_blocks;
        out.rows = worked_rows();
        out.src_row_stride = piece.units * block(format);
        out.dst_row_stride = columns * block(format);
        return out;
    }
    [[nodiscard]] static Affine piece_offset(const Piece& piece, Format format, std::int64_t columns) {
        return piece.first_row_block * (columns * block(format)) + piece.first_unit * block(format);
    }

    /// x += A * W^T (+ bias), in every cluster of the group.
    void emit_residual_product(std::size_t run, ProductIndex index, const LayerIndex& layer, std::int64_t a_buffer,
                               int ready, std::int64_t ready_count) {
        const LayerPlace& place = plan_.layers[run];
        const bool bias = index == kO && plan_.model.runs[run].shape.o_bias;
        Product out = product(run, index);
        out.name = index == kO ? "o" : "down";
        out.weights = layer_weights(run, layer) + (index == kO ? place.o : place.down);
        out.a = emit_.own_csram(a_buffer);
        out.ready = ready;
        out.ready_count = ready_count;
        out.finished = {{emit_.group_sem(cluster_sem::ready_x), 1}};
        const std::int64_t columns = plan_.hidden_blocks();
        out.epilogue = [&](const Piece& piece) {
            const Affine x = piece_offset(piece, Format::bf16, columns) + plan_.csram.x;
            const std::int64_t row = piece.units * block(Format::bf16);
            const std::int64_t bias_at = piece.row_blocks * row;
            const std::int64_t bias_bytes = bias ? piece.units * kBiasBytes : 0;
            BlockRows load = staged(piece, Format::bf16, columns);
            std::swap(load.src_row_stride, load.dst_row_stride);
            emit_.memory.in.check_fits(bias_at + bias_bytes, "a piece of the residual");
            load.dst = emit_.tsram(emit_.memory.in.at());
            load.src = emit_.own_csram(x);
            std::vector<DmaMacro> loads = copy_block_rows(load);
            VectorMacro macro;
            macro.program = emit_.vectors.add(residual_program(bias));
            macro.rows = piece_rows(piece);
            macro.cols = piece.units * kBlockEdge;
            macro.operands = {accumulator_operand(piece, 0, 1),
                              VectorOperand{emit_.memory.in.at(), row, block(Format::bf16)},
                              VectorOperand{emit_.memory.out.at(), row, block(Format::bf16)}};
            if (bias) {
                const Affine from = layer_weights(run, layer) + place.o_bias + piece.first_unit * kBiasBytes;
                loads.push_back({{Space::hbm, 0, 0, from},
                                 emit_.tsram(emit_.memory.in.at(bias_at)),
                                 bias_bytes,
                                 {},
                                 Format::raw,
                                 Format::raw});
                macro.operands.push_back({emit_.memory.in.at(bias_at), 0, 0});
            }
            issue_all(emit_.tile, queue::kLoad, {{own_tile_sem(tile_sem::in_free), 1}}, loads,
                      {{own_tile_sem(tile_sem::in_full), 1}}, "load residual");
            BlockRows store = staged(piece, Format::bf16, columns);
            store.dst = emit_.group_csram(x);
            emit_epilogue(emit_, out, piece, macro, {{own_tile_sem(tile_sem::in_full), 1}},
                          {{own_tile_sem(tile_sem::in_free), 1}}, copy_block_rows(store));
            emit_.advance(emit_.tile, reg::in);
        };
        emit_product(out);
    }

    void emit_gate_up(std::size_t run, const Affine& weights) {
        const LayerShape& shape = plan_.model.runs[run].shape;
        Product out = product(run, kGateUp);
        out.name = "gate_up";
        out.weights = weights;
        out.a = emit_.own_csram(plan_.csram.norm);
        out.ready = cluster_sem::ready_norm;
        out.ready_count = row_units(norm("norm2", run, 0, 0, 0).deal);
        out.finished = {{emit_.group_sem(cluster_sem::ready_ffn), 1}};
        const std::int64_t columns = shape.ffn / kBlockEdge;
        out.epilogue = [&](const Piece& piece) {
            VectorMacro macro;
            macro.program = emit_.vectors.add(swiglu_program(shape.activations));
            macro.rows = piece_rows(piece);
            macro.cols = piece.units * kBlockEdge;
            macro.operands = {
                accumulator_operand(piece, 0, 2), accumulator_operand(piece, 1, 2),
                VectorOperand{emit_.memory.out.at(), piece.units * block(shape.activations), block(shape.activations)}};
            BlockRows store = staged(piece, shape.activations, columns);
            store.dst = emit_.group_csram(piece_offset(piece, shape.activations, columns) + plan_.csram.ffn);
            emit_epilogue(emit_, out, piece, macro, {}, {}, copy_block_rows(store));
        };
        emit_product(out);
    }

    // ---- experts --------------------------------------------------------------------------------------------------

    /// The rows that hold tokens: no expert gives anything for others.
    [[nodiscard]] RowDeal token_deal(std::size_t run) const {
        const TokenRows tokens = token_rows(plan_, chunk_, emit_.group);
        if (tokens.row_blocks == 0) {
            return {0, kBlockEdge, 1};
        }
        return deal(tokens.row_blocks, tokens.last_rows, combine_fit(plan_, plan_.model.runs[run].shape.experts));
    }

    [[nodiscard]] Product router(std::size_t run, const LayerIndex& layer) const {
        Product out = product(run, kRouter);
        out.name = "router";
        out.weights = layer_weights(run, layer) + plan_.layers[run].router;
        out.a = emit_.own_csram(plan_.csram.norm);
        out.ready = cluster_sem::ready_norm;
        out.ready_count = row_units(norm("norm2", run, 0, 0, 0).deal);
        out.finished = {{emit_.group_sem(cluster_sem::ready_route), 1}};
        const std::int64_t row_bytes = kBlockEdge * plan_.model.runs[run].shape.experts.count * 4;
        out.piece_blocks = std::min(out.piece_blocks / out.shape.unit_blocks, emit_.memory.out.slot_bytes / row_bytes);
        out.piece_blocks = std::max<std::int64_t>(1, out.piece_blocks) * out.shape.unit_blocks;
        return out;
    }

    void emit_experts_layer(std::size_t run, const LayerIndex& layer) {
        const LayerShape& shape = plan_.model.runs[run].shape;
        set_node(run, kRouterNode, layer);
        Product route = router(run, layer);
        route.epilogue = [&](const Piece& piece) {
            emit_gates(emit_, plan_, shape.experts, route, piece, piece_rows(piece));
        };
        emit_product(route);
        launch_operator(emit_);

        const RoutingShape& routing = plan_.routing[run];
        ExpertsWork work;
        work.shape = shape;
        work.run = run;
        work.segment = (layer.tile * routing.sequences + sequence_.tile) * (routing.groups * routing.chunks) +
                       (emit_.group * routing.chunks + static_cast<std::int64_t>(chunk_index_));
        work.experts = layer_weights(run, layer) + plan_.layers[run].experts;
        work.up = expert_product(run, kExpertUp);
        work.down = expert_product(run, kExpertDown);
        work.rows = token_deal(run);
        set_node(run, kExpertsNode, layer);
        emit_experts(emit_, plan_, work, finished_count(route));
        launch_operator(emit_);
        set_node(run, kCombineNode, layer);
        emit_combine(emit_, plan_, work);
        launch_operator(emit_);
    }

    [[nodiscard]] Product expert_product(std::size_t run, ProductIndex index) const {
        Product out = product(run, index);
        out.shape.row_blocks = 1;
        out.tiling.m = 1;
        out.position = 0;
        return out;
    }

    // ---- q, k, v --------------------------------------------------------------------------------------------------

    /// This chunk's part of the caches of a layer: decode: of the first sequence; prefill: of the sequence.
    [[nodiscard]] Affine cache(std::size_t run, const LayerIndex& layer, bool values) const {
        const LayerPlace& place = plan_.layers[run];
        const std::int64_t sequence_bytes = plan_.attention.kv_heads * plan_.attention.cache_bytes();
        const Affine base = layer.tile * place.cache_stride + (values ? place.v_cache : place.k_cache);
        if (plan_.prefill()) {
            return base + sequence_.tile * sequence_bytes;
        }
        return base + chunk_.first_row * sequence_bytes;
    }

    void emit_qkv(std::size_t run, const LayerIndex& layer, const Affine& weights) {
        const LayerShape& shape = plan_.model.runs[run].shape;
        Product out = product(run, kQkv);
        out.name = "qkv";
        out.weights = weights;
        out.a = emit_.own_csram(plan_.csram.norm);
        out.ready = cluster_sem::ready_norm;
        out.ready_count = row_units(norm("norm1", run, 0, 0, 0).deal);
        out.finished = qkv_finished();
        const Affine base = layer_weights(run, layer);
        const QkvPlace place{cache(run, layer, false), cache(run, layer, true), base + plan_.layers[run].head_norms,
                             base + plan_.layers[run].qkv_bias};
        out.epilogue = [&](const Piece& piece) { emit_qkv_piece(emit_, plan_, chunk_, shape, place, out, piece); };
        emit_product(out);
    }
    /// In prefill all groups read all K and V; in decode each group reads its own sequences'.
    [[nodiscard]] std::vector<SemUse> qkv_finished() const {
        return {{emit_.group_sem(cluster_sem::ready_q), 1},
                {plan_.prefill() ? emit_.all_sem(cluster_sem::ready_kv) : emit_.group_sem(cluster_sem::ready_kv), 1}};
    }

    // ---- attention ------------------------------------------------------------------------------------------------

    [[nodiscard]] Attention attention(std::size_t run, const LayerIndex& layer) const {
        Attention out;
        out.shape = plan_.attention;
        out.q_buffer = plan_.csram.q;
        out.out_buffer = plan_.csram.attention;
        out.k_cache = cache(run, layer, false);
        out.v_cache = cache(run, layer, true);
        out.sequences = chunk_.tokens;
        out.sets = chunk_.row_blocks / plan_.attention.set_row_blocks;
        out.first_set = chunk_.first_row / plan_.attention.set_row_blocks;
        out.q_ready_count = finished_count(product(run, kQkv));
        out.kv_ready_count = plan_.prefill() ? all_groups_qkv_count(run) : finished_count(product(run, kQkv));
        out.finished = {{emit_.group_sem(cluster_sem::ready_attention), 1}};
        return out;
    }

    [[nodiscard]] std::int64_t all_groups_qkv_count(std::size_t run) const {
        std::int64_t count = 0;
        for (const std::vector<Chunk>& chunks : plan_.chunks) {
            Product other = product(run, kQkv);
            other.shape.row_blocks = chunks[chunk_index_].row_blocks;
            other.tiling.m = std::min(plan_.tilings[run][kQkv].m, other.shape.row_blocks);
            count += finished_count(other);
        }
        return count;
    }

    void emit_attention(std::size_t run, const LayerIndex& layer) {
        const Attention work = attention(run, layer);
        emit_attention_tile(emit_, work);
        emit_attention_cluster(emit_, work);
    }

    // ---- after the layers -----------------------------------------------------------------------------------------

    void emit_decode_head(std::int64_t x_ready) {
        emit_.set_node(final_norm_node(plan_), final_norm_node(plan_));
        emit_norm(final_norm(x_ready));
        launch_operator(emit_);
        emit_.set_node(head_node(plan_), head_node(plan_));
        Product head;
        head.shape = plan_.head_shape;
        head.shape.row_blocks = chunk_.row_blocks;
        head.tiling = plan_.head_tiling;
        complete(head);
        head.a = emit_.own_csram(plan_.csram.norm);
        head.valid_rows = worked_rows();
        head.ready = cluster_sem::ready_norm;
        head.ready_count = row_units(final_norm(0).deal);
        emit_head(emit_, plan_, head, chunk_.logits_block);
        // Every cluster has normed its rows: the next chunk's embedding may overwrite the residual of all.
        await_all_clusters();
        if (chunk_index_ + 1 < plan_.chunks[static_cast<std::size_t>(emit_.group)].size()) {
            launch_operator(emit_);
        }
    }

    /// A cluster goes on when all of its group have come here: the next embedding overwrites the residual of all. (What
    /// experts give is added by each cluster for itself.)
    void await_all_clusters() {
        emit_.cluster.fence(queue::kCluster, {}, {{emit_.group_sem(cluster_sem::x_read), 1}}, "residual read");
        emit_.cluster.fence(queue::kCluster,
                            {{own_cluster_sem(cluster_sem::x_read), plan_.grouping.clusters_per_group}}, {},
                            "residual read by all");
    }

    /// The group that holds the sequence's last token norms its row into `last rows` of every cluster.
    void emit_last_token(std::int64_t x_ready) {
        const std::int64_t token = plan_.graph->workload.tokens - 1;
        const std::int64_t position_block = token / kBlockEdge;
        const std::int64_t row_block = position_block / plan_.grouping.groups - chunk_.first_row;
        const bool here = row_block >= 0 && row_block < chunk_.row_blocks;  // the same in all groups
        emit_.set_node(final_norm_node(plan_), final_norm_node(plan_));
        emit_.release_tiles(cluster_sem::ready_x, x_ready, tile_sem::go, "last layer complete");
        emit_.tile.fence(queue::kLoad, {{own_tile_sem(tile_sem::go), 1}}, {}, "last layer complete");
        if (plan_.model.runs.back().shape.experts.count > 0) {
            await_all_clusters();
        }
        if (here && position_block % plan_.grouping.groups == emit_.group) {
            emit_last_norm(x_ready, row_block, token % kBlockEdge);
        }
        // Of other chunks nothing is normed: what was launched behind the last layer is the next chunk.
        if (here) {
            launch_operator(emit_);
        }
    }

    /// Row `row` of row block `row_block` of this chunk, which is the sequence's last.
    void emit_last_norm(std::int64_t x_ready, std::int64_t row_block, std::int64_t row) {
        Norm last = final_norm(x_ready);
        last.out_buffer = plan_.csram.last;
        // Sequence b becomes row b of the head's input: row b mod 32 of block b / 32, by counting down. The row has a
        // register of its own, with a range that stays within the block.
        const std::int64_t highest = plan_.graph->workload.batch - 1;
        SingleRow single;
        single.row_block = row_block;
        single.row = row;
        single.loaded = {{emit_.group_sem(cluster_sem::x_read), 1}};
        single.finished = {{emit_.all_sem(cluster_sem::ready_last), 1}};
        const Affine position = isa::variable(isa::Var::self) - emit_.first_tile();
        emit_.tile.branch(position * -1, [&] {
            emit_.tile.set_register(reg::last_row_left, sequence_.tile, 0, highest);
            emit_.tile.set_register(reg::last_row_block, 0, 0, highest / kBlockEdge);
            emit_.tile.loop(highest / kBlockEdge, [&](const Affine&) {
                emit_.tile.branch(isa::variable(isa::register_var(reg::last_row_left)) - kBlockEdge, [&] {
                    emit_.tile.add_register(reg::last_row_left, -kBlockEdge, 0, highest);
                    emit_.tile.add_register(reg::last_row_block, 1, 0, highest / kBlockEdge);
                });
            });
            emit_.tile.set_register(reg::last_row, isa::variable(isa::register_var(reg::last_row_left)), 0,
                                    std::min(highest, kBlockEdge - 1));
            single.out_row = isa::variable(isa::register_var(reg::last_row));
            single.out_row_block = isa::variable(isa::register_var(reg::last_row_block));
            emit_single_row_norm(emit_, last, single);
        });
        // The next sequence's embedding, which every cluster of the group writes to all of them, may not overwrite the
        // residual before that row has been read.
        emit_.cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::x_read), 1}}, {}, "last row read");
    }

    Emitter& emit_;
    const DecoderPlan& plan_;
    const Chunk& chunk_;
    std::size_t chunk_index_;
    LayerIndex sequence_;
};

void emit_group(Emitter& emit, const DecoderPlan& plan) {
    const std::vector<Chunk>& chunks = plan.chunks[static_cast<std::size_t>(emit.group)];
    const auto all_chunks = [&](const LayerIndex& sequence) {
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            ChunkEmitter(emit, plan, chunks[i], i, sequence).emit();
        }
    };
    if (!emit.eager()) {
        emit_clear_last_rows(emit, plan);
    }
    launch_operator(emit);
    const std::int64_t sequences = plan.prefill() ? plan.graph->workload.batch : 1;
    if (sequences == 1) {
        all_chunks({0, 0});
    } else {
        const LayerIndex sequence{emit.tile.begin_loop(sequences), emit.cluster.begin_loop(sequences)};
        all_chunks(sequence);
        emit.tile.end();
        emit.cluster.end();
    }
    if (plan.prefill()) {
        emit_prefill_head(emit, plan);
    }
}

std::vector<std::string> describe(const DecoderPlan& plan) {
    std::vector<std::string> notes;
    notes.push_back(fmt::format("{} groups of {} clusters; {} chunks of at most {} row blocks of 32 tokens",
                                plan.grouping.groups, plan.grouping.clusters_per_group, plan.chunks[0].size(),
                                plan.most_row_blocks));
    notes.push_back(fmt::format(
        "stream ring {} x {} bytes, activation ring {} x {} bytes; attention in chunks of {} "
        "positions",
        plan.tile.memory.stream.slots, plan.tile.memory.stream.slot_bytes, plan.tile.memory.activation.slots,
        plan.tile.memory.activation.slot_bytes, plan.attention.chunk_blocks * kBlockEdge));
    return notes;
}

}  // namespace

Compiled compile_decoder(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule) {
    check_chip(chip);
    const DecoderPlan plan = plan_decoder(graph, chip);
    Compiled out;
    out.program.name = graph.name;
    out.program.chip = chip.name;
    out.program.nodes = node_ranges(plan);
    out.program.regions = plan.regions;
    const models::Workload& workload = graph.workload;
    const std::int64_t tokens = workload.batch * (plan.prefill() ? workload.tokens : 1);
    out.program.tables = routing_tables(plan, drawn_routes(plan));
    out.program.tables.insert(out.program.tables.begin(),
                              {"token_ids", tokens, 0, plan.model.vocab - 1, "uniform", 1, {}});
    emit_groups(out.program, chip, plan.grouping, plan.tile.memory, graph.workload.scale_rounding, schedule,
                [&plan](Emitter& emit) { emit_group(emit, plan); });
    out.nodes = plan_nodes(plan, chip);
    out.notes = describe(plan);
    out.placement = decoder_placement(plan);
    return out;
}

}  // namespace sluice::kernels
