// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sum without any rounding, and its one rounding to FP32: what the tensor unit's product is compared with. A fixed
// point number in two's complement that is wide enough for everything between the ends of binary64.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::test {

class ExactSum {
public:
    /// Adds a finite value times 2^exponent.
    void add(double value, int exponent = 0) {
        int power = 0;
        const auto digits = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &power), 53));
        add_at(digits, power - 53 + exponent - kLowest);
    }

    /// To nearest, ties to even; subnormals kept; beyond the largest value: infinity. Zero is positive.
    [[nodiscard]] float rounded() const {
        const bool negative = (words_.back() >> 31) != 0;
        ExactSum magnitude;
        magnitude.words_ = words_;
        if (negative) {
            magnitude.negate();
        }
        int word = kBits / 32 - 1;
        while (word >= 0 && magnitude.words_[static_cast<std::size_t>(word)] == 0) {
            --word;
        }
        if (word < 0) {
            return 0;
        }
        const int top = 32 * word + std::bit_width(magnitude.words_[static_cast<std::size_t>(word)]) - 1;
        // The last bit that is kept: 24 bits from the top, but none below 2^-149.
        const int last = std::max(top - 23, -149 - kLowest);
        std::uint32_t kept = 0;
        for (int i = top; i >= last; --i) {
            kept = 2 * kept + (magnitude.bit(i) ? 1 : 0);
        }
        const bool half = magnitude.bit(last - 1);
        bool beyond = false;
        for (int i = last - 2; i >= 0 && !beyond; --i) {
            beyond = magnitude.bit(i);
        }
        if (half && (beyond || kept % 2 != 0)) {
            ++kept;
        }
        const double value = std::ldexp(static_cast<double>(kept), last + kLowest);  // exact
        const double limit = 0x1p128;
        const float result = value >= limit ? std::numeric_limits<float>::infinity() : static_cast<float>(value);
        return negative ? -result : result;
    }

private:
    static constexpr int kLowest = -1152;  ///< the weight of bit 0 is 2^kLowest
    static constexpr int kBits = 2304;

    [[nodiscard]] bool bit(int index) const {
        return (words_[static_cast<std::size_t>(index / 32)] >> (index % 32) & 1U) != 0;
    }
    void negate() {
        std::uint64_t carry = 1;
        for (std::uint32_t& word : words_) {
            carry += static_cast<std::uint32_t>(~word);
            word = static_cast<std::uint32_t>(carry);
            carry >>= 32;
        }
    }
    /// Adds digits * 2^shift, where bit 0 is the unit.
    void add_at(std::int64_t digits, int shift) {
        const auto first = static_cast<std::size_t>(shift / 32);
        // Three words hold 54 bits shifted by up to 31; the sign goes on to the top.
        const std::uint64_t low = static_cast<std::uint64_t>(digits) << (shift % 32);
        const std::int64_t high = shift % 32 == 0 ? (digits < 0 ? -1 : 0) : digits >> (64 - shift % 32);
        std::uint64_t carry = 0;
        for (std::size_t i = first; i < words_.size(); ++i) {
            const std::size_t at = i - first;
            std::uint32_t part = static_cast<std::uint32_t>(high);
            if (at >= 3) {
                part = digits < 0 ? ~0U : 0U;
                if (carry == (part & 1U)) {
                    return;  // what is above stays as it is
                }
            } else if (at < 2) {
                part = static_cast<std::uint32_t>(low >> (32 * at));
            }
            carry += std::uint64_t{words_[i]} + part;
            words_[i] = static_cast<std::uint32_t>(carry);
            carry >>= 32;
        }
    }

    std::array<std::uint32_t, kBits / 32> words_{};
};

}  // namespace sluice::test
