// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which lines of its TSRAM a macro reads and writes, and when by its own clock: what it asks of the banks. Pure
// functions.
#include <cstdint>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/execute/operation.hpp"
#include "isa/program.hpp"
#include "sim/core/sram_banks.hpp"
#include "sim/engine/timing.hpp"

namespace sluice::sim {

/// Runs of A and B, in the order in which blocks of C need them, from the end of the macro's overhead on; blocks of C
/// leave, and come if they are accumulated, over the time in which they are multiplied: C a pipeline's latency later.
/// Blocks are whole, whatever `last_rows` says.
[[nodiscard]] std::vector<LineStream> tensor_streams(const isa::TensorMacro& macro,
                                                     const isa::TensorOperation& operation, const TensorTiming& timing,
                                                     const isa::TtuSpec& ttu);

/// Loads of a pass over its work, stores as long, a pipeline's latency later.
[[nodiscard]] std::vector<LineStream> vector_streams(const isa::VectorMacro& macro,
                                                     const isa::VectorOperation& operation, const isa::TvpSpec& tvp);

/// The source over the cycles that its elements take, the destination as long, a latency later.
[[nodiscard]] std::vector<LineStream> reshape_streams(const isa::ReshapeMacro& macro,
                                                      const isa::ReshapeOperation& operation, Cycle cycles,
                                                      const isa::ReshaperSpec& reshaper);

}  // namespace sluice::sim
