// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of each macro: its engine, formats, limits, and every byte that it touches.
#include <initializer_list>

#include "isa/verify_checker.hpp"

namespace sluice::isa {

class MacroVerifier {
public:
    MacroVerifier(Checker& checker, const QueueId& queue)
        : checker_(checker), limits_(checker.all.limits), queue_(queue) {}

    void operator()(const FenceMacro& /*fence*/) {}
    void operator()(const DmaMacro& dma);
    void operator()(const TensorMacro& macro);
    void operator()(const VectorMacro& macro);
    void operator()(const ReshapeMacro& macro);

private:
    bool on(std::initializer_list<Engine> engines, const char* macro);
    void tile_memory(const char* what, const Affine& offset, const std::function<Extent(const Affine&)>& reach);

    void dma_side(const DmaMacro& dma, bool is_src);
    void dma_conversion(const DmaMacro& dma);
    void dma_reach(const DmaMacro& dma);

    struct BlockGrid {
        const char* what;
        const Affine& offset;
        const Affine& rows;
        std::int64_t row_stride;
        const Affine& columns;
        std::int64_t column_stride;
        std::int64_t block_bytes;
        std::int64_t capacity;
    };
    void tensor_formats(const TensorMacro& macro);
    void tensor_operand(const BlockGrid& grid);
    void tensor_result(const TensorMacro& macro);

    void vector_operand(const VectorMacro& macro, const VectorStep& step, bool per_row);

    Checker& checker_;
    const ChipLimits& limits_;
    QueueId queue_;
};

}  // namespace sluice::isa
