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
/// 0 scores FP32, 1 gates FP32: models::Route.
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
/// 0 accumulator FP32 in and out, 1 rescale factor.
[[nodiscard]] isa::VectorProgram rescale_program();
/// 0 accumulator FP32, 1 row sum, 2 out.
[[nodiscard]] isa::VectorProgram attention_finish_program(isa::Format out);

/// Issue slots per element of all passes that run over every element (per-row passes left out).
[[nodiscard]] std::int64_t slots_per_element(const isa::VectorProgram& program, const isa::TvpSpec& tvp);

}  // namespace sluice::kernels
