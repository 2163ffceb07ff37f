// SPDX-License-Identifier: Apache-2.0
#pragma once
// Races: two instructions that touch the same byte, one of them writing, with no order between them that holds in every
// interleaving. Byte-exact over HBM and every SRAM.
#include <cstddef>
#include <string>
#include <vector>

#include "isa/execute/trace.hpp"

namespace sluice::isa {

/// Choices of where a wait may be early that are tried before it counts as one that competes (a wait on several
/// semaphores, each with several other waiters, has many; programs have one or two). Beyond them competition may be
/// reported that there is none of, and never the other way round.
constexpr std::size_t kMostOvertakingTries = 1000;

struct RaceReport {
    /// Competing waits first, then semaphores that may overflow, then one for each pair of instructions in the text: of
    /// the first executions that were met, the lowest bytes that both touch.
    std::vector<std::string> races;
    /// Instructions of the text that write a byte twice, or one that they read elsewhere (self_conflict.hpp).
    std::vector<std::string> self_conflicts;
};

/// `trace` of one run of `program`, with its instructions. Waits that can take each other's units are reported too;
/// what is said beside them then holds for interleavings in which they come in the order of this run. With none, the
/// answer is exact: tests/isa/execute/happens_before_test.cpp holds it against every interleaving of small programs.
[[nodiscard]] RaceReport check_races(const Program& program, const ChipSpec& chip, const Trace& trace);

}  // namespace sluice::isa
