// SPDX-License-Identifier: Apache-2.0
#pragma once
// What operations do to the memories: the functional semantics of DISA. Bit-exact and without time.
#include <optional>
#include <string>
#include <vector>

#include "isa/execute/operation.hpp"
#include "isa/execute/sparse_memory.hpp"

namespace sluice::isa {

/// All memories of a chip.
class Memories {
public:
    explicit Memories(const ChipSpec& chip);
    [[nodiscard]] SparseMemory& at(Space space, std::int64_t unit);
    [[nodiscard]] const SparseMemory& at(Space space, std::int64_t unit) const;
    [[nodiscard]] SparseMemory& hbm() { return at(Space::hbm, 0); }
    [[nodiscard]] const SparseMemory& hbm() const { return at(Space::hbm, 0); }

private:
    std::array<std::vector<SparseMemory>, 3> spaces_;
};

/// The first byte that an operation reads and nobody wrote.
struct UnwrittenRead {
    Access access;
    std::uint64_t offset = 0;
};
[[nodiscard]] std::optional<UnwrittenRead> find_unwritten(const std::vector<Access>& accesses,
                                                          const Memories& memories);

/// A DMA takes its bytes at one moment and puts them down at a later one.
[[nodiscard]] std::vector<std::byte> read_dma(const DmaOperation& dma, const Memories& memories);
void write_dma(const DmaOperation& dma, const std::vector<std::byte>& data, Memories& memories);

/// Part `part` of a tensor operation (all of it if it has one part), or a vector or reshape operation. Throws
/// InputError where a value does not exist in its format (NaN in a format without one).
void perform(const Operation& operation, std::int64_t part, Memories& memories);

}  // namespace sluice::isa
