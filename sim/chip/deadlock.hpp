// SPDX-License-Identifier: Apache-2.0
#pragma once
// Says who waits for whom when a program can make no progress.
#include <string>
#include <vector>

#include "sim/engine/control_processor.hpp"

namespace sluice::sim {

[[nodiscard]] std::string describe_deadlock(const std::vector<ControlProcessor*>& processors,
                                            const std::vector<Lane*>& lanes, const EngineContext& context);

}  // namespace sluice::sim
