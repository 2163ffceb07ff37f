// SPDX-License-Identifier: Apache-2.0
#include "kernels/emitter.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::MemRef;
using isa::SemRef;
using isa::SemUse;
using isa::Space;
using isa::Var;

namespace {
/// A cursor only counts uses; it is never an address outside a ring.
constexpr std::int64_t kCursorLimit = std::int64_t{1} << 40;
}  // namespace

std::string VectorPrograms::add(isa::VectorProgram program) {
    for (isa::VectorPass& pass : program.passes) {
        for (isa::VectorStep& step : pass.steps) {
            if (step.op == isa::VectorOp::block_scale) {
                step.rounding = rounding_;
            }
        }
    }
    const auto same = std::find_if(programs_.begin(), programs_.end(),
                                   [&program](const isa::VectorProgram& other) { return other.name == program.name; });
    if (same != programs_.end()) {
        SLUICE_CHECK(*same == program, "two vector programs are named " + program.name);
        return same->name;
    }
    programs_.push_back(std::move(program));
    return programs_.back().name;
}

Emitter::Emitter(const isa::ChipSpec& spec, const Grouping& groups, std::int64_t index, const TileMemory& tile_memory,
                 VectorPrograms& vector_programs)
    : chip(spec),
      grouping(groups),
      group(index),
      memory(tile_memory),
      vectors(vector_programs),
      tile(spec.control, "tiles.group" + std::to_string(index), isa::Level::tile, index * groups.tiles_per_group(),
           groups.tiles_per_group()),
      cluster(spec.control, "clusters.group" + std::to_string(index), isa::Level::cluster,
              index * groups.clusters_per_group, groups.clusters_per_group) {}

MemRef Emitter::tsram(const Affine& offset) const {
    return {Space::tsram, isa::variable(Var::self), 0, offset};
}

MemRef Emitter::own_csram(const Affine& offset) const {
    return {Space::csram, isa::variable(Var::cluster), 0, offset};
}

MemRef Emitter::group_csram(const Affine& offset) const {
    return {Space::csram, first_cluster(), low_mask(grouping.clusters_per_group), offset};
}

MemRef Emitter::all_csram(const Affine& offset) const {
    return {Space::csram, 0, low_mask(all_clusters()), offset};
}

SemRef Emitter::group_sem(int index) const {
    return cluster_sems(first_cluster(), grouping.clusters_per_group, index);
}

SemRef Emitter::all_sem(int index) const {
    return cluster_sems(0, all_clusters(), index);
}

void Emitter::set_node(const Affine& tile_node, const Affine& cluster_node) {
    tile.set_node(tile_node);
    cluster.set_node(cluster_node);
}

void Emitter::for_split(const Split& split, const Affine& position, std::int64_t wide_from,
                        const std::function<void(std::int64_t, const Affine&)>& body) {
    const std::int64_t most = split.most();
    const std::int64_t least = split.least();
    const std::int64_t rest = split.remainder();
    const std::int64_t end = wide_from + rest;
    const std::int64_t round_end = std::max<std::int64_t>(0, end - split.tiles);
    if (rest == 0) {
        body(most, position * most);
        return;
    }
    // Tile p is the (p + shift)th of the wide ones, or of the narrow ones.
    const auto wide = [&](std::int64_t shift) { body(most, (position + shift) * most); };
    const auto narrow = [&](std::int64_t shift) { body(least, (position + shift) * least + rest * most); };
    const auto below = [&](std::int64_t limit, const std::function<void()>& then,
                           const std::function<void()>& otherwise) {
        if (limit <= 0) {
            otherwise();
        } else if (limit >= split.tiles) {
            then();
        } else {
            tile.branch(Affine(limit - 1) - position, then, otherwise);
        }
    };
    if (round_end > 0) {
        below(
            round_end, [&] { wide(0); },
            [&] {
                below(
                    wide_from, [&] { narrow(-round_end); }, [&] { wide(round_end - wide_from); });
            });
    } else {
        below(
            wide_from, [&] { narrow(0); },
            [&] {
                below(
                    end, [&] { wide(-wide_from); }, [&] { narrow(-rest); });
            });
    }
}

void Emitter::advance(ControlBuilder& builder, int cursor) {
    builder.add_register(cursor, 1, 0, kCursorLimit);
}

void Emitter::release_tiles(int sem, const Affine& count, int tile_go, const std::string& label) {
    cluster.fence(queue::kCluster, {{own_cluster_sem(sem), count}}, {{tiles_of_cluster_sem(grouping, tile_go), 1}},
                  label);
}

std::int64_t packed_block_bytes(isa::Format format, std::int64_t rows) {
    return rows * (isa::row_data_bytes(format) + (isa::info(format).block_scaled ? 1 : 0));
}

std::vector<DmaMacro> copy_block_rows(const BlockRows& copy) {
    const std::int64_t src_block = packed_block_bytes(copy.format, copy.src_rows);
    const std::int64_t dst_block = packed_block_bytes(copy.format, copy.dst_rows);
    if (copy.rows == isa::kBlockEdge && copy.src_rows == copy.dst_rows) {
        DmaMacro macro{copy.src, copy.dst, copy.blocks * src_block, {}, isa::Format::raw, isa::Format::raw};
        if (copy.row_blocks > 1) {
            macro.dims.push_back({copy.row_blocks, copy.src_row_stride, copy.dst_row_stride});
        }
        return {macro};
    }
    SLUICE_CHECK(copy.row_blocks == 1, "part of a block row is copied one block row at a time");
    const std::int64_t row_data = isa::row_data_bytes(copy.format);
    DmaMacro data{copy.src,         copy.dst,        copy.rows * row_data, {{copy.blocks, src_block, dst_block}},
                  isa::Format::raw, isa::Format::raw};
    data.src.offset = data.src.offset + copy.src_first_row * row_data;
    data.dst.offset = data.dst.offset + copy.dst_first_row * row_data;
    if (!isa::info(copy.format).block_scaled) {
        return {data};
    }
    DmaMacro scales{copy.src,         copy.dst,        copy.rows, {{copy.blocks, src_block, dst_block}},
                    isa::Format::raw, isa::Format::raw};
    scales.src.offset = scales.src.offset + copy.src_first_row + copy.src_rows * row_data;
    scales.dst.offset = scales.dst.offset + copy.dst_first_row + copy.dst_rows * row_data;
    return {data, scales};
}

void issue_all(ControlBuilder& builder, isa::QueueId queue, const std::vector<SemUse>& waits,
               const std::vector<DmaMacro>& macros, const std::vector<SemUse>& signals, const std::string& label) {
    const std::vector<SemUse> none;
    for (std::size_t i = 0; i < macros.size(); ++i) {
        builder.issue(queue, i == 0 ? waits : none, macros[i], i + 1 == macros.size() ? signals : none, label);
    }
}

}  // namespace sluice::kernels
