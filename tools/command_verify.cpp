// SPDX-License-Identifier: Apache-2.0
// `sluice verify`: what can be known wrong about programs without running them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "isa/chip_spec_reader.hpp"
#include "isa/text.hpp"
#include "isa/verifier.hpp"
#include "tools/commands.hpp"
#include "tools/flags.hpp"
#include "tools/output.hpp"
#include "tools/program_file.hpp"

namespace sluice::tools {
namespace {

struct VerifyFlags {
    std::vector<std::string> files;
    ChipFlags chip;
};

std::string counted(std::size_t count, const std::string& what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Each program on the chip that it names, or all on the one that the flags name.
void verify(const VerifyFlags& flags) {
    std::optional<isa::ChipSpec> chosen;
    if (!flags.chip.chip.empty()) {
        chosen = isa::read_chip(flags.chip.chip, flags.chip.sets).spec;
    }
    for_each_file(flags.files, [&](const std::string& file) {
        const isa::Program program = isa::read_text(read_program_text(file), file);
        isa::verify(program, chosen ? *chosen : isa::read_chip(program.chip, flags.chip.sets).spec);
        print(fmt::format("{}: fine: {} in {}\n", file, counted(instruction_count(program), "instruction"),
                          counted(program.controls.size(), "control program")));
    });
}

}  // namespace

void add_verify_command(CLI::App& app) {
    CLI::App* command = app.add_subcommand("verify", "check programs (.disa) for what cannot be right, without a run");
    const auto flags = std::make_shared<VerifyFlags>();
    add_program_files(*command, flags->files);
    command
        ->add_option("--chip", flags->chip.chip, "name in configs/chips/, or path of a chip file (default: as named)")
        ->type_name("CHIP")
        ->group("Machine");
    command
        ->add_option("--set", flags->chip.sets, "change one field of the chip, e.g. tsram.bytes=4MiB; may be repeated")
        ->type_name("PATH=VALUE")
        ->allow_extra_args(false)
        ->group("Machine");
    command->footer(
        "Addresses, counts and semaphores are bounded over all iterations; isa/README.md says what is checked.\n"
        "Ends with 2 if a program is wrong; the other files are checked all the same.\n"
        "Examples:\n"
        "  sluice verify mine.disa\n"
        "  sluice verify mine.disa other.disa --chip toy --set tsram.bytes=1MiB");
    command->callback([flags] { verify(*flags); });
}

}  // namespace sluice::tools
