// SPDX-License-Identifier: Apache-2.0
#pragma once
// Readers of timing standards (configs/memories) and address maps (configs/address_maps). Strict: an unknown level,
// command, parameter or field is an InputError that names its place.
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "isa/chip_spec.hpp"

namespace sluice::isa {

/// The value of a timing parameter by its name in a constraint ("nrcdrd"); nothing if there is none.
using TimingLookup = std::function<const std::int64_t*(const std::string& parameter)>;

/// The table of a memory file: {"row_bus_half_clocks": {...}, "constraints": [{"level", "from", "to", "gap", ...},
/// ...]}.
[[nodiscard]] DramRules read_dram_rules(const nlohmann::json& file, const std::string& where,
                                        const TimingLookup& timing);

/// Digits without a radix take what is left of their field; the radix "granule" is the columns of one granule.
/// Throws InputError unless the map is one-to-one on the geometry of `hbm`.
[[nodiscard]] AddressMapSpec read_address_map(const std::filesystem::path& file, const HbmSpec& hbm);

/// How many values a field takes.
[[nodiscard]] std::uint64_t field_range(const HbmSpec& hbm, AddressField field);

/// Bank groups that the bursts of a granule visit in turn.
[[nodiscard]] std::uint32_t interleave(const AddressMapSpec& map);

}  // namespace sluice::isa
