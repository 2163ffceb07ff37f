// SPDX-License-Identifier: Apache-2.0
// Does the program do what its help says, and put its results where it says?
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "tests/tools/program.hpp"

using namespace sluice;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::size_t longest_line(const std::string& text) {
    std::size_t longest = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        longest = std::max(longest, end - at);
        at = end + 1;
    }
    return longest;
}

}  // namespace

TEST_CASE("every subcommand has help with examples that name it") {
    const test::Program program;
    for (const std::string command : {"", "run", "compile", "show", "show chip", "show model"}) {
        const test::Ended help = program(command + " --help");
        INFO(command);
        CHECK(help.code == 0);
        CHECK(help.err.empty());
        CHECK_THAT(help.out, Contains("Usage: sluice " + command));
        CHECK_THAT(help.out, Contains("Examples:\n  sluice " + command));
    }
}

TEST_CASE("the version names release and commit") {
    const test::Ended version = test::Program()("--version");
    CHECK(version.code == 0);
    CHECK(std::regex_match(version.out, std::regex("sluice \\d+\\.\\d+\\.\\d+ \\(([0-9a-f]+|unknown)\\)\n")));
}

TEST_CASE("a run prints a table that ends with the folder of the result") {
    const test::Program program;
    for (const auto& [command, name] : {std::pair{test::kToyGemm, "gemm-64x64x64-mxfp8"},
                                        {test::kToyDecode, "toy-llama-decode-b4-c256"},
                                        {test::kToyPrefill, "toy-llama-prefill-b1-t64"}}) {
        const test::Ended ended = program(command);
        INFO(command << "\n" << ended.out << ended.err);
        REQUIRE(ended.code == 0);
        CHECK(ended.err.empty());
        CHECK(ended.out.ends_with(std::string("\nresult: out/") + name + "\n"));
        CHECK(std::count(ended.out.begin(), ended.out.end(), '\n') < 40);
        CHECK(longest_line(ended.out) <= 120);
        for (const char* row : {"time ", "compute ", "HBM ", "power ", "bound ", "critical path ", "energy "}) {
            CHECK_THAT(ended.out, Contains(std::string("\n") + row));
        }
        for (const char* file : {"run.json", "operators.csv", "program.disa"}) {
            CHECK(program.files().contains(std::string("out/") + name + "/" + file));
        }
    }
}

TEST_CASE("tables of a changed chip say what was changed") {
    const test::Program program;
    const std::string changes = " --set hbm.refresh=none --set tsram.bytes=2MiB";
    CHECK_THAT(program(test::kToyGemm + changes).out,
               StartsWith("gemm-64x64x64-mxfp8 on toy with hbm.refresh none, tsram.bytes 2097152: "));
    CHECK_THAT(program(test::kToyGemm).out, StartsWith("gemm-64x64x64-mxfp8 on toy: "));
    CHECK_THAT(program("show chip toy" + changes).out, Contains("; here with hbm.refresh=none, tsram.bytes=2MiB\n"));
}

TEST_CASE("the formats that a model runs in are printed and defaulted as documented") {
    const test::Program program;
    CHECK_THAT(program(test::kToyDecode).out, Contains("weights mxfp4, activations mxfp8, KV cache e4m3"));
    const std::string wide = std::string(test::kToyDecode) + " --weights bf16 --act bf16 --kv bf16";
    CHECK_THAT(program(wide).out, Contains("weights bf16, activations bf16, KV cache bf16"));
    const std::string mixed =
        "run gemm --m 64 --n 64 --k 64 --a-format fp8 --b-format fp4 --out-format fp32 --chip toy";
    CHECK_THAT(program(mixed).out, Contains("mxfp8 x mxfp4 -> fp32"));
}

TEST_CASE("a run above the TDP says that nothing slowed it down") {
    const test::Program program;
    CHECK_THAT(program(test::kToyGemm).out, !Contains("throttling"));
    const test::Ended hot = program(std::string(test::kToyGemm) + " --set power.tdp_milliwatts=1");
    CHECK_THAT(hot.out, Contains("above the TDP of 1.00 mW; ") && Contains(" throttling is not modelled"));
    CHECK(longest_line(hot.out) <= 120);
    CHECK(test::json_of(program.path("out/gemm-64x64x64-mxfp8/run.json"))["summary"]["throttled_fraction"].is_null());
}

TEST_CASE("help that does not arrive is a failure") {
    const test::Program program;
    std::filesystem::create_symlink("/dev/full", program.path("full"));
    for (const char* command : {"--help", "--version", "run --help"}) {
        const test::Ended ended = program(command, "full");
        CHECK(ended.code == 2);
        CHECK_THAT(ended.err, Contains("standard output"));
    }
}

TEST_CASE("JSON on standard output stands alone and leaves no folder") {
    const test::Program program;
    const test::Ended ended = program(std::string(test::kToyGemm) + " --json -");
    REQUIRE(ended.code == 0);
    CHECK(ended.err.empty());
    CHECK(nlohmann::json::parse(ended.out)["schema"] == "sluice.run/1");
    CHECK(program.files().empty());
}

TEST_CASE("JSON in a file, and quiet") {
    const test::Program program;
    const test::Ended ended = program(std::string(test::kToyGemm) + " --quiet --json a.json --out here");
    REQUIRE(ended.code == 0);
    CHECK((ended.out + ended.err).empty());
    CHECK(test::text_of(program.path("a.json")) == test::text_of(program.path("here/run.json")));
    CHECK(program.files() ==
          std::set<std::string>{"a.json", "here", "here/run.json", "here/operators.csv", "here/program.disa"});
}

TEST_CASE("an earlier result is replaced, another folder is refused before the run") {
    const test::Program program;
    REQUIRE(program(std::string(test::kToyGemm) + " --out here").code == 0);
    REQUIRE(program(std::string(test::kToyDecode) + " --out here/").code == 0);
    CHECK(test::json_of(program.path("here/run.json"))["workload"]["kind"] == "model");
    REQUIRE(program.files().size() == 4);

    const std::string mine = program.folder().write("mine/thesis.tex", "years of work");
    const test::Ended refused = program(std::string(test::kToyGemm) + " --out mine");
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains("--out") && Contains("thesis.tex"));
    CHECK(test::text_of(mine) == "years of work");
}

TEST_CASE("what compile writes runs in the same cycles as what it was compiled from") {
    const test::Program program;
    for (const std::string run : {test::kToyGemm, test::kToyDecode, test::kToyPrefill}) {
        INFO(run);
        const std::string workload = run.substr(4);
        const test::Ended to_stdout = program("compile " + workload);
        REQUIRE(to_stdout.code == 0);
        REQUIRE(program("compile " + workload + " -o p.disa").code == 0);
        CHECK(test::text_of(program.path("p.disa")) == to_stdout.out);
        CHECK(program("compile p.disa").out == to_stdout.out);  // the text form is canonical

        const auto direct = nlohmann::json::parse(program(run + " --json -").out);
        const auto from_text = nlohmann::json::parse(program("run p.disa --json -").out);
        CHECK(from_text["chip"]["name"] == "toy");  // the program's own chip
        for (const char* figure : {"cycles", "seconds", "hbm_bytes", "energy_j"}) {
            CHECK(from_text["summary"][figure] == direct["summary"][figure]);
        }
        CHECK(from_text["engines"] == direct["engines"]);
        CHECK(from_text["summary"]["flops"].is_null());
        CHECK(from_text["operators"][0]["name"] == direct["operators"][0]["name"]);
    }
}

TEST_CASE("a chip is shown with unit and source of every field, overrides included") {
    const test::Program program;
    const test::Ended table = program("show chip maia200 --set tsram.bytes=4MiB");
    REQUIRE(table.code == 0);
    CHECK(std::regex_search(table.out, std::regex("tsram\\.bytes +4194304 +B +user +--set")));
    CHECK(std::regex_search(table.out, std::regex("ttu\\.contexts +2 +published ")));
    CHECK(std::regex_search(table.out, std::regex("hbm_tbps +7\\.0")));
    const auto json = nlohmann::json::parse(program("show chip maia200 --json -").out);
    CHECK(json["derived"]["tiles"] == 36);
    CHECK(json["values"]["ttu.contexts"]["status"] == "published");
}

TEST_CASE("a model is shown with its published parameter count") {
    const test::Program program;
    CHECK(std::regex_search(program("show model llama-3.1-8b").out, std::regex("parameters +8,030,261,248")));
    const auto json = nlohmann::json::parse(program("show model llama-3.1-70b --json -").out);
    CHECK(json["parameters"] == 70'553'706'496);
    CHECK(json["kv_bytes_per_token"]["bf16"] == 2 * 2 * 80 * 8 * 128);
    std::int64_t sum = 0;
    for (const auto& weight : json["weights"]) {
        sum += weight["parameters"].get<std::int64_t>();
    }
    CHECK(sum == json["parameters"]);
}

TEST_CASE("a model in a file called config.json goes by its folder") {
    const test::Program program;
    program.folder().write("tiny/config.json",
                           test::text_of(std::string(SLUICE_SOURCE_DIR) + "/configs/models/toy-llama.json"));
    const test::Ended ended = program("run --model tiny/config.json --phase decode --context 128 --chip toy --json -");
    REQUIRE(ended.code == 0);
    CHECK(nlohmann::json::parse(ended.out)["workload"]["name"] == "tiny-decode-b1-c128");
}
