// SPDX-License-Identifier: Apache-2.0
#include "tools/version.hpp"

namespace sluice::tools {

std::string_view version() {
    return SLUICE_VERSION;
}

std::string_view git_commit() {
    return SLUICE_GIT;
}

}  // namespace sluice::tools
