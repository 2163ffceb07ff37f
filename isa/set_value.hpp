// SPDX-License-Identifier: Apache-2.0
#pragma once
// The value of an override: "4MiB", "2.15GHz", "all_bank".
#include <nlohmann/json.hpp>
#include <string>

#include "isa/chip_spec_reader.hpp"

namespace sluice::isa {

/// A number with one of the units that suit the field, or none; a text is taken as it is. Throws InputError at `where`
/// unless the number is a whole one in the field's own unit.
[[nodiscard]] nlohmann::json parse_set_value(const FieldDescription& field, const std::string& text,
                                             const std::string& where);

}  // namespace sluice::isa
