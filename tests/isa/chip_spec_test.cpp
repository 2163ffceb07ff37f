// SPDX-License-Identifier: Apache-2.0
// The shipped chips: do their derived figures equal the published ones?
#include "isa/chip_spec.hpp"

#include <catch2/catch.hpp>

#include "isa/chip_spec_reader.hpp"

namespace sluice::isa {
namespace {

// Four digits, as published.
auto about(double published) {
    return Approx(published).epsilon(5e-5);
}

TEST_CASE("maia200-peak has the published headline peaks") {
    const nlohmann::json figures = derived(read_chip("maia200-peak").spec);
    const nlohmann::json& peaks = figures["peak_tflops"];
    CHECK(peaks["fp4"].get<double>() == about(10'145));
    CHECK(peaks["fp8"].get<double>() == about(5'072.5));
    CHECK(peaks["fp6"] == peaks["fp8"]);
    CHECK(peaks["bf16"].get<double>() == about(1'268.1));
    CHECK(figures["hbm_tbps"].get<double>() == about(7.000));
}

TEST_CASE("maia200 has the peaks and ridges of the published benchmarks") {
    const ChipSpec chip = read_chip("maia200").spec;
    const nlohmann::json figures = derived(chip);
    CHECK(figures["tiles"] == 4 * 9);
    CHECK(peak_flops(chip, TensorRate::fp4) == 2.0 * 32 * 64 * 32 * 36 * 2.0e9);
    CHECK(peak_flops(chip, TensorRate::fp8) == 2.0 * 32 * 32 * 32 * 36 * 2.0e9);
    CHECK(peak_flops(chip, TensorRate::bf16) == 2.0 * 32 * 8 * 32 * 36 * 2.0e9);
    CHECK(figures["ridge_flop_per_byte"]["fp8"].get<double>() == Approx(674).epsilon(1e-3));
    CHECK(figures["ridge_flop_per_byte"]["bf16"].get<double>() == Approx(168.5).epsilon(1e-3));
}

TEST_CASE("capacities are those of the geometry") {
    const nlohmann::json figures = derived(read_chip("maia200").spec);
    CHECK(figures["hbm_bytes"] == 216LL << 30);
    CHECK(figures["hbm_bytes_per_cycle"].get<double>() == about(3'500));
    // 40 x 3 MiB + 4 x 35 MiB: the published 272 MB counts the spare tiles.
    CHECK(figures["sram_bytes"]["physical"] == (40LL * 3 + 4 * 35) << 20);
    CHECK(figures["sram_bytes"]["usable"] == (36LL * 3 + 4 * 35) << 20);
}

TEST_CASE("the TTU's operand port carries a cycle's operand, scales included") {
    const ChipSpec chip = read_chip("maia200").spec;
    for (const auto& [format, rate] :
         {std::pair{Format::mxfp4, TensorRate::fp4}, std::pair{Format::mxfp6, TensorRate::fp6},
          std::pair{Format::mxfp8, TensorRate::fp8}, std::pair{Format::bf16, TensorRate::bf16}}) {
        const auto blocks_per_cycle = static_cast<double>(k_per_cycle(chip.ttu, rate)) / 32;
        CHECK(static_cast<double>(block_bytes(format)) * blocks_per_cycle <=
              static_cast<double>(chip.ttu.operand_bytes_per_cycle));
    }
}

}  // namespace
}  // namespace sluice::isa
