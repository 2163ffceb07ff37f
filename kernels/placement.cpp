// SPDX-License-Identifier: Apache-2.0
#include "kernels/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "isa/errors.hpp"
#include "isa/number/block.hpp"

namespace sluice::kernels {

using isa::kBlockEdge;
using models::Matrix;

namespace {

constexpr std::size_t kEdge = 32;

/// Bytes of one block from rows of 32 values.
std::vector<std::byte> pack_block(const isa::FormatInfo& format, isa::ScaleRounding rounding,
                                  const std::array<float, kEdge * kEdge>& values) {
    std::vector<std::byte> out(static_cast<std::size_t>(block_bytes(format.format)));
    const std::size_t row_bytes = static_cast<std::size_t>(isa::row_data_bytes(format.format));
    std::array<std::uint32_t, kEdge> codes{};
    for (std::size_t r = 0; r < kEdge; ++r) {
        const std::span<const float> row(&values[r * kEdge], kEdge);
        std::uint8_t scale = 0;
        if (format.block_scaled) {
            scale = isa::quantise_group(row, format.element, rounding, codes);
            out[kEdge * row_bytes + r] = static_cast<std::byte>(scale);
        }
        isa::encode_row(format.format, row, static_cast<std::byte>(scale),
                        std::span(out).subspan(r * row_bytes, row_bytes));
    }
    return out;
}

void unpack_block(const isa::FormatInfo& format, const std::vector<std::byte>& bytes,
                  std::array<float, kEdge * kEdge>& values) {
    const std::size_t row_bytes = static_cast<std::size_t>(isa::row_data_bytes(format.format));
    for (std::size_t r = 0; r < kEdge; ++r) {
        const std::byte scale = format.block_scaled ? bytes[kEdge * row_bytes + r] : std::byte{0};
        isa::decode_row(format.format, std::span(bytes).subspan(r * row_bytes, row_bytes), scale,
                        std::span(values).subspan(r * kEdge, kEdge));
    }
}

/// Calls body(row, column, index in the block) for the elements of a block that the place has.
template <class Body>
void for_elements(const MatrixPlace& place, std::int64_t cols, std::int64_t r, std::int64_t c, const Body& body) {
    for (std::int64_t i = 0; i < std::min(kBlockEdge, place.rows - r * kBlockEdge); ++i) {
        for (std::int64_t j = 0; j < std::min(kBlockEdge, cols - c * kBlockEdge); ++j) {
            body(place.first_row + r * kBlockEdge + i, c * kBlockEdge + j,
                 static_cast<std::size_t>(i * kBlockEdge + j));
        }
    }
}

template <class Body>
void for_blocks(const MatrixPlace& place, std::int64_t cols, const Body& body) {
    for (std::int64_t r = 0; r < ceil_div(place.rows, kBlockEdge); ++r) {
        for (std::int64_t c = 0; c < ceil_div(cols, kBlockEdge); ++c) {
            body(r, c);
        }
    }
}

void write_pieces(const MatrixPlace& place, const Matrix& matrix, isa::SparseMemory& hbm) {
    const auto row_bytes = static_cast<std::size_t>(isa::row_data_bytes(place.format));
    for (std::int64_t c = 0; c < ceil_div(matrix.cols, kBlockEdge); ++c) {
        std::array<float, kEdge> values{};
        for (std::int64_t j = 0; j < std::min(kBlockEdge, matrix.cols - c * kBlockEdge); ++j) {
            values[static_cast<std::size_t>(j)] = matrix.at(0, c * kBlockEdge + j);
        }
        std::vector<std::byte> bytes(row_bytes);
        isa::encode_row(place.format, values, std::byte{0}, bytes);
        hbm.write(static_cast<std::uint64_t>(place.piece(c)), bytes);
    }
}

void write_matrix(const MatrixPlace& place, const Matrix& matrix, isa::ScaleRounding rounding, isa::SparseMemory& hbm) {
    const isa::FormatInfo& format = isa::info(place.format);
    if (place.piece) {
        write_pieces(place, matrix, hbm);
        return;
    }
    if (!place.block) {
        const auto bytes = static_cast<std::size_t>(ceil_div<std::int64_t>(matrix.cols * format.element_bits, 8));
        std::vector<std::byte> row(bytes);
        for (std::int64_t r = 0; r < place.rows; ++r) {
            isa::encode_row(place.format,
                            std::span(&matrix.values[static_cast<std::size_t>((place.first_row + r) * matrix.cols)],
                                      static_cast<std::size_t>(matrix.cols)),
                            std::byte{0}, row);
            hbm.write(static_cast<std::uint64_t>(place.base) + static_cast<std::uint64_t>(r) * bytes, row);
        }
        return;
    }
    for_blocks(place, matrix.cols, [&](std::int64_t r, std::int64_t c) {
        std::array<float, kEdge * kEdge> values{};
        for_elements(place, matrix.cols, r, c,
                     [&](std::int64_t row, std::int64_t col, std::size_t at) { values[at] = matrix.at(row, col); });
        hbm.write(static_cast<std::uint64_t>(place.block(r, c)), pack_block(format, rounding, values));
    });
}

/// What is given out as a result must have been written.
void require_written(const isa::SparseMemory& hbm, std::uint64_t at, Bytes bytes, const std::string& where,
                     std::int64_t row) {
    if (const auto unwritten = hbm.first_unwritten(at, bytes)) {
        throw InputError(where, fmt::format("is output, and nobody wrote byte {} of hbm(0), in row {} or after it",
                                            *unwritten, row));
    }
}

void read_matrix(const MatrixPlace& place, const isa::SparseMemory& hbm, const std::string& where, Matrix& matrix) {
    const isa::FormatInfo& format = isa::info(place.format);
    if (!place.block) {
        const auto bytes = static_cast<std::size_t>(ceil_div<std::int64_t>(matrix.cols * format.element_bits, 8));
        std::vector<std::byte> row(bytes);
        for (std::int64_t r = 0; r < place.rows; ++r) {
            const std::uint64_t at = static_cast<std::uint64_t>(place.base) + static_cast<std::uint64_t>(r) * bytes;
            require_written(hbm, at, bytes, where, r);
            hbm.read(at, row);
            isa::decode_row(place.format, row, std::byte{0},
                            std::span(matrix.values)
                                .subspan(static_cast<std::size_t>((place.first_row + r) * matrix.cols),
                                         static_cast<std::size_t>(matrix.cols)));
        }
        return;
    }
    for_blocks(place, matrix.cols, [&](std::int64_t r, std::int64_t c) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(block_bytes(place.format)));
        const auto at = static_cast<std::uint64_t>(place.block(r, c));
        const auto row_bytes = static_cast<Bytes>(isa::row_data_bytes(place.format));
        const std::int64_t rows = std::min(kBlockEdge, place.rows - r * kBlockEdge);
        require_written(hbm, at, static_cast<Bytes>(rows) * row_bytes, where, r * kBlockEdge);
        hbm.read(at, bytes);
        std::array<float, kEdge * kEdge> values{};
        unpack_block(format, bytes, values);
        for_elements(place, matrix.cols, r, c,
                     [&](std::int64_t row, std::int64_t col, std::size_t at) { matrix.at(row, col) = values[at]; });
    });
}

const models::Tensor& tensor(const models::Graph& graph, models::TensorIndex index) {
    return graph.tensors.at(static_cast<std::size_t>(index));
}

const Matrix& given(const models::Graph& graph, const models::Values& values, models::TensorIndex index) {
    const models::Tensor& entry = tensor(graph, index);
    const auto found = values.find(index);
    if (found == values.end()) {
        throw InputError(entry.name, "no values are given");
    }
    if (found->second.rows != entry.rows || found->second.cols != entry.cols) {
        throw InputError(entry.name, fmt::format("found {} x {} values, allowed: {} x {}", found->second.rows,
                                                 found->second.cols, entry.rows, entry.cols));
    }
    return found->second;
}

isa::IndexTable& find_table(isa::Program& program, const std::string& name) {
    const auto table = std::find_if(program.tables.begin(), program.tables.end(),
                                    [&name](const isa::IndexTable& entry) { return entry.name == name; });
    SLUICE_CHECK(table != program.tables.end(), "a program has no table " + name);
    return *table;
}

void set_tokens(const Matrix& ids, const std::string& where, isa::Program& program) {
    isa::IndexTable* table = &find_table(program, "token_ids");
    SLUICE_CHECK(table->count == ids.rows, "a decoder has a table of its tokens");
    table->values.clear();
    for (const float id : ids.values) {
        const bool whole = std::floor(id) == id;
        if (!whole || id < static_cast<float>(table->lowest) || id > static_cast<float>(table->highest)) {
            throw InputError(where, fmt::format("found token {}, allowed: whole numbers from {} to {}",
                                                whole ? fmt::format("{:.0f}", id) : fmt::format("{}", id),
                                                table->lowest, table->highest));
        }
        table->values.push_back(static_cast<std::int64_t>(id));
    }
}

}  // namespace

void write_inputs(const Placement& placement, const models::Graph& graph, const models::Values& values,
                  isa::SparseMemory& hbm, isa::Program& program) {
    for (const MatrixPlace& place : placement.inputs) {
        write_matrix(place, given(graph, values, place.tensor), graph.workload.scale_rounding, hbm);
    }
    for (const ConstantPlace& constant : placement.constants) {
        hbm.write(static_cast<std::uint64_t>(constant.offset), constant.bytes());
    }
    if (placement.routing) {
        for (isa::IndexTable& table : placement.routing(graph, values)) {
            find_table(program, table.name).values = std::move(table.values);
        }
    }
    if (placement.token_ids >= 0) {
        set_tokens(given(graph, values, placement.token_ids), tensor(graph, placement.token_ids).name, program);
    }
}

models::Values read_outputs(const Placement& placement, const models::Graph& graph, const isa::SparseMemory& hbm) {
    models::Values out;
    for (const MatrixPlace& place : placement.outputs) {
        const models::Tensor& entry = tensor(graph, place.tensor);
        Matrix& matrix = out.try_emplace(place.tensor, entry.rows, entry.cols).first->second;
        read_matrix(place, hbm, entry.name, matrix);
    }
    return out;
}

}  // namespace sluice::kernels
