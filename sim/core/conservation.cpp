// SPDX-License-Identifier: Apache-2.0
#include "sim/core/conservation.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::sim {

void require_conserved(const std::string& resource, std::string_view unit, std::uint64_t in, std::uint64_t out) {
    if (in != out) {
        throw InvariantError(fmt::format("{}: {} {} went in, {} came out", resource, in, unit, out));
    }
}

}  // namespace sluice::sim
