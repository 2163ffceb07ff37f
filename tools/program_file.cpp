// SPDX-License-Identifier: Apache-2.0
#include "tools/program_file.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "isa/errors.hpp"
#include "tools/flags.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestProgram = std::uintmax_t{64} << 20;

std::size_t instruction_count(const isa::Block& block) {
    std::size_t total = 0;
    const auto add = [&total](const std::shared_ptr<isa::Block>& body) {
        total += body ? instruction_count(*body) : 0;
    };
    for (const isa::Statement& statement : block) {
        if (const auto* loop = std::get_if<isa::Loop>(&statement.body)) {
            add(loop->body);
        } else if (const auto* branch = std::get_if<isa::If>(&statement.body)) {
            add(branch->then_body);
            add(branch->else_body);
        } else {
            total += std::holds_alternative<isa::Instruction>(statement.body) ? 1 : 0;
        }
    }
    return total;
}

/// Readers name the file (and show the line below); the verifier names a place in the program, a line each.
std::string naming_file(const std::string& file, const std::string& message) {
    if (message.starts_with(file + ":")) {
        return message;
    }
    std::istringstream lines(message);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
        out += fmt::format("{}{}: {}", out.empty() ? "" : "\n", file, line);
    }
    return out;
}

}  // namespace

std::string read_program_text(const std::string& file) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) {
        throw InputError(file, fs::exists(file, error) ? "not a regular file" : "no such file");
    }
    const std::uintmax_t size = fs::file_size(file, error);
    if (!error && size > kLargestProgram) {
        throw InputError(file, fmt::format("has {} bytes, allowed: at most {} (64 MiB)", size, kLargestProgram));
    }
    std::ifstream stream(file, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (!stream) {
        throw InputError(file, "cannot be read");
    }
    return text;
}

void add_program_files(CLI::App& command, std::vector<std::string>& files) {
    command.add_option("file", files, "programs (.disa)")->type_name("FILE...")->required()->check(path_given());
}

void for_each_file(const std::vector<std::string>& files, const std::function<void(const std::string& file)>& action) {
    std::string messages;
    for (const std::string& file : files) {
        try {
            action(file);
        } catch (const InputError& error) {
            messages += (messages.empty() ? "" : "\n") + naming_file(file, error.what());
        }
    }
    if (!messages.empty()) {
        throw InputError("", messages);
    }
}

std::size_t instruction_count(const isa::Program& program) {
    std::size_t total = 0;
    for (const isa::ControlProgram& control : program.controls) {
        total += instruction_count(control.body);
    }
    return total;
}

}  // namespace sluice::tools
