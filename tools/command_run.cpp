// SPDX-License-Identifier: Apache-2.0
// `sluice run`: simulate a matrix product, attention, a step of a model or a program, and say what it cost and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "isa/errors.hpp"
#include "isa/text.hpp"
#include "tools/commands.hpp"
#include "tools/flags.hpp"
#include "tools/output.hpp"
#include "tools/progress.hpp"
#include "tools/run_json.hpp"
#include "tools/simulate.hpp"
#include "tools/table.hpp"

namespace sluice::tools {
namespace {

/// Larger programs are left out of the result; `sluice compile` writes them.
constexpr std::size_t kLargestProgramText = 5'000'000;

struct RunFlags {
    WorkloadFlags workload;
    std::string out;
    std::string json;
    std::string max_cycles;
    std::string hbm_commands;
    bool functional = false;
    std::string inputs;
    bool check_races = false;
    std::string shuffles;
    bool quiet = false;
};

std::map<std::string, std::string> result_files(const Outcome& outcome, const std::string& json, bool hbm_commands) {
    std::map<std::string, std::string> files = {{"run.json", json}, {"operators.csv", operators_csv(outcome.figures)}};
    std::string program = isa::write_text(outcome.job.program);
    if (program.size() <= kLargestProgramText) {
        files.emplace("program.disa", std::move(program));
    }
    if (hbm_commands) {
        files.emplace("hbm_commands.csv", hbm_commands_csv(outcome.result.hbm_commands, outcome.job.chip.spec.hbm));
    }
    files.insert(outcome.values.files.begin(), outcome.values.files.end());
    return files;
}

/// FROM:TO, in core cycles. What is kept is bounded, so that memory is.
sim::CycleWindow window(const std::string& text, const std::string& flag) {
    constexpr std::int64_t kMostCycles = std::int64_t{1} << 62;
    constexpr Cycle kLongest = 100'000;
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) {
        throw InputError(flag, fmt::format("found \"{}\", allowed: FROM:TO in core cycles, such as 0:20000", text));
    }
    sim::CycleWindow window;
    window.from = static_cast<Cycle>(parse_count(text.substr(0, colon), flag, 0, kMostCycles));
    window.to = static_cast<Cycle>(parse_count(text.substr(colon + 1), flag, 1, kMostCycles));
    if (window.to <= window.from || window.to - window.from > kLongest) {
        throw InputError(flag, fmt::format("found \"{}\", allowed: 1 to {} cycles", text, kLongest));
    }
    return window;
}

/// Nothing if no flag asks for a run on values.
std::optional<ValueOptions> value_options(const RunFlags& flags) {
    constexpr std::int64_t kMostShuffles = 10'000;
    if (!flags.functional && !flags.check_races && flags.inputs.empty() && flags.shuffles.empty()) {
        return std::nullopt;
    }
    ValueOptions options;
    options.inputs = flags.inputs.empty() ? options.inputs : flags.inputs;
    options.check_races = flags.check_races;
    options.shuffles = flags.shuffles.empty() ? 0 : parse_count(flags.shuffles, "--shuffle", 1, kMostShuffles);
    return options;
}

/// What is written must destroy neither an input nor another result.
void require_all_apart(const std::vector<Place>& outputs, const std::vector<Place>& inputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        for (std::size_t other = 0; other < i; ++other) {
            require_apart(outputs[i], outputs[other]);
        }
        for (const Place& input : inputs) {
            require_apart(outputs[i], input);
        }
    }
}

void run(const RunFlags& flags) {
    sim::RunOptions options;
    if (!flags.max_cycles.empty()) {
        constexpr std::int64_t kMostCycles = std::int64_t{1} << 62;
        options.max_cycles = static_cast<Cycle>(parse_count(flags.max_cycles, "--max-cycles", 1, kMostCycles));
    }
    if (!flags.hbm_commands.empty()) {
        options.hbm_commands = window(flags.hbm_commands, "--hbm-commands");
    }
    std::optional<ValueOptions> values = value_options(flags);
    if (values) {
        values->max_statements = options.max_cycles;
    }
    Prepared job = prepare(flags.workload.request());
    if (values && values->from_folder()) {
        job.inputs.push_back({"--inputs", values->inputs});
    }
    const bool json_alone = flags.json == "-";
    const std::string folder = flags.out.empty() ? "out/" + job.name : flags.out;
    const std::string folder_flag = flags.out.empty() ? "out" : "--out";
    const bool with_folder = !json_alone || !flags.out.empty();
    if (!with_folder && !flags.hbm_commands.empty()) {
        throw InputError("--hbm-commands", "found with --json - alone; allowed: with a result folder (--out)");
    }
    const bool with_file = !json_alone && !flags.json.empty();
    std::vector<Place> outputs;
    if (with_folder) {
        outputs.push_back({folder_flag, folder});
    }
    if (with_file) {
        outputs.push_back({"--json", flags.json});
    }
    require_all_apart(outputs, job.inputs);
    std::optional<ResultFolder> results;
    std::optional<ResultFile> json_file;
    if (with_folder) {
        results.emplace(folder, folder_flag);
    }
    if (with_file) {
        json_file.emplace(flags.json, "--json");
    }

    Outcome outcome;
    {
        ProgressLine line(!flags.quiet);
        if (line.shown()) {
            options.on_progress = [&line](const sim::Progress& progress) { line.update(progress); };
        }
        ValueOutcome computed;
        if (values) {
            computed = run_values(job, *values, [&line](const std::string& what) { line.update(what); });
        }
        outcome = simulate(std::move(job), options, std::move(computed));
    }

    const std::string json = outcome.run.dump(1) + "\n";
    if (results) {
        results->publish(result_files(outcome, json, !flags.hbm_commands.empty()));
    }
    if (json_file) {
        json_file->publish(json);
    }
    if (json_alone) {
        print(json);
    } else if (!flags.quiet) {
        print(run_table(outcome) + fmt::format("\nresult: {}\n", folder));
    }
}

}  // namespace

void add_run_command(CLI::App& app) {
    CLI::App* command = app.add_subcommand("run", "simulate, and say what it cost and why");
    const auto flags = std::make_shared<RunFlags>();
    flags->workload.add_to(*command);
    command->add_option("--out", flags->out, "folder of the result (default out/<name>/)")
        ->type_name("DIR")
        ->check(path_given())
        ->group("Output");
    command->add_option("--json", flags->json, "also write run.json there; - prints it alone on standard output")
        ->type_name("FILE")
        ->check(path_given())
        ->group("Output");
    command->add_option("--max-cycles", flags->max_cycles, "give up (exit code 2) a run that passes so many cycles")
        ->type_name("N")
        ->check(given("a number"))
        ->group("Machine");
    command
        ->add_option(
            "--hbm-commands", flags->hbm_commands,
            "record every command of the HBM channels in these core cycles: hbm_commands.csv in the result folder")
        ->type_name("FROM:TO")
        ->check(given("FROM:TO"))
        ->group("Output");
    const char* of_values = "Values";
    command
        ->add_flag("--functional", flags->functional, "run on values too; outputs become NAME.npy in the result folder")
        ->group(of_values);
    command->add_option("--inputs", flags->inputs, "seed of random inputs (default 1), or a folder of NAME.npy files")
        ->type_name("SEED|DIR")
        ->check(path_given())
        ->group(of_values);
    command
        ->add_flag("--check-races", flags->check_races,
                   "report accesses that nothing orders, and unbalanced semaphores (exit code 2)")
        ->group(of_values);
    command->add_option("--shuffle", flags->shuffles, "run N other interleavings and compare the results byte for byte")
        ->type_name("N")
        ->check(given("a number"))
        ->group(of_values);
    command->add_flag("--quiet", flags->quiet, "no table and no progress")->group("Output");
    command->footer(
        "Examples:\n"
        "  sluice run gemm --m 4096 --n 4096 --k 4096 --format fp4\n"
        "  sluice run attention --heads 32 --kv-heads 8 --head-dim 128 --tokens 4096 --causal --format fp8\n"
        "  sluice run --model llama-3.1-8b --phase decode --batch 32 --context 4096\n"
        "  sluice run --model my/config.json --phase prefill --tokens 2048 --weights fp8 --chip maia200-peak\n"
        "  sluice run gemm --m 256 --n 256 --k 256 --format fp8 --functional --inputs 7 --check-races --shuffle 4\n"
        "  sluice run mine.disa --chip toy --set tsram.bytes=1MiB --json - | jq .summary");
    command->callback([flags] { run(*flags); });
}

}  // namespace sluice::tools
