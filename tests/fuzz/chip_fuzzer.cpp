// SPDX-License-Identifier: Apache-2.0
// Chips: a file is refused by name or gives a machine of which everything that is derived can be said.
#include <cmath>

#include "isa/chip_spec_reader.hpp"
#include "tests/fuzz/fuzzer.hpp"

using namespace sluice;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::InputFile kFile("chip.json");
    const std::string path = kFile.write(fuzz::text_of(data, size));
    (void)fuzz::accepts([&] {
        const isa::ResolvedChip chip = isa::read_chip(path, {}, std::string(SLUICE_SOURCE_DIR) + "/configs");
        fuzz::require(isa::tile_count(chip.spec) > 0, "a chip has tiles");
        fuzz::require(isa::hbm_bytes(chip.spec) > 0, "a chip has memory");
        for (const isa::TensorRate rate :
             {isa::TensorRate::fp4, isa::TensorRate::fp6, isa::TensorRate::fp8, isa::TensorRate::bf16}) {
            const double flops = isa::peak_flops(chip.spec, rate);
            fuzz::require(std::isfinite(flops) && flops > 0, "a chip has a peak");
        }
        fuzz::require(isa::derived(chip.spec).is_object(), "figures follow from a chip");
        fuzz::require(!chip.values.dump().empty(), "the origin of every value can be printed");
    });
    return 0;
}
