// SPDX-License-Identifier: Apache-2.0
#pragma once
// The frame around every compiled program: initial semaphore values, how a run ends, and what a chip must have.
#include <functional>
#include <vector>

#include "kernels/emitter.hpp"

namespace sluice::kernels {

/// The border between two operators of an eager schedule; nothing in a fused one. No control program passes it before
/// every queue of every tile and cluster of the chip has ended all that it was given, and the chip has then taken
/// `schedule.eager_launch_cycles`. Every group must come to it equally often. What it issues counts for the node
/// before.
void launch_operator(Emitter& emit);
/// Last statements of a group: every tile reports that its stores are done, every cluster passes it on to the chip.
void emit_end(Emitter& emit);
/// The chip's control processor launches so many operators, each when all clusters have reported the end of the one
/// before; then it waits until all have reported the end of the run.
[[nodiscard]] isa::ControlProgram chip_program(const isa::ChipSpec& chip, std::int64_t launches);
[[nodiscard]] std::vector<isa::SemInit> initial_semaphores(const isa::ChipSpec& chip, const TileMemory& memory);
/// Writes all control programs, the vector programs that they use and the semaphores' first values: `body` emits the
/// work of one group, emit_end follows it.
void emit_groups(isa::Program& program, const isa::ChipSpec& chip, const Grouping& grouping, const TileMemory& memory,
                 isa::ScaleRounding rounding, Schedule schedule, const std::function<void(Emitter&)>& body);
/// In how many groups the clusters can be divided evenly: the divisors of their number.
[[nodiscard]] std::vector<std::int64_t> group_counts(const isa::ChipSpec& chip);
/// Throws InputError if the chip has fewer semaphores or channels than the emitted programs use.
void check_chip(const isa::ChipSpec& chip);

/// Throws InputError if a count of the finished program does not fit the chip's semaphores.
void check_semaphore_width(const isa::Program& program, const isa::ChipSpec& chip);

}  // namespace sluice::kernels
