// SPDX-License-Identifier: Apache-2.0
#pragma once
// Energy events as integer counts. Joules are made once, at the end, by tools/ from an energy table; the simulator
// never multiplies by a coefficient. Counts are kept per event, per plan node and per time interval.
#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::sim {

enum class EnergyEvent : std::uint8_t {
    mac_fp4,
    mac_fp6,
    mac_fp8,
    mac_fp8xfp4,
    mac_bf16,  ///< multiply-accumulates, padding included
    vec_fp32_op,
    vec_bf16_op,
    vec_convert,
    vec_transcendental,  ///< lane operations
    reshaper_element,
    tsram_operand_read_byte,
    tsram_read_byte,
    tsram_write_byte,  ///< operand = wide TTU port
    csram_read_byte,
    csram_write_byte,
    cnoc_byte,  ///< crossbar or tile mesh link crossed
    gnoc_byte_micrometre,
    gnoc_byte_router,  ///< per link length crossed; per router crossed
    hbm_read_byte,
    hbm_write_byte,
    hbm_activate,
    hbm_refresh_bank,
    hbm_refresh_all,
    hbm_standby_cycle,  ///< pseudo-channel core cycles
    hbm_phy_byte,
    dma_descriptor,
    dma_byte,
    control_instruction,
    semaphore_operation,
    nic_byte,
};
constexpr std::size_t kEnergyEventCount = 30;

struct EnergyEventInfo {
    EnergyEvent event;
    std::string_view name;       ///< as in the energy table file
    std::string_view component;  ///< report row: "ttu", "tvp", "reshaper", "tsram", "csram", "cnoc", "gnoc", "hbm",
                                 ///< "hbm_phy", "dma", "control", "network"
    std::string_view unit;       ///< "MAC", "operation", "byte", ...
    std::string_view description;
};
[[nodiscard]] const std::array<EnergyEventInfo, kEnergyEventCount>& energy_events();

using EnergyCounts = std::array<std::uint64_t, kEnergyEventCount>;

}  // namespace sluice::sim
