// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text form of programs, `.disa`. Reading back what was written gives an equal Program, and writing that gives
// the same text. isa/README.md is the reference of the syntax.
#include <string>
#include <string_view>

#include "isa/program.hpp"

namespace sluice::isa {

[[nodiscard]] std::string write_text(const Program& program);

/// Throws InputError "source:line:column: expected ..., found ..." with the line and a caret under the place.
[[nodiscard]] Program read_text(std::string_view text, const std::string& source);

}  // namespace sluice::isa
