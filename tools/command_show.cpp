// SPDX-License-Identifier: Apache-2.0
#include "tools/commands.hpp"

namespace sluice::tools {

void add_show_command(CLI::App& /*app*/) {}

}  // namespace sluice::tools
