// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/trace.hpp"

#include <fmt/format.h>

#include "isa/control_walker.hpp"

namespace sluice::isa {

std::string loop_indices(const Program& program, const ChipSpec& chip, const Place& place, std::uint32_t number) {
    for (const ControlProgram& control : program.controls) {
        if (control.level != place.level || place.unit < control.first || place.unit >= control.first + control.count) {
            continue;
        }
        ControlWalker walker(control, processor_ids(place.level, place.unit, chip.soc.tiles_per_cluster));
        std::uint32_t seen = 0;
        while (const Statement* statement = walker.next()) {
            if (const auto* load = std::get_if<LoadIndex>(&statement->body)) {
                for (const IndexTable& table : program.tables) {
                    if (table.name == load->table) {
                        walker.set_register(load->reg,
                                            index_value(table, load->element.evaluate(walker.environment())));
                    }
                }
            }
            if (!std::holds_alternative<Instruction>(statement->body) || seen++ != number) {
                continue;
            }
            std::string out;
            for (int depth = 0; depth < walker.depth(); ++depth) {
                out += fmt::format("{}i{} = {}", depth == 0 ? " at " : ", ", depth,
                                   walker.environment()[static_cast<std::size_t>(loop_var(depth))]);
            }
            return out;
        }
    }
    return {};
}

}  // namespace sluice::isa
