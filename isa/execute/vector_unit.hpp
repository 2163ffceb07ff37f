// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vector programs on values, row by row, and the single elements of row-major and blocked operands.
#include "isa/execute/operation.hpp"
#include "isa/execute/sparse_memory.hpp"

namespace sluice::isa {

/// Elements of an operand one by one: the slow, general way.
class ElementAccess {
public:
    ElementAccess(const VectorOperand& operand, std::int64_t offset, Format format, SparseMemory& memory);

    [[nodiscard]] std::uint32_t get(std::int64_t row, std::int64_t col) const;
    void put(std::int64_t row, std::int64_t col, std::uint32_t code);
    /// The scale byte of the element's group of 32 columns; of block-scaled formats alone.
    [[nodiscard]] std::uint8_t get_scale(std::int64_t row, std::int64_t col) const;
    void put_scale(std::int64_t row, std::int64_t col, std::uint8_t scale);

    /// Where the row's 32 columns from `col` (a multiple of 32) on begin, and the group's scale byte.
    [[nodiscard]] std::uint64_t group_offset(std::int64_t row, std::int64_t col) const;
    [[nodiscard]] std::uint64_t scale_offset(std::int64_t row, std::int64_t col) const;

private:
    struct Element {
        std::uint64_t offset;    ///< of its first byte
        std::int64_t first_bit;  ///< within that byte
        std::size_t bytes;       ///< that it has bits in
    };
    [[nodiscard]] Element element(std::int64_t row, std::int64_t col) const;

    const VectorOperand& operand_;
    std::int64_t offset_;
    const FormatInfo& format_;
    SparseMemory& memory_;
};

void run_vector(const VectorMacro& macro, const VectorOperation& operation, SparseMemory& memory);

}  // namespace sluice::isa
