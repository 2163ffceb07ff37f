// SPDX-License-Identifier: Apache-2.0
#include "isa/errors.hpp"

#include <fmt/format.h>

namespace sluice {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
    throw InvariantError(fmt::format("{} (check `{}` failed at {}:{})", message, condition, file, line));
}

}  // namespace sluice
