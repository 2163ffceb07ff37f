// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs in files (.disa), for the subcommands that read several.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "isa/program.hpp"

namespace CLI {
class App;
}

namespace sluice::tools {

/// The whole file. Throws InputError if it is no regular file, larger than 64 MiB, or cannot be read.
[[nodiscard]] std::string read_program_text(const std::string& file);

/// Adds the list of files that a subcommand takes, at least one.
void add_program_files(CLI::App& command, std::vector<std::string>& files);

/// Calls action(file) for each, also after one has failed. Throws one InputError with the messages of all that threw
/// one, every line of them naming its file.
void for_each_file(const std::vector<std::string>& files, const std::function<void(const std::string& file)>& action);

/// Instructions in the text of all control programs (not executions).
[[nodiscard]] std::size_t instruction_count(const isa::Program& program);

}  // namespace sluice::tools
