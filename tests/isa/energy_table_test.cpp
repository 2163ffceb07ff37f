// SPDX-License-Identifier: Apache-2.0
// Is the energy table strict, sourced, and does it add up to what is known of the chip?
#include "isa/energy_table.hpp"

#include <catch2/catch.hpp>

#include "isa/chip_spec_reader.hpp"
#include "tests/support/files.hpp"

namespace sluice::isa {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::input_error;
using test::TemporaryFolder;

json shipped() {
    return read_json_file(configs_directory() / "energy" / "maia200.json");
}

std::string error_of(const json& table) {
    const TemporaryFolder folder;
    const std::string file = folder.write("mine.json", table.dump());
    return input_error([&] { static_cast<void>(read_energy_table(file)); });
}

TEST_CASE("the shipped table gives every event, with where it comes from") {
    const EnergyTable table = read_energy_table("maia200");
    CHECK(table.events.size() == energy_event_names().size() - 1);
    for (const auto& [path, entry] : table.values.items()) {
        INFO(path);
        CHECK_FALSE(entry["source"].get<std::string>().empty());
        CHECK(entry["status"] != "user");
    }
}

TEST_CASE("the reader is strict") {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"/events/mac_fp4", "events.mac_fp4: missing"},
        {"/static_w", "static_w.leakage: missing"},
        {"/hbm/energy_scale", "hbm.energy_scale: missing"},
        {"/name", "name: missing"},
        {"/events/mac_fp4/scales_with_voltage", "events.mac_fp4.scales_with_voltage: missing"},
        {"/events/mac_fp4/source", "events.mac_fp4.source: missing"},
    };
    for (const auto& [pointer, message] : cases) {
        json table = shipped();
        const json::json_pointer place(pointer);
        table[place.parent_pointer()].erase(place.back());
        CHECK_THAT(error_of(table), Contains("mine.json: " + message));
    }
    json table = shipped();
    table["events"]["mac_fp5"] = table["events"]["mac_fp4"];
    CHECK_THAT(error_of(table), Contains("events.mac_fp5") && Contains("unknown key") && Contains("did you mean"));
    table = shipped();
    table["evnts"] = json::object();
    CHECK_THAT(error_of(table), Contains("\"evnts\"") && Contains("did you mean \"events\""));
    for (const json& value : {json(-1), json("1"), json(1e10), json(nullptr), json(true)}) {
        table = shipped();
        table["events"]["mac_fp4"]["value"] = value;
        CHECK_THAT(error_of(table), Contains("events.mac_fp4: found") && Contains("allowed: a number"));
    }
    CHECK_THAT(input_error([] { static_cast<void>(read_energy_table("maia20")); }), Contains("did you mean"));
}

TEST_CASE("on-die energy goes with the square of the voltage, that of stacks and links does not") {
    const EnergyTable table = read_energy_table("maia200");
    const ChipSpec nominal = read_chip("maia200-peak").spec;
    const ChipSpec lower = read_chip("maia200").spec;
    for (const std::string_view event : energy_event_names()) {
        const double ratio = event_picojoules(table, event, lower) / event_picojoules(table, event, nominal);
        INFO(event);
        if (event == "hbm_standby_cycle") {
            CHECK(ratio == Approx(2.15 / 2.0));  // the same watts in longer cycles
        } else if (event.starts_with("hbm_") || event == "nic_byte") {
            CHECK(ratio == 1.0);
        } else {
            CHECK(ratio == Approx(0.71 * 0.71 / (0.75 * 0.75)));
        }
    }
}

TEST_CASE("standby is 0.223 W a pseudo-channel at any clock") {
    const EnergyTable table = read_energy_table("maia200");
    for (const char* clock : {"clock.core_hz=1GHz", "clock.core_hz=2GHz"}) {
        const ChipSpec chip = read_chip("maia200", {clock}).spec;
        const double watts =
            event_picojoules(table, "hbm_standby_cycle", chip) * 1e-12 * static_cast<double>(chip.clock.core_hz);
        CHECK(watts == Approx(0.223));
    }
}

TEST_CASE("hbm.energy_scale multiplies the stacks alone") {
    json edited = shipped();
    edited["hbm"]["energy_scale"] = 0.7;
    const TemporaryFolder folder;
    const EnergyTable scaled = read_energy_table(folder.write("optimistic.json", edited.dump()));
    const EnergyTable table = read_energy_table("maia200");
    const ChipSpec chip = read_chip("maia200").spec;
    for (const std::string_view event : energy_event_names()) {
        const bool in_stack = event.starts_with("hbm_") && event != "hbm_phy_byte";
        INFO(event);
        CHECK(event_picojoules(scaled, event, chip) ==
              Approx((in_stack ? 0.7 : 1.0) * event_picojoules(table, event, chip)));
    }
}

TEST_CASE("a mean read from HBM to a cluster crosses the global network for 5.7 pJ a byte") {
    const EnergyTable table = read_energy_table("maia200");
    const ChipSpec chip = read_chip("maia200-peak").spec;
    const double links = 2.5;
    const double picojoules = links * static_cast<double>(chip.gnoc.link_micrometres) *
                                  event_picojoules(table, "gnoc_byte_micrometre", chip) +
                              (links + 1) * event_picojoules(table, "gnoc_byte_router", chip);
    CHECK(picojoules == Approx(8 * (0.065 * 10 + 0.06)).epsilon(5e-3));
}

TEST_CASE("static power at the nominal point, and less below it") {
    const EnergyTable table = read_energy_table("maia200");
    const auto sum = [&table](const char* chip) {
        double watts = 0;
        for (const auto& [row, value] : static_watts(table, read_chip(chip).spec)) {
            watts += value;
        }
        return watts;
    };
    CHECK(sum("maia200-peak") == Approx(60 + 30 + 6 + 28));
    CHECK(sum("maia200") < sum("maia200-peak"));
    CHECK(sum("maia200") > 6 + 28);
}

TEST_CASE("a FP4 product at the headline peak costs 279 W in the arrays") {
    const EnergyTable table = read_energy_table("maia200");
    const ChipSpec chip = read_chip("maia200-peak").spec;
    const double watts = peak_flops(chip, TensorRate::fp4) / 2 * event_picojoules(table, "mac_fp4", chip) * 1e-12;
    CHECK(watts == Approx(279).epsilon(1e-2));
    CHECK(watts * 1e3 < static_cast<double>(chip.power.tdp_milliwatts));
}

}  // namespace
}  // namespace sluice::isa
