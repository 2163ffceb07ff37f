// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of one control program: every statement once, with the bounds of its place.
#include "isa/verify_checker.hpp"

namespace sluice::isa {

/// Its processors must exist.
void verify_control_program(Verification& all, const ControlProgram& control);

}  // namespace sluice::isa
