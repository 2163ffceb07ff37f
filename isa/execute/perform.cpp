// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/perform.hpp"

#include "isa/errors.hpp"
#include "isa/execute/vector_unit.hpp"
#include "isa/number/block.hpp"

namespace sluice::isa {

namespace {

/// Calls body(offset) for the start of every run.
template <class Body>
void for_runs(std::int64_t offset, const std::array<std::int64_t, 2>& counts,
              const std::array<std::int64_t, 2>& strides, const Body& body) {
    for (std::int64_t outer = 0; outer < counts[1]; ++outer) {
        for (std::int64_t inner = 0; inner < counts[0]; ++inner) {
            body(static_cast<std::uint64_t>(offset + outer * strides[1] + inner * strides[0]));
        }
    }
}

std::vector<std::byte> convert(const std::vector<std::byte>& data, Format from, Format to) {
    const auto from_bytes = static_cast<std::size_t>(info(from).element_bits / 8);
    const auto to_bytes = static_cast<std::size_t>(info(to).element_bits / 8);
    const std::size_t count = data.size() / from_bytes;
    std::vector<std::byte> out(count * to_bytes);
    for (std::size_t i = 0; i < count; ++i) {
        const std::span<const std::byte> element(&data[i * from_bytes], from_bytes);
        const std::span<std::byte> result(&out[i * to_bytes], to_bytes);
        put_code(result, 0, info(to).element_bits,
                 encode(info(to).element, decode(info(from).element, get_code(element, 0, info(from).element_bits))));
    }
    return out;
}

/// One block row of C, kept while its products are added.
class TensorRow {
public:
    TensorRow(const TensorMacro& macro, const TensorOperation& tensor, SparseMemory& memory)
        : macro_(macro), tensor_(tensor), memory_(memory), a_(static_cast<std::size_t>(tensor.kb)) {}

    void run(std::int64_t m) {
        const std::int64_t rows = tensor_.rows_of(m);
        for (std::int64_t k = 0; k < tensor_.kb; ++k) {
            load(macro_.a_format, tensor_.a + m * macro_.a_stride_m + k * macro_.a_stride_k, false,
                 a_[static_cast<std::size_t>(k)]);
        }
        for (std::int64_t n = 0; n < tensor_.nb; ++n) {
            block(rows, n, tensor_.c + m * macro_.c_stride_m + n * macro_.c_stride_n);
        }
    }

private:
    void load(Format format, std::int64_t offset, bool transposed, OperandBlock& out) {
        std::array<std::byte, kBlockEdge * kBlockEdge * 2> bytes;
        const std::span<std::byte> used(bytes.data(), static_cast<std::size_t>(block_bytes(format)));
        memory_.read(static_cast<std::uint64_t>(offset), used);
        load_operand(format, used, transposed, out);
    }
    void block(std::int64_t rows, std::int64_t n, std::int64_t at) {
        std::array<float, kBlockEdge * kBlockEdge> sums{};
        const std::span<std::byte> bytes =
            std::as_writable_bytes(std::span(sums)).first(static_cast<std::size_t>(rows * kBlockEdge * 4));
        if (macro_.accumulate) {
            memory_.read(static_cast<std::uint64_t>(at), bytes);
        }
        for (std::int64_t k = 0; k < tensor_.kb; ++k) {
            load(macro_.b_format, tensor_.b + n * macro_.b_stride_n + k * macro_.b_stride_k, macro_.b_transposed, b_);
            multiply_blocks(macro_.a_format, a_[static_cast<std::size_t>(k)], macro_.b_format, b_, rows, sums);
        }
        memory_.write(static_cast<std::uint64_t>(at), bytes);
    }

    const TensorMacro& macro_;
    const TensorOperation& tensor_;
    SparseMemory& memory_;
    std::vector<OperandBlock> a_;
    OperandBlock b_;
};

void reshape(const ReshapeMacro& macro, const ReshapeOperation& operation, SparseMemory& memory) {
    const bool transposes = macro.kind == ReshapeKind::transpose_blocks;
    const auto block_stride = [](bool blocked, Format format) {
        return blocked ? static_cast<std::int64_t>(block_bytes(format)) : 0;
    };
    const VectorOperand from{operation.src, macro.src_stride,
                             block_stride(macro.kind != ReshapeKind::pack_blocks, macro.src_format)};
    const VectorOperand to{operation.dst, macro.dst_stride,
                           block_stride(macro.kind != ReshapeKind::unpack_blocks, macro.dst_format)};
    ElementAccess source(from, operation.src, macro.src_format, memory);
    ElementAccess target(to, operation.dst, macro.dst_format, memory);
    const auto from_code = [&](std::uint32_t code) {
        return macro.src_format == macro.dst_format
                   ? code
                   : encode(info(macro.dst_format).element, decode(info(macro.src_format).element, code));
    };
    for (std::int64_t i = 0; i < operation.rows; ++i) {
        for (std::int64_t j = 0; j < operation.cols; ++j) {
            target.put(transposes ? j : i, transposes ? i : j, from_code(source.get(i, j)));
        }
    }
}

}  // namespace

Memories::Memories(const ChipSpec& chip) {
    for (const Space space : {Space::hbm, Space::csram, Space::tsram}) {
        for (std::int64_t unit = 0; unit < memory_units(chip, space); ++unit) {
            spaces_.at(static_cast<std::size_t>(space)).emplace_back(memory_bytes(chip, space));
        }
    }
}

SparseMemory& Memories::at(Space space, std::int64_t unit) {
    return spaces_.at(static_cast<std::size_t>(space)).at(static_cast<std::size_t>(unit));
}

const SparseMemory& Memories::at(Space space, std::int64_t unit) const {
    return spaces_.at(static_cast<std::size_t>(space)).at(static_cast<std::size_t>(unit));
}

std::optional<UnwrittenRead> find_unwritten(const std::vector<Access>& accesses, const Memories& memories) {
    for (const Access& access : accesses) {
        if (access.write) {
            continue;
        }
        const SparseMemory& memory = memories.at(access.space, access.unit);
        std::optional<std::uint64_t> found;
        for_runs(access.offset, access.counts, access.strides, [&](std::uint64_t at) {
            if (!found) {
                found = memory.first_unwritten(at, static_cast<Bytes>(access.run));
            }
        });
        if (found) {
            return UnwrittenRead{access, *found};
        }
    }
    return std::nullopt;
}

std::vector<std::byte> read_dma(const DmaOperation& dma, const Memories& memories) {
    const SparseMemory& memory = memories.at(dma.src_space, dma.src_unit);
    const auto run = static_cast<std::size_t>(dma.src_run);
    std::vector<std::byte> data(run * static_cast<std::size_t>(dma.counts[0] * dma.counts[1]));
    std::size_t done = 0;
    for_runs(dma.src_offset, dma.counts, dma.src_strides, [&](std::uint64_t at) {
        memory.read(at, std::span(data).subspan(done, run));
        done += run;
    });
    return dma.src_format == dma.dst_format ? data : convert(data, dma.src_format, dma.dst_format);
}

void write_dma(const DmaOperation& dma, const std::vector<std::byte>& data, Memories& memories) {
    const auto run = static_cast<std::size_t>(dma.dst_run);
    for (const std::int64_t unit : dma.dst_units) {
        SparseMemory& memory = memories.at(dma.dst_space, unit);
        std::size_t done = 0;
        for_runs(dma.dst_offset, dma.counts, dma.dst_strides, [&](std::uint64_t at) {
            memory.write(at, std::span(data).subspan(done, run));
            done += run;
        });
    }
}

void perform(const Operation& operation, std::int64_t part, Memories& memories) {
    const Macro& macro = operation.text->macro;
    if (std::holds_alternative<FenceOperation>(operation.body)) {
        return;
    }
    SLUICE_CHECK(operation.place.level == Level::tile && !std::holds_alternative<DmaOperation>(operation.body),
                 "a tile's engine performs tensor, vector and reshape operations");
    SparseMemory& memory = memories.at(Space::tsram, operation.place.unit);
    if (const auto* tensor = std::get_if<TensorOperation>(&operation.body)) {
        TensorRow row(std::get<TensorMacro>(macro), *tensor, memory);
        const bool whole = operation.parts() == 1;
        for (std::int64_t m = whole ? 0 : part; m < (whole ? tensor->mb : part + 1); ++m) {
            row.run(m);
        }
    } else if (const auto* vector = std::get_if<VectorOperation>(&operation.body)) {
        run_vector(std::get<VectorMacro>(macro), *vector, memory);
    } else {
        reshape(std::get<ReshapeMacro>(macro), std::get<ReshapeOperation>(operation.body), memory);
    }
}

}  // namespace sluice::isa
