// SPDX-License-Identifier: Apache-2.0
#include "isa/format.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::isa {

const std::array<FormatInfo, 7>& all_formats() {
    static constexpr std::array<FormatInfo, 7> kFormats{{
        {Format::raw, "raw", 8, false, TensorRate::none, "bytes without a number format"},
        {Format::mxfp4, "mxfp4", 4, true, TensorRate::fp4, "E2M1 with an E8M0 scale per 32"},
        {Format::mxfp6, "mxfp6", 6, true, TensorRate::fp6, "E2M3 with an E8M0 scale per 32"},
        {Format::mxfp8, "mxfp8", 8, true, TensorRate::fp8, "E4M3 with an E8M0 scale per 32"},
        {Format::e4m3, "e4m3", 8, false, TensorRate::fp8, "E4M3, scaled per tensor"},
        {Format::bf16, "bf16", 16, false, TensorRate::bf16, "bfloat16"},
        {Format::fp32, "fp32", 32, false, TensorRate::none, "IEEE binary32"},
    }};
    return kFormats;
}

const FormatInfo& info(Format format) {
    return all_formats().at(static_cast<std::size_t>(format));
}

std::string_view name(Format format) {
    return info(format).name;
}

Format parse_format(std::string_view text, const std::string& where) {
    std::string known;
    for (const FormatInfo& entry : all_formats()) {
        if (entry.name == text) {
            return entry.format;
        }
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    throw InputError(where, fmt::format("unknown number format \"{}\"; known: {}", text, known));
}

Bytes block_bytes(Format format) {
    const FormatInfo& entry = info(format);
    return 1024 * static_cast<Bytes>(entry.element_bits) / 8 + (entry.block_scaled ? 32 : 0);
}

double bytes_per_element(Format format) {
    return static_cast<double>(block_bytes(format)) / 1024.0;
}

Bytes row_bytes(Format format, std::int64_t elements) {
    const FormatInfo& entry = info(format);
    if (entry.block_scaled) {
        const auto groups = static_cast<Bytes>(ceil_div<std::int64_t>(elements, kBlockEdge));
        return groups * (32 * static_cast<Bytes>(entry.element_bits) / 8 + 1);
    }
    return static_cast<Bytes>(elements) * static_cast<Bytes>(entry.element_bits) / 8;
}

TensorRate tensor_rate(Format a, Format b, const std::string& where) {
    const TensorRate rate_a = info(a).rate;
    const TensorRate rate_b = info(b).rate;
    const bool mixes_bf16 = (rate_a == TensorRate::bf16) != (rate_b == TensorRate::bf16);
    if (rate_a == TensorRate::none || rate_b == TensorRate::none || mixes_bf16) {
        throw InputError(where, fmt::format("the tensor unit does not multiply {} by {}; it takes bf16 x bf16, or any "
                                            "two of mxfp4, mxfp6, mxfp8, e4m3",
                                            name(a), name(b)));
    }
    return std::max(rate_a, rate_b);
}

std::string_view name(TensorRate rate) {
    switch (rate) {
        case TensorRate::fp4: return "fp4";
        case TensorRate::fp6: return "fp6";
        case TensorRate::fp8: return "fp8";
        case TensorRate::bf16: return "bf16";
        case TensorRate::none: break;
    }
    return "none";
}

}  // namespace sluice::isa
