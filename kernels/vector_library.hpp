// SPDX-License-Identifier: Apache-2.0
#pragma once
// The vector programs of the kernels, by name. Each is a short list of passes over rows x cols elements; the TVP's
// cycles come from that list alone.
#include <string>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::kernels {

/// operands: 0 FP32 blocks in, 1 blocks out in `out`, then BF16 biases (one per column) if there are any.
[[nodiscard]] isa::VectorProgram convert_program(isa::Format out, bool bias = false);
/// 0 FP32 blocks in, 1 BF16 residual, 2 BF16 out, then biases.
[[nodiscard]] isa::VectorProgram residual_program(bool bias);
/// 0 gate FP32, 1 up FP32, 2 out.
[[nodiscard]] isa::VectorProgram swiglu_program(isa::Format out);
/// 0 scores FP32, 1 gates FP32: models::Route, if no two of the chosen scores are equal. `chosen` up to kMostChosen.
constexpr std::int64_t kMostChosen = 16;  // three registers a pass and as many for its exponent, of 128
[[nodiscard]] isa::VectorProgram route_program(std::int64_t chosen);
/// 0 FP32 blocks in, 1 gate (FP32, one a row), 2 BF16 out: an expert's result times its gate.
[[nodiscard]] isa::VectorProgram gated_program();
/// 0 BF16 residual, then `chosen` results in BF16, then BF16 out: residual + (the results' sum, in order).
[[nodiscard]] isa::VectorProgram combine_program(std::int64_t chosen);
/// Rotates 32 pairs of columns: 0 and 1 FP32 first and second halves, 2 cosine, 3 sine (BF16; one row for all rows if
/// `one_position`), 4 and 5 the halves out. With `bias`: the next two are BF16 biases of each half's columns. With
/// `norm`: the next are a factor a row (FP32), and BF16 weights of each half's columns.
struct RopeInputs {
    bool one_position = false, bias = false, norm = false;
};
[[nodiscard]] isa::VectorProgram rope_program(isa::Format out, const RopeInputs& inputs);
/// The factor of an RMSNorm over the columns: 0 FP32 blocks in, 1 factor out (FP32, one a row), then biases.
[[nodiscard]] isa::VectorProgram head_factor_program(std::int64_t width, double epsilon, bool bias);
/// 0 BF16 in, 1 BF16 weights (one per column), 2 out; `width` is the mean's divisor.
[[nodiscard]] isa::VectorProgram rms_norm_program(isa::Format out, std::int64_t width, double epsilon);
/// Online softmax of scores / sqrt(head_dim). 0 scores FP32, 1 probabilities out, 2 row maximum, 3 row sum, 4 rescale
/// factor (FP32, one a row).
[[nodiscard]] isa::VectorProgram softmax_program(isa::Format out, std::int64_t head_dim, bool first, bool masked);
/// Online softmax in parts, for kernels that keep the state of several row sets (FP32, one value a row). Together they
/// compute what softmax_program does; the first chunk is not special.
/// Before the first chunk: 0 row maximum, 1 row sum.
[[nodiscard]] isa::VectorProgram softmax_start_program();
/// 0 scores FP32, 1 row maximum in and out, 2 shift out (the maximum, scaled and negated), 3 rescale factor out.
[[nodiscard]] isa::VectorProgram softmax_maximum_program(std::int64_t head_dim, bool masked);
/// 0 scores FP32, 1 probabilities out, 2 shift, 3 row sum in and out, 4 rescale factor.
[[nodiscard]] isa::VectorProgram softmax_exponent_program(isa::Format out, std::int64_t head_dim, bool masked);
/// The exponents of one row set and, in the same passes, the maximum of another: so the loads of both use both read
/// ports while the exponents use the issue slots. 0 to 4 as above; 5 to 8 as 0 to 3 of softmax_maximum_program.
[[nodiscard]] isa::VectorProgram softmax_step_program(isa::Format out, std::int64_t head_dim, bool masked);
/// 0 accumulator FP32 in and out, 1 rescale factor.
[[nodiscard]] isa::VectorProgram rescale_program();
/// 0 accumulator FP32, 1 row sum, 2 out.
[[nodiscard]] isa::VectorProgram attention_finish_program(isa::Format out);

/// Issue slots per element of all passes that run over every element (per-row passes left out).
[[nodiscard]] std::int64_t slots_per_element(const isa::VectorProgram& program, const isa::TvpSpec& tvp);

}  // namespace sluice::kernels
