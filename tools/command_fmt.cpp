// SPDX-License-Identifier: Apache-2.0
// `sluice fmt`: programs in their canonical layout.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "isa/errors.hpp"
#include "tools/commands.hpp"
#include "tools/comments.hpp"
#include "tools/output.hpp"
#include "tools/program_file.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

struct FormatFlags {
    std::vector<std::string> files;
    bool check = false;
    bool write = false;
};

/// In the place of the file, which keeps its permissions; one that is laid out already is left alone.
void rewrite(const std::string& file, const std::string& before, const std::string& after) {
    if (before == after) {
        return;
    }
    const fs::perms permissions = fs::status(file).permissions();
    ResultFile(file, file).publish(after);
    fs::permissions(file, permissions);
}

void format(const FormatFlags& flags) {
    for_each_file(flags.files, [&flags](const std::string& file) {
        const std::string before = read_program_text(file);
        const std::string after = lay_out(before, file);
        if (flags.write) {
            rewrite(file, before, after);
        } else if (!flags.check) {
            print(after);
        } else if (before != after) {
            throw InputError(file, "is not in canonical layout (sluice fmt --write)");
        }
    });
}

}  // namespace

void add_fmt_command(CLI::App& app) {
    CLI::App* command = app.add_subcommand("fmt", "lay programs (.disa) out in the canonical way, comments kept");
    const auto flags = std::make_shared<FormatFlags>();
    add_program_files(*command, flags->files);
    CLI::Option* check =
        command->add_flag("--check", flags->check, "write nothing; end with 2 and name files that differ");
    command->add_flag("--write", flags->write, "rewrite the files instead of printing")->excludes(check);
    command->footer(
        "Blank lines, line breaks and the order of declarations become those of the canonical text. A comment stays "
        "with\n"
        "the statement that it stands before or behind.\n"
        "Examples:\n"
        "  sluice fmt mine.disa\n"
        "  sluice fmt --write mine.disa other.disa\n"
        "  sluice fmt --check mine.disa");
    command->callback([flags] { format(*flags); });
}

}  // namespace sluice::tools
