// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_macros.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <tuple>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr std::int64_t kOperandAlignment = 32;

/// Bytes of `cols` consecutive elements; elements of less than a byte and those that share a scale in whole groups.
Quantity row_length(Format format, const Affine& cols) {
    const FormatInfo& entry = info(format);
    if (entry.block_scaled || entry.element_bits < 8) {
        const std::int64_t group = row_data_bytes(format) + (entry.block_scaled ? 1 : 0);
        return Quantity::shares(cols, kBlockEdge, group);
    }
    return Quantity::shares(cols, 1, entry.element_bits / 8);
}

/// Blocks of C at strides from one another, the last block row of which has fewer rows.
struct ResultBlocks {
    std::int64_t row_stride, column_stride;
    std::int64_t last_bytes;  ///< of a block in the last block row
    std::int64_t capacity;

    /// Whether two of `rows` x `columns` blocks share a byte. More blocks never overlap less. Rows beyond the memory do
    /// not count: that they are there is wrong by itself.
    [[nodiscard]] bool overlap(std::int64_t rows, std::int64_t columns) const {
        if ((rows > 1 && row_stride == 0) || (columns > 1 && column_stride == 0)) {
            return true;
        }
        rows = rows == 1 ? 1 : std::min(rows, capacity / std::abs(row_stride) + 1);
        for (std::int64_t apart = 0; apart < rows; ++apart) {
            if (next_starts_within(apart, rows, columns) || next_starts_within(-apart, rows, columns)) {
                return true;
            }
        }
        return false;
    }

private:
    /// Whether a block starts within another one from which it is `apart` block rows away.
    [[nodiscard]] bool next_starts_within(std::int64_t apart, std::int64_t rows, std::int64_t columns) const {
        const std::int64_t base = apart * row_stride;
        const std::int64_t step = std::max<std::int64_t>(std::abs(column_stride), 1);
        // The fewest columns on from which it does not start before the other one.
        std::int64_t across = base >= 0 ? -(base / step) : ceil_div(-base, step);
        across = std::max(across, 1 - columns);
        if (apart == 0 && across == 0) {
            across = 1;
        }
        const bool first_is_whole = apart > 0 || -apart < rows - 1;
        const std::int64_t distance = base + across * step;
        return across < columns && distance < (first_is_whole ? kAccumulatorBlockBytes : last_bytes);
    }
};

}  // namespace

bool MacroVerifier::on(std::initializer_list<Engine> engines, const char* macro) {
    if (std::find(engines.begin(), engines.end(), queue_.engine) != engines.end()) {
        return true;
    }
    checker_.note(fmt::format("engine {} does not run {} macros", name(queue_.engine), macro));
    return false;
}

/// Of the tile's own TSRAM.
void MacroVerifier::tile_memory(const char* what, const Affine& offset,
                                const std::function<Extent(const Affine&)>& reach) {
    checker_.require_within(what, {Space::tsram, limits_.bytes(Space::tsram), variable(Var::self)}, offset, reach);
}

// ---- DMA ------------------------------------------------------------------------------------------------------------

void MacroVerifier::operator()(const DmaMacro& dma) {
    if (!on({Engine::tdma, Engine::cdma}, "dma")) {
        return;
    }
    if (dma.dims.size() > 2) {
        checker_.note(fmt::format("{} dimensions beside the run, at most 2", dma.dims.size()));
        return;
    }
    bool counts = checker_.require(dma.run_bytes, 1, kAnything, "the run").has_value();
    for (const DmaDim& dim : dma.dims) {
        counts = checker_.require(dim.count, 1, kAnything, "a dimension's count").has_value() && counts;
    }
    if (dma.src_format != dma.dst_format) {
        dma_conversion(dma);
    }
    if (counts) {
        dma_side(dma, true);
        dma_side(dma, false);
    }
    dma_reach(dma);
}

void MacroVerifier::dma_side(const DmaMacro& dma, bool is_src) {
    const char* what = is_src ? "the source" : "the destination";
    const MemRef& ref = is_src ? dma.src : dma.dst;
    const std::uint64_t mask = std::max<std::uint64_t>(ref.mask, 1);
    if (ref.mask != 0 && (is_src || ref.space == Space::hbm)) {
        checker_.note(fmt::format("{} cannot have a mask", what));
    }
    if (!checker_.require_unit(ref.unit, mask, limits_.units(ref.space),
                               is_src ? "the source's unit" : "the destination's unit")) {
        return;
    }
    if (ref.space == Space::tsram) {
        const std::int64_t highest = 63 - std::countl_zero(mask);
        const std::int64_t tiles = limits_.tiles_per_cluster();
        const std::int64_t lowest = std::countr_zero(mask);
        const Condition apart{[=](const Scope& scope) {
                                  const std::optional<Interval> unit = scope.bounds(ref.unit);
                                  return lowest != highest && (!unit || (unit->lowest + lowest) / tiles !=
                                                                            (unit->highest + highest) / tiles);
                              },
                              [=](const Environment& env) {
                                  const std::int64_t unit = ref.unit.evaluate(env);
                                  return (unit + lowest) / tiles != (unit + highest) / tiles;
                              },
                              {ref.unit}};
        checker_.refuse(apart, "a multicast reaches the tiles of one cluster only");
    }
    Quantity run = dma.run_bytes;
    if (!is_src && dma.src_format != dma.dst_format) {
        run = Quantity::shares(dma.run_bytes, std::max(info(dma.src_format).element_bits / 8, 1),
                               std::max(info(dma.dst_format).element_bits / 8, 1));
    }
    checker_.require_within(what, {ref.space, limits_.bytes(ref.space), ref.unit, mask}, ref.offset,
                            [&dma, run, is_src](const Affine& offset) {
                                Extent extent(offset);
                                for (const DmaDim& dim : dma.dims) {
                                    extent.repeat(dim.count, is_src ? dim.src_stride : dim.dst_stride);
                                }
                                extent.end(run);
                                return extent;
                            });
}

void MacroVerifier::dma_conversion(const DmaMacro& dma) {
    const FormatInfo& from = info(dma.src_format);
    const FormatInfo& to = info(dma.dst_format);
    const auto converts = [](const FormatInfo& format) {
        return format.format == Format::e4m3 || format.format == Format::bf16 || format.format == Format::fp32;
    };
    if (!converts(from) || !converts(to)) {
        checker_.note(fmt::format("the DMA converts between e4m3, bf16 and fp32, not {} to {}", from.name, to.name));
        return;
    }
    if (dma.src.space == Space::hbm && dma.dst.space == Space::hbm) {
        checker_.note("a copy within HBM cannot convert");
    }
    const auto whole = [&](const Affine& bytes, const FormatInfo& format, const char* what) {
        if (checker_.position.scope.bounds(bytes)) {
            checker_.refuse(indivisible(bytes, format.element_bits / 8),
                            fmt::format("{} is no whole number of {} elements", what, format.name));
        }
    };
    whole(dma.run_bytes, from, "the run");
    // Else a packet could end within an element.
    whole(dma.src.offset, from, "the source's offset");
    whole(dma.dst.offset, to, "the destination's offset");
    for (const DmaDim& dim : dma.dims) {
        whole(Affine(dim.src_stride), from, "the source's stride");
        whole(Affine(dim.dst_stride), to, "the destination's stride");
    }
}

/// A tile's DMA moves to or from its own TSRAM; a cluster's does not move from TSRAM to TSRAM.
void MacroVerifier::dma_reach(const DmaMacro& dma) {
    const Position& position = checker_.position;
    const auto is_self = [&position](const MemRef& ref) {
        if (ref.space != Space::tsram || ref.mask != 0) {
            return false;
        }
        if (ref.unit == variable(Var::self)) {
            return true;
        }
        const std::optional<Interval> unit = position.scope.bounds(ref.unit);
        const std::optional<Interval> self = position.scope.interval(Var::self);
        return unit && self && *unit == *self && unit->lowest == unit->highest;
    };
    const Level level = position.control->level;
    if (level == Level::tile && !is_self(dma.src) && !is_self(dma.dst)) {
        checker_.note("a tile's DMA must have its own TSRAM (tsram(self)) on one side");
    }
    if (level == Level::cluster && dma.src.space == Space::tsram && dma.dst.space == Space::tsram) {
        checker_.note("a cluster's DMA does not move from TSRAM to TSRAM");
    }
}

// ---- tensor ---------------------------------------------------------------------------------------------------------

void MacroVerifier::operator()(const TensorMacro& macro) {
    if (!on({Engine::ttu}, "tensor")) {
        return;
    }
    tensor_formats(macro);
    const bool m = checker_.require(macro.mb, 1, kAnything, "block rows").has_value();
    const bool last = checker_.require(macro.last_rows, 1, kBlockEdge, "rows of the last block row").has_value();
    const bool n = checker_.require(macro.nb, 1, kAnything, "block columns").has_value();
    const bool k = checker_.require(macro.kb, 1, kAnything, "k blocks").has_value();
    if (!m || !last || !n || !k) {
        return;
    }
    const std::int64_t all = limits_.bytes(Space::tsram);
    tensor_operand({"operand a", macro.a_offset, macro.mb, macro.a_stride_m, macro.kb, macro.a_stride_k,
                    static_cast<std::int64_t>(block_bytes(macro.a_format)), all});
    tensor_operand({"operand b", macro.b_offset, macro.nb, macro.b_stride_n, macro.kb, macro.b_stride_k,
                    static_cast<std::int64_t>(block_bytes(macro.b_format)), all});
    tensor_operand({"result c", macro.c_offset, macro.mb, macro.c_stride_m, macro.nb, macro.c_stride_n,
                    kAccumulatorBlockBytes, limits_.chip().tsram.output_region_bytes});
    tensor_result(macro);
}

/// Nothing orders the writes of one instruction.
void MacroVerifier::tensor_result(const TensorMacro& macro) {
    const auto overlaps = [capacity = limits_.chip().tsram.output_region_bytes, &macro](
                              std::int64_t rows, std::int64_t columns, std::int64_t last_rows) {
        const ResultBlocks blocks{macro.c_stride_m, macro.c_stride_n, last_rows * (kAccumulatorBlockBytes / kBlockEdge),
                                  capacity};
        return blocks.overlap(rows, columns);
    };
    const Condition overlap{
        [=](const Scope& scope) {
            const std::optional<Interval> rows = scope.bounds(macro.mb);
            const std::optional<Interval> columns = scope.bounds(macro.nb);
            const std::optional<Interval> last = scope.bounds(macro.last_rows);
            return !rows || !columns || !last || overlaps(rows->highest, columns->highest, last->highest);
        },
        [=](const Environment& env) {
            return overlaps(macro.mb.evaluate(env), macro.nb.evaluate(env), macro.last_rows.evaluate(env));
        },
        {macro.mb, macro.nb, macro.last_rows}};
    checker_.refuse(overlap, fmt::format("blocks of result c overlap: its strides are {} and {}, a block has {} bytes",
                                         macro.c_stride_m, macro.c_stride_n, kAccumulatorBlockBytes));
}

void MacroVerifier::tensor_formats(const TensorMacro& macro) {
    try {
        (void)tensor_rate(macro.a_format, macro.b_format, "");
    } catch (const InputError& error) {
        checker_.note(error.what());
    }
    if (macro.b_transposed && info(macro.b_format).block_scaled) {
        checker_.note(fmt::format("b cannot be transposed: the scales of {} run along k", name(macro.b_format)));
    }
    if (macro.a_format == Format::fp16 && limits_.chip().ttu.takes_fp16 == 0) {
        checker_.note("the chip's tensor unit does not take fp16 (ttu.takes_fp16)");
    }
}

void MacroVerifier::tensor_operand(const BlockGrid& grid) {
    for (const std::int64_t stride : {grid.row_stride, grid.column_stride}) {
        if (stride % kOperandAlignment != 0) {
            checker_.note(
                fmt::format("{} has a stride of {}, not a multiple of {}", grid.what, stride, kOperandAlignment));
        }
    }
    checker_.require_within(grid.what, {Space::tsram, grid.capacity, variable(Var::self)}, grid.offset,
                            [&grid](const Affine& offset) {
                                Extent extent(offset);
                                extent.repeat(grid.rows, grid.row_stride);
                                extent.repeat(grid.columns, grid.column_stride);
                                extent.end(grid.block_bytes);
                                return extent;
                            });
    if (checker_.position.scope.bounds(grid.offset)) {
        checker_.refuse(indivisible(grid.offset, kOperandAlignment),
                        fmt::format("{} is not aligned to {} bytes", grid.what, kOperandAlignment));
    }
}

// ---- vector ---------------------------------------------------------------------------------------------------------

void MacroVerifier::operator()(const VectorMacro& macro) {
    if (!on({Engine::tvp}, "vector")) {
        return;
    }
    const bool rows = checker_.require(macro.rows, 1, kAnything, "rows").has_value();
    const bool cols = checker_.require(macro.cols, 1, kAnything, "cols").has_value();
    const auto known = checker_.all.vector_operands.find(macro.program);
    if (known == checker_.all.vector_operands.end()) {
        checker_.note(fmt::format("no vector program \"{}\"", macro.program));
        return;
    }
    if (static_cast<std::int64_t>(macro.operands.size()) < known->second) {
        checker_.note(fmt::format("vector program \"{}\" uses {} operands, {} are given", macro.program, known->second,
                                  macro.operands.size()));
    }
    if (!rows || !cols) {
        return;
    }
    (void)checker_.require(macro.mask_limit, -kAnything, kAnything, "the mask's limit");
    std::set<std::tuple<int, Format, VectorOp, bool>> checked;
    for (const VectorPass& pass : find_vector_program(checker_.all.program, macro.program).passes) {
        for (const VectorStep& step : pass.steps) {
            const bool given = step.operand >= 0 && step.operand < static_cast<std::int64_t>(macro.operands.size());
            // What is stored lies where the same load would find it.
            const VectorOp op = step.op == VectorOp::store       ? VectorOp::load
                                : step.op == VectorOp::store_row ? VectorOp::load_row
                                                                 : step.op;
            if (given && checked.insert({step.operand, step.format, op, pass.per_row}).second) {
                vector_operand(macro, step, pass.per_row);
            }
        }
    }
}

/// An operand as its loads and stores use it: one value a row or a column, rows, or blocks, which may hold fewer than
/// 32 rows. Elements of less than a byte and groups that share a scale are worked on whole.
void MacroVerifier::vector_operand(const VectorMacro& macro, const VectorStep& step, bool per_row) {
    const VectorOperand& operand = macro.operands[static_cast<std::size_t>(step.operand)];
    const FormatInfo& format = info(step.format);
    const std::string what = fmt::format("operand {}", step.operand);
    if (format.block_scaled || format.element_bits < 8) {
        checker_.refuse(indivisible(macro.cols, kBlockEdge),
                        fmt::format("cols must be a multiple of {} for {}", kBlockEdge, format.name));
    }
    if (format.block_scaled && operand.block_stride == 0) {
        checker_.note(fmt::format("{} must be in blocks: {} has block scales", what, format.name));
    }
    const bool one_row = step.op == VectorOp::load_col;
    const bool one_column = per_row || step.op == VectorOp::load_row || step.op == VectorOp::store_row;
    const Affine rows = one_row ? Affine(1) : macro.rows;
    const Affine cols = one_column ? Affine(1) : macro.cols;
    const auto held = [&]() -> Quantity {
        const std::int64_t group = row_data_bytes(format.format);
        if (format.block_scaled) {
            return operand.block_rows * (group + 1);
        }
        // The last row's bytes end right after it, and may be less than a group.
        const std::optional<Interval> most = checker_.position.scope.bounds(rows);
        Quantity bytes = most && most->highest <= operand.block_rows ? Quantity::shares(rows, 1, group)
                                                                     : Quantity(operand.block_rows * group);
        if (cols.is_constant() && cols.base < kBlockEdge) {
            bytes.add(cols.base * format.element_bits / 8 - group);
        }
        return bytes;
    };
    tile_memory(what.c_str(), operand.offset, [&](const Affine& offset) {
        Extent extent(offset);
        if (operand.block_stride == 0) {
            extent.repeat(rows, operand.row_stride);
            extent.end(row_length(step.format, cols));
        } else {
            extent.repeat(rows, operand.row_stride, operand.block_rows);
            extent.repeat(cols, operand.block_stride, kBlockEdge);
            extent.end(held());
        }
        return extent;
    });
}

// ---- reshape --------------------------------------------------------------------------------------------------------

void MacroVerifier::operator()(const ReshapeMacro& macro) {
    if (!on({Engine::reshaper}, "reshape")) {
        return;
    }
    const bool rows = checker_.require(macro.rows, 1, kAnything, "rows").has_value();
    const bool cols = checker_.require(macro.cols, 1, kAnything, "cols").has_value();
    if (!rows || !cols) {
        return;
    }
    const bool transposes = macro.kind == ReshapeKind::transpose_blocks;
    const auto converts = [](const FormatInfo& format) {
        return !format.block_scaled && format.element_bits >= 8 && format.format != Format::raw;
    };
    const FormatInfo& from = info(macro.src_format);
    const FormatInfo& to = info(macro.dst_format);
    if (from.format != to.format && !(converts(from) && converts(to))) {
        checker_.note(fmt::format("the reshaper does not convert {} to {}", from.name, to.name));
    }
    for (const FormatInfo* format : {&from, &to}) {
        if (format->block_scaled) {
            checker_.note(
                fmt::format("the reshaper does not take {}: rows have no place for block scales", format->name));
            break;
        }
    }
    if (from.element_bits < 8 && !from.block_scaled) {
        const auto whole = [&](const Affine& size, const char* what) {
            checker_.refuse(indivisible(size, kBlockEdge),
                            fmt::format("{} must be a multiple of {} for {}", what, kBlockEdge, from.name));
        };
        whole(macro.cols, "cols");
        if (transposes) {
            whole(macro.rows, "rows");
        }
    }
    const auto side = [&](const char* what, const Affine& at, std::int64_t stride, Format format, const Affine& height,
                          const Affine& width, bool blocked) {
        tile_memory(what, at, [&](const Affine& offset) {
            Extent extent(offset);
            extent.repeat(height, stride, blocked ? kBlockEdge : 1);
            extent.end(blocked ? Quantity::shares(width, kBlockEdge, static_cast<std::int64_t>(block_bytes(format)))
                               : row_length(format, width));
            return extent;
        });
    };
    side("the source", macro.src_offset, macro.src_stride, macro.src_format, macro.rows, macro.cols,
         macro.kind != ReshapeKind::pack_blocks);
    side("the destination", macro.dst_offset, macro.dst_stride, macro.dst_format, transposes ? macro.cols : macro.rows,
         transposes ? macro.rows : macro.cols, macro.kind != ReshapeKind::unpack_blocks);
}

}  // namespace sluice::isa
