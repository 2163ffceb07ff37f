// SPDX-License-Identifier: Apache-2.0
#pragma once
// Energy per event, read strictly from configs/energy/*.json. The simulator counts events as integers; joules are made
// once, at the end, with these coefficients. Every value carries where it comes from; the absolute figures are good to
// 20-25 %, relative ones to 10 %.
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "isa/chip_spec.hpp"
#include "isa/config_file.hpp"

namespace sluice::isa {

struct EventEnergy {
    double picojoules = 0;             ///< per event, at nominal_millivolts
    bool scales_with_voltage = false;  ///< (V / nominal)^2; true on the core supply alone
};

struct EnergyTable {
    std::string name;
    std::string description;
    double nominal_millivolts = 0;
    double nominal_core_hz = 0;
    /// Leakage goes with V * exp(leakage_per_volt * (V - nominal)).
    double leakage_per_volt = 0;
    /// Multiplies every hbm_* event (0.7 = an optimistic vendor's claim).
    double hbm_energy_scale = 1.0;
    /// A power, since standby lasts for a time and the core clock, in whose cycles it is counted, varies.
    double hbm_standby_w_per_pseudo_channel = 0;
    /// At the nominal voltage and clock.
    double leakage_w = 0, clock_and_uncore_w = 0, phy_idle_w = 0, serdes_w = 0;
    /// By event name, as in sim/core/energy.hpp; all of them but hbm_standby_cycle.
    std::map<std::string, EventEnergy, std::less<>> events;
    /// {"events.mac_fp4": {"value", "status", "source", "unit"}, ...}: every value with where it comes from.
    nlohmann::json values;
};

/// `name_or_path`: "maia200" (in configs/energy/) or a file. Throws InputError naming file, key path, what was found
/// and what is allowed.
[[nodiscard]] EnergyTable read_energy_table(const std::string& name_or_path,
                                            const std::filesystem::path& configs = configs_directory());

/// The events that a table gives, in the order of the simulator's enumeration; hbm_standby_cycle, which a table gives
/// as a power, is among them.
[[nodiscard]] const std::array<std::string_view, 30>& energy_event_names();

/// Picojoules of one event on this chip: scaled to its core voltage; hbm_standby_cycle from watts and its clock.
[[nodiscard]] double event_picojoules(const EnergyTable& table, std::string_view event, const ChipSpec& chip);

/// Watts by row, at the chip's voltage and clock: "leakage", "clock_and_uncore", "phy_idle", "serdes".
[[nodiscard]] std::map<std::string, double> static_watts(const EnergyTable& table, const ChipSpec& chip);

}  // namespace sluice::isa
