// SPDX-License-Identifier: Apache-2.0
#pragma once
// Block scales: 32 elements along k share one E8M0 power of two (OCP Microscaling Formats v1.0).
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "isa/number/number.hpp"

namespace sluice::isa {

/// How the shared exponent follows from the largest magnitude m of a group, with E = highest exponent of the element:
///   floor  floor(log2 m) - E: OCP; values beyond the largest element saturate
///   ceil   ceil(log2(m / largest element)): nothing saturates
///   even   floor(log2 m') - E, where m' is m rounded to the element's mantissa, ties to even
enum class ScaleRounding : std::uint8_t { floor, ceil, even };
[[nodiscard]] std::string_view name(ScaleRounding rounding);
/// Throws InputError naming `where` and the known names.
[[nodiscard]] ScaleRounding parse_scale_rounding(std::string_view text, const std::string& where);

/// E8M0 code. m = 0 gives 2^-127; an exponent below -127 is -127; NaN, infinity or an exponent above 127 is 0xFF (NaN).
[[nodiscard]] std::uint8_t shared_scale(float largest_magnitude, Number element, ScaleRounding rounding);

/// The code of value / 2^scale, rounded to nearest even, saturated; `element` has 4 to 8 bits. With a NaN scale every
/// element's code is 0. Throws InputError for a NaN that the element has no code for.
[[nodiscard]] std::uint32_t encode_scaled(Number element, float value, std::uint8_t scale);
/// element * 2^scale, rounded once to FP32 (only the ends of FP32's range need it); NaN if the scale is NaN.
[[nodiscard]] float decode_scaled(Number element, std::uint32_t code, std::uint8_t scale);

/// One group: its scale, and codes[i] of values[i]; `codes` is as long as `values`. A NaN or infinity in it makes the
/// scale NaN.
[[nodiscard]] std::uint8_t quantise_group(std::span<const float> values, Number element, ScaleRounding rounding,
                                          std::span<std::uint32_t> codes);

}  // namespace sluice::isa
