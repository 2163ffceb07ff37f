// SPDX-License-Identifier: Apache-2.0
// Is the file of HBM commands what the channels were given: in the standard, all of it, and for the whole run?
#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "tests/sim/hbm_checker.hpp"
#include "tests/sim/test_chip.hpp"
#include "tests/tools/program.hpp"

using namespace sluice;

namespace {

isa::DramCommand command_named(const std::string& name) {
    for (std::size_t c = 0; c < isa::kDramCommands; ++c) {
        if (name == isa::name(static_cast<isa::DramCommand>(c))) {
            return static_cast<isa::DramCommand>(c);
        }
    }
    throw std::runtime_error("unknown command " + name);
}

/// By stack and channel.
std::map<std::string, std::vector<sim::DramTraceEntry>> read_commands(const std::string& csv, const isa::HbmSpec& hbm) {
    std::istringstream lines(csv);
    std::string line;
    std::getline(lines, line);
    CHECK(line == "ck,stack,channel,pseudo_channel,command,rank,bank_group,bank,row");
    std::map<std::string, std::vector<sim::DramTraceEntry>> channels;
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        std::array<std::string, 9> f;
        for (std::string& field : f) {
            std::getline(fields, field, ',');
        }
        const auto number = [&f](std::size_t i) { return f[i].empty() ? 0U : static_cast<unsigned>(std::stoul(f[i])); };
        const unsigned set = number(5) * static_cast<unsigned>(hbm.banks_per_group) + number(7);
        const unsigned bank = set * static_cast<unsigned>(hbm.bank_groups) + number(6);
        channels[f[1] + "." + f[2]].push_back(
            {std::stoull(f[0]), command_named(f[4]), static_cast<std::uint8_t>(number(3)), bank, number(8)});
    }
    return channels;
}

}  // namespace

TEST_CASE("the recorded commands keep the standard and carry every burst of the run") {
    const test::Program program;
    const test::Ended ended = program(
        "run gemm --m 256 --n 256 --k 256 --format fp8 --chip toy --quiet "
        "--hbm-commands 0:100000 --out r");
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    const isa::HbmSpec hbm = test::shipped_chip("toy").hbm;
    std::int64_t bursts = 0;
    for (const auto& [channel, commands] : read_commands(test::text_of(program.path("r/hbm_commands.csv")), hbm)) {
        INFO(channel);
        CHECK(test::HbmChecker(hbm).check(commands).empty());
        bursts += std::count_if(commands.begin(), commands.end(), [](const sim::DramTraceEntry& e) {
            return e.command == isa::DramCommand::read || e.command == isa::DramCommand::write;
        });
    }
    const nlohmann::json run = test::json_of(program.path("r/run.json"));
    const auto bytes = run.at("summary").at("hbm_bytes").get<double>();
    CHECK(bytes == static_cast<double>(bursts * hbm.burst_bytes));
}

TEST_CASE("a window of HBM commands is one of few cycles, and needs a folder") {
    const test::Program program;
    const std::string gemm = "run gemm --m 64 --n 64 --k 64 --format fp8 --chip toy --quiet ";
    for (const char* bad : {"5", "9:5", "5:5", "0:100001", "-1:5", "a:b", "1:2:3"}) {
        const test::Ended ended = program(gemm + "--out r --hbm-commands " + bad);
        INFO(bad);
        CHECK(ended.code == 2);
        CHECK(ended.err.find("--hbm-commands") != std::string::npos);
        CHECK_FALSE(std::filesystem::exists(program.path("r")));
    }
    CHECK(program(gemm + "--json - --hbm-commands 0:5").code == 2);
    REQUIRE(program(gemm + "--out r --hbm-commands 50000:50001").code == 0);  // after the end of the run
    CHECK(test::text_of(program.path("r/hbm_commands.csv")) ==
          "ck,stack,channel,pseudo_channel,command,rank,bank_group,bank,row\n");
}
