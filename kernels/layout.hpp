// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the compiler uses a chip: groups of clusters that share rows, the semaphores of the emitted programs, circular
// buffers, and bump allocation of a memory with a clear error when it does not fit.
//
// Layouts. A matrix is *blocked*: [row block][column block] of 32 x 32 blocks, each contiguous with its scales. Weights
// are stored in the order in which tiles stream them: [tile slice][n chunk][k chunk][n block][k block].
#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::kernels {

/// Semaphores of a tile; the values are indices.
namespace tile_sem {
enum : std::uint8_t {
    b_free,
    b_full,  // stream ring: weights and KV cache
    a_full,  // activation ring, filled by cluster multicast
    acc_done,
    acc_free,  // row groups of the output region
    in_free,
    in_full,  // staging into the TVP
    out_free,
    out_full,  // staging out of the TVP
    go,        // the cluster's word that the next stage's input is complete
    go_kv,     // ... that this step's K and V are in the cache
    norm_full,
    norm_free,  // norm weights
    s_free,
    s_full,
    p_full,
    pv_done,  // attention: scores, probabilities, products
    p_free,   // interleaved attention: slots of probabilities
    v_free,
    v_full,      // ... and its ring of V; K has the stream ring's
    panel_full,  // a piece of this tile's weights has come to CSRAM
    routed,      // the cluster's word that tokens have chosen their experts
    expert_rows_free,
    expert_rows_full,  // experts: their tokens' rows, what is between their products, their results
    expert_hidden_free,
    expert_hidden_full,
    expert_results_free,
    expert_results_full,
    drained,  // eager: a queue has ended what it was given
    launch,   // eager: the cluster's word that the next operator begins
    count
};
}  // namespace tile_sem

/// Semaphores of a cluster.
namespace cluster_sem {
enum : std::uint8_t {
    ready_embedding,
    ready_x,
    ready_norm,
    ready_q,
    ready_kv,
    ready_attention,
    ready_ffn,
    ready_last,
    ready_route,
    ready_experts,
    x_read,
    panel_free,  // the panel in CSRAM has been read for the last time
    done,
    launch,  // eager: the chip's word that the next operator begins
    a_free,  // one for every slot of the activation ring: see activation_slot_free
    count = a_free + 16
};
}  // namespace cluster_sem

constexpr int kChipSemDone = 0;

/// Bytes of a 32 x 32 block, signed as offsets are.
[[nodiscard]] inline std::int64_t block(isa::Format format) {
    return static_cast<std::int64_t>(block_bytes(format));
}

/// Bytes of the biases of 32 columns.
constexpr std::int64_t kBiasBytes = isa::kBlockEdge * 2;

/// Registers of the control programs.
namespace reg {
enum : int {
    stream = 0,
    activation = 1,
    in = 2,
    out = 3,
    step = 4,
    row = 5,
    head = 6,
    token = 7,
    last_row = 8,
    last_row_block = 9,
    last_row_left = 10,
    // Experts: a unit's expert, rows and first pair; a row's place in the chunk and the place of its result.
    expert = 11,
    unit_rows = 12,
    unit_first = 13,
    row_in_block = 14,
    result = 15,
    // Of a bare attention, which is a program of its own.
    sequence = 11,  // of a bare attention's work unit
    chunks = 12,    // ... its whole chunks, and the blocks of its last one
    last_blocks = 13,
    carry = 14
};
}

/// `groups` groups of `clusters_per_group` clusters: a group holds its own rows; its clusters and tiles split columns.
struct Grouping {
    std::int64_t groups = 1;
    std::int64_t clusters_per_group = 1;
    std::int64_t tiles_per_cluster = 1;

    [[nodiscard]] std::int64_t tiles_per_group() const { return clusters_per_group * tiles_per_cluster; }
};

/// A circular buffer of equal slots in a tile's TSRAM; the slot is picked by a register that counts uses.
struct Ring {
    std::int64_t base = 0;
    std::int64_t slot_bytes = 0;
    std::int64_t slots = 0;
    int cursor = 0;  ///< register

    /// An invariant of the plan: what is put into a slot fits it; else it would run into the next buffer.
    void check_fits(std::int64_t bytes, const std::string& what) const;
    /// Byte `within` of slot (cursor + ahead).
    [[nodiscard]] isa::Affine at(std::int64_t within = 0, std::int64_t ahead = 0) const;
};

/// A buffer of one slot, in which an address may move with an index.
struct Buffer {
    std::int64_t base = 0;
    std::int64_t bytes = 0;

    void check_fits(std::int64_t wanted, const std::string& what) const;
};

/// Division of `units` equal units over `tiles` tiles: the first `units % tiles` take one more.
struct Split {
    std::int64_t units = 0;
    std::int64_t tiles = 1;

    [[nodiscard]] std::int64_t most() const { return ceil_div(units, tiles); }
    [[nodiscard]] std::int64_t least() const { return units / tiles; }
    [[nodiscard]] std::int64_t remainder() const { return units % tiles; }
};

/// Hands out pieces of one memory, aligned, and remembers their names.
class Allocator {
public:
    Allocator(isa::Space space, std::int64_t units, Bytes capacity, Bytes base = 0);

    /// Throws InputError if the memory is full: `name`, bytes asked for, bytes left, the capacity.
    std::int64_t take(const std::string& name, std::int64_t bytes, std::int64_t alignment = 64);
    /// What was taken last is written by the host before the run, or read by it afterwards.
    void mark_last(bool input, bool output);
    [[nodiscard]] std::int64_t left() const { return static_cast<std::int64_t>(capacity_ - next_); }
    [[nodiscard]] const std::vector<isa::Region>& regions() const { return regions_; }

private:
    isa::Space space_;
    std::int64_t units_;
    Bytes capacity_;
    Bytes next_;
    std::vector<isa::Region> regions_;
};

[[nodiscard]] isa::SemRef own_tile_sem(int index);
[[nodiscard]] isa::SemRef own_cluster_sem(int index);
/// The same semaphore in clusters [first, first + count).
[[nodiscard]] isa::SemRef cluster_sems(std::int64_t first, std::int64_t count, int index);
/// The same semaphore in all tiles of the issuing cluster.
[[nodiscard]] isa::SemRef tiles_of_cluster_sem(const Grouping& grouping, int index);

/// The cluster's semaphore of the slot at the cursor of an activation ring. One a slot: every tile gives a slot back
/// once between two fills, so a tile that runs ahead cannot pay for one that lags, as it could with one count for all
/// slots.
[[nodiscard]] isa::SemRef activation_slot_free(const Ring& ring);

[[nodiscard]] std::uint64_t low_mask(std::int64_t bits);

}  // namespace sluice::kernels
