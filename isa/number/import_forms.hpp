// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights in the forms in which others store them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::isa {

/// gpt-oss on disk: groups of 32 E2M1 in 16 bytes, the low nibble first, and one E8M0 byte each. Values in order.
/// Throws InputError if the sizes do not match.
[[nodiscard]] std::vector<float> decode_gpt_oss(std::span<const std::uint8_t> blocks,
                                                std::span<const std::uint8_t> scales);

/// NVFP4: groups of 16 E2M1, two a byte, the low nibble first; an E4M3 scale each; one FP32 scale for the tensor.
[[nodiscard]] std::vector<float> decode_nvfp4(std::span<const std::uint8_t> packed,
                                              std::span<const std::uint8_t> scales, float tensor_scale);

struct Nvfp4 {
    std::vector<std::uint8_t> packed, scales;
    float tensor_scale = 0;
};
/// tensor scale = max|v| / (6 * 448); group scale = E4M3(max|v| of the group / (6 * tensor scale)); element = E2M1(v /
/// (both scales)). Throws InputError unless values.size() is a multiple of 16, and for NaN or infinity.
[[nodiscard]] Nvfp4 encode_nvfp4(std::span<const float> values);

}  // namespace sluice::isa
