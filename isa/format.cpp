// SPDX-License-Identifier: Apache-2.0
#include "isa/format.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::isa {

const std::array<FormatInfo, kFormatCount>& all_formats() {
    using N = Number;
    using R = TensorRate;
    static constexpr std::array<FormatInfo, kFormatCount> kFormats{{
        {Format::raw, "raw", N::fp32, 8, false, R::none, "bytes without a number format"},
        {Format::mxfp4, "mxfp4", N::e2m1, 4, true, R::fp4, "E2M1 with an E8M0 scale per 32"},
        {Format::mxfp4_e1m2, "mxfp4_e1m2", N::e1m2, 4, true, R::fp4, "E1M2 with an E8M0 scale per 32"},
        {Format::mxfp6, "mxfp6", N::e2m3, 6, true, R::fp6, "E2M3 with an E8M0 scale per 32"},
        {Format::mxfp6_e3m2, "mxfp6_e3m2", N::e3m2, 6, true, R::fp6, "E3M2 with an E8M0 scale per 32"},
        {Format::mxfp8, "mxfp8", N::e4m3, 8, true, R::fp8, "E4M3 with an E8M0 scale per 32"},
        {Format::mxfp8_e5m2, "mxfp8_e5m2", N::e5m2, 8, true, R::fp8, "E5M2 with an E8M0 scale per 32"},
        {Format::e2m3, "e2m3", N::e2m3, 6, false, R::fp6, "E2M3, scaled per tensor"},
        {Format::e3m2, "e3m2", N::e3m2, 6, false, R::fp6, "E3M2, scaled per tensor"},
        {Format::e4m3, "e4m3", N::e4m3, 8, false, R::fp8, "E4M3, scaled per tensor"},
        {Format::e5m2, "e5m2", N::e5m2, 8, false, R::fp8, "E5M2, scaled per tensor"},
        {Format::bf16, "bf16", N::bf16, 16, false, R::bf16, "bfloat16"},
        {Format::fp16, "fp16", N::fp16, 16, false, R::bf16, "IEEE binary16"},
        {Format::fp32, "fp32", N::fp32, 32, false, R::none, "IEEE binary32"},
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
    return static_cast<Bytes>(kBlockEdge * (row_data_bytes(format) + (info(format).block_scaled ? 1 : 0)));
}

std::int64_t row_data_bytes(Format format) {
    return kBlockEdge * info(format).element_bits / 8;
}

double bytes_per_element(Format format) {
    return static_cast<double>(block_bytes(format)) / 1024.0;
}

Bytes row_bytes(Format format, std::int64_t elements) {
    const FormatInfo& entry = info(format);
    if (entry.block_scaled) {
        const auto groups = static_cast<Bytes>(ceil_div<std::int64_t>(elements, kBlockEdge));
        return groups * static_cast<Bytes>(row_data_bytes(format) + 1);
    }
    return static_cast<Bytes>(elements) * static_cast<Bytes>(entry.element_bits) / 8;
}

TensorRate tensor_rate(Format a, Format b, const std::string& where) {
    const TensorRate rate_a = info(a).rate;
    const TensorRate rate_b = info(b).rate;
    const bool wide = rate_a == TensorRate::bf16 || rate_b == TensorRate::bf16;
    if (rate_a == TensorRate::none || rate_b == TensorRate::none || (wide && a != b)) {
        throw InputError(where, fmt::format("the tensor unit does not multiply {} by {}; it takes bf16 x bf16, fp16 x "
                                            "fp16, or any two of the 4- to 8-bit formats",
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
