// SPDX-License-Identifier: Apache-2.0
#pragma once
// Do all waits of a run find their signals, and does every semaphore end as it began? The control statements of every
// processor are walked, without their macros, and what is waited for and signalled is summed up. Iterations that are
// alike are walked once and multiplied. What depends on index tables, and what is left after kMostSteps, is not known;
// of semaphores that it may concern nothing is said.
#include "isa/verify_checker.hpp"

namespace sluice::isa {

/// The program must be right otherwise: every semaphore exists, every expression has bounds.
void verify_balance(Verification& all);

}  // namespace sluice::isa
