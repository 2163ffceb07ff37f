// SPDX-License-Identifier: Apache-2.0
// Do figures for people read as they should?
#include "tools/table.hpp"

#include <catch2/catch.hpp>

#include "isa/errors.hpp"
#include "tests/support/files.hpp"
#include "tools/flags.hpp"
#include "tools/progress.hpp"

using namespace sluice;

TEST_CASE("a number keeps three digits and gets a prefix") {
    CHECK(tools::scaled(0, "s") == "0 s");
    CHECK(tools::scaled(1.2345e-5, "s") == "12.3 us");
    CHECK(tools::scaled(0.99951, "s") == "1.00 s");
    CHECK(tools::scaled(9.9951, "s") == "10.0 s");
    CHECK(tools::scaled(99.96, "W") == "100 W");
    CHECK(tools::scaled(7e12, "B/s") == "7.00 TB/s");
    CHECK(tools::scaled(1.0145e16, "flop/s") == "10,145 Tflop/s");
    CHECK(tools::scaled(2e9, "Hz") == "2.00 GHz");
    CHECK(tools::scaled(-0.5, "s") == "-500 ms");
    CHECK(tools::scaled(1e-15, "J") == "0.00 pJ");
}

TEST_CASE("digits stand in groups of three") {
    CHECK(tools::grouped(0) == "0");
    CHECK(tools::grouped(999) == "999");
    CHECK(tools::grouped(1'000) == "1,000");
    CHECK(tools::grouped(1'234'567) == "1,234,567");
    CHECK(tools::grouped(18'446'744'073'709'551'615U) == "18,446,744,073,709,551,615");
}

TEST_CASE("columns line up, with nothing after the last") {
    CHECK(tools::aligned({{"a", "1", "x"}, {"long", "100", "yy"}}, {2}) == "a       1  x\nlong  100  yy\n");
    CHECK(tools::aligned({}).empty());
}

TEST_CASE("the progress line says how far, how fast and how long still") {
    CHECK(tools::ProgressLine::text({1'500'000, 250, 1'000}, 2.0) ==
          "[######                  ]  25 %  1.50 Mcycles  0.75 Mcycles/s  0:06 left");
    CHECK(tools::ProgressLine::text({0, 0, 1'000}, 0.0) ==
          "[                        ]   0 %  0.00 Mcycles  0.00 Mcycles/s  ? left");
    // The total is not known for a program too long to count.
    CHECK(tools::ProgressLine::text({1'000'000, 77, 0}, 1.0) == "77 instructions  1.00 Mcycles  1.00 Mcycles/s");
    CHECK(tools::ProgressLine::text({1'000'000, 1, 10'000}, 1.0).ends_with("2:46:39 left"));
}

TEST_CASE("short names of formats mean what the documentation says") {
    using isa::Format;
    const std::vector<Format> operands = {Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::e4m3, Format::bf16};
    CHECK(tools::parse_flag_format("fp4", "--x", operands) == Format::mxfp4);
    CHECK(tools::parse_flag_format("mxfp6", "--x", operands) == Format::mxfp6);
    CHECK(tools::parse_flag_format("fp8", "--x", operands) == Format::mxfp8);
    CHECK(tools::parse_flag_format("fp8", "--kv", {Format::e4m3, Format::bf16}) == Format::e4m3);
    CHECK(test::input_error([&] { (void)tools::parse_flag_format("raw", "--x", operands); }).starts_with("--x: found"));
}
