// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of what a program declares beside its control programs: regions, first values of semaphores, index tables,
// vector programs, and which processors run something.
#include "isa/verify_checker.hpp"

namespace sluice::isa {

void verify_regions(Verification& all);
void verify_first_values(Verification& all);
void verify_tables(Verification& all);
/// Each value is defined before it is used, and lives long enough. Fills `vector_operands`.
void verify_vector_programs(Verification& all);
/// Each processor has at most one control program.
void verify_processors(Verification& all);

/// These processors are on the chip.
[[nodiscard]] bool exist(const ChipLimits& limits, const ControlProgram& control);

}  // namespace sluice::isa
