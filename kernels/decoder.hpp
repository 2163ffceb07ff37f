// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decoder-only transformers: embedding, layers, final norm and LM head, for prefill and decode.
//
// Rows (tokens) are divided over groups of clusters, columns over the tiles of a group. Each group keeps its rows'
// activations in the CSRAM of all its clusters; weights and KV cache stay in HBM. Rows that do not fit CSRAM at once
// are done chunk by chunk, each chunk through all layers.
#include "kernels/compile.hpp"

namespace sluice::kernels {

[[nodiscard]] Compiled compile_decoder(const models::Graph& graph, const isa::ChipSpec& chip, Schedule schedule);

}  // namespace sluice::kernels
