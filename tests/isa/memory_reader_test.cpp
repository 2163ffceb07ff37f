// SPDX-License-Identifier: Apache-2.0
// Are memories and address maps read strictly, and do they fit smaller chips?
#include "isa/memory_reader.hpp"

#include <catch2/catch.hpp>

#include "isa/chip_spec_reader.hpp"
#include "isa/errors.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::isa;
using Catch::Contains;

namespace {

std::string map_error(const std::string& text) {
    const test::TemporaryFolder folder;
    try {
        (void)read_address_map(folder.write("map.json", text), read_chip("maia200").spec.hbm);
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

std::string rules_error(const std::string& constraint) {
    const auto file = nlohmann::json::parse(
        R"({"row_bus_half_clocks": {"ACT": 3, "PRE": 1, "PREA": 1, "REFpb": 1, "REFab": 1}, "constraints": [)" +
        constraint + "]}");
    static constexpr std::int64_t kGap = 38;
    try {
        (void)read_dram_rules(file, "m.json",
                              [](const std::string& parameter) { return parameter == "nrp" ? &kGap : nullptr; });
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

const std::string kDigits =
    R"("digits": [{"field": "group"}, {"field": "column", "radix": "granule"}, {"field": "stack"},
                  {"field": "pseudo_channel"}, {"field": "channel"}, {"field": "column"}, {"field": "bank"},
                  {"field": "rank"}, {"field": "row"}])";

}  // namespace

TEST_CASE("a constraint that names what is not known is refused at its place") {
    CHECK(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT", "gap": "nrp"})").empty());
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRX", "to": "ACT", "gap": "nrp"})"),
               Contains("m.json: constraints[0].from") && Contains("PRX") && Contains("ACT, PRE, PREA"));
    CHECK_THAT(rules_error(R"({"level": "die", "from": "PRE", "to": "ACT", "gap": "nrp"})"),
               Contains("constraints[0].level") && Contains("bank_group"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT", "gap": "nrp + nxx"})"),
               Contains("constraints[0].gap") && Contains("nxx"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT", "gap": "nrp", "cuont": 4})"),
               Contains("constraints[0].cuont") && Contains("did you mean"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT"})"),
               Contains("constraints[0].gap") && Contains("missing"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PREA", "to": "ACT", "gap": "nrp"})"),
               Contains("constraints[0].level") && Contains("pseudo_channel"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "RD", "to": "PRE", "gap": "nrp", "count": 2})"),
               Contains("constraints[0].count"));
}

TEST_CASE("a constraint that would be lost, or cannot be kept, is refused") {
    CHECK_THAT(rules_error(R"({"level": "bank", "from": [], "to": "ACT", "gap": "nrp"})"),
               Contains("constraints[0].from: found []"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRE", "to": [], "gap": "nrp"})"),
               Contains("constraints[0].to: found []"));
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT", "gap": "n rp"})"),
               Contains("constraints[0].gap") && Contains("\"n rp\""));
    CHECK(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT", "gap": " nrp  + nrp "})").empty());
    CHECK_THAT(rules_error(R"({"level": "bank", "from": "PRE", "to": "ACT", "gap": "nrp", "source": 5})"),
               Contains("constraints[0].source: found 5"));
    CHECK_THAT(
        rules_error(R"({"level": "rank", "from": "ACT", "to": "ACT", "gap": "nrp", "count": 2, "others": true})"),
        Contains("constraints[0].others") && Contains("without a count"));
    for (const char* level : {"pseudo_channel", "rank", "bank_group"}) {
        for (const auto& [from, to] : {std::pair{"ACT", "RD"}, std::pair{"REFpb", "WR"}, std::pair{"RD", "PRE"}}) {
            const std::string constraint = R"({"level": ")" + std::string(level) + R"(", "from": ")" + from +
                                           R"(", "to": ")" + to + R"(", "gap": "nrp"})";
            CHECK_THAT(rules_error(constraint), Contains("constraints[0].level") && Contains("row and column"));
        }
    }
    std::string many = R"({"level": "rank", "from": "ACT", "to": "ACT", "gap": "nrp", "count": 2})";
    for (int i = 0; i < 63; ++i) {
        many += R"(, {"level": "rank", "from": "ACT", "to": "ACT", "gap": "nrp", "count": 2})";
    }
    CHECK(rules_error(many).empty());
    CHECK_THAT(rules_error(many + R"(, {"level": "rank", "from": "ACT", "to": "ACT", "gap": "nrp", "count": 2})"),
               Contains("constraints[64]") && Contains("64 of them with a count"));
}

TEST_CASE("an address map that is not one-to-one is refused at its place") {
    CHECK(map_error("{" + kDigits + "}").empty());
    CHECK_THAT(map_error(R"({"digits": [{"field": "group"}, {"field": "column"}]})"),
               Contains("digits") && Contains("not one-to-one") && Contains("pseudo_channel"));
    CHECK_THAT(map_error(R"({"digits": [{"field": "group", "radix": 3}]})"),
               Contains("digits[0].radix") && Contains("a divisor of 4"));
    CHECK_THAT(
        map_error("{" + kDigits + R"(, "hash": [{"field": "stack", "xor": [{"field": "row", "bits": [0, 1]}]}]})"),
        Contains("hash[0].xor") && Contains("no power of two"));
    CHECK_THAT(
        map_error("{" + kDigits + R"(, "hash": [{"field": "bank", "xor": [{"field": "bank", "bits": [0, 1]}]}]})"),
        Contains("hash[0].xor[0].field") && Contains("itself"));
    CHECK_THAT(
        map_error("{" + kDigits + R"(, "hash": [{"field": "column", "add": [{"field": "row", "bits": [0, 1]}]}]})"),
        Contains("hash[0].field"));
    CHECK_THAT(map_error(R"({"digits": [{"field": "row"}, {"field": "group"}, {"field": "column"}, {"field": "stack"},
                                        {"field": "pseudo_channel"}, {"field": "channel"}, {"field": "bank"},
                                        {"field": "rank"}]})"),
               Contains("a granule must lie in one row") && Contains("row"));
    CHECK_THAT(map_error(R"({"dgits": []})"), Contains("map.json: dgits: unknown key"));
    CHECK_THAT(map_error(R"({"name": 5})"), Contains("map.json: name: found 5"));
    CHECK_THAT(
        map_error("{" + kDigits + R"(, "hash": [{"field": "bank", "xor": [{"field": "group", "bits": [0, 1]}]}]})"),
        Contains("hash[0].xor[0].field") && Contains("several groups"));
}

TEST_CASE("the bursts of a granule visit its bank groups equally often") {
    const test::TemporaryFolder folder;
    const std::string file = folder.write("map.json", R"({"digits": [{"field": "group"}, {"field": "column"},
        {"field": "stack"}, {"field": "pseudo_channel"}, {"field": "channel"}, {"field": "bank"}, {"field": "rank"},
        {"field": "row"}]})");
    HbmSpec hbm = read_chip("maia200").spec.hbm;
    hbm.granule_bytes = 128;
    CHECK_NOTHROW(read_address_map(file, hbm));
    hbm.granule_bytes = 64;  // two bursts, four groups: every other granule would begin in the middle
    CHECK_THROWS_WITH(read_address_map(file, hbm), Contains("equally often"));
}

TEST_CASE("a memory starts from another, but not from itself") {
    const test::TemporaryFolder folder;
    const auto chip_with = [](const std::string& memory) {
        return read_chip("maia200", {"hbm.memory=" + memory}).spec;
    };
    const std::string one_rank =
        folder.write("one.json", R"({"base": "hbm3e-9115", "hbm": {"ranks": 1, "timing": {"nrp": 40}}})");
    const ChipSpec based = chip_with(one_rank);
    CHECK(based.hbm.ranks == 1);
    CHECK(based.hbm.timing.nrp == 40);
    CHECK(based.hbm.timing.nras == read_chip("maia200").spec.hbm.timing.nras);
    CHECK(based.hbm.rules.constraints.size() == read_chip("maia200").spec.hbm.rules.constraints.size());
    const auto refused = [&](const std::string& text) {
        try {
            (void)chip_with(folder.write("bad.json", text));
        } catch (const InputError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(refused(R"({"base": "bad.json"})"), Contains("based on itself"));
    folder.write("0.json", R"({"base": "hbm3e-9115"})");
    for (int i = 1; i < 20; ++i) {
        folder.write(std::to_string(i) + ".json", R"({"base": ")" + std::to_string(i - 1) + R"(.json"})");
    }
    CHECK_THAT(refused(R"({"base": "19.json"})"), Contains("more than 16 memories"));
    // Nothing stays of the memory before it.
    CHECK_THAT(refused("{}"), Contains("bad.json: hbm.") && Contains("missing; a memory without \"base\""));
    nlohmann::json whole = read_json_file(configs_directory() / "memories" / "hbm3e-9115.json");
    CHECK(refused(whole.dump()).empty());
    for (const char* part : {"constraints", "row_bus_half_clocks"}) {
        nlohmann::json less = whole;
        less.erase(part);
        CHECK_THAT(refused(less.dump()), Contains(std::string("bad.json: ") + part + ": missing"));
    }
    for (const auto& [field, value] : whole["hbm"]["timing"].items()) {
        nlohmann::json less = whole;
        less["hbm"]["timing"].erase(field);
        CHECK_THAT(refused(less.dump()), Contains("bad.json: hbm.timing." + field + ": missing"));
    }
    CHECK_THAT(refused(R"({"base": "hbm3e-9115", "hbm": {"memory": "hbm2-2000"}})"), Contains("hbm.memory"));
    CHECK_THAT(refused(R"({"base": "hbm3e-9115", "timing": {}})"), Contains("timing") && Contains("unknown key"));
    CHECK_THAT(refused(R"({"base": "hbm3e-9115", "constraints": []})"), Contains("constraints"));
}

TEST_CASE("hash bits that a smaller chip does not have are left out") {
    const AddressMapSpec map = read_chip("toy").spec.hbm.map;  // 1,024 rows: ten bits
    REQUIRE_FALSE(map.hashes.empty());
    for (const AddressHash& hash : map.hashes) {
        for (const AddressBits& bits : hash.sources) {
            CHECK(bits.low <= bits.high);
            if (bits.field == AddressField::row) {
                CHECK(bits.high < 10);
            }
        }
    }
}
