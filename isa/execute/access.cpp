// SPDX-License-Identifier: Apache-2.0
// Which bytes an operation reads and writes. perform.cpp touches exactly these; a test holds one against the other.
#include <algorithm>

#include "isa/execute/operation.hpp"

namespace sluice::isa {

namespace {

/// Collects the accesses of an engine of a tile to its own TSRAM.
class TsramAccesses {
public:
    explicit TsramAccesses(std::int64_t unit) : unit_(unit) {}

    void add(bool write, std::int64_t offset, std::int64_t run, std::int64_t count = 1, std::int64_t stride = 0,
             std::int64_t outer = 1, std::int64_t outer_stride = 0) {
        if (run > 0 && count > 0 && outer > 0) {
            out_.push_back({Space::tsram, unit_, offset, run, {count, outer}, {stride, outer_stride}, write});
        }
    }
    /// The first `rows` rows of each of `count` x `outer` blocks, with their scales, which stand after `held` rows.
    void add_blocks(bool write, Format format, std::int64_t offset, std::int64_t rows, std::int64_t held,
                    std::int64_t count, std::int64_t stride, std::int64_t outer, std::int64_t outer_stride) {
        const std::int64_t data = row_data_bytes(format);
        if (!info(format).block_scaled) {
            add(write, offset, rows * data, count, stride, outer, outer_stride);
        } else if (rows == held) {
            add(write, offset, rows * (data + 1), count, stride, outer, outer_stride);
        } else {
            add(write, offset, rows * data, count, stride, outer, outer_stride);
            add(write, offset + held * data, rows, count, stride, outer, outer_stride);
        }
    }
    [[nodiscard]] std::vector<Access> take() { return std::move(out_); }

private:
    std::int64_t unit_;
    std::vector<Access> out_;
};

std::vector<Access> dma_accesses(const DmaOperation& dma) {
    std::vector<Access> out;
    out.push_back({dma.src_space, dma.src_unit, dma.src_offset, dma.src_run, dma.counts, dma.src_strides, false});
    for (const std::int64_t unit : dma.dst_units) {
        out.push_back({dma.dst_space, unit, dma.dst_offset, dma.dst_run, dma.counts, dma.dst_strides, true});
    }
    return out;
}

/// Block row `m` of A and C, and all of B.
void tensor_row(TsramAccesses& out, const TensorMacro& macro, const TensorOperation& tensor, std::int64_t m) {
    const std::int64_t rows = tensor.rows_of(m);
    out.add_blocks(false, macro.a_format, tensor.a + m * macro.a_stride_m, rows, kBlockEdge, tensor.kb,
                   macro.a_stride_k, 1, 0);
    const std::int64_t c = tensor.c + m * macro.c_stride_m;
    const std::int64_t c_run = rows * row_data_bytes(Format::fp32);
    if (macro.accumulate) {
        out.add(false, c, c_run, tensor.nb, macro.c_stride_n);
    }
    out.add(true, c, c_run, tensor.nb, macro.c_stride_n);
}

std::vector<Access> tensor_accesses(const TensorMacro& macro, const TensorOperation& tensor, std::int64_t unit,
                                    std::int64_t part, std::int64_t parts) {
    TsramAccesses out(unit);
    const std::int64_t first = parts == 1 ? 0 : part;
    const std::int64_t last = parts == 1 ? tensor.mb : part + 1;
    for (std::int64_t m = first; m < last; ++m) {
        tensor_row(out, macro, tensor, m);
    }
    out.add_blocks(false, macro.b_format, tensor.b, kBlockEdge, kBlockEdge, tensor.kb, macro.b_stride_k, tensor.nb,
                   macro.b_stride_n);
    return out.take();
}

/// rows x cols elements of an operand in blocks.
void blocked(TsramAccesses& out, const VectorOperand& operand, std::int64_t offset, const VectorStep& step,
             std::int64_t rows, std::int64_t cols) {
    const bool write = step.op == VectorOp::store || step.op == VectorOp::store_row;
    const std::int64_t held = operand.block_rows;
    const std::int64_t columns = cols / kBlockEdge;
    const std::int64_t part_columns = cols % kBlockEdge;
    const std::int64_t row_data = row_data_bytes(step.format);
    const std::int64_t element = info(step.format).element_bits / 8;
    const auto block_rows = [&](std::int64_t at, std::int64_t valid, std::int64_t count) {
        out.add_blocks(write, step.format, at, valid, held, columns, operand.block_stride, count, operand.row_stride);
        // A last column of blocks that is not full: row by row (the verifier allows it for whole bytes alone).
        for (std::int64_t i = 0; part_columns > 0 && i < count; ++i) {
            out.add(write, at + i * operand.row_stride + columns * operand.block_stride, part_columns * element, valid,
                    row_data);
        }
    };
    block_rows(offset, held, rows / held);
    if (rows % held != 0) {
        block_rows(offset + rows / held * operand.row_stride, rows % held, 1);
    }
}

void operand_access(TsramAccesses& out, const VectorOperand& operand, std::int64_t offset, const VectorStep& step,
                    std::int64_t rows, std::int64_t cols) {
    const bool write = step.op == VectorOp::store || step.op == VectorOp::store_row;
    if (step.op == VectorOp::load_row || step.op == VectorOp::store_row) {
        cols = 1;
    } else if (step.op == VectorOp::load_col) {
        rows = 1;
    }
    if (operand.block_stride == 0) {
        out.add(write, offset, static_cast<std::int64_t>(row_bytes(step.format, cols)), rows, operand.row_stride);
    } else {
        blocked(out, operand, offset, step, rows, cols);
    }
}

std::vector<Access> vector_accesses(const VectorMacro& macro, const VectorOperation& vector, std::int64_t unit) {
    TsramAccesses out(unit);
    for (const VectorPass& pass : vector.program->passes) {
        for (const VectorStep& step : pass.steps) {
            if (step.operand >= 0) {
                const auto k = static_cast<std::size_t>(static_cast<std::uint8_t>(step.operand));
                operand_access(out, macro.operands.at(k), vector.offsets.at(k), step, vector.rows,
                               pass.per_row ? 1 : vector.cols);
            }
        }
    }
    return out.take();
}

}  // namespace

std::vector<Access> step_accesses(const VectorOperand& operand, std::int64_t offset, const VectorStep& step,
                                  std::int64_t rows, std::int64_t cols, std::int64_t unit) {
    TsramAccesses out(unit);
    operand_access(out, operand, offset, step, rows, cols);
    return out.take();
}

std::vector<Access> reshape_accesses(const ReshapeMacro& macro, const ReshapeOperation& reshape, std::int64_t unit) {
    TsramAccesses out(unit);
    const auto side = [&](bool write, std::int64_t offset, std::int64_t stride, Format format, std::int64_t rows,
                          std::int64_t cols, bool in_blocks) {
        if (!in_blocks) {
            out.add(write, offset, static_cast<std::int64_t>(row_bytes(format, cols)), rows, stride);
            return;
        }
        VectorStep step;
        step.op = write ? VectorOp::store : VectorOp::load;
        step.format = format;
        blocked(out, {0, stride, static_cast<std::int64_t>(block_bytes(format))}, offset, step, rows, cols);
    };
    const bool transposes = macro.kind == ReshapeKind::transpose_blocks;
    side(false, reshape.src, macro.src_stride, macro.src_format, reshape.rows, reshape.cols,
         macro.kind != ReshapeKind::pack_blocks);
    side(true, reshape.dst, macro.dst_stride, macro.dst_format, transposes ? reshape.cols : reshape.rows,
         transposes ? reshape.rows : reshape.cols, macro.kind != ReshapeKind::unpack_blocks);
    return out.take();
}

std::vector<Access> Resolver::accesses(const Operation& operation, std::int64_t part) const {
    if (const auto* dma = std::get_if<DmaOperation>(&operation.body)) {
        return dma_accesses(*dma);
    }
    const Macro& macro = operation.text->macro;
    if (const auto* tensor = std::get_if<TensorOperation>(&operation.body)) {
        return tensor_accesses(std::get<TensorMacro>(macro), *tensor, operation.place.unit, part, operation.parts());
    }
    if (const auto* vector = std::get_if<VectorOperation>(&operation.body)) {
        return vector_accesses(std::get<VectorMacro>(macro), *vector, operation.place.unit);
    }
    if (const auto* reshape = std::get_if<ReshapeOperation>(&operation.body)) {
        return reshape_accesses(std::get<ReshapeMacro>(macro), *reshape, operation.place.unit);
    }
    return {};
}

}  // namespace sluice::isa
