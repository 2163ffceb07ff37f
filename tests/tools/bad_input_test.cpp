// SPDX-License-Identifier: Apache-2.0
// Is bad input named, with exit code 2, and nothing half-written?
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/tools/program.hpp"

using namespace sluice;

namespace {

/// Exit code 2, one `sluice: ` message that has all `parts`, nothing on standard output, and no new files.
void check_refused(const test::Program& program, const std::string& command, const std::vector<std::string>& parts) {
    const std::set<std::string> before = program.files();
    const test::Ended ended = program(command);
    INFO(command << "\n" << ended.err);
    CHECK(ended.code == 2);
    CHECK(ended.out.empty());
    CHECK(ended.err.starts_with("sluice: "));
    CHECK(ended.err.ends_with("\n"));
    CHECK(ended.err.find("terminate") == std::string::npos);
    for (const std::string& part : parts) {
        INFO("expected in the message: " << part);
        CHECK(ended.err.find(part) != std::string::npos);
    }
    CHECK(program.files() == before);
}

nlohmann::json model(const std::string& name) {
    return test::json_of(std::string(SLUICE_SOURCE_DIR) + "/configs/models/" + name + ".json");
}

}  // namespace

TEST_CASE("a size that is no size names flag, found and allowed") {
    const test::Program program;
    for (const std::string size :
         {"0", "-3", "abc", "1e9999", "99999999999999999999", "1048577", "64.5", "0x40", "6 4"}) {
        const test::Ended ended =
            program.run({"run", "gemm", "--m", size, "--n", "64", "--k", "64", "--format", "fp8", "--chip", "toy"});
        INFO(size << "\n" << ended.err);
        CHECK(ended.code == 2);
        CHECK(ended.err == "sluice: --m: found \"" + size + "\", allowed: an integer from 1 to 1048576\n");
    }
    const std::string decode = "run --model toy-llama --phase decode --chip toy";
    check_refused(program, decode + " --context 128 --batch 0", {"--batch", "\"0\"", "1 to 65536"});
    check_refused(program, decode + " --context 0", {"--context", "\"0\""});
    check_refused(program, decode + " --context 2049", {"--context", "2049", "2048", "max_position_embeddings"});
}

TEST_CASE("what matters is never guessed") {
    const test::Program program;
    check_refused(program, "run gemm --m 64 --n 64 --format fp8", {"--k", "missing"});
    check_refused(program, "run gemm --m 64 --n 64 --k 64", {"--format", "missing", "fp4"});
    check_refused(program, "run --model toy-llama --context 5", {"--phase", "missing", "prefill, decode"});
    check_refused(program, "run --model toy-llama --phase decode", {"--context", "missing"});
    check_refused(program, "run --model toy-llama --phase prefill", {"--tokens", "missing"});
    check_refused(program, "run", {"missing", "gemm", ".disa", "--model"});
}

TEST_CASE("flags that do not go together are refused") {
    const test::Program program;
    check_refused(program, "run gemm --m 1 --n 1 --k 1 --format fp8 --batch 3", {"--batch", "goes with --model"});
    check_refused(program, "run --model toy-llama --phase decode --context 9 --m 3", {"--m", "goes with gemm"});
    check_refused(program, "run --model toy-llama --phase decode --context 9 --tokens 3", {"--tokens", "--context"});
    check_refused(program, "run --model toy-llama --phase prefill --tokens 9 --context 3", {"--context", "--tokens"});
    check_refused(program, "run x.disa --m 3", {"--m", "not with a program"});
    check_refused(program, "run gemm --model toy-llama --phase decode --context 9", {"gemm", "--model"});
    check_refused(program, "run gemm --m 64 --n 64 --k 64 --a-format bf16 --b-format fp8 --chip toy",
                  {"--a-format", "bf16"});
}

TEST_CASE("unknown names list what there is and what was nearly right") {
    const test::Program program;
    check_refused(program, "rnu", {"\"rnu\"", "run, compile, show", "did you mean \"run\""});
    check_refused(program, "run gemm --formt fp8", {"--formt", "did you mean \"--format\""});
    check_refused(program, "run gem", {"\"gem\"", "did you mean \"gemm\""});
    check_refused(program, "show chip maia20", {"maia20", "maia200-peak", "did you mean \"maia200\""});
    check_refused(program, "run --model lama-3.1-8b --phase decode --context 5",
                  {"lama-3.1-8b", "did you mean \"llama-3.1-8b\""});
    check_refused(program, "run gemm --m 1 --n 1 --k 1 --format fp9", {"--format", "fp9", "mxfp4", "bf16"});
    check_refused(program, "run --model toy-llama --phase train --context 5", {"--phase", "train", "prefill, decode"});
    check_refused(program, "run --model toy-llama --phase decode --context 5 --kv fp4", {"--kv", "fp4", "e4m3"});
    check_refused(program, "run --model toy-experts --phase prefill --batch 65000 --tokens 2000",
                  {"--batch", "choose", "allowed: at most"});
    check_refused(program, "run --model toy-llama --phase decode --context 5 --schedule lazy",
                  {"--schedule", "lazy", "fused, eager"});
    const std::string attention = "run attention --heads 4 --kv-heads 2 --tokens 64 --format fp8 --chip toy";
    check_refused(program, attention, {"--head-dim", "missing"});
    check_refused(program, attention + " --head-dim 48", {"--head-dim", "48", "a multiple of 32"});
    check_refused(program, attention + " --head-dim 64 --past 5", {"--past", "5", "a multiple of 32"});
    check_refused(program, attention + " --head-dim 64 --m 3", {"--m", "goes with gemm"});
    check_refused(program, attention + " --head-dim 1024 --set tsram.output_region_bytes=4KiB",
                  {"attention with heads of 1024", "bytes of output region"});
    check_refused(program, "run attention --heads 4 --kv-heads 3 --head-dim 64 --tokens 64 --format fp8",
                  {"--heads", "a multiple of 3", "--kv-heads"});
    check_refused(program, "run attention --heads 4 --kv-heads 2 --head-dim 64 --tokens 64 --format fp4",
                  {"--format", "fp4"});
    check_refused(program, "run --model toy-llama --phase decode --context 5 --routing uniform",
                  {"--routing", "no experts"});
    check_refused(program, "run --model toy-experts --phase decode --context 5 --routing zipf:0",
                  {"--routing", "zipf:0", "0 < S <= 8"});
    check_refused(program, "run --model toy-experts --phase decode --context 5 --routing-seed x",
                  {"--routing-seed", "x"});
    check_refused(program, std::string(test::kToyGemm) + " --set tsram.byts=4MiB",
                  {"tsram.byts", "did you mean \"tsram.bytes\""});
    check_refused(program, std::string(test::kToyGemm) + " --set tsram.bytes=many", {"tsram.bytes", "many"});
}

TEST_CASE("a chip file with an unknown key or a wrong type names file and key") {
    const test::Program program;
    const std::string gemm = "run gemm --m 64 --n 64 --k 64 --format fp8 --chip ";
    program.folder().write("chip.json", R"({"base": "toy", "ttu": {"contxts": 2}})");
    check_refused(program, gemm + "chip.json", {"chip.json", "ttu.contxts", "did you mean", "ttu.contexts"});
    program.folder().write("chip.json", R"({"base": "toy", "ttu": {"contexts": "two"}})");
    check_refused(program, gemm + "chip.json", {"chip.json", "ttu.contexts", "two"});
    program.folder().write("chip.json", R"({"base": "toy", "ttu": )");
    check_refused(program, gemm + "chip.json", {"chip.json", "not valid JSON", "line 1"});
    check_refused(program, gemm + "none.json", {"none.json", "no such file"});
}

TEST_CASE("a model that is not understood names file and field") {
    const test::Program program;
    const std::string run = "run --model config.json --phase decode --context 64 --chip toy";
    nlohmann::json config = model("toy-llama");
    const auto with = [&](const char* key, const nlohmann::json& value) {
        nlohmann::json changed = config;
        changed[key] = value;
        program.folder().write("config.json", changed.dump());
    };
    with("model_type", "mamba");
    check_refused(program, run, {"config.json", "model_type", "mamba", "llama"});
    with("hidden_size", 0);
    check_refused(program, run, {"config.json", "hidden_size", "0"});
    with("hidden_act", "gelu");
    check_refused(program, run, {"config.json", "hidden_act", "gelu", "silu"});
    with("number_of_wheels", 4);
    check_refused(program, run, {"config.json", "number_of_wheels"});
    nlohmann::json missing = config;
    missing.erase("vocab_size");
    program.folder().write("config.json", missing.dump());
    check_refused(program, run, {"config.json", "vocab_size", "missing"});
    program.folder().write("config.json", "this is no model");
    check_refused(program, run, {"config.json", "not valid JSON"});
    check_refused(program, "show model config.json", {"config.json", "not valid JSON"});
}

TEST_CASE("a model that does not fit the HBM says how much it needs and how much there is") {
    const test::Program program;
    nlohmann::json config = model("llama-3.1-70b");
    config["num_hidden_layers"] = 126;  // 405 billion parameters
    config["hidden_size"] = 16384;
    config["intermediate_size"] = 53248;
    config["num_attention_heads"] = 128;
    program.folder().write("big.json", config.dump());
    check_refused(program, "run --model big.json --phase decode --context 128 --weights bf16 --act bf16",
                  {"hbm", "bytes", "231928233984"});
}

TEST_CASE("a program that is cut off, misspelt or not there names file and line") {
    const test::Program program;
    const std::string whole = program("compile " + std::string(test::kToyGemm).substr(4)).out;
    REQUIRE(whole.size() > 1000);
    program.folder().write("cut.disa", whole.substr(0, whole.size() / 2));
    check_refused(program, "run cut.disa", {"cut.disa:", "expected"});
    program.folder().write("empty.disa", "");
    check_refused(program, "run empty.disa", {"empty.disa:1", "expected"});
    program.folder().write("typo.disa", "disa 1\nprogramm \"x\" chip \"toy\"\n");
    check_refused(program, "run typo.disa", {"typo.disa:2", "programm"});
    check_refused(program, "run none.disa", {"none.disa", "no such file"});
    check_refused(program, "compile none.disa", {"none.disa", "no such file"});
}

TEST_CASE("no byte of a file steers the terminal") {
    const test::Program program;
    program.folder().write("bell.disa", std::string("disa 1\nprogram \"x\" \x1b[2J\x07\0y\n", 27));
    const test::Ended ended = program("verify bell.disa");
    CHECK(ended.code == 2);
    CHECK(std::none_of(ended.err.begin(), ended.err.end(), [](char each) {
        const auto byte = static_cast<unsigned char>(each);
        return (byte < ' ' && each != '\n') || byte == 0x7f;
    }));
}

TEST_CASE("every prefix of a program is refused, never a crash") {
    const test::Program program;
    const std::string whole = program("compile " + std::string(test::kToyGemm).substr(4)).out;
    // A program without its last control programs may still be whole, but then it deadlocks (4); without any, cut
    // between two words of a declaration that may end there, it does nothing (0).
    for (std::size_t size = 0; size + 1 < whole.size(); size += whole.size() / 40 + 1) {
        program.folder().write("cut.disa", whole.substr(0, size));
        const test::Ended ended = program("run cut.disa --quiet --json -");
        INFO(size << "\n" << ended.err);
        const bool does_nothing = whole.substr(0, size).find("\ncontrol ") == std::string::npos;
        CHECK((ended.code == 2 || ended.code == 4 || (ended.code == 0 && does_nothing)));
    }
}

TEST_CASE("a program for a larger chip is refused by the verifier") {
    const test::Program program;
    const std::string big = program("compile gemm --m 2048 --n 2048 --k 2048 --format fp8").out;
    REQUIRE_FALSE(big.empty());
    program.folder().write("big.disa", big);
    check_refused(program, "run big.disa --chip toy", {"written for chip \"maia200\"", "this is \"toy\""});
}

TEST_CASE("a deadlock ends with 4 and says who waits for whom") {
    const test::Program program;
    program.folder().write("stuck.disa", test::kDeadlock);
    const std::set<std::string> before = program.files();
    const test::Ended ended = program("run stuck.disa");
    INFO(ended.err);
    CHECK(ended.code == 4);
    CHECK(ended.out.empty());
    for (const char* part : {"tile0", "tile1", "left", "right", "semaphore"}) {
        CHECK(ended.err.find(part) != std::string::npos);
    }
    CHECK(program.files() == before);
}

TEST_CASE("a run that passes its limit of cycles ends with 2") {
    const test::Program program;
    check_refused(program, std::string(test::kToyGemm) + " --max-cycles 100", {"cycles", "limit", "100"});
    check_refused(program, std::string(test::kToyGemm) + " --max-cycles 0", {"--max-cycles", "\"0\""});
    check_refused(program, std::string(test::kToyGemm) + " --functional --max-cycles 3",
                  {"--max-cycles", "statements"});
}

TEST_CASE("a memory whose refreshes leave requests no time ends the run") {
    const test::Program program;
    const std::string gemm = "run gemm --m 64 --n 64 --k 64 --format fp8 --chip toy";
    // A refresh every 191 CK, each of which keeps the rank from activates for 191 CK.
    check_refused(program,
                  "run gemm --m 96 --n 64 --k 160 --format fp8 --chip toy --set hbm.ranks=2 --set "
                  "hbm.refresh_postponed=0 --set hbm.timing.nrrds=110 --set hbm.timing.nrrdl=130 --set "
                  "hbm.timing.nfaw=142 --set hbm.timing.nrrefd=191 --set hbm.timing.nrefi=6113",
                  {"hbm.timing", "refreshes leave requests no time", "nrefi"});
    nlohmann::json memory =
        nlohmann::json::parse(test::text_of(std::string(SLUICE_SOURCE_DIR) + "/configs/memories/hbm3e-9115.json"));
    memory["constraints"].push_back({{"level", "bank"}, {"from", "ACT"}, {"to", "RD"}, {"gap", "nrefi"}});
    program.folder().write("slow.json", memory.dump());
    check_refused(program, gemm + " --set hbm.memory=slow.json --set hbm.refresh=all_bank",
                  {"hbm.timing", "refreshes leave requests no time"});
    // Without refreshes it is only slow.
    CHECK(program(gemm + " --set hbm.memory=slow.json --set hbm.refresh=none --quiet").code == 0);
}

TEST_CASE("a place that cannot be written is named before the run") {
    const test::Program program;
    program.folder().write("file", "not a folder");
    const std::string gemm = test::kToyGemm;
    check_refused(program, gemm + " --out file", {"--out", "file", "no folder"});
    check_refused(program, gemm + " --out file/below", {"--out", "file"});
    check_refused(program, gemm + " --out /proc/nothing/here", {"--out", "/proc/nothing"});
    check_refused(program, gemm + " --out .", {"--out", "current folder"});
    check_refused(program, gemm + " --json file/below", {"--json", "file"});
    check_refused(program, gemm + " --json nowhere/run.json", {"--json", "nowhere"});
    check_refused(program, "compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o nowhere/p.disa",
                  {"-o", "nowhere"});
    // Before the run: a deadlock would end with 4.
    program.folder().write("stuck.disa", test::kDeadlock);
    check_refused(program, "run stuck.disa --out file/below", {"--out"});
}

TEST_CASE("an empty value of a flag is refused, not overlooked") {
    const test::Program program;
    for (const char* flag : {"--shuffle", "--hbm-commands", "--chip", "--max-cycles"}) {
        INFO(flag);
        const test::Ended ended = program.run(
            {"run", "gemm", "--m", "64", "--n", "64", "--k", "64", "--format", "fp8", "--out", "r", flag, ""});
        CHECK(ended.code == 2);
        CHECK(ended.err.find(std::string(flag) + ": found \"\", allowed: ") != std::string::npos);
        CHECK(program.files().empty());
    }
}

TEST_CASE("an empty path is no path") {
    const test::Program program;
    const auto refused = [&](const std::vector<std::string>& arguments, const std::string& flag) {
        const test::Ended ended = program.run(arguments);
        INFO(flag << "\n" << ended.err);
        CHECK(ended.code == 2);
        CHECK(ended.err.starts_with("sluice: " + flag));
        CHECK(program.files().empty());
    };
    const std::vector<std::string> gemm = {"gemm", "--m",      "64",  "--n",    "64", "--k",
                                           "64",   "--format", "fp8", "--chip", "toy"};
    const auto with = [&](const char* command, const char* flag) {
        std::vector<std::string> arguments = {command};
        arguments.insert(arguments.end(), gemm.begin(), gemm.end());
        arguments.insert(arguments.end(), {flag, ""});
        return arguments;
    };
    refused(with("run", "--json"), "--json");
    refused(with("run", "--out"), "--out");
    refused(with("compile", "-o"), "-o");
    refused({"show", "chip", "toy", "--json", ""}, "--json");
}

TEST_CASE("results that would destroy each other or an input are refused before the run") {
    const test::Program program;
    const std::string gemm = test::kToyGemm;
    check_refused(program, gemm + " --out r --json r/run.json", {"--json", "r/run.json", "(--out)"});
    check_refused(program, gemm + " --out r2 --json r2", {"--json", "r2", "(--out)"});
    // Before the run: a deadlock would end with 4.
    program.folder().write("stuck.disa", test::kDeadlock);
    check_refused(program, "run stuck.disa --json stuck.disa", {"--json", "stuck.disa", "(program)"});
    check_refused(program, "compile stuck.disa -o ./stuck.disa", {"-o", "stuck.disa", "(program)"});
    program.folder().write("chip.json", R"({"base": "toy"})");
    check_refused(program, "run gemm --m 64 --n 64 --k 64 --format fp8 --chip ./chip.json --json chip.json",
                  {"--json", "(chip)"});
    check_refused(program, "show chip ./chip.json --json chip.json", {"--json", "(chip)"});
    program.folder().write("config.json", model("toy-llama").dump());
    check_refused(program, "run --model config.json --phase decode --context 64 --chip toy --json config.json",
                  {"--json", "(model)"});
    CHECK(test::text_of(program.path("stuck.disa")) == test::kDeadlock);

    REQUIRE(program(gemm + " --out r").code == 0);
    const std::string before = test::text_of(program.path("r/program.disa"));
    check_refused(program, "run r/program.disa --out r", {"--out", "r/program.disa", "(program)"});
    CHECK(test::text_of(program.path("r/program.disa")) == before);
}

TEST_CASE("a check of the order that would not end is given up") {
    const test::Program program;
    program.folder().write("endless.disa", R"(disa 1
program "endless" chip "toy"
node 0 "n" count 1 stride 1 layer 0
region "a" hbm units 1 from 0 offset 0 bytes 128 holds 1 x 64 bf16 row_major input
control "c" tile count 1 from 0 {
  loop 281474976710656 {
    issue tdma.0 "load" node 0 {
      dma hbm(0)[0] -> tsram(self)[0] run 128
    }
  }
}
)");
    check_refused(program, "run endless.disa --check-races",
                  {"program endless", "4000000 instructions", "--check-races"});
}

TEST_CASE("a program that is too large to be one is refused unread") {
    const test::Program program;
    program.folder().write("huge.disa", "disa 1\n");
    std::filesystem::resize_file(program.path("huge.disa"), (64U << 20U) + 1);  // sparse
    check_refused(program, "run huge.disa", {"huge.disa", "67108865", "64 MiB"});
}

TEST_CASE("a program that loops without issuing anything ends, whatever its limit of cycles") {
    const test::Program program;
    program.folder().write("spin.disa", R"(disa 1
program "spin" chip "toy"
control "spinner" tile count 1 from 0 {
  loop 1000000000000 {
    r0 += 1 in 0..1099511627776
  }
}
)");
    check_refused(program, "run spin.disa --max-cycles 1000", {"control program spinner", "loops without issuing"});
}

TEST_CASE("a file that may not grow so large leaves nothing behind") {
    const test::Program program;
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{1'024, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const test::Ended folder = program(std::string(test::kToyGemm) + " --out here");
    const test::Ended file = program("compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o p.disa");
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(folder.code == 2);
    CHECK(folder.err.starts_with("sluice: --out: "));
    CHECK(file.code == 2);
    CHECK(program.files().empty());
}
