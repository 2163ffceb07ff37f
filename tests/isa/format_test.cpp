// SPDX-License-Identifier: Apache-2.0
#include "isa/format.hpp"

#include <catch2/catch.hpp>

#include "tests/support/files.hpp"

namespace sluice::isa {
namespace {

using Catch::Matchers::Contains;
using test::input_error;

TEST_CASE("a block is its elements and one scale byte per row of 32") {
    for (const FormatInfo& format : all_formats()) {
        const Bytes elements = 32 * 32 * static_cast<Bytes>(format.element_bits) / 8;
        CHECK(block_bytes(format.format) == elements + (format.block_scaled ? 32 : 0));
        CHECK(block_bytes(format.format) % kBeatBytes == 0);
        CHECK(bytes_per_element(format.format) * 1024 == static_cast<double>(block_bytes(format.format)));
    }
    CHECK(bytes_per_element(Format::mxfp4) == (4 + 8.0 / 32) / 8);
    CHECK(bytes_per_element(Format::mxfp8) == (8 + 8.0 / 32) / 8);
}

TEST_CASE("a row counts whole groups of 32 in block-scaled formats alone") {
    CHECK(row_bytes(Format::mxfp4, 32) == 16 + 1);
    CHECK(row_bytes(Format::mxfp4, 33) == 2 * (16 + 1));
    CHECK(row_bytes(Format::mxfp6, 64) == 2 * (24 + 1));
    CHECK(row_bytes(Format::bf16, 33) == 33 * 2);
    CHECK(row_bytes(Format::e4m3, 0) == 0);
}

TEST_CASE("every format is found by its name, and an unknown one is refused") {
    for (const FormatInfo& format : all_formats()) {
        CHECK(parse_format(format.name, "--format") == format.format);
        CHECK(info(format.format).format == format.format);
    }
    const std::string message = input_error([] { static_cast<void>(parse_format("fp5", "--format")); });
    CHECK_THAT(message, Contains("--format") && Contains("fp5") && Contains("mxfp4"));
}

TEST_CASE("the wider operand sets the rate, and BF16 mixes with nothing") {
    CHECK(tensor_rate(Format::mxfp4, Format::mxfp4, "") == TensorRate::fp4);
    CHECK(tensor_rate(Format::mxfp8, Format::mxfp4, "") == TensorRate::fp8);
    CHECK(tensor_rate(Format::mxfp4, Format::mxfp6, "") == TensorRate::fp6);
    CHECK(tensor_rate(Format::bf16, Format::bf16, "") == TensorRate::bf16);
    for (const Format other : {Format::mxfp4, Format::mxfp8, Format::fp32, Format::raw}) {
        const std::string message =
            input_error([other] { static_cast<void>(tensor_rate(Format::bf16, other, "--b-format")); });
        CHECK_THAT(message, Contains("--b-format") && Contains("bf16"));
    }
}

}  // namespace
}  // namespace sluice::isa
