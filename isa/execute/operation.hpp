// SPDX-License-Identifier: Apache-2.0
#pragma once
// An instruction with its expressions evaluated: what it waits for, touches and signals, in plain numbers.
#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::isa {

/// Where a control processor or an engine stands: tile number on the chip, cluster, or 0.
struct Place {
    Level level = Level::chip;
    std::int64_t unit = 0;
    friend bool operator==(const Place&, const Place&) = default;
};

/// Semaphores numbered over the whole chip: all tiles' first, then all clusters', then the chip's.
class SemaphoreNumbers {
public:
    explicit SemaphoreNumbers(const ChipSpec& chip);
    [[nodiscard]] std::size_t count() const { return count_; }
    /// Throws InputError naming `where` if the chip has no such semaphore.
    [[nodiscard]] std::uint32_t number(Level level, std::int64_t unit, std::int64_t index,
                                       const std::string& where) const;
    /// "tile(3)[5]", as the text form names it.
    [[nodiscard]] std::string describe(std::uint32_t number) const;

private:
    std::array<std::int64_t, 3> units_, per_unit_, base_;
    std::size_t count_;
};

struct SemCount {
    std::uint32_t semaphore = 0;
    std::int64_t count = 0;
};

/// Bytes of one memory: runs of `run` bytes, repeated with strides.
struct Access {
    Space space = Space::hbm;
    std::int64_t unit = 0;
    std::int64_t offset = 0;
    std::int64_t run = 0;
    std::array<std::int64_t, 2> counts{1, 1};
    std::array<std::int64_t, 2> strides{0, 0};
    bool write = false;
};

struct DmaOperation {
    Space src_space = Space::hbm, dst_space = Space::hbm;
    std::int64_t src_unit = 0;
    std::vector<std::int64_t> dst_units;
    std::int64_t src_offset = 0, dst_offset = 0;
    std::int64_t src_run = 0, dst_run = 0;
    std::array<std::int64_t, 2> counts{1, 1};  ///< first dimension is the faster one
    std::array<std::int64_t, 2> src_strides{0, 0}, dst_strides{0, 0};
    Format src_format = Format::raw, dst_format = Format::raw;
};
struct TensorOperation {
    std::int64_t mb = 1, nb = 1, kb = 1;
    std::int64_t a = 0, b = 0, c = 0;
    std::vector<SemCount> row_signal;
    std::int64_t last_rows = kBlockEdge;
    [[nodiscard]] std::int64_t rows_of(std::int64_t block_row) const {
        return block_row + 1 == mb ? last_rows : kBlockEdge;
    }
};
struct VectorOperation {
    const VectorProgram* program = nullptr;
    std::int64_t rows = 1, cols = 1;
    std::vector<std::int64_t> offsets;  ///< of the operands
    std::int64_t mask_limit = 0;
};
struct ReshapeOperation {
    std::int64_t rows = 1, cols = 1;
    std::int64_t src = 0, dst = 0;
};
struct FenceOperation {};
using OperationBody = std::variant<FenceOperation, DmaOperation, TensorOperation, VectorOperation, ReshapeOperation>;

struct Operation {
    const Instruction* text = nullptr;
    Place place;
    std::vector<SemCount> waits;  ///< each semaphore once
    std::vector<SemCount> signals;
    OperationBody body;
    /// Steps after which something is visible to others: the block rows of a tensor macro that signals them, else 1.
    [[nodiscard]] std::int64_t parts() const;
};

/// Evaluates an instruction as its processor issues it. Throws InputError naming it: no such unit, semaphore or bytes.
class Resolver {
public:
    Resolver(const Program& program, const ChipSpec& chip, const SemaphoreNumbers& semaphores);
    [[nodiscard]] Operation resolve(const Instruction& instruction, const Environment& environment, Place place) const;
    /// One unit of a wait; all units of a signal's mask. Nothing if the count is 0: nobody could tell.
    [[nodiscard]] std::vector<SemCount> resolve(const SemUse& use, const Environment& environment,
                                                const std::string& where) const;
    /// What part `part` of the operation reads and writes.
    [[nodiscard]] std::vector<Access> accesses(const Operation& operation, std::int64_t part) const;

private:
    struct Evaluation;
    void check_bytes(const Operation& operation, const std::string& where) const;
    const Program& program_;
    const ChipSpec& chip_;
    const SemaphoreNumbers& semaphores_;
};

/// "tdma.0 "load a"", with its processor: `of tile 3`.
[[nodiscard]] std::string describe(const Instruction& instruction);
[[nodiscard]] std::string describe(const Place& place);

/// ` (byte 12 of region "a")`, or nothing if the program declares none there.
[[nodiscard]] std::string region_at(const Program& program, Space space, std::int64_t unit, std::uint64_t offset);

/// What a load or store of a vector program touches of its operand, at `offset`, in a pass over rows x cols elements.
[[nodiscard]] std::vector<Access> step_accesses(const VectorOperand& operand, std::int64_t offset,
                                                const VectorStep& step, std::int64_t rows, std::int64_t cols,
                                                std::int64_t unit);
/// What a reshape reads, then what it writes.
[[nodiscard]] std::vector<Access> reshape_accesses(const ReshapeMacro& macro, const ReshapeOperation& reshape,
                                                   std::int64_t unit);

/// Bytes of a memory of this chip.
[[nodiscard]] Bytes memory_bytes(const ChipSpec& chip, Space space);
/// How many of them there are.
[[nodiscard]] std::int64_t memory_units(const ChipSpec& chip, Space space);

}  // namespace sluice::isa
