// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr double kMostBytes = 0x1p32;  ///< touched by one instruction: seconds of host time
constexpr std::array kSemLevels{Level::tile, Level::cluster, Level::chip};

std::string where_of(const Instruction& instruction, const Place& place) {
    return describe(instruction) + " of " + describe(place);
}

}  // namespace

std::string describe(const Instruction& instruction) {
    return fmt::format("{}.{} \"{}\"", name(instruction.queue.engine), instruction.queue.lane, instruction.label);
}

std::string describe(const Place& place) {
    return place.level == Level::chip ? "the chip" : fmt::format("{} {}", name(place.level), place.unit);
}

std::string region_at(const Program& program, Space space, std::int64_t unit, std::uint64_t offset) {
    for (const Region& region : program.regions) {
        if (region.space == space && unit >= region.first_unit && unit < region.first_unit + region.units &&
            offset >= region.offset && offset - region.offset < region.bytes) {
            return fmt::format(" (byte {} of region \"{}\")", offset - region.offset, region.name);
        }
    }
    return {};
}

Bytes memory_bytes(const ChipSpec& chip, Space space) {
    switch (space) {
        case Space::tsram: return static_cast<Bytes>(chip.tsram.bytes);
        case Space::csram: return static_cast<Bytes>(chip.csram.bytes);
        case Space::hbm: break;
    }
    return hbm_bytes(chip);
}

std::int64_t memory_units(const ChipSpec& chip, Space space) {
    switch (space) {
        case Space::tsram: return tile_count(chip);
        case Space::csram: return chip.soc.clusters;
        case Space::hbm: break;
    }
    return 1;
}

// ---- semaphores -----------------------------------------------------------------------------------------------------

SemaphoreNumbers::SemaphoreNumbers(const ChipSpec& chip)
    : units_{tile_count(chip), chip.soc.clusters, 1},
      per_unit_{chip.semaphores.per_tile, chip.semaphores.per_cluster, chip.semaphores.per_chip},
      base_{0, units_[0] * per_unit_[0], units_[0] * per_unit_[0] + units_[1] * per_unit_[1]},
      count_(static_cast<std::size_t>(base_[2] + per_unit_[2])) {}

std::uint32_t SemaphoreNumbers::number(Level level, std::int64_t unit, std::int64_t index,
                                       const std::string& where) const {
    const auto at = static_cast<std::size_t>(level);
    if (unit < 0 || unit >= units_.at(at) || index < 0 || index >= per_unit_.at(at)) {
        throw InputError(where, fmt::format("no semaphore {}({})[{}]: the chip has {} units with {} each", name(level),
                                            unit, index, units_.at(at), per_unit_.at(at)));
    }
    return static_cast<std::uint32_t>(base_.at(at) + unit * per_unit_.at(at) + index);
}

std::string SemaphoreNumbers::describe(std::uint32_t number) const {
    const std::size_t at = number >= base_[2] ? 2 : number >= base_[1] ? 1 : 0;
    const std::int64_t rest = number - base_.at(at);
    return fmt::format("{}({})[{}]", name(kSemLevels.at(at)), rest / per_unit_.at(at), rest % per_unit_.at(at));
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

std::int64_t Operation::parts() const {
    const auto* tensor = std::get_if<TensorOperation>(&body);
    return tensor != nullptr && !tensor->row_signal.empty() ? tensor->mb : 1;
}

Resolver::Resolver(const Program& program, const ChipSpec& chip, const SemaphoreNumbers& semaphores)
    : program_(program), chip_(chip), semaphores_(semaphores) {}

std::vector<SemCount> Resolver::resolve(const SemUse& use, const Environment& environment,
                                        const std::string& where) const {
    const std::int64_t unit = use.sem.unit.evaluate(environment);
    const std::int64_t index = use.sem.index.evaluate(environment);
    const std::int64_t count = use.count.evaluate(environment);
    if (count < 0) {
        throw InputError(where, fmt::format("a semaphore count is {}", count));
    }
    std::vector<SemCount> out;
    for (std::int64_t bit = 0; bit < 64; ++bit) {
        if (use.sem.mask == 0 ? bit == 0 : (use.sem.mask >> bit & 1U) != 0) {
            const std::uint32_t number = semaphores_.number(use.sem.level, unit + bit, index, where);
            if (count > 0) {
                out.push_back({number, count});
            }
        }
    }
    return out;
}

namespace {

/// Waits for one semaphore are one wait for the sum: an instruction takes all its units at once.
void join_same(std::vector<SemCount>& waits) {
    std::vector<SemCount> joined;
    for (const SemCount& wait : waits) {
        const auto same = std::find_if(joined.begin(), joined.end(),
                                       [&wait](const SemCount& other) { return other.semaphore == wait.semaphore; });
        if (same == joined.end()) {
            joined.push_back(wait);
        } else {
            same->count += wait.count;
        }
    }
    waits = std::move(joined);
}

}  // namespace

struct Resolver::Evaluation {
    const Resolver& resolver;
    const Environment& env;
    const std::string& where;

    [[nodiscard]] std::int64_t value(const Affine& affine) const { return affine.evaluate(env); }
    [[nodiscard]] std::int64_t positive(const Affine& affine, const char* what) const {
        const std::int64_t result = value(affine);
        if (result < 1) {
            throw InputError(where, fmt::format("{} is {}, must be at least 1", what, result));
        }
        return result;
    }
    [[nodiscard]] std::int64_t unit(Space space, std::int64_t number) const {
        const std::int64_t units = memory_units(resolver.chip_, space);
        if (number < 0 || number >= units) {
            throw InputError(where, fmt::format("no unit {} of {}: the chip has {}", number, name(space), units));
        }
        return number;
    }
    [[nodiscard]] std::vector<std::int64_t> units(const MemRef& ref) const {
        const std::int64_t first = value(ref.unit);
        std::vector<std::int64_t> out;
        for (std::int64_t bit = 0; bit < 64; ++bit) {
            if (ref.mask == 0 ? bit == 0 : (ref.mask >> bit & 1U) != 0) {
                out.push_back(unit(ref.space, first + bit));
            }
        }
        return out;
    }

    OperationBody operator()(const FenceMacro&) const { return FenceOperation{}; }
    OperationBody operator()(const DmaMacro& macro) const {
        DmaOperation out;
        out.src_space = macro.src.space;
        out.dst_space = macro.dst.space;
        out.src_unit = units(macro.src).front();
        out.dst_units = units(macro.dst);
        out.src_offset = value(macro.src.offset);
        out.dst_offset = value(macro.dst.offset);
        out.src_run = positive(macro.run_bytes, "the run");
        out.dst_run = out.src_run;
        out.src_format = macro.src_format;
        out.dst_format = macro.dst_format;
        if (macro.src_format != macro.dst_format) {
            const std::int64_t from = info(macro.src_format).element_bits / 8;
            const std::int64_t to = info(macro.dst_format).element_bits / 8;
            if (out.src_run % from != 0) {
                throw InputError(where, fmt::format("a run of {} bytes is no whole number of {}", out.src_run,
                                                    name(macro.src_format)));
            }
            out.dst_run = out.src_run / from * to;
        }
        for (std::size_t i = 0; i < macro.dims.size(); ++i) {
            out.counts.at(i) = positive(macro.dims[i].count, "a dimension's count");
            out.src_strides.at(i) = macro.dims[i].src_stride;
            out.dst_strides.at(i) = macro.dims[i].dst_stride;
        }
        return out;
    }
    OperationBody operator()(const TensorMacro& macro) const {
        TensorOperation out;
        out.mb = positive(macro.mb, "mb");
        out.nb = positive(macro.nb, "nb");
        out.kb = positive(macro.kb, "kb");
        out.last_rows = positive(macro.last_rows, "last_rows");
        out.a = value(macro.a_offset);
        out.b = value(macro.b_offset);
        out.c = value(macro.c_offset);
        if (macro.row_signal) {
            out.row_signal = resolver.resolve(*macro.row_signal, env, where);
        }
        return out;
    }
    OperationBody operator()(const VectorMacro& macro) const {
        VectorOperation out;
        out.program = &find_vector_program(resolver.program_, macro.program);
        out.rows = positive(macro.rows, "rows");
        out.cols = positive(macro.cols, "cols");
        for (const VectorOperand& operand : macro.operands) {
            out.offsets.push_back(value(operand.offset));
        }
        out.mask_limit = value(macro.mask_limit);
        check_passes(*out.program);
        return out;
    }
    OperationBody operator()(const ReshapeMacro& macro) const {
        const ReshapeOperation out{positive(macro.rows, "rows"), positive(macro.cols, "cols"), value(macro.src_offset),
                                   value(macro.dst_offset)};
        check_elements(macro, out);
        return out;
    }
    /// A pass of rows touches one value a row, which has no group to share a scale with and is whole bytes.
    void check_passes(const VectorProgram& program) const {
        for (const VectorPass& pass : program.passes) {
            for (const VectorStep& step : pass.steps) {
                const FormatInfo& format = info(step.format);
                if (pass.per_row && step.operand >= 0 && (format.block_scaled || format.element_bits < 8)) {
                    throw InputError(where, fmt::format("a pass of rows takes single values of at least 8 bits, not {}",
                                                        format.name));
                }
            }
        }
    }
    /// Rows without blocks have no place for block scales; less than a byte cannot be written alone.
    void check_elements(const ReshapeMacro& macro, const ReshapeOperation& reshape) const {
        const FormatInfo& format = info(macro.src_format);
        if (format.block_scaled || info(macro.dst_format).block_scaled) {
            throw InputError(where, fmt::format("the reshaper does not take {}: rows have no place for block scales",
                                                format.block_scaled ? format.name : info(macro.dst_format).name));
        }
        const bool whole = reshape.cols % kBlockEdge == 0 &&
                           (macro.kind != ReshapeKind::transpose_blocks || reshape.rows % kBlockEdge == 0);
        if (format.element_bits < 8 && !whole) {
            throw InputError(where, fmt::format("{} x {} elements of {} are no whole blocks", reshape.rows,
                                                reshape.cols, format.name));
        }
    }
};

/// Its bytes exist, and it ends in a reasonable time.
void Resolver::check_bytes(const Operation& operation, const std::string& where) const {
    std::vector<Access> all;
    for (std::int64_t part = 0; part < operation.parts(); ++part) {
        const std::vector<Access> of_part = accesses(operation, part);
        all.insert(all.end(), of_part.begin(), of_part.end());
    }
    for (const Access& access : all) {
        std::int64_t low = access.offset;
        std::int64_t high = access.offset + access.run;
        for (std::size_t i = 0; i < 2; ++i) {
            const std::int64_t reach = (access.counts.at(i) - 1) * access.strides.at(i);
            low += std::min<std::int64_t>(reach, 0);
            high += std::max<std::int64_t>(reach, 0);
        }
        const auto size = static_cast<std::int64_t>(memory_bytes(chip_, access.space));
        if (low < 0 || high > size) {
            throw InputError(where,
                             fmt::format("{} bytes {}..{} of {}, which has {}", access.write ? "writes" : "reads", low,
                                         high - 1, name(access.space), size));
        }
    }
    double bytes = 0;
    for (const Access& access : all) {
        bytes += static_cast<double>(access.run) * static_cast<double>(access.counts[0]) *
                 static_cast<double>(access.counts[1]);
    }
    if (bytes > kMostBytes) {
        throw InputError(where, fmt::format("touches {:.3g} bytes; a run on values takes at most {:.3g} an instruction",
                                            bytes, kMostBytes));
    }
}

Operation Resolver::resolve(const Instruction& instruction, const Environment& environment, Place place) const {
    const std::string where = where_of(instruction, place);
    Operation out;
    out.text = &instruction;
    out.place = place;
    const auto append = [&](const std::vector<SemUse>& uses, std::vector<SemCount>& list) {
        for (const SemUse& use : uses) {
            const std::vector<SemCount> counts = resolve(use, environment, where);
            list.insert(list.end(), counts.begin(), counts.end());
        }
    };
    append(instruction.waits, out.waits);
    join_same(out.waits);
    append(instruction.signals, out.signals);
    out.body = std::visit(Evaluation{*this, environment, where}, instruction.macro);
    check_bytes(out, where);
    return out;
}

}  // namespace sluice::isa
