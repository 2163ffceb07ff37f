// SPDX-License-Identifier: Apache-2.0
#pragma once
// Number formats as values: what a code means and which code a value becomes. Every decode is exact in FP32.
// isa/number/README.md states the rules; tests/isa/number_test.cpp holds them over every code, midpoint and neighbour.
// Sources: OCP Microscaling Formats v1.0 (E2M1, E2M3, E3M2, E8M0), OCP OFP8 v1.0 (E4M3, E5M2), IEEE 754-2019; E1M2 is
// assumed (a uniform grid of quarters, as sign-magnitude INT4 / 4: its bias is not published).
#include <cstdint>
#include <string_view>

namespace sluice::isa {

enum class Number : std::uint8_t { e2m1, e1m2, e2m3, e3m2, e4m3, e5m2, e8m0, bf16, fp16, fp32 };
constexpr int kNumberCount = 10;

/// Codes beyond the finite values.
enum class Specials : std::uint8_t {
    none,      ///< every code is a finite value
    nan_only,  ///< E4M3: S.1111.111; E8M0: 0xFF
    ieee,      ///< infinities and NaNs, the highest exponent
};

struct NumberInfo {
    Number number;
    std::string_view name;
    int bits, exponent_bits, mantissa_bits;
    int bias;
    bool has_sign;
    Specials specials;
    int highest_exponent;  ///< floor(log2(largest finite value)): emax of the MX conversion
    float largest;         ///< largest finite value
};

/// All of them, in the order of the enumeration, are described by info().
[[nodiscard]] const NumberInfo& info(Number number);

/// The value of a code (its low `bits`). A NaN of any payload is a NaN.
[[nodiscard]] float decode(Number number, std::uint32_t code);

/// The nearest code, ties to the even one; subnormals are kept. What exceeds the largest finite value becomes it in the
/// formats of 4 to 8 bits (infinity too), and infinity in BF16 and FP16. NaN stays NaN (the canonical one, positive);
/// where a format has none, InputError. E8M0 takes zero as its smallest value; a negative number is NaN.
[[nodiscard]] std::uint32_t encode(Number number, float value);

}  // namespace sluice::isa
