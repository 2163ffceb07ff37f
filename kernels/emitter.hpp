// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels share while they write the programs of one group: the tile and the cluster program, the group's
// place on the chip, the tile's memory plan, and the small idioms (stream a chunk, hand a finished piece on).
#include <functional>
#include <string>
#include <vector>

#include "kernels/builder.hpp"
#include "kernels/layout.hpp"
#include "kernels/mapping.hpp"
#include "kernels/schedule.hpp"

namespace sluice::kernels {

/// Queues by use. Channels keep streams apart so that one waiting for data never holds up another.
namespace queue {
constexpr isa::QueueId kStream{isa::Engine::tdma, 0};  ///< weights and KV cache in
constexpr isa::QueueId kStore{isa::Engine::tdma, 1};
constexpr isa::QueueId kLoad{isa::Engine::tdma, 2};  ///< activations in
constexpr isa::QueueId kTensor{isa::Engine::ttu, 0};
constexpr isa::QueueId kVector{isa::Engine::tvp, 0};
constexpr isa::QueueId kCluster{isa::Engine::cdma, 0};
constexpr isa::QueueId kPanel{isa::Engine::cdma, 1};  ///< weights to CSRAM
}  // namespace queue

/// Where things lie in every tile's TSRAM, after the output region at offset 0.
struct TileMemory {
    Ring stream, activation, in, out;
    Ring probabilities;  ///< attention
    std::int64_t norm_weights = 0;
    std::int64_t head_factor = 0;
    Buffer expert_rows, expert_hidden, expert_results;
    std::int64_t row_maximum = 0, row_sum = 0, row_rescale = 0;
    // interleaved attention alone
    Ring values;  ///< V; K is in `stream`
    std::int64_t row_shift = 0;
    std::int64_t score_slots = 2;  ///< of the output region
};

/// Vector programs of the whole Program, each once.
class VectorPrograms {
public:
    explicit VectorPrograms(isa::ScaleRounding rounding) : rounding_(rounding) {}
    /// Returns its name.
    std::string add(isa::VectorProgram program);
    [[nodiscard]] std::vector<isa::VectorProgram> finish() { return std::move(programs_); }

private:
    isa::ScaleRounding rounding_;  ///< of every block scale
    std::vector<isa::VectorProgram> programs_;
};

/// One group's pair of programs.
struct Emitter {
    Emitter(const isa::ChipSpec& chip, const Grouping& grouping, std::int64_t group, const TileMemory& memory,
            VectorPrograms& vectors);

    const isa::ChipSpec& chip;
    Grouping grouping;
    std::int64_t group;
    TileMemory memory;
    VectorPrograms& vectors;
    ControlBuilder tile;
    ControlBuilder cluster;
    Schedule schedule = Schedule::fused;
    std::int64_t launches = 0;  ///< of operators, in a run: see launch_operator

    [[nodiscard]] bool eager() const { return schedule == Schedule::eager; }

    [[nodiscard]] std::int64_t first_cluster() const { return group * grouping.clusters_per_group; }
    [[nodiscard]] std::int64_t first_tile() const { return group * grouping.tiles_per_group(); }
    [[nodiscard]] std::int64_t all_clusters() const { return grouping.groups * grouping.clusters_per_group; }
    [[nodiscard]] isa::MemRef tsram(const isa::Affine& offset) const;
    [[nodiscard]] isa::MemRef own_csram(const isa::Affine& offset) const;
    /// The same offset in every cluster of the group.
    [[nodiscard]] isa::MemRef group_csram(const isa::Affine& offset) const;
    [[nodiscard]] isa::MemRef all_csram(const isa::Affine& offset) const;
    [[nodiscard]] isa::SemRef group_sem(int index) const;
    [[nodiscard]] isa::SemRef all_sem(int index) const;
    void set_node(const isa::Affine& tile_node, const isa::Affine& cluster_node);

    /// body(units of this tile, first unit) for the two kinds of tiles of a split; position = index among the tiles.
    /// Those that take one unit more are `wide_from` and the next ones, round the end; theirs are the first units.
    void for_split(const Split& split, const isa::Affine& position, std::int64_t wide_from,
                   const std::function<void(std::int64_t, const isa::Affine&)>& body);
    void advance(ControlBuilder& builder, int cursor);
    /// The cluster waits until `count` signals of `sem` have come and tells each of its tiles `tile_go`.
    void release_tiles(int sem, const isa::Affine& count, int tile_go, const std::string& label);
};

/// DMA of `blocks` consecutive blocks of one block row, `rows` valid rows of 32, times `row_blocks` block rows: one
/// macro if whole blocks are contiguous, else element rows and scales apart. Strides in bytes between block rows.
struct BlockRows {
    isa::MemRef src, dst;
    isa::Format format = isa::Format::bf16;
    std::int64_t blocks = 1;
    std::int64_t row_blocks = 1;
    std::int64_t src_row_stride = 0, dst_row_stride = 0;
    std::int64_t rows = 32;  ///< rows moved of each block: all 32, or `rows` from `first_row` (row_blocks == 1)
    isa::Affine src_first_row = 0, dst_first_row = 0;
    std::int64_t src_rows = 32, dst_rows = 32;  ///< rows that a block holds on each side: fewer in packed staging
};
/// Bytes of a block that holds `rows` rows of 32 elements and their scales.
[[nodiscard]] std::int64_t packed_block_bytes(isa::Format format, std::int64_t rows);
[[nodiscard]] std::vector<isa::DmaMacro> copy_block_rows(const BlockRows& copy);

/// Issues several macros as one: waits before the first, signals after the last.
void issue_all(ControlBuilder& builder, isa::QueueId queue, const std::vector<isa::SemUse>& waits,
               const std::vector<isa::DmaMacro>& macros, const std::vector<isa::SemUse>& signals,
               const std::string& label);

}  // namespace sluice::kernels
