// SPDX-License-Identifier: Apache-2.0
#pragma once
// An event is a target, a kind that the target understands, and one word of payload. Small enough to be pooled by the
// wheel: nothing is allocated per event.
#include <cstdint>

namespace sluice::sim {

/// Two phases a cycle: everything that arrives is there before anything is arbitrated.
enum class Phase : std::uint8_t { arrive, arbitrate };

class EventTarget {
public:
    virtual void on_event(std::uint32_t kind, std::uint64_t payload) = 0;

protected:
    ~EventTarget() = default;
};

}  // namespace sluice::sim
