// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a user asks for: a chip, and a matrix product, attention, a step of a model or a program of their own.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "isa/format.hpp"
#include "kernels/schedule.hpp"
#include "models/bare_operators.hpp"
#include "models/graph.hpp"

namespace sluice::tools {

/// C[m x n] = A[m x k] * B[n x k]^T, from and to HBM.
struct GemmWork {
    std::int64_t m = 0, n = 0, k = 0;
    isa::Format a = isa::Format::mxfp8;
    isa::Format b = isa::Format::mxfp8;
    isa::Format out = isa::Format::bf16;
    isa::ScaleRounding scale_rounding = isa::ScaleRounding::floor;
};

/// O = softmax(Q K^T / sqrt(d)) V, from and to HBM.
struct AttentionWork {
    models::AttentionSizes sizes;
};

/// One step of a model: a shipped name or the path of a Hugging Face config.json.
struct ModelWork {
    std::string model;
    models::Workload workload;
    bool routing_given = false;  ///< refused for a model without experts
};

/// A program in text form.
struct ProgramWork {
    std::string file;
};

struct Request {
    std::string chip;               ///< shipped name or path; "": the program's own chip, else kDefaultChip
    std::vector<std::string> sets;  ///< "path=value"
    std::variant<GemmWork, AttentionWork, ModelWork, ProgramWork> work;
    kernels::Schedule schedule = kernels::Schedule::fused;  ///< of what is compiled; a program has its own
};

constexpr const char* kDefaultChip = "maia200";

}  // namespace sluice::tools
