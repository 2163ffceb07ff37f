// SPDX-License-Identifier: Apache-2.0
// Is the chip reader strict? Each kind of wrong input must be named with its place.
#include "isa/chip_spec_reader.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/support/files.hpp"

namespace sluice::isa {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::input_error;
using test::TemporaryFolder;

std::string error_of(const std::string& chip, const std::vector<std::string>& sets = {}) {
    return input_error([&] { static_cast<void>(read_chip(chip, sets)); });
}

// A chip file based on maia200 with one more member.
std::string variant(const std::string& member) {
    return "{\"base\": \"maia200\", " + member + "}";
}

std::string error_of_variant(const std::string& member) {
    const TemporaryFolder folder;
    return error_of(folder.write("mine.json", variant(member)));
}

TEST_CASE("every shipped chip is complete and says where each value comes from") {
    int chips = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(configs_directory() / "chips")) {
        const ResolvedChip chip = read_chip(entry.path().string());
        ++chips;
        CHECK(chip.spec.name == entry.path().stem().string());
        CHECK(chip.values.size() == chip_fields().size());
        for (const auto& [path, field] : chip.values.items()) {
            INFO(entry.path() << ": " << path);
            const auto status = field["status"].get<std::string>();
            CHECK((status == "published" || status == "derived" || status == "assumed"));
            CHECK_FALSE(field["source"].get<std::string>().empty());
            CHECK_FALSE(field["description"].get<std::string>().empty());
        }
    }
    CHECK(chips >= 3);
}

TEST_CASE("a variant overrides its base and keeps the rest") {
    const TemporaryFolder folder;
    const std::string file = folder.write("big.json", variant(R"("tsram": {"bytes": 4194304})"));
    const ResolvedChip base = read_chip("maia200");
    const ResolvedChip chip = read_chip(file);
    CHECK(chip.spec.name == "big");
    CHECK(chip.spec.tsram.bytes == 4 << 20);
    CHECK(chip.values["tsram.bytes"]["status"] == "user");
    CHECK(chip.values["tsram.bytes"]["source"] == "big.json");
    CHECK(chip.spec.csram.bytes == base.spec.csram.bytes);
    CHECK(chip.values["csram.bytes"] == base.values["csram.bytes"]);
}

TEST_CASE("a base may be a path relative to the file, several deep") {
    const TemporaryFolder folder;
    folder.write("lower/a.json", variant(R"("ttu": {"contexts": 3})"));
    folder.write("b.json", R"({"base": "lower/a.json", "ttu": {"macro_overhead_cycles": 0}})");
    const ResolvedChip chip = read_chip(folder.write("c.json", R"({"base": "b.json", "name": "deep"})"));
    CHECK(chip.spec.name == "deep");
    CHECK(chip.spec.ttu.contexts == 3);
    CHECK(chip.spec.ttu.macro_overhead_cycles == 0);
}

TEST_CASE("a chip that is based on itself is refused") {
    const TemporaryFolder folder;
    folder.write("a.json", R"({"base": "b.json"})");
    const std::string file = folder.write("b.json", R"({"base": "a.json"})");
    CHECK_THAT(error_of(file), Contains("base") && Contains("based on itself"));
}

TEST_CASE("an unknown base is named with the known ones") {
    const TemporaryFolder folder;
    const std::string message = error_of(folder.write("x.json", R"({"base": "maia20"})"));
    CHECK_THAT(message, Contains("x.json: base") && Contains("maia20") && Contains("maia200-peak"));
}

TEST_CASE("an unknown chip name is answered with the shipped ones") {
    CHECK_THAT(error_of("maia2000"), Contains("maia2000") && Contains("did you mean \"maia200\""));
    CHECK_THAT(error_of("no/such/chip.json"), Contains("no/such/chip.json") && Contains("no such file"));
    CHECK_THAT(error_of(fs::temp_directory_path().string()), Contains("not a regular file"));
}

TEST_CASE("keys are strict: unknown, misspelt, of a wrong kind, twice") {
    CHECK_THAT(error_of_variant(R"("ttu": {"context": 2})"),
               Contains("mine.json") && Contains("ttu.context") && Contains("did you mean \"ttu.contexts\""));
    CHECK_THAT(error_of_variant(R"("gpu": {})"), Contains("mine.json: \"gpu\": unknown key"));
    CHECK_THAT(error_of_variant(R"("ttu": 5)"), Contains("mine.json: ttu: found 5, allowed: an object"));
    CHECK_THAT(error_of_variant(R"("ttu": {"contexts": 2, "contexts": 3})"), Contains("\"contexts\" stands twice"));
    CHECK_THAT(error_of_variant(R"("ttu": {"contexts": {"value": 2, "status": "assumed"}})"),
               Contains("ttu.contexts.source: missing"));
    CHECK_THAT(error_of_variant(R"("ttu": {"contexts": {"value": 2, "status": "guessed", "source": "me"}})"),
               Contains("ttu.contexts.status: found \"guessed\"") && Contains("assumed"));
    CHECK_THAT(error_of_variant(R"("ttu": {"contexts": {"value": 2, "status": "assumed", "sorce": "me"}})"),
               Contains("ttu.contexts.sorce: unknown key"));
}

TEST_CASE("values are strict: wrong type, out of range, not finite") {
    const std::string allowed = "ttu.contexts: found ";
    for (const char* value :
         {"\"2\"", "2.5", "true", "null", "[2]", "0", "-1", "65", "18446744073709551615", "1e300"}) {
        INFO(value);
        CHECK_THAT(error_of_variant(R"("ttu": {"contexts": )" + std::string(value) + "}"),
                   Contains(allowed) && Contains("allowed: an integer from 1 to 64"));
    }
    CHECK_THAT(error_of_variant(R"("ttu": {"contexts": NaN})"), Contains("not valid JSON"));
    CHECK_THAT(error_of_variant(R"("ttu": {"contexts": 1e999})"), Contains("not valid JSON"));
    CHECK_THAT(error_of_variant(R"("hbm": {"refresh": "perbank"})"),
               Contains("hbm.refresh: found \"perbank\"") && Contains("per_bank, all_bank, none"));
    CHECK_THAT(error_of_variant(R"("name": "")"), Contains("name") && Contains("not empty"));
}

TEST_CASE("a whole number may be written with an exponent") {
    const TemporaryFolder folder;
    const ResolvedChip chip = read_chip(folder.write("x.json", variant(R"("clock": {"core_hz": 1.5e9})")));
    CHECK(chip.spec.clock.core_hz == 1'500'000'000);
}

TEST_CASE("text that is not JSON is refused with line and column") {
    const TemporaryFolder folder;
    for (const char* text : {"", "{", "{} x", "// comment\n{}", "[1, 2]", "\xff\xfe", "nil"}) {
        INFO(text);
        CHECK_THAT(error_of(folder.write("bad.json", text)), Contains("bad.json"));
    }
    CHECK_THAT(error_of(folder.write("bad.json", "{\n  \"ttu\": ,\n}")), Contains("line 2"));
    for (const std::size_t depth : {66U, 200'000U}) {
        const std::string deep = std::string(depth, '[');
        CHECK_THAT(error_of(folder.write("bad.json", deep)), Contains("bad.json: nested more than 64 deep"));
        CHECK_THAT(error_of(folder.write("bad.json", deep + std::string(depth, ']'))), Contains("nested more than 64"));
    }
}

TEST_CASE("a missing field is named when there is no base") {
    const TemporaryFolder folder;
    const std::string message = error_of(folder.write("empty.json", "{}"));
    CHECK_THAT(message, Contains("empty.json") && Contains("missing"));
}

TEST_CASE("an override replaces a value, with units that suit the field") {
    const ResolvedChip chip =
        read_chip("maia200", {"tsram.bytes=4MiB", "clock.core_hz=2.15GHz", "gnoc.link_micrometres=3.5mm",
                              "hbm.refresh=all_bank", "power.tdp_milliwatts=600W", "ttu.contexts=3", "ttu.contexts=4"});
    CHECK(chip.spec.tsram.bytes == 4LL << 20);
    CHECK(chip.spec.clock.core_hz == 2'150'000'000);
    CHECK(chip.spec.gnoc.link_micrometres == 3'500);
    CHECK(chip.spec.hbm.refresh == "all_bank");
    CHECK(chip.spec.power.tdp_milliwatts == 600'000);
    CHECK(chip.spec.ttu.contexts == 4);
    CHECK(chip.values["tsram.bytes"]["status"] == "user");
    CHECK(chip.values["tsram.bytes"]["source"] == "--set");
}

TEST_CASE("an override takes paths that spell out the part's position") {
    const ResolvedChip chip =
        read_chip("maia200", {"tile.tsram.bytes=4MiB", "chip.cluster.csram.bytes=70MiB", "chip.hbm.stacks=4"});
    CHECK(chip.spec.tsram.bytes == 4LL << 20);
    CHECK(chip.spec.csram.bytes == 70LL << 20);
    CHECK(chip.spec.hbm.stacks == 4);
    CHECK_THAT(error_of("maia200", {"cluster.tsram.bytes=4MiB"}), Contains("unknown key") && Contains("tsram.bytes"));
}

TEST_CASE("an override is strict") {
    for (const char* set : {"", "=", "ttu.contexts", "ttu.contexts=", "=4"}) {
        INFO(set);
        CHECK_THAT(error_of("maia200", {set}), Contains("--set") && Contains("path=value"));
    }
    CHECK_THAT(error_of("maia200", {"tsram.byte=1"}), Contains("did you mean \"tsram.bytes\""));
    CHECK_THAT(error_of("maia200", {"ttu=1"}), Contains("--set \"ttu\": unknown key"));
    for (const char* value : {"4MB", "4 GHz", "x", "0x10", "1.5B", "99999999999999999999", "8589934592GiB", "-4MiB",
                              "4..5MiB", "1e3", "--", "."}) {
        INFO(value);
        CHECK_THAT(error_of("maia200", {"tsram.bytes=" + std::string(value)}),
                   Contains("--set tsram.bytes: found") && Contains("allowed: an integer from 4096"));
    }
}

TEST_CASE("fields that do not fit together are refused at the one that was set") {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"soc.tiles_per_cluster=11", "soc.tiles_per_cluster_physical (10)"},
        {"soc.disabled_slot=10", "soc.tiles_per_cluster (9)"},
        {"soc.clusters=29", "256 tiles"},
        {"ttu.k_per_cycle_fp4=48", "a divisor or a multiple of 32"},
        {"tvp.lanes_32b=512", "tvp.lanes_16b (256)"},
        {"tsram.bytes=3000000", "(8192)"},
        {"csram.bank_bytes_per_cycle=100", "a multiple of 32"},
        {"tsram.output_region_bytes=4MiB", "tsram.bytes (3145728)"},
        {"tsram.output_region_bytes=4100", "a multiple of 4096"},
        {"noc.packet_bytes=512", "hbm.granule_bytes (1024)"},
        {"tdma.max_inflight_bytes=512", "noc.packet_bytes (1024)"},
        {"hbm.pseudo_channel_bits=64", "256 bits in hbm.timing.nbl (2) CK of 4 transfers"},
        {"hbm.timing.nrc=64", "hbm.timing.nras (65)"},
        {"hbm.timing.nccds=1", "at least hbm.timing.nbl (2)"},
        {"hbm.timing.nccdl=1", "at least hbm.timing.nccds (2)"},
        {"hbm.timing.nfaw=5", "at least hbm.timing.nrrds (6)"},
        {"hbm.write_high=65", "at most hbm.write_queue (64)"},
        {"hbm.write_low=51", "less than hbm.write_high (51)"},
        {"hbm.timing.nrefi=900", "48 banks x nrrefd"},
        // Between two refreshes of a granule's four banks, evenly spread: nrfcpb, 64 + 38 to close the bank before it,
        // and a visit: 38 + 35 + 4 x 9 + 45 + 4 x 4 + 64.
        {"hbm.timing.nrefi=2144", "4 bank groups x"},
        {"hbm.rows=1048576", "2^40 bytes"},
    };
    for (const auto& [set, allowed] : cases) {
        INFO(set);
        CHECK_THAT(error_of("maia200", {set}),
                   Contains("--set " + set.substr(0, set.find('='))) && Contains("allowed: ") && Contains(allowed));
    }
    // Rows that refreshes close before they can be read would keep a run going for ever.
    CHECK_THAT(error_of("maia200", {"hbm.timing.nrcdrd=100000"}),
               Contains("hbm.timing.nrefi") && Contains("allowed: more than") && Contains("nrcdrd"));
    CHECK_THAT(error_of("maia200", {"hbm.timing.nrcdwr=100000", "hbm.refresh=all_bank"}),
               Contains("hbm.timing.nrefi") && Contains("allowed: more than") && Contains("nrcdwr"));
    // With the shipped map a granule has to be as many bursts in each bank group, and to divide a row of each.
    CHECK_THAT(error_of("maia200", {"hbm.granule_bytes=1056", "noc.packet_bytes=1056"}),
               Contains("hashed.json: digits[1].radix") && Contains("hbm.granule_bytes"));
    CHECK_THAT(error_of("maia200", {"hbm.granule_bytes=1536", "noc.packet_bytes=1536"}),
               Contains("hashed.json: digits[1].radix") && Contains("hbm.granule_bytes"));
    CHECK_THAT(error_of("maia200", {"hbm.granule_bytes=1000", "noc.packet_bytes=1000"}),
               Contains("--set hbm.granule_bytes: found 1000, allowed: a multiple of a burst (32)"));
    CHECK_THAT(error_of("maia200", {"hbm.banks_per_group=16", "hbm.ranks=5"}),
               Contains("--set hbm.banks_per_group: found 16, allowed: at most 64 banks"));
    CHECK(error_of("maia200", {"hbm.granule_bytes=256", "noc.packet_bytes=256"}).empty());
}

TEST_CASE("the extreme values of every field are either accepted or refused by name") {
    for (const FieldDescription& field : chip_fields()) {
        if (!field.allowed.starts_with("an integer from ")) {
            continue;
        }
        const std::string range = field.allowed.substr(std::string("an integer from ").size());
        const std::size_t to = range.find(" to ");
        const auto lowest = std::stoll(range);
        const auto highest = std::stoll(range.substr(to + 4));
        for (const long long value : {lowest - 1, highest + 1}) {
            CHECK_THAT(error_of("maia200", {field.path + "=" + std::to_string(value)}),
                       Contains("--set " + field.path));
        }
        for (const long long value : {lowest, highest}) {
            const std::string set = field.path + "=" + std::to_string(value);
            INFO(set);
            const std::string message = error_of("maia200", {set});
            CHECK((message.empty() || message.find("allowed: ") != std::string::npos));
        }
    }
}

TEST_CASE("another memory brings its geometry, timing and constraints, which the chip's own fields lie over") {
    const ResolvedChip hbm2 = read_chip("maia200", {"hbm.memory=hbm2-2000"});
    const ResolvedChip hbm3 = read_chip("maia200");
    CHECK(hbm2.spec.hbm.memory == "hbm2-2000");
    CHECK(hbm2.spec.hbm.channels_per_stack == 8);
    CHECK(hbm2.spec.hbm.timing.nrcdrd == 12);
    CHECK(hbm2.spec.hbm.stacks == hbm3.spec.hbm.stacks);
    // 16,384 rows against 24,576, one rank against three, half the channels.
    CHECK(hbm_bytes(hbm2.spec) * 9 == hbm_bytes(hbm3.spec));
    const auto act_to_read = [](const ResolvedChip& chip) {
        for (const DramConstraint& c : chip.spec.hbm.rules.constraints) {
            if (c.from == DramCommand::activate && c.to == DramCommand::read) {
                return c.gap;
            }
        }
        return std::int64_t{0};
    };
    CHECK(act_to_read(hbm2) == 12);
    CHECK(act_to_read(hbm3) == 45);
    // An override of a parameter reaches the gaps that are made of it.
    CHECK(act_to_read(read_chip("maia200", {"hbm.timing.nrcdrd=50"})) == 50);
    CHECK_THAT(error_of("maia200", {"hbm.memory=hbm9"}), Contains("--set hbm.memory") && Contains("hbm3e-9115"));
    CHECK_THAT(error_of("maia200", {"hbm.address_map=hasched"}),
               Contains("--set hbm.address_map") && Contains("did you mean \"hashed\""));
}

TEST_CASE("every shipped memory makes a chip") {
    for (const fs::directory_entry& entry : fs::directory_iterator(configs_directory() / "memories")) {
        const std::string name = entry.path().stem().string();
        INFO(name);
        CHECK(error_of("maia200", {"hbm.memory=" + name}).empty());
    }
}

TEST_CASE("SLUICE_CONFIGS chooses the folder") {
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "chips");
    fs::copy_file(configs_directory() / "chips" / "maia200.json", folder.path() / "chips" / "other.json");
    for (const char* kind : {"memories", "address_maps"}) {
        fs::copy(configs_directory() / kind, folder.path() / kind);
    }
    REQUIRE(setenv("SLUICE_CONFIGS", folder.path().c_str(), 1) == 0);
    CHECK(read_chip("other").spec.soc.clusters == 4);
    CHECK_THAT(error_of("maia200"), Contains("one of other"));
    REQUIRE(setenv("SLUICE_CONFIGS", fs::relative(folder.path()).c_str(), 1) == 0);
    CHECK(read_chip("other").spec.soc.clusters == 4);
    REQUIRE(setenv("SLUICE_CONFIGS", "/no/such/folder", 1) == 0);
    CHECK_THAT(error_of("maia200"), Contains("SLUICE_CONFIGS"));
    REQUIRE(unsetenv("SLUICE_CONFIGS") == 0);
}

}  // namespace
}  // namespace sluice::isa
