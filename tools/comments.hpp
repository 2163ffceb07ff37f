// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program's text laid out anew, with its comments. The reader of the text form skips comments; here they are found
// between the words of the original and put where the same statement stands in the new text.
#include <string>
#include <string_view>

namespace sluice::tools {

/// The canonical text (isa/text.hpp) of the program in `text`, which `source` names in messages. A comment on lines of
/// its own stands before the statement that follows it, or before the bracket that closes its block; one at the end of
/// a statement stays there. The result laid out again is the same. Throws InputError as isa::read_text does.
[[nodiscard]] std::string lay_out(std::string_view text, const std::string& source);

}  // namespace sluice::tools
