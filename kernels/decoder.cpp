// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"
#include "kernels/decoder_chunk.hpp"
#include "kernels/decoder_experts.hpp"
#include "kernels/decoder_placement.hpp"
#include "kernels/embedding.hpp"
#include "kernels/frame.hpp"
#include "kernels/head.hpp"
#include "kernels/last_token.hpp"
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

/// Emits one chunk of one group through all layers.
class ChunkEmitter {
public:
    explicit ChunkEmitter(const DecoderChunk& at) : at_(at), emit_(at.emit), plan_(at.plan), chunk_(at.chunk) {}

    void emit() {
        emit_embedding(at_);
        launch_operator(emit_);
        if (!emit_.eager()) {
            load_first_norm(0, {0, 0});
        }
        for (std::size_t run = 0; run < plan_.model.runs.size(); ++run) {
            if (run > 0) {
                restate_ready_x(at_.x_count(run - 1), at_.x_count(run));
            }
            emit_run(run);
        }
        const std::int64_t final_count = at_.x_count(plan_.model.runs.size() - 1);
        if (plan_.prefill()) {
            emit_last_token(at_, final_count);
        } else {
            emit_decode_head(at_, final_count);
        }
    }

private:
    // ---- layers ---------------------------------------------------------------------------------------------------

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

    void emit_layer(std::size_t run, const LayerIndex& layer) {
        const LayerPlace& place = plan_.layers[run];
        const Affine weights = at_.layer_weights(run, layer);
        const Norm norm2 =
            at_.norm("norm2", run, cluster_sem::ready_x, finished_count(at_.product(run, kO)), weights + place.norm2);
        at_.set_node(run, kNorm1Node, layer);
        at_.emit_norm(first_norm(run, layer));
        launch_operator(emit_);
        if (!emit_.eager()) {
            at_.set_node(run, kNorm2Node, layer);
            emit_norm_weights(emit_, norm2);
        }
        at_.set_node(run, kQkvNode, layer);
        emit_qkv(run, layer, weights + place.qkv);
        launch_operator(emit_);
        at_.set_node(run, kAttentionNode, layer);
        emit_attention(run, layer);
        launch_operator(emit_);
        at_.set_node(run, kONode, layer);
        emit_residual_product(run, kO, layer, plan_.csram.attention, cluster_sem::ready_attention,
                              work_units(attention(run, layer)));
        launch_operator(emit_);
        at_.set_node(run, kNorm2Node, layer);
        at_.emit_norm(norm2);
        launch_operator(emit_);
        if (!emit_.eager()) {
            load_next_norm(run, layer);
        }
        if (plan_.model.runs[run].shape.experts.count > 0) {
            emit_experts_layer(at_, run, layer);
            return;
        }
        at_.set_node(run, kGateUpNode, layer);
        emit_gate_up(run, weights + place.gate_up);
        launch_operator(emit_);
        at_.set_node(run, kDownNode, layer);
        emit_residual_product(run, kDown, layer, plan_.csram.ffn, cluster_sem::ready_ffn,
                              finished_count(at_.product(run, kGateUp)));
        launch_operator(emit_);
    }

    [[nodiscard]] Norm first_norm(std::size_t run, const LayerIndex& layer) const {
        return at_.norm("norm1", run, cluster_sem::ready_x, at_.x_count(run),
                        at_.layer_weights(run, layer) + plan_.layers[run].norm1);
    }
    void load_first_norm(std::size_t run, const LayerIndex& layer) {
        at_.set_node(run, kNorm1Node, layer);
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
                emit_norm_weights(emit_, at_.final_norm(0));
            }
        };
        const std::int64_t count = plan_.model.runs[run].count;
        if (count == 1) {
            behind();
        } else {
            emit_.tile.branch(Affine(count - 2) - layer.tile, within, behind);
        }
    }

    // ---- products -------------------------------------------------------------------------------------------------

    [[nodiscard]] BlockRows staged(const Piece& piece, Format format, std::int64_t columns) const {
        emit_.memory.out.check_fits(piece.row_blocks * piece.units * block(format), "a piece of results");
        BlockRows out;
        out.src = emit_.tsram(emit_.memory.out.at());
        out.format = format;
        out.blocks = piece.units;
        out.row_blocks = piece.row_blocks;
        out.rows = at_.worked_rows();
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
        Product out = at_.product(run, index);
        out.name = index == kO ? "o" : "down";
        out.weights = at_.layer_weights(run, layer) + (index == kO ? place.o : place.down);
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
            macro.rows = at_.piece_rows(piece);
            macro.cols = piece.units * kBlockEdge;
            macro.operands = {accumulator_operand(piece, 0, 1),
                              VectorOperand{emit_.memory.in.at(), row, block(Format::bf16)},
                              VectorOperand{emit_.memory.out.at(), row, block(Format::bf16)}};
            if (bias) {
                const Affine from = at_.layer_weights(run, layer) + place.o_bias + piece.first_unit * kBiasBytes;
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
        at_.emit_product(out);
    }

    void emit_gate_up(std::size_t run, const Affine& weights) {
        const LayerShape& shape = plan_.model.runs[run].shape;
        Product out = at_.product(run, kGateUp);
        out.name = "gate_up";
        out.weights = weights;
        out.a = emit_.own_csram(plan_.csram.norm);
        out.ready = cluster_sem::ready_norm;
        out.ready_count = row_units(at_.norm("norm2", run, 0, 0, 0).deal);
        out.finished = {{emit_.group_sem(cluster_sem::ready_ffn), 1}};
        const std::int64_t columns = shape.ffn / kBlockEdge;
        out.epilogue = [&](const Piece& piece) {
            VectorMacro macro;
            macro.program = emit_.vectors.add(swiglu_program(shape.activations));
            macro.rows = at_.piece_rows(piece);
            macro.cols = piece.units * kBlockEdge;
            macro.operands = {
                accumulator_operand(piece, 0, 2), accumulator_operand(piece, 1, 2),
                VectorOperand{emit_.memory.out.at(), piece.units * block(shape.activations), block(shape.activations)}};
            BlockRows store = staged(piece, shape.activations, columns);
            store.dst = emit_.group_csram(piece_offset(piece, shape.activations, columns) + plan_.csram.ffn);
            emit_epilogue(emit_, out, piece, macro, {}, {}, copy_block_rows(store));
        };
        at_.emit_product(out);
    }

    // ---- q, k, v --------------------------------------------------------------------------------------------------

    /// This chunk's part of the caches of a layer: decode: of the first sequence; prefill: of the sequence.
    [[nodiscard]] Affine cache(std::size_t run, const LayerIndex& layer, bool values) const {
        const LayerPlace& place = plan_.layers[run];
        const std::int64_t sequence_bytes = plan_.attention.kv_heads * plan_.attention.cache_bytes();
        const Affine base = layer.tile * place.cache_stride + (values ? place.v_cache : place.k_cache);
        if (plan_.prefill()) {
            return base + at_.sequence.tile * sequence_bytes;
        }
        return base + chunk_.first_row * sequence_bytes;
    }

    void emit_qkv(std::size_t run, const LayerIndex& layer, const Affine& weights) {
        const LayerShape& shape = plan_.model.runs[run].shape;
        Product out = at_.product(run, kQkv);
        out.name = "qkv";
        out.weights = weights;
        out.a = emit_.own_csram(plan_.csram.norm);
        out.ready = cluster_sem::ready_norm;
        out.ready_count = row_units(at_.norm("norm1", run, 0, 0, 0).deal);
        out.finished = qkv_finished();
        const Affine base = at_.layer_weights(run, layer);
        const QkvPlace place{cache(run, layer, false), cache(run, layer, true), base + plan_.layers[run].head_norms,
                             base + plan_.layers[run].qkv_bias};
        out.epilogue = [&](const Piece& piece) { emit_qkv_piece(emit_, plan_, chunk_, shape, place, out, piece); };
        at_.emit_product(out);
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
        out.q_ready_count = finished_count(at_.product(run, kQkv));
        out.kv_ready_count = plan_.prefill() ? all_groups_qkv_count(run) : finished_count(at_.product(run, kQkv));
        out.finished = {{emit_.group_sem(cluster_sem::ready_attention), 1}};
        return out;
    }

    [[nodiscard]] std::int64_t all_groups_qkv_count(std::size_t run) const {
        std::int64_t count = 0;
        for (const std::vector<Chunk>& chunks : plan_.chunks) {
            Product other = at_.product(run, kQkv);
            other.shape.row_blocks = chunks[at_.index].row_blocks;
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

    const DecoderChunk& at_;
    Emitter& emit_;
    const DecoderPlan& plan_;
    const Chunk& chunk_;
};

void emit_group(Emitter& emit, const DecoderPlan& plan) {
    const std::vector<Chunk>& chunks = plan.chunks[static_cast<std::size_t>(emit.group)];
    const auto all_chunks = [&](const LayerIndex& sequence) {
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            ChunkEmitter({emit, plan, chunks[i], i, sequence}).emit();
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
