// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a chip: configs/chips/<name>.json or a user's file, the files it is based on, and --set overrides. Strict: an
// unknown key, a wrong type, a missing field and a bad value each throw InputError with file, key path, what was found
// and what is allowed.
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/config_file.hpp"

namespace sluice::isa {

struct ResolvedChip {
    ChipSpec spec;
    /// {"ttu.contexts": {"value", "status", "source", "unit", "description"}, ...}: every field.
    nlohmann::json values;
};

/// `name_or_path`: "maia200", "my/chip.json". Each of `sets` is "path=value", later ones win; values may carry a unit
/// that suits the field ("tsram.bytes=4MiB", "clock.core_hz=2.15GHz"); the position may be spelled out
/// ("tile.tsram.bytes", "cluster.csram.bytes", "chip.hbm.stacks").
[[nodiscard]] ResolvedChip read_chip(const std::string& name_or_path, const std::vector<std::string>& sets = {},
                                     const std::filesystem::path& configs = configs_directory());

/// What may be set, in the order of the struct (for `sluice show chip` and documentation).
struct FieldDescription {
    std::string path;
    std::string unit;     ///< "" for a count or a text
    std::string allowed;  ///< "1 to 64", "per_bank, all_bank, none"
    std::string description;
};
[[nodiscard]] std::vector<FieldDescription> chip_fields();

/// What follows from a chip, never written in a file: peak_tflops {fp4, fp6, fp8, bf16}, ridge_flop_per_byte (same
/// keys), tiles, tsram_tbps, sram_bytes {usable, physical}, hbm_bytes, hbm_tbps, hbm_bytes_per_cycle.
[[nodiscard]] nlohmann::json derived(const ChipSpec& chip);

/// Throws InputError if fields do not fit together; read_chip calls it. `origin(path)` names the place that set a
/// field.
void check_chip(const ChipSpec& chip, const std::function<std::string(const std::string&)>& origin);

}  // namespace sluice::isa
