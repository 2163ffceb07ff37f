// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes an operator graph plainly, operator by operator, to say what a compiled program must give. It shares the
// number formats and the angles of RoPE (models/rotary.hpp) with the machine and the compiler, and is told how many
// positions the compiler takes at a time; it knows no layouts, no tiles, no program.
//
// Where values are rounded (the quantisation points):
// - embedding, residual additions and logits: to BF16; the result of a single operator: to its format
// - operands of Linear: to its operand format and its weight's, in groups of 32 along the inner dimension; the workload
//   says how their scales are rounded
// - q, k, v and softmax probabilities: to the cache's format
// - all else: FP32, each operation rounded once
//
// Order of additions: products as the tensor unit adds them (isa/number/README.md), the inner dimension ascending; sums
// of a row in binary64 in ascending order, rounded once; attention as online softmax over chunks of `attention_chunk`
// positions, ascending, each rescaling what was summed before.
#include "models/values.hpp"

namespace sluice::models {

struct ReferenceOptions {
    std::int64_t attention_chunk = 32;  ///< a multiple of 32
};

/// All tensors: the inputs, every result, and the caches after the step. Throws InputError if an input is missing or
/// has another shape than its tensor.
[[nodiscard]] Values execute(const Graph& graph, const Values& inputs, const ReferenceOptions& options = {});

}  // namespace sluice::models
