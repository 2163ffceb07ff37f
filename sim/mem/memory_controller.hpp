// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a stack needs of the controller of a pseudo-channel, so that another policy or another level of detail can take
// the place of `PseudoChannel`. A controller answers every packet once, through DataPort::read_done or write_done,
// ahead of the cycle in which it is done.
#include "sim/core/stats.hpp"
#include "sim/core/transfer.hpp"

namespace sluice::sim {

struct MemoryCounts {
    std::uint64_t packets = 0, row_hits = 0, activates = 0;
    std::uint64_t refreshes = 0;  ///< of bank sets (per_bank) or of the whole channel (all_bank)
    std::uint64_t read_beats = 0, written_beats = 0;
};

class MemoryController {
public:
    virtual ~MemoryController() = default;
    /// A packet arrives now. Its place is src_place of a read, dst_place of a write.
    virtual void push(PacketId packet, bool write) = 0;
    /// Catches up with what was due before the end of the run.
    virtual void finish(Cycle end) = 0;
    [[nodiscard]] virtual MemoryCounts counts() const = 0;
    virtual void report(StatSheet& sheet) const = 0;
};

}  // namespace sluice::sim
