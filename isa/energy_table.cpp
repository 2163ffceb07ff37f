// SPDX-License-Identifier: Apache-2.0
#include "isa/energy_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "isa/errors.hpp"

namespace sluice::isa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kStandby = "hbm_standby_cycle";

/// Reads one table file; remembers what it has read, so that the rest is unknown.
class TableReader {
public:
    TableReader(const fs::path& file, json& values) : file_(file), object_(read_json_file(file)), values_(values) {
        static_cast<void>(require_object(object_, file_.string()));
    }

    [[nodiscard]] std::string text(const std::string& key) { return require_string(find(key), where(key)); }

    [[nodiscard]] double number(const std::string& path, const std::string& unit, double lowest, double highest) {
        Provenance provenance;
        const json& value = read_leaf(find(path), where(path), file_.filename().string(), provenance);
        const double number = require_number(value, where(path), lowest, highest);
        values_[path] = {
            {"value", number}, {"status", provenance.status}, {"source", provenance.source}, {"unit", unit}};
        return number;
    }

    /// {"value", "status", "source", "scales_with_voltage"}
    [[nodiscard]] EventEnergy event(const std::string& name) {
        constexpr double kMaxPicojoules = 1e9;
        const std::string path = "events." + name;
        json leaf = require_object(find(path), where(path));
        if (!leaf.contains("scales_with_voltage")) {
            throw InputError(where(path) + ".scales_with_voltage",
                             "missing; an event carries value, status, source "
                             "and scales_with_voltage");
        }
        EventEnergy event;
        event.scales_with_voltage = require_bool(leaf["scales_with_voltage"], where(path) + ".scales_with_voltage");
        leaf.erase("scales_with_voltage");
        Provenance provenance;
        const json& value = read_leaf(leaf, where(path), file_.filename().string(), provenance);
        event.picojoules = require_number(value, where(path), 0, kMaxPicojoules);
        values_[path] = {{"value", event.picojoules},
                         {"status", provenance.status},
                         {"source", provenance.source},
                         {"unit", "pJ"},
                         {"scales_with_voltage", event.scales_with_voltage}};
        return event;
    }

    void refuse_the_rest() const {
        for (const auto& [key, value] : object_.items()) {
            refuse_unknown(key);
            if (groups_.contains(key)) {
                for (const auto& [inner, ignored] : value.items()) {
                    refuse_unknown(key + "." + inner);
                }
            }
        }
    }

private:
    [[nodiscard]] std::string where(const std::string& path) const { return file_.string() + ": " + path; }

    const json& find(const std::string& path) {
        const std::size_t dot = path.find('.');
        const std::string group = path.substr(0, dot);
        known_.push_back(path);
        if (!object_.contains(group)) {
            throw InputError(where(path), "missing");
        }
        if (dot == std::string::npos) {
            return object_[group];
        }
        if (groups_.insert(group).second) {
            known_.push_back(group);
        }
        const json& inner = require_object(object_[group], where(group));
        const auto found = inner.find(path.substr(dot + 1));
        if (found == inner.end()) {
            throw InputError(where(path), "missing");
        }
        return *found;
    }

    void refuse_unknown(const std::string& path) const {
        if (std::find(known_.begin(), known_.end(), path) == known_.end()) {
            throw InputError(where(shown(json(path))), "unknown key" + did_you_mean(path, known_));
        }
    }

    fs::path file_;
    json object_;
    json& values_;
    std::set<std::string> groups_;
    std::vector<std::string> known_;
};

double volts(const ChipSpec& chip) {
    return static_cast<double>(chip.power.core_millivolts) / 1e3;
}

}  // namespace

const std::array<std::string_view, 30>& energy_event_names() {
    static constexpr std::array<std::string_view, 30> kNames{
        "mac_fp4",
        "mac_fp6",
        "mac_fp8",
        "mac_fp8xfp4",
        "mac_bf16",
        "vec_fp32_op",
        "vec_bf16_op",
        "vec_convert",
        "vec_transcendental",
        "reshaper_element",
        "tsram_operand_read_byte",
        "tsram_read_byte",
        "tsram_write_byte",
        "csram_read_byte",
        "csram_write_byte",
        "cnoc_byte",
        "gnoc_byte_micrometre",
        "gnoc_byte_router",
        "hbm_read_byte",
        "hbm_write_byte",
        "hbm_activate",
        "hbm_refresh_bank",
        "hbm_refresh_all",
        kStandby,
        "hbm_phy_byte",
        "dma_descriptor",
        "dma_byte",
        "control_instruction",
        "semaphore_operation",
        "nic_byte",
    };
    return kNames;
}

EnergyTable read_energy_table(const std::string& name_or_path, const fs::path& configs) {
    const fs::path file = find_config(configs, "energy", name_or_path);
    EnergyTable table;
    table.values = json::object();
    TableReader in(file, table.values);
    constexpr double kMaxWatts = 1e5;
    table.name = in.text("name");
    table.description = in.text("description");
    table.nominal_millivolts = in.number("scaling.nominal_millivolts", "mV", 300, 1'500);
    table.nominal_core_hz = in.number("scaling.nominal_core_hz", "Hz", 1e6, 1e10);
    table.leakage_per_volt = in.number("scaling.leakage_per_volt", "1/V", 0, 20);
    table.hbm_energy_scale = in.number("hbm.energy_scale", "", 0, 10);
    table.hbm_standby_w_per_pseudo_channel = in.number("hbm.standby_w_per_pseudo_channel", "W", 0, 100);
    table.leakage_w = in.number("static_w.leakage", "W", 0, kMaxWatts);
    table.clock_and_uncore_w = in.number("static_w.clock_and_uncore", "W", 0, kMaxWatts);
    table.phy_idle_w = in.number("static_w.phy_idle", "W", 0, kMaxWatts);
    table.serdes_w = in.number("static_w.serdes", "W", 0, kMaxWatts);
    for (const std::string_view event : energy_event_names()) {
        if (event != kStandby) {
            table.events.emplace(event, in.event(std::string(event)));
        }
    }
    in.refuse_the_rest();
    return table;
}

double event_picojoules(const EnergyTable& table, std::string_view event, const ChipSpec& chip) {
    if (event == kStandby) {
        const double watts = table.hbm_standby_w_per_pseudo_channel * table.hbm_energy_scale;
        return watts / static_cast<double>(chip.clock.core_hz) * 1e12;
    }
    const auto found = table.events.find(event);
    if (found == table.events.end()) {
        throw InvariantError(fmt::format("energy table {}: no event \"{}\"", table.name, event));
    }
    double picojoules = found->second.picojoules;
    if (found->second.scales_with_voltage) {
        const double ratio = static_cast<double>(chip.power.core_millivolts) / table.nominal_millivolts;
        picojoules *= ratio * ratio;
    }
    const bool in_stack = event.starts_with("hbm_") && event != "hbm_phy_byte";
    return in_stack ? picojoules * table.hbm_energy_scale : picojoules;
}

std::map<std::string, double> static_watts(const EnergyTable& table, const ChipSpec& chip) {
    const double nominal = table.nominal_millivolts / 1e3;
    const double ratio = volts(chip) / nominal;
    const double frequency_ratio = static_cast<double>(chip.clock.core_hz) / table.nominal_core_hz;
    return {{"leakage", table.leakage_w * ratio * std::exp(table.leakage_per_volt * (volts(chip) - nominal))},
            {"clock_and_uncore", table.clock_and_uncore_w * ratio * ratio * frequency_ratio},
            {"phy_idle", table.phy_idle_w},
            {"serdes", table.serdes_w}};
}

}  // namespace sluice::isa
