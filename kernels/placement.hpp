// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a compiled program expects its inputs in HBM and leaves its outputs: how a host would load and read the chip.
#include <functional>
#include <string>
#include <vector>

#include "isa/execute/sparse_memory.hpp"
#include "isa/program.hpp"
#include "models/values.hpp"

namespace sluice::kernels {

/// Rows [first_row, first_row + rows) of a tensor.
struct MatrixPlace {
    models::TensorIndex tensor = -1;
    std::int64_t first_row = 0, rows = 0;
    isa::Format format = isa::Format::bf16;
    /// HBM offset of the 32 x 32 block in block row r and block column c of this part; what lies beyond the tensor is
    /// zero.
    std::function<std::int64_t(std::int64_t, std::int64_t)> block;
    /// Without `block`: row-major from here on.
    std::int64_t base = 0;
    /// Of an input of one row that is stored in pieces of 32 columns: HBM offset of piece c.
    std::function<std::int64_t(std::int64_t)> piece = nullptr;
};

/// Bytes that are the same for every set of inputs.
struct ConstantPlace {
    std::int64_t offset = 0;
    std::function<std::vector<std::byte>()> bytes;
};

struct Placement {
    std::vector<MatrixPlace> inputs, outputs;
    std::vector<ConstantPlace> constants;
    /// The program's tables of which experts tokens choose, for given inputs; none: no experts.
    std::function<std::vector<isa::IndexTable>(const models::Graph&, const models::Values&)> routing = nullptr;
    models::TensorIndex token_ids = -1;              ///< given to the program's index table "token_ids"
    std::int64_t attention_chunk = isa::kBlockEdge;  ///< positions of one step of the online softmax
};

/// Writes inputs (rounded to their formats) and constants; puts token ids into the program's table. Throws InputError
/// if values are missing, have another shape, or a token id is outside the table's range.
void write_inputs(const Placement& placement, const models::Graph& graph, const models::Values& values,
                  isa::SparseMemory& hbm, isa::Program& program);
[[nodiscard]] models::Values read_outputs(const Placement& placement, const models::Graph& graph,
                                          const isa::SparseMemory& hbm);

}  // namespace sluice::kernels
