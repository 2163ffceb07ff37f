// SPDX-License-Identifier: Apache-2.0
#include "sim/core/energy.hpp"

namespace sluice::sim {

const std::array<EnergyEventInfo, kEnergyEventCount>& energy_events() {
    using E = EnergyEvent;
    static constexpr std::array<EnergyEventInfo, kEnergyEventCount> kEvents{{
        {E::mac_fp4, "mac_fp4", "ttu", "MAC", "FP4 multiply-accumulate, padding included"},
        {E::mac_fp6, "mac_fp6", "ttu", "MAC", "FP6 multiply-accumulate (FP6 with FP4 or FP6)"},
        {E::mac_fp8, "mac_fp8", "ttu", "MAC", "FP8 multiply-accumulate (FP8 with FP6 or FP8)"},
        {E::mac_fp8xfp4, "mac_fp8xfp4", "ttu", "MAC", "FP8 by FP4 multiply-accumulate"},
        {E::mac_bf16, "mac_bf16", "ttu", "MAC", "BF16 multiply-accumulate"},
        {E::vec_fp32_op, "vec_fp32_op", "tvp", "operation", "FP32 lane operation"},
        {E::vec_bf16_op, "vec_bf16_op", "tvp", "operation", "BF16 lane operation"},
        {E::vec_convert, "vec_convert", "tvp", "operation", "format conversion of one element"},
        {E::vec_transcendental, "vec_transcendental", "tvp", "operation", "exp, reciprocal or rsqrt of one element"},
        {E::reshaper_element, "reshaper_element", "reshaper", "element", "element moved by the reshaper"},
        {E::tsram_operand_read_byte, "tsram_operand_read_byte", "tsram", "byte", "read through a wide TTU port"},
        {E::tsram_read_byte, "tsram_read_byte", "tsram", "byte", "read through a narrow port"},
        {E::tsram_write_byte, "tsram_write_byte", "tsram", "byte", "written"},
        {E::csram_read_byte, "csram_read_byte", "csram", "byte", "read"},
        {E::csram_write_byte, "csram_write_byte", "csram", "byte", "written"},
        {E::cnoc_byte, "cnoc_byte", "cnoc", "byte", "crossed a cluster crossbar or a tile mesh link"},
        {E::gnoc_byte_micrometre, "gnoc_byte_micrometre", "gnoc", "byte micrometre", "carried along a GNoC link"},
        {E::gnoc_byte_router, "gnoc_byte_router", "gnoc", "byte", "crossed a GNoC router"},
        {E::hbm_read_byte, "hbm_read_byte", "hbm", "byte", "read from a device"},
        {E::hbm_write_byte, "hbm_write_byte", "hbm", "byte", "written to a device"},
        {E::hbm_activate, "hbm_activate", "hbm", "activate", "row activated and precharged"},
        {E::hbm_refresh_bank, "hbm_refresh_bank", "hbm", "refresh", "one bank refreshed"},
        {E::hbm_refresh_all, "hbm_refresh_all", "hbm", "refresh", "all banks of a pseudo-channel refreshed"},
        {E::hbm_standby_cycle, "hbm_standby_cycle", "hbm", "cycle", "pseudo-channel powered for one core cycle"},
        {E::hbm_phy_byte, "hbm_phy_byte", "hbm_phy", "byte", "crossed PHY and controller"},
        {E::dma_descriptor, "dma_descriptor", "dma", "descriptor", "descriptor fetched and set up"},
        {E::dma_byte, "dma_byte", "dma", "byte", "moved by a DMA engine"},
        {E::control_instruction, "control_instruction", "control", "instruction", "issued by a control processor"},
        {E::semaphore_operation, "semaphore_operation", "control", "operation", "wait or signal of one semaphore"},
        {E::nic_byte, "nic_byte", "network", "byte", "sent or received by a network controller"},
    }};
    return kEvents;
}

}  // namespace sluice::sim
