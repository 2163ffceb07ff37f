// SPDX-License-Identifier: Apache-2.0
#pragma once
// What made a result: the release, and the commit that CMake saw ("unknown" outside a git checkout).
#include <string_view>

namespace sluice::tools {

[[nodiscard]] std::string_view version();
[[nodiscard]] std::string_view git_commit();

}  // namespace sluice::tools
