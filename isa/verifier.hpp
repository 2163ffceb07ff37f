// SPDX-License-Identifier: Apache-2.0
#pragma once
// The static verifier: what can be known wrong about a program before it runs on a chip. Addresses, sizes and semaphore
// ids are bounded over all loop iterations; engines, queues, formats and names are checked; a semaphore that is waited
// on must be signalled somewhere.
#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::isa {

/// Throws InputError with the control program, the instruction's label and what is allowed. Lists up to ten violations.
void verify(const Program& program, const ChipSpec& chip);

}  // namespace sluice::isa
