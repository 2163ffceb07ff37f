// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_declarations.hpp"

#include <fmt/format.h>

#include <tuple>

namespace sluice::isa {

namespace {

void verify_contents(const RegionTensor& tensor, Bytes bytes, Problems& problems) {
    const FormatInfo& format = info(tensor.format);
    if (format.format == Format::raw || (tensor.row_major && format.block_scaled)) {
        problems.note(fmt::format("cannot hold {}{}", format.name, tensor.row_major ? " row_major" : ""));
    } else if (tensor_bytes(tensor) > bytes) {
        problems.note(fmt::format("holds {} x {} {}, {} bytes, but has {}", tensor.rows, tensor.cols, format.name,
                                  tensor_bytes(tensor), bytes));
    }
}

}  // namespace

void verify_regions(Verification& all) {
    for (const Region& region : all.program.regions) {
        all.problems.at("region " + region.name);
        const std::int64_t units = all.limits.units(region.space);
        if (region.first_unit + region.units > units) {
            all.problems.note(
                fmt::format("lies in units up to {}, the chip has {}", region.first_unit + region.units - 1, units));
        }
        const auto size = static_cast<Bytes>(all.limits.bytes(region.space));
        if (region.offset > size || region.bytes > size - region.offset) {
            all.problems.note(fmt::format("ends at {}, the memory has {} bytes", region.offset + region.bytes, size));
        }
        if (region.space != Space::hbm && (region.input || region.output)) {
            all.problems.note("cannot be input or output: the host sees HBM alone");
        }
        if (region.holds) {
            verify_contents(*region.holds, region.bytes, all.problems);
        }
    }
    all.regions.check_overlaps(all.problems);
}

void verify_first_values(Verification& all) {
    std::set<std::tuple<Level, std::int64_t, std::int64_t>> initialised;
    const std::int64_t most = all.limits.semaphore_value();
    for (const SemInit& init : all.program.semaphores) {
        const SemId& sem = init.sem;
        all.problems.at(fmt::format("init {}({})[{}]", name(sem.level), sem.unit, sem.index));
        if (sem.unit + init.units > all.limits.units(sem.level) || sem.index >= all.limits.semaphores(sem.level)) {
            all.problems.note("no such semaphore on this chip");
        }
        if (init.value > most) {
            all.problems.note(
                fmt::format("value {} does not fit {} bits", init.value, all.limits.chip().semaphores.width_bits));
        }
        all.signalled.insert({sem.level, sem.index});
        for (std::int64_t i = 0; i < init.units; ++i) {
            if (!initialised.insert({sem.level, sem.unit + i, sem.index}).second) {
                all.problems.note(fmt::format("unit {} has an initial value already", sem.unit + i));
                break;
            }
        }
    }
}

void verify_tables(Verification& all) {
    std::set<std::string> names;
    for (const IndexTable& table : all.program.tables) {
        if (!names.insert(table.name).second) {
            all.problems.at("table " + table.name);
            all.problems.note("is defined twice");
        }
    }
}

bool exist(const ChipLimits& limits, const ControlProgram& control) {
    return control.count >= 1 && control.first >= 0 && control.first + control.count <= limits.units(control.level);
}

void verify_processors(Verification& all) {
    std::set<std::pair<Level, std::int64_t>> covered;
    for (const ControlProgram& control : all.program.controls) {
        all.problems.at("control program " + control.name);
        if (!exist(all.limits, control)) {
            all.problems.note(fmt::format("runs on {}s {}..{}, the chip has 0..{}", name(control.level), control.first,
                                          control.first + control.count - 1, all.limits.units(control.level) - 1));
            continue;
        }
        for (std::int64_t i = 0; i < control.count; ++i) {
            if (!covered.insert({control.level, control.first + i}).second) {
                all.problems.note(
                    fmt::format("{} {} has a control program already", name(control.level), control.first + i));
            }
        }
    }
}

}  // namespace sluice::isa
