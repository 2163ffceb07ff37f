// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a macro occupies its engine: closed forms over the macro's sizes and the engine's spec. Pure functions.
#include <cstdint>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::sim {

/// A tensor macro: overhead, then the blocks of C one after the other, then one pipeline fill.
struct TensorTiming {
    Cycle block = 0;      ///< of one 32 x 32 block of C with its whole run over k
    Cycle first_row = 0;  ///< from the start until the first block row is in TSRAM
    Cycle row = 0;        ///< between block rows
    Cycle total = 0;      ///< until the last block row is in TSRAM
};

/// A block of C takes the longest of: multiplying (ceil(32 kb / k per cycle), at the rate of the wider operand),
/// reading its run of either operand through that operand's port, and writing (and, accumulating, reading) 4 KiB of
/// FP32 through the accumulator ports. Each of these streams without gaps within the run.
[[nodiscard]] TensorTiming tensor_timing(std::int64_t mb, std::int64_t nb, std::int64_t kb, isa::Format a,
                                         isa::Format b, bool accumulate, const isa::TtuSpec& ttu);

/// A pass of a vector program: its loads arrive over the first `work` cycles, its stores leave over `work` cycles from
/// the pipeline's latency on.
struct PassTiming {
    Cycle work = 0;
    Cycle total = 0;
};

/// Passes one after the other. A pass takes the longest of: its lane operations on the FP32 lanes at `issue_slots` per
/// lane and cycle; its loads, spread over the read ports longest first; its stores on the write port; plus one pipeline
/// latency, and another if the pass holds a reduction. Loads, stores and constants take no slot, but a store that
/// converts takes one; exp, reciprocal and rsqrt take `transcendental_slots`; everything else one.
[[nodiscard]] Cycle vector_cycles(const isa::VectorProgram& program, std::int64_t rows, std::int64_t cols,
                                  const isa::TvpSpec& tvp);

[[nodiscard]] PassTiming pass_timing(const isa::VectorPass& pass, std::int64_t rows, std::int64_t cols,
                                     const isa::TvpSpec& tvp);

/// Elements at the lane count of the wider format, plus the latency.
[[nodiscard]] Cycle reshape_cycles(std::int64_t rows, std::int64_t cols, isa::Format src, isa::Format dst,
                                   const isa::ReshaperSpec& reshaper);

/// What a vector program does to memory and lanes, for energy.
struct VectorWork {
    std::uint64_t operations = 0, conversions = 0, transcendentals = 0;
    Bytes read = 0, written = 0;
};
[[nodiscard]] VectorWork vector_work(const isa::VectorProgram& program, std::int64_t rows, std::int64_t cols);

}  // namespace sluice::sim
