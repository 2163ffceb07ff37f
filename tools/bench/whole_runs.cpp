// SPDX-License-Identifier: Apache-2.0
// Whole runs as a user starts them: processor seconds, simulated core cycles a second, HBM bytes a second, peak memory.
// Each is a process of its own, `sluice` beside this program.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): not declared without GNU extensions

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Cost {
    double seconds = 0;
    double peak_bytes = 0;
};

/// Waits for a program and says what it cost; a negative time if it failed.
Cost cost_of(std::vector<std::string> words) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    pid_t child = 0;
    if (posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
        return {-1, 0};
    }
    int status = 0;
    rusage usage{};
    if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return {-1, 0};
    }
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return {seconds(usage.ru_utime) + seconds(usage.ru_stime), 1024.0 * static_cast<double>(usage.ru_maxrss)};
}

void run(benchmark::State& state, const std::vector<std::string>& arguments) {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    const fs::path out = fs::temp_directory_path() / "sluice-bench";
    std::vector<std::string> words = {here / "sluice", "run", "--quiet", "--out", out};
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (auto _ : state) {
        const Cost cost = cost_of(words);
        if (cost.seconds < 0) {
            state.SkipWithError("the run failed");
            return;
        }
        state.SetIterationTime(cost.seconds);
        const nlohmann::json result = nlohmann::json::parse(std::ifstream(out / "run.json"));
        const auto cycles = result.at("summary").at("cycles").get<double>();
        state.counters["cycles"] = cycles;
        state.counters["cycles/s"] = cycles / cost.seconds;
        state.counters["peak_bytes"] = cost.peak_bytes;
    }
    fs::remove_all(out);
}

const std::vector<std::string> kQuantised = {"--weights", "mxfp4", "--act", "fp8", "--kv", "fp8"};

std::vector<std::string> decode(const std::string& model, const std::string& batch, const std::string& context) {
    std::vector<std::string> words = {"--model", model, "--phase", "decode", "--batch", batch, "--context", context};
    words.insert(words.end(), kQuantised.begin(), kQuantised.end());
    return words;
}

std::vector<std::string> gemm(const std::string& format) {
    return {"gemm", "--m", "8192", "--n", "8192", "--k", "8192", "--format", format};
}

BENCHMARK_CAPTURE(run, decode_8b, decode("llama-3.1-8b", "32", "4096"))
    ->Name("run/decode_8B_b32_c4096")
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, decode_70b, decode("llama-3.1-70b", "32", "8192"))
    ->Name("run/decode_70B_b32_c8192")
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, gemm_fp8, gemm("fp8"))
    ->Name("run/gemm_8192_fp8")
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, gemm_fp4, gemm("fp4"))
    ->Name("run/gemm_8192_fp4")
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
