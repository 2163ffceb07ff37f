// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small programs for the toy chip, as text, and what a run of one leaves.
#include <fmt/format.h>

#include <string>

#include "isa/chip_spec_reader.hpp"
#include "isa/execute/machine.hpp"
#include "isa/execute/race_check.hpp"
#include "isa/text.hpp"

namespace sluice::test {

inline const isa::ChipSpec& toy() {
    static const isa::ChipSpec chip = isa::read_chip("toy", {}, std::string(SLUICE_SOURCE_DIR) + "/configs").spec;
    return chip;
}

/// The program of these declarations and control programs. Not verified: it may leave its semaphores changed.
inline isa::Program unverified(const std::string& declarations) {
    const std::string head = "disa 1\nprogram \"p\" chip \"toy\"\nnode 0 \"n\" count 1 stride 1 layer 0\n";
    return isa::read_text(head + declarations, "test");
}

/// A control program of tile `unit`.
inline std::string tile(const std::string& body, int unit = 0) {
    return fmt::format("control \"tile {0}\" tile count 1 from {0} {{\n{1}}}\n", unit, body);
}

inline std::string issue(const std::string& queue, const std::string& label, const std::string& content) {
    return fmt::format("issue {} \"{}\" node 0 {{ {} }}\n", queue, label, content);
}

}  // namespace sluice::test
