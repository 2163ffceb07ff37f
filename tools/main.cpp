// SPDX-License-Identifier: Apache-2.0
// The program `sluice`: reads the command line, and alone turns failures into exit codes: 2 the input is wrong, 3 a bug
// of ours, 4 the simulated program deadlocked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "isa/errors.hpp"
#include "tools/commands.hpp"
#include "tools/version.hpp"

namespace {

enum ExitCode : int { kFine = 0, kBadInput = 2, kBug = 3, kDeadlock = 4 };

int complain(ExitCode code, const char* what) {
    fmt::print(stderr, "sluice: {}\n", what);
    return code;
}

int run_command_line(int argc, char** argv) {
    CLI::App app(
        "A cycle-accurate simulator of software-defined dataflow accelerators: what a matrix product or a step of a\n"
        "language model costs on such a chip in cycles, bytes and joules, and why.",
        "sluice");
    app.set_version_flag("--version",
                         fmt::format("sluice {} ({})", sluice::tools::version(), sluice::tools::git_commit()));
    app.require_subcommand(1);
    app.footer(
        "Examples:\n"
        "  sluice run gemm --m 4096 --n 4096 --k 4096 --format fp4\n"
        "  sluice show chip maia200\n"
        "Every subcommand has its own --help.");
    sluice::tools::add_run_command(app);
    sluice::tools::add_compile_command(app);
    sluice::tools::add_show_command(app);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
            return app.exit(error);  // --help, --version
        }
        return complain(kBadInput, fmt::format("{} (see sluice --help)", error.what()).c_str());
    }
    return kFine;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_command_line(argc, argv);
    } catch (const sluice::InputError& error) {
        return complain(kBadInput, error.what());
    } catch (const sluice::DeadlockError& error) {
        return complain(kDeadlock, error.what());
    } catch (const std::exception& error) {
        return complain(kBug, fmt::format("a bug of ours, please report it: {}", error.what()).c_str());
    }
}
