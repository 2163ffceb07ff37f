// SPDX-License-Identifier: Apache-2.0
#include "kernels/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "isa/errors.hpp"

namespace sluice::kernels {

using isa::Level;
using isa::SemInit;

namespace {

/// The largest constant count of any wait or signal; the compiler writes no others.
std::int64_t largest_count(const isa::Block& block);

std::int64_t largest_count(const std::shared_ptr<isa::Block>& block) {
    return block ? largest_count(*block) : 0;
}

std::int64_t largest_count(const isa::Block& block) {
    std::int64_t most = 0;
    for (const isa::Statement& statement : block) {
        if (const auto* instruction = std::get_if<isa::Instruction>(&statement.body)) {
            for (const isa::SemUse& use : instruction->waits) {
                most = std::max(most, use.count.base);
            }
            for (const isa::SemUse& use : instruction->signals) {
                most = std::max(most, use.count.base);
            }
        } else if (const auto* loop = std::get_if<isa::Loop>(&statement.body)) {
            most = std::max(most, largest_count(loop->body));
        } else if (const auto* branch = std::get_if<isa::If>(&statement.body)) {
            most = std::max({most, largest_count(branch->then_body), largest_count(branch->else_body)});
        }
    }
    return most;
}

}  // namespace

void launch_operator(Emitter& emit) {
    if (!emit.eager()) {
        return;
    }
    const std::vector<isa::QueueId> joined{queue::kStream, queue::kLoad, queue::kTensor, queue::kVector};
    for (const isa::QueueId queue : joined) {
        emit.tile.fence(queue, {}, {{own_tile_sem(tile_sem::drained), 1}}, "operator done");
    }
    emit.tile.fence(queue::kStore, {{own_tile_sem(tile_sem::drained), static_cast<std::int64_t>(joined.size())}},
                    {{own_cluster_sem(cluster_sem::done), 1}}, "operator done in tile");
    emit.cluster.fence(queue::kPanel, {}, {{own_cluster_sem(cluster_sem::done), 1}}, "operator done");
    emit.cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::done), emit.grouping.tiles_per_cluster + 1}},
                       {{{Level::chip, 0, 0, kChipSemDone}, 1}}, "operator done in cluster");
    emit.cluster.wait({own_cluster_sem(cluster_sem::launch), 1});
    emit.cluster.signal({tiles_of_cluster_sem(emit.grouping, tile_sem::launch), 1});
    emit.tile.wait({own_tile_sem(tile_sem::launch), 1});
    emit.launches += emit.cluster.repeats();
    SLUICE_CHECK(emit.tile.repeats() == emit.cluster.repeats(), "tiles and clusters launch at different places");
}

void emit_end(Emitter& emit) {
    emit.tile.fence(queue::kStore, {}, {{own_cluster_sem(cluster_sem::done), 1}}, "tile done");
    emit.cluster.fence(queue::kCluster, {{own_cluster_sem(cluster_sem::done), emit.grouping.tiles_per_cluster}},
                       {{{Level::chip, 0, 0, kChipSemDone}, 1}}, "cluster done");
}

isa::ControlProgram chip_program(const isa::ChipSpec& chip, std::int64_t launches) {
    ControlBuilder builder(chip.control, "chip", Level::chip, 0, 1);
    const isa::SemUse all_done{{Level::chip, 0, 0, kChipSemDone}, chip.soc.clusters};
    builder.loop(launches, [&](const isa::Affine&) {
        builder.wait(all_done);
        builder.delay(chip.schedule.eager_launch_cycles);
        builder.signal({cluster_sems(0, chip.soc.clusters, cluster_sem::launch), 1});
    });
    builder.wait(all_done);
    return builder.finish();
}

std::vector<SemInit> initial_semaphores(const isa::ChipSpec& chip, const TileMemory& memory) {
    const std::int64_t tiles = isa::tile_count(chip);
    const auto tile = [tiles](int index, std::int64_t value) {
        return SemInit{{0, Level::tile, 0, static_cast<std::uint16_t>(index)}, tiles, value};
    };
    std::vector<SemInit> all{tile(tile_sem::b_free, memory.stream.slots),
                             tile(tile_sem::in_free, memory.in.slots),
                             tile(tile_sem::out_free, memory.out.slots),
                             tile(tile_sem::s_free, memory.score_slots),
                             tile(tile_sem::p_free, memory.probabilities.slots),
                             tile(tile_sem::v_free, memory.values.slots),
                             tile(tile_sem::norm_free, 1)};
    if (memory.expert_rows.bytes > 0) {
        all.push_back(tile(tile_sem::expert_rows_free, 1));
        all.push_back(tile(tile_sem::expert_hidden_free, 1));
        all.push_back(tile(tile_sem::expert_results_free, 1));
    }
    for (std::int64_t slot = 0; slot < memory.activation.slots; ++slot) {
        const auto index = static_cast<std::uint16_t>(cluster_sem::a_free + slot);
        all.push_back({{0, Level::cluster, 0, index}, chip.soc.clusters, chip.soc.tiles_per_cluster});
    }
    return all;
}

void emit_groups(isa::Program& program, const isa::ChipSpec& chip, const Grouping& grouping, const TileMemory& memory,
                 isa::ScaleRounding rounding, Schedule schedule, const std::function<void(Emitter&)>& body) {
    program.semaphores = initial_semaphores(chip, memory);
    VectorPrograms vectors(rounding);
    std::int64_t launches = 0;
    for (std::int64_t group = 0; group < grouping.groups; ++group) {
        // On the heap: the builders point into the emitter, so it must not move.
        const auto emit = std::make_unique<Emitter>(chip, grouping, group, memory, vectors);
        emit->schedule = schedule;
        body(*emit);
        emit_end(*emit);
        SLUICE_CHECK(group == 0 || emit->launches == launches, "groups launch different numbers of operators");
        launches = emit->launches;
        program.controls.push_back(emit->tile.finish());
        program.controls.push_back(emit->cluster.finish());
    }
    program.controls.push_back(chip_program(chip, launches));
    program.vector_programs = vectors.finish();
}

std::vector<std::int64_t> group_counts(const isa::ChipSpec& chip) {
    std::vector<std::int64_t> counts;
    for (std::int64_t groups = 1; groups <= chip.soc.clusters; ++groups) {
        if (chip.soc.clusters % groups == 0) {
            counts.push_back(groups);
        }
    }
    return counts;
}

void check_semaphore_width(const isa::Program& program, const isa::ChipSpec& chip) {
    std::int64_t most = 0;
    for (const isa::ControlProgram& control : program.controls) {
        most = std::max(most, largest_count(control.body));
    }
    for (const SemInit& init : program.semaphores) {
        most = std::max(most, init.value);
    }
    const std::int64_t limit = (std::int64_t{1} << chip.semaphores.width_bits) - 1;
    if (most > limit) {
        throw InputError("semaphores.width_bits", fmt::format("{} bits count to {}, this program counts to {}",
                                                              chip.semaphores.width_bits, limit, most));
    }
}

void check_chip(const isa::ChipSpec& chip) {
    const auto need = [](const char* where, std::int64_t least, std::int64_t found) {
        if (found < least) {
            throw InputError(where, fmt::format("the compiler's programs use {}, the chip has {}", least, found));
        }
    };
    need("semaphores.per_tile", tile_sem::count, chip.semaphores.per_tile);
    need("semaphores.per_cluster", cluster_sem::count, chip.semaphores.per_cluster);
    need("semaphores.per_chip", 1, chip.semaphores.per_chip);
    need("tdma.channels", 3, chip.tdma.channels);
    need("cdma.channels", 2, chip.cdma.channels);
    need("ttu.contexts", 1, chip.ttu.contexts);
    need("tvp.contexts", 1, chip.tvp.contexts);
}

}  // namespace sluice::kernels
