// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a single instruction may not do to itself: write a byte twice, or write one that it reads elsewhere. Engines
// take their bytes packet by packet and row by row, in an order that DISA does not define, so the result would be
// undefined. Reading and writing the very same pieces (a vector program in place, a product that accumulates) is fine.
#include <optional>
#include <string>
#include <vector>

#include "isa/execute/operation.hpp"

namespace sluice::isa {

/// "writes bytes 64..95 of tsram(0) twice"; nothing if the accesses of one instruction get on with one another.
[[nodiscard]] std::optional<std::string> self_conflict(const std::vector<Access>& accesses);

}  // namespace sluice::isa
