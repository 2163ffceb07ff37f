// SPDX-License-Identifier: Apache-2.0
#include "isa/number/import_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "isa/errors.hpp"
#include "isa/number/block_scale.hpp"

namespace sluice::isa {

namespace {

constexpr std::size_t kMxGroup = 32;
constexpr std::size_t kNvGroup = 16;

/// Element i of two a byte, the low nibble first.
std::uint32_t nibble(std::span<const std::uint8_t> packed, std::size_t i) {
    return packed[i / 2] >> (i % 2 * 4) & 0xFU;
}

void check_sizes(const char* form, std::size_t elements, std::size_t scales, std::size_t group) {
    if (elements != scales * group) {
        throw InputError(
            form, fmt::format("{} elements and {} scales; one scale belongs to {} elements", elements, scales, group));
    }
}

}  // namespace

std::vector<float> decode_gpt_oss(std::span<const std::uint8_t> blocks, std::span<const std::uint8_t> scales) {
    check_sizes("gpt-oss weights", 2 * blocks.size(), scales.size(), kMxGroup);
    std::vector<float> out(2 * blocks.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = decode_scaled(Number::e2m1, nibble(blocks, i), scales[i / kMxGroup]);
    }
    return out;
}

std::vector<float> decode_nvfp4(std::span<const std::uint8_t> packed, std::span<const std::uint8_t> scales,
                                float tensor_scale) {
    check_sizes("NVFP4 weights", 2 * packed.size(), scales.size(), kNvGroup);
    std::vector<float> out(2 * packed.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        // Element times group scale is exact in FP32 (2 + 4 significant bits): one rounding.
        out[i] = decode(Number::e2m1, nibble(packed, i)) * decode(Number::e4m3, scales[i / kNvGroup]) * tensor_scale;
    }
    return out;
}

Nvfp4 encode_nvfp4(std::span<const float> values) {
    if (values.size() % kNvGroup != 0) {
        throw InputError("NVFP4 weights", fmt::format("{} values are no multiple of {}", values.size(), kNvGroup));
    }
    const auto largest_of = [](std::span<const float> group) {
        float largest = 0;
        for (const float value : group) {
            if (!std::isfinite(value)) {
                throw InputError("NVFP4 weights", "a value is NaN or infinite");
            }
            largest = std::max(largest, std::abs(value));
        }
        return largest;
    };
    const float most_element = info(Number::e2m1).largest;
    Nvfp4 out;
    out.packed.assign(values.size() / 2, 0);
    out.tensor_scale = largest_of(values) / (most_element * info(Number::e4m3).largest);
    for (std::size_t g = 0; g < values.size(); g += kNvGroup) {
        const std::span<const float> group = values.subspan(g, kNvGroup);
        const float wanted = out.tensor_scale == 0 ? 0 : largest_of(group) / (most_element * out.tensor_scale);
        out.scales.push_back(static_cast<std::uint8_t>(encode(Number::e4m3, wanted)));
        const float scale = decode(Number::e4m3, out.scales.back()) * out.tensor_scale;
        for (std::size_t i = 0; i < kNvGroup; ++i) {
            const std::uint32_t code = scale == 0 ? 0 : encode(Number::e2m1, group[i] / scale);
            out.packed[(g + i) / 2] |= static_cast<std::uint8_t>(code << (i % 2 * 4));
        }
    }
    return out;
}

}  // namespace sluice::isa
