// SPDX-License-Identifier: Apache-2.0
#pragma once
// The subcommands of `sluice`, one file each. Each adds itself to the command line; its callback does the work and
// throws InputError, DeadlockError or InvariantError.
#include <string>

namespace CLI {
class App;
}

namespace sluice::tools {

void add_run_command(CLI::App& app);
void add_compile_command(CLI::App& app);
void add_show_command(CLI::App& app);
void add_verify_command(CLI::App& app);
void add_fmt_command(CLI::App& app);

}  // namespace sluice::tools
