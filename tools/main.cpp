// SPDX-License-Identifier: Apache-2.0
// The program `sluice`: reads the command line, and alone turns failures into exit codes: 2 the input is wrong, 3 a bug
// of ours, 4 the simulated program deadlocked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"
#include "tools/commands.hpp"
#include "tools/output.hpp"
#include "tools/version.hpp"

namespace {

enum ExitCode : int { kFine = 0, kBadInput = 2, kBug = 3, kDeadlock = 4 };

/// Messages quote what users' files and arguments say: bytes that would steer a terminal do not reach it.
int complain(ExitCode code, std::string what) {
    for (char& each : what) {
        const auto byte = static_cast<unsigned char>(each);
        each = (byte < 0x20 && each != '\n') || byte == 0x7f ? '?' : each;
    }
    fmt::print(stderr, "sluice: {}\n", what);
    return code;
}

/// The innermost subcommand that was named.
const CLI::App* named_command(const CLI::App& app) {
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty()) {
        command = command->get_subcommands().front();
    }
    return command;
}

std::string full_name(const CLI::App* command) {
    const CLI::App* parent = command->get_parent();
    return parent == nullptr ? command->get_name() : full_name(parent) + " " + command->get_name();
}

/// What may stand where an argument was not understood: subcommands and flags.
std::vector<std::string> known_arguments(const CLI::App& command) {
    std::vector<std::string> known;
    for (const CLI::App* subcommand : command.get_subcommands([](const CLI::App*) { return true; })) {
        known.push_back(subcommand->get_name());
    }
    for (const CLI::Option* option : command.get_options()) {
        if (!option->get_positional()) {
            known.push_back(option->get_name());
        }
    }
    return known;
}

/// The parser's message says neither what is allowed nor what was nearly right.
std::string explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
    const CLI::App* command = named_command(app);
    const std::string help = fmt::format("(see {} --help)", full_name(command));
    std::vector<std::string> unknown = app.remaining(true);
    if (unknown.empty() && command == &app) {
        unknown = arguments;  // not even a subcommand
    }
    if (unknown.empty()) {
        return fmt::format("{} {}", error.what(), help);
    }
    return fmt::format("found \"{}\", allowed: {}{} {}", unknown.front(),
                       sluice::isa::joined(known_arguments(*command)),
                       sluice::isa::did_you_mean(unknown.front(), known_arguments(*command)), help);
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
    sluice::tools::add_verify_command(app);
    sluice::tools::add_fmt_command(app);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
            std::ostringstream help;  // or the version
            app.exit(error, help, help);
            sluice::tools::print(help.str());
            return kFine;
        }
        return complain(kBadInput, explain(app, error, {argv + 1, argv + argc}));
    }
    return kFine;
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is a failed write, which cleans up
    try {
        return run_command_line(argc, argv);
    } catch (const sluice::InputError& error) {
        return complain(kBadInput, error.what());
    } catch (const sluice::DeadlockError& error) {
        return complain(kDeadlock, error.what());
    } catch (const std::bad_alloc&) {
        return complain(kBadInput, "this needs more memory than there is");
    } catch (const std::exception& error) {
        return complain(kBug, fmt::format("a bug of ours, please report it: {}", error.what()));
    }
}
