// SPDX-License-Identifier: Apache-2.0
// Do the commands in the documentation work? Every line of a fenced block ```sh that starts with `sluice` or
// `build/sluice` is run and must end with 0. In a block ```sh slow, `run` is run as `compile`: everything but the
// simulation itself. A pipe or a comment ends a command, a backslash continues it.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/tools/program.hpp"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

struct Command {
    std::string file;
    std::string words;
    bool slow = false;
};

std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The command of a line without program, pipe and comment; "" if it is none.
std::string command_of(const std::string& line) {
    for (const std::string program : {"sluice ", "build/sluice "}) {
        if (line.starts_with(program)) {
            return trimmed(line.substr(program.size(), line.find_first_of("|#") - program.size()));
        }
    }
    return "";
}

std::vector<Command> commands_of(const fs::path& file) {
    std::vector<Command> commands;
    std::istringstream text(test::text_of(file));
    bool inside = false;
    bool shell = false;
    bool slow = false;
    std::string pending;
    for (std::string line; std::getline(text, line);) {
        if (line.starts_with("```")) {
            inside = !inside;
            shell = inside && (line == "```sh" || line == "```sh slow");
            slow = shell && line == "```sh slow";
            continue;
        }
        if (!shell) {
            continue;
        }
        line = pending + trimmed(line);
        pending.clear();
        if (line.ends_with("\\")) {
            pending = line.substr(0, line.size() - 1);
            continue;
        }
        if (const std::string words = command_of(line); !words.empty()) {
            commands.push_back({file.lexically_relative(SLUICE_SOURCE_DIR).string(), words, slow});
        }
    }
    return commands;
}

std::vector<Command> all_commands() {
    std::vector<Command> commands;
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(SLUICE_SOURCE_DIR)) {
        const fs::path inner = entry.path() / "README.md";
        if (entry.path().extension() == ".md") {
            files.push_back(entry.path());
        } else if (entry.is_directory() && fs::exists(inner)) {
            files.push_back(inner);
        }
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
        const std::vector<Command> found = commands_of(file);
        commands.insert(commands.end(), found.begin(), found.end());
    }
    return commands;
}

/// `run` as `compile`, without the flags of results.
std::string without_simulation(const std::string& words) {
    std::istringstream stream(words);
    std::vector<std::string> kept;
    for (std::string word; stream >> word;) {
        if (word == "--out" || word == "--json" || word == "--inputs" || word == "--shuffle") {
            stream >> word;
        } else if (word != "--quiet" && word != "--functional" && word != "--check-races") {
            kept.push_back(word == "run" ? "compile" : word);
        }
    }
    return fmt::format("{}", fmt::join(kept, " "));
}

}  // namespace

TEST_CASE("documented commands work") {
    const std::vector<Command> commands = all_commands();
    CHECK(commands.size() >= 5);
    const test::Program program;
    for (const char* folder : {"configs", "kernels"}) {
        fs::create_directory_symlink(fs::path(SLUICE_SOURCE_DIR) / folder, program.path(folder));
    }
    // The files of the user's own that documentation speaks of.
    REQUIRE(program("compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o mine.disa").code == 0);
    program.folder().write("my-chip.json", R"({"base": "maia200"})");
    for (const Command& command : commands) {
        const std::string words = command.slow ? without_simulation(command.words) : command.words;
        const test::Ended ended = program(words);
        INFO(command.file << ": sluice " << words << "\n" << ended.err);
        CHECK(ended.code == 0);
    }
}

TEST_CASE("examples of the help texts work") {
    const test::Program program;
    REQUIRE(program("compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o mine.disa").code == 0);
    REQUIRE(program("compile gemm --m 32 --n 32 --k 32 --format fp8 --chip toy -o other.disa").code == 0);
    program.folder().write("my/config.json",
                           test::text_of(std::string(SLUICE_SOURCE_DIR) + "/configs/models/llama-3.1-8b.json"));
    std::size_t examples = 0;
    for (const char* command : {"", "run", "compile", "verify", "fmt", "show", "show chip", "show model"}) {
        std::istringstream help(program(std::string(command) + " --help").out);
        for (std::string line; std::getline(help, line);) {
            const std::string words = line.starts_with("  sluice ") ? command_of(trimmed(line)) : "";
            if (words.empty()) {
                continue;
            }
            ++examples;
            const test::Ended ended = program(without_simulation(words));
            INFO("sluice " << words << "\n" << ended.err);
            // `show` keeps its --json; without it the table is as good.
            CHECK(ended.code == 0);
        }
    }
    CHECK(examples >= 12);
}
