// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/vector_unit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isa/errors.hpp"
#include "isa/number/block.hpp"

namespace sluice::isa {

// ---- elements -------------------------------------------------------------------------------------------------------

ElementAccess::ElementAccess(const VectorOperand& operand, std::int64_t offset, Format format, SparseMemory& memory)
    : operand_(operand), offset_(offset), format_(info(format)), memory_(memory) {}

std::uint64_t ElementAccess::group_offset(std::int64_t row, std::int64_t col) const {
    const std::int64_t group_bytes = row_data_bytes(format_.format);
    const std::int64_t group = col / kBlockEdge;
    if (operand_.block_stride == 0) {
        return static_cast<std::uint64_t>(offset_ + row * operand_.row_stride + group * group_bytes);
    }
    return static_cast<std::uint64_t>(offset_ + row / operand_.block_rows * operand_.row_stride +
                                      group * operand_.block_stride + row % operand_.block_rows * group_bytes);
}

std::uint64_t ElementAccess::scale_offset(std::int64_t row, std::int64_t col) const {
    const std::int64_t group_bytes = row_data_bytes(format_.format);
    return static_cast<std::uint64_t>(offset_ + row / operand_.block_rows * operand_.row_stride +
                                      col / kBlockEdge * operand_.block_stride + operand_.block_rows * group_bytes +
                                      row % operand_.block_rows);
}

ElementAccess::Element ElementAccess::element(std::int64_t row, std::int64_t col) const {
    const std::int64_t bit = col % kBlockEdge * format_.element_bits;
    return {group_offset(row, col) + static_cast<std::uint64_t>(bit / 8), bit % 8,
            static_cast<std::size_t>((bit % 8 + format_.element_bits + 7) / 8)};
}

std::uint32_t ElementAccess::get(std::int64_t row, std::int64_t col) const {
    const Element at = element(row, col);
    std::array<std::byte, 5> bytes{};
    memory_.read(at.offset, std::span(bytes).first(at.bytes));
    return get_bits(bytes, at.first_bit, format_.element_bits);
}

void ElementAccess::put(std::int64_t row, std::int64_t col, std::uint32_t code) {
    const Element at = element(row, col);
    std::array<std::byte, 5> bytes{};
    const std::span<std::byte> used = std::span(bytes).first(at.bytes);
    memory_.read(at.offset, used);
    put_bits(used, at.first_bit, format_.element_bits, code);
    memory_.write(at.offset, used);
}

std::uint8_t ElementAccess::get_scale(std::int64_t row, std::int64_t col) const {
    std::array<std::byte, 1> byte{};
    memory_.read(scale_offset(row, col), byte);
    return std::to_integer<std::uint8_t>(byte[0]);
}

void ElementAccess::put_scale(std::int64_t row, std::int64_t col, std::uint8_t scale) {
    const std::array<std::byte, 1> byte{static_cast<std::byte>(scale)};
    memory_.write(scale_offset(row, col), byte);
}

// ---- programs -------------------------------------------------------------------------------------------------------

namespace {

/// NaN if either is: a maximum must not hide one.
float larger(float a, float b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : std::max(a, b);
}
float kept_below(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) {
        return std::numeric_limits<float>::quiet_NaN();
    }
    return a < b ? a : -std::numeric_limits<float>::infinity();
}
float smaller(float a, float b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : std::min(a, b);
}
float rounded(double value) {
    return static_cast<float>(value);
}

class RowRunner {
public:
    RowRunner(const VectorMacro& macro, const VectorOperation& operation, SparseMemory& memory)
        : macro_(macro), operation_(operation), memory_(memory), values_(128) {}

    void run(std::int64_t row) {
        row_ = row;
        for (const VectorPass& pass : operation_.program->passes) {
            cols_ = pass.per_row ? 1 : operation_.cols;
            for (const VectorStep& step : pass.steps) {
                run(step);
            }
        }
    }

private:
    using Values = std::vector<float>;

    /// Column j of a value register; one value a row stands for all columns.
    [[nodiscard]] static float at(const Values& values, std::int64_t j) {
        return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(j)];
    }
    [[nodiscard]] const Values& value(std::int8_t number) const { return values_[static_cast<std::size_t>(number)]; }

    void run(const VectorStep& step) {
        switch (step.op) {
            case VectorOp::store:
            case VectorOp::store_row: store(step); return;
            case VectorOp::load:
            case VectorOp::load_row:
            case VectorOp::load_col: {
                Values loaded = load(step);
                values_[static_cast<std::size_t>(step.dst)] = std::move(loaded);
                return;
            }
            default: break;
        }
        Values result = compute(step);
        values_[static_cast<std::size_t>(step.dst)] = std::move(result);
    }

    [[nodiscard]] Values load(const VectorStep& step) const {
        const auto k = static_cast<std::size_t>(static_cast<std::uint8_t>(step.operand));
        const ElementAccess operand(macro_.operands[k], operation_.offsets[k], step.format, memory_);
        const std::int64_t row = step.op == VectorOp::load_col ? 0 : row_;
        if (step.op == VectorOp::load_row || cols_ == 1) {
            return {decode(info(step.format).element, operand.get(row, 0))};
        }
        Values out(static_cast<std::size_t>(cols_));
        const FormatInfo& format = info(step.format);
        std::array<std::byte, 128> data;
        for (std::int64_t j = 0; j < cols_; j += kBlockEdge) {
            const std::int64_t count = std::min(kBlockEdge, cols_ - j);
            const auto bytes = static_cast<std::size_t>(count * format.element_bits / 8);
            memory_.read(operand.group_offset(row, j), std::span(data).first(bytes));
            const auto scale = static_cast<std::byte>(format.block_scaled ? operand.get_scale(row, j) : 0);
            decode_row(step.format, std::span(data).first(bytes), scale,
                       std::span(out).subspan(static_cast<std::size_t>(j), static_cast<std::size_t>(count)));
        }
        return out;
    }

    void store(const VectorStep& step) {
        const auto k = static_cast<std::size_t>(static_cast<std::uint8_t>(step.operand));
        ElementAccess operand(macro_.operands[k], operation_.offsets[k], step.format, memory_);
        const FormatInfo& format = info(step.format);
        const Values& source = value(step.a);
        if (step.op == VectorOp::store_row || cols_ == 1) {
            operand.put(row_, 0, encode(format.element, at(source, 0)));
            return;
        }
        std::array<std::byte, 128> data;
        std::array<float, kBlockEdge> group;
        for (std::int64_t j = 0; j < cols_; j += kBlockEdge) {
            const std::int64_t count = std::min(kBlockEdge, cols_ - j);
            for (std::int64_t i = 0; i < count; ++i) {
                group[static_cast<std::size_t>(i)] = at(source, j + i);
            }
            const auto bytes = static_cast<std::size_t>(count * format.element_bits / 8);
            std::uint8_t scale = 0;
            if (format.block_scaled) {
                scale = static_cast<std::uint8_t>(encode(Number::e8m0, at(value(step.b), j)));
                operand.put_scale(row_, j, scale);
            }
            encode_row(step.format, std::span(group).first(static_cast<std::size_t>(count)),
                       static_cast<std::byte>(scale), std::span(data).first(bytes));
            memory_.write(operand.group_offset(row_, j), std::span(data).first(bytes));
        }
    }

    template <class Function>
    [[nodiscard]] Values each(const Function& function, std::initializer_list<std::int8_t> arguments) const {
        const bool of_row = std::all_of(arguments.begin(), arguments.end(),
                                        [this](std::int8_t argument) { return value(argument).size() == 1; });
        Values out(of_row ? 1 : static_cast<std::size_t>(cols_));
        for (std::size_t j = 0; j < out.size(); ++j) {
            out[j] = function(static_cast<std::int64_t>(j));
        }
        return out;
    }
    template <class Function>
    [[nodiscard]] Values unary(const VectorStep& step, const Function& function) const {
        const Values& a = value(step.a);
        return each([&](std::int64_t j) { return function(at(a, j)); }, {step.a});
    }
    template <class Function>
    [[nodiscard]] Values binary(const VectorStep& step, const Function& function) const {
        const Values& a = value(step.a);
        const Values& b = value(step.b);
        return each([&](std::int64_t j) { return function(at(a, j), at(b, j)); }, {step.a, step.b});
    }

    [[nodiscard]] Values compute(const VectorStep& step) const {
        switch (step.op) {
            case VectorOp::constant: return {rounded(step.value)};
            case VectorOp::add: return binary(step, [](float a, float b) { return a + b; });
            case VectorOp::sub: return binary(step, [](float a, float b) { return a - b; });
            case VectorOp::mul: return binary(step, [](float a, float b) { return a * b; });
            case VectorOp::max: return binary(step, larger);
            case VectorOp::min: return binary(step, smaller);
            case VectorOp::keep_below: return binary(step, kept_below);
            case VectorOp::fma: {
                const Values& a = value(step.a);
                const Values& b = value(step.b);
                const Values& c = value(step.c);
                return each([&](std::int64_t j) { return std::fma(at(a, j), at(b, j), at(c, j)); },
                            {step.a, step.b, step.c});
            }
            case VectorOp::exp: return unary(step, [](float a) { return rounded(std::exp(static_cast<double>(a))); });
            case VectorOp::reciprocal:
                return unary(step, [](float a) { return rounded(1.0 / static_cast<double>(a)); });
            case VectorOp::rsqrt:
                return unary(step, [](float a) { return rounded(1.0 / std::sqrt(static_cast<double>(a))); });
            case VectorOp::mask: return masked(value(step.a));
            case VectorOp::row_sum: return {sum(value(step.a))};
            case VectorOp::row_max: return {largest(value(step.a))};
            case VectorOp::group_max_abs: return group_largest(value(step.a));
            case VectorOp::block_scale:
                return unary(step, [&step](float a) {
                    const Number element = info(step.format).element;
                    return decode(Number::e8m0, shared_scale(a, element, step.rounding));
                });
            default: break;
        }
        SLUICE_CHECK(false, "not a computing operation");
    }

    [[nodiscard]] Values masked(const Values& a) const {
        const std::int64_t limit = operation_.mask_limit + (macro_.mask_by_row ? row_ % kBlockEdge : 0);
        Values out(static_cast<std::size_t>(cols_));
        for (std::int64_t j = 0; j < cols_; ++j) {
            out[static_cast<std::size_t>(j)] = j <= limit ? at(a, j) : -std::numeric_limits<float>::infinity();
        }
        return out;
    }
    [[nodiscard]] float sum(const Values& a) const {
        double total = 0;
        for (std::int64_t j = 0; j < cols_; ++j) {
            total += static_cast<double>(at(a, j));
        }
        return rounded(total);
    }
    [[nodiscard]] float largest(const Values& a) const {
        float most = at(a, 0);
        for (std::int64_t j = 1; j < cols_; ++j) {
            most = larger(most, at(a, j));
        }
        return most;
    }
    [[nodiscard]] Values group_largest(const Values& a) const {
        Values out(static_cast<std::size_t>(cols_));
        for (std::int64_t j = 0; j < cols_; j += kBlockEdge) {
            const std::int64_t end = std::min(cols_, j + kBlockEdge);
            float most = 0;
            for (std::int64_t i = j; i < end; ++i) {
                most = larger(most, std::abs(at(a, i)));
            }
            std::fill(out.begin() + j, out.begin() + end, most);
        }
        return out;
    }

    const VectorMacro& macro_;
    const VectorOperation& operation_;
    SparseMemory& memory_;
    std::vector<Values> values_;
    std::int64_t row_ = 0, cols_ = 1;
};

}  // namespace

void run_vector(const VectorMacro& macro, const VectorOperation& operation, SparseMemory& memory) {
    RowRunner runner(macro, operation, memory);
    for (std::int64_t row = 0; row < operation.rows; ++row) {
        runner.run(row);
    }
}

}  // namespace sluice::isa
