// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `sluice run` prints for people; tools/README.md says what every figure means.
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tools {

struct Outcome;

/// At most 40 lines of at most 120 columns.
[[nodiscard]] std::string run_table(const Outcome& outcome);

/// Cells in aligned columns, two blanks apart; column 0 and those in `left` flush left, the others right.
[[nodiscard]] std::string aligned(const std::vector<std::vector<std::string>>& rows,
                                  const std::vector<std::size_t>& left = {});

/// "1,234,567"
[[nodiscard]] std::string grouped(std::uint64_t number);

/// Three or four digits and a prefix: scaled(1.2e-5, "s") is "12.0 us", scaled(7e12, "B/s") "7.00 TB/s".
[[nodiscard]] std::string scaled(double value, const std::string& unit);

}  // namespace sluice::tools
