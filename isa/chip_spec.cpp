// SPDX-License-Identifier: Apache-2.0
#include "isa/chip_spec.hpp"

namespace sluice::isa {

std::int64_t tile_count(const ChipSpec& chip) {
    return chip.soc.clusters * chip.soc.tiles_per_cluster;
}

std::int64_t k_per_cycle(const TtuSpec& ttu, TensorRate rate) {
    switch (rate) {
        case TensorRate::fp4: return ttu.k_per_cycle_fp4;
        case TensorRate::fp6: return ttu.k_per_cycle_fp6;
        case TensorRate::fp8: return ttu.k_per_cycle_fp8;
        case TensorRate::bf16: return ttu.k_per_cycle_bf16;
        case TensorRate::none: break;
    }
    return 0;
}

std::int64_t macs_per_cycle(const TtuSpec& ttu, TensorRate rate) {
    return kBlockEdge * kBlockEdge * k_per_cycle(ttu, rate);
}

double peak_flops(const ChipSpec& chip, TensorRate rate) {
    return 2.0 * static_cast<double>(macs_per_cycle(chip.ttu, rate)) * static_cast<double>(tile_count(chip)) *
           static_cast<double>(chip.clock.core_hz);
}

Bytes hbm_bytes(const ChipSpec& chip) {
    const HbmSpec& hbm = chip.hbm;
    return static_cast<Bytes>(hbm.stacks * hbm.channels_per_stack * hbm.pseudo_channels * hbm.bank_groups *
                              hbm.banks_per_group * hbm.ranks * hbm.rows * hbm.row_bytes);
}

double hbm_bytes_per_second(const ChipSpec& chip) {
    const HbmSpec& hbm = chip.hbm;
    const auto pins =
        static_cast<double>(hbm.stacks * hbm.channels_per_stack * hbm.pseudo_channels * hbm.pseudo_channel_bits);
    return pins * static_cast<double>(hbm.bits_per_second_per_pin) / 8.0;
}

double hbm_bytes_per_cycle(const ChipSpec& chip) {
    return hbm_bytes_per_second(chip) / static_cast<double>(chip.clock.core_hz);
}

double seconds(const ChipSpec& chip, Cycle cycles) {
    return static_cast<double>(cycles) / static_cast<double>(chip.clock.core_hz);
}

}  // namespace sluice::isa
