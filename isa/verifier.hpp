// SPDX-License-Identifier: Apache-2.0
#pragma once
// The static verifier: what can be known wrong about a program before it runs on a chip. isa/README.md says what that
// is.
//
// verify_declarations, verify_vector, verify_control and verify_macros look at the parts of a program; verify_checker
// is what they share, on bounds over all iterations (bounds) and the search for the first violation (verify_search).
// verify_regions knows where data may lie, verify_balance sums up semaphores.
#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::isa {

/// Throws InputError with the control program, the instruction's label, what is allowed, and the first values of
/// indices and ids for which it happens. Lists up to ten violations.
void verify(const Program& program, const ChipSpec& chip);

}  // namespace sluice::isa
