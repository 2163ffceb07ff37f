// SPDX-License-Identifier: Apache-2.0
// `sluice compile`: the program of a workload as text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "isa/text.hpp"
#include "tools/commands.hpp"
#include "tools/flags.hpp"
#include "tools/output.hpp"
#include "tools/simulate.hpp"

namespace sluice::tools {
namespace {

struct CompileFlags {
    WorkloadFlags workload;
    std::string out = "-";
};

void compile(const CompileFlags& flags) {
    const Prepared job = prepare(flags.workload.request());
    const std::string text = isa::write_text(job.program);
    if (flags.out == "-") {
        print(text);
    } else {
        for (const Place& input : job.inputs) {
            require_apart({"-o", flags.out}, input);
        }
        ResultFile(flags.out, "-o").publish(text);
    }
}

}  // namespace

void add_compile_command(CLI::App& app) {
    CLI::App* command = app.add_subcommand("compile", "write the program of a workload as text (.disa), verified");
    const auto flags = std::make_shared<CompileFlags>();
    flags->workload.add_to(*command);
    command->add_option("-o", flags->out, "file of the program; - is standard output (default)")
        ->type_name("FILE")
        ->check(path_given())
        ->group("Output");
    command->footer(
        "Examples:\n"
        "  sluice compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy\n"
        "  sluice compile --model llama-3.1-8b --phase decode --batch 8 --context 1024 -o step.disa\n"
        "  sluice compile mine.disa        # verifies a program of your own and lays it out");
    command->callback([flags] { compile(*flags); });
}

}  // namespace sluice::tools
