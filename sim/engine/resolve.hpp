// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns an instruction into a task: evaluates its expressions in the environment of a control processor, works out the
// time and energy of compute macros, and refuses what does not exist on this chip.
#include "sim/engine/context.hpp"

namespace sluice::sim {

/// `where` names the instruction in messages and must outlive the task.
[[nodiscard]] Task* resolve(const isa::Instruction& instruction, const isa::Environment& env, const Location& location,
                            const std::string& where, EngineContext& context);

[[nodiscard]] SemTake resolve_wait(const isa::SemUse& use, const isa::Environment& env, const std::string& where,
                                   const EngineContext& context);
[[nodiscard]] SemGive resolve_signal(const isa::SemUse& use, const isa::Environment& env, const std::string& where,
                                     const EngineContext& context);

/// Endpoint number of an SRAM or of a DMA engine's own SRAM: tiles, then clusters.
[[nodiscard]] std::uint32_t endpoint_of(const Location& location, const isa::ChipSpec& chip);

}  // namespace sluice::sim
