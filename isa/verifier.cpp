// SPDX-License-Identifier: Apache-2.0
#include "isa/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/verify_balance.hpp"
#include "isa/verify_control.hpp"
#include "isa/verify_declarations.hpp"

namespace sluice::isa {

namespace {

void verify_signals(Verification& all) {
    for (const auto& [sem, place] : all.waited) {
        if (!all.signalled.contains(sem)) {
            all.problems.at(place);
            all.problems.note(
                fmt::format("waits on a {} semaphore {} that nothing signals", name(sem.first), sem.second));
        }
    }
}

}  // namespace

void verify(const Program& program, const ChipSpec& chip) {
    Verification all(program, chip);
    all.problems.at("program " + program.name);
    if (program.chip != chip.name) {
        all.problems.note(fmt::format("was written for chip \"{}\", this is \"{}\"", program.chip, chip.name));
    }
    all.most_node = std::max<std::int64_t>(0, static_cast<std::int64_t>(node_names(program).size()) - 1);
    verify_regions(all);
    verify_first_values(all);
    verify_tables(all);
    verify_vector_programs(all);
    verify_processors(all);
    for (const ControlProgram& control : program.controls) {
        if (exist(all.limits, control)) {
            verify_control_program(all, control);
        }
    }
    verify_signals(all);
    if (all.problems.empty()) {
        verify_balance(all);  // sums make sense of what is right otherwise
    }
    all.problems.report();
}

}  // namespace sluice::isa
