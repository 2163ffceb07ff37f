// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a resource took in has come out of it by the end of a run.
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::sim {

/// InvariantError, naming resource, unit and both figures, if they differ.
void require_conserved(const std::string& resource, std::string_view unit, std::uint64_t in, std::uint64_t out);

}  // namespace sluice::sim
