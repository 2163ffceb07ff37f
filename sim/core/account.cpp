// SPDX-License-Identifier: Apache-2.0
#include "sim/core/account.hpp"

namespace sluice::sim {

std::string_view name(WaitKind kind) {
    switch (kind) {
        case WaitKind::semaphore: return "semaphore";
        case WaitKind::memory: return "memory";
        case WaitKind::bank_conflict: return "bank_conflict";
        case WaitKind::queue_full: return "queue_full";
        case WaitKind::control: return "control";
        case WaitKind::throttle: return "throttle";
        case WaitKind::engine: return "engine";
        case WaitKind::launch: return "launch";
    }
    return "?";
}

}  // namespace sluice::sim
