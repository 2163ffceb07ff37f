// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run reports about its parts: engines, plan nodes, the critical path, stats. Plain data.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "isa/memory_spec.hpp"
#include "isa/units.hpp"
#include "sim/core/energy.hpp"

namespace sluice::sim {

/// Kinds of waiting. Every cycle of an engine lane is busy, one of these, or idle (nothing in its queue and its control
/// program is finished or has not sent anything).
/// `engine`: ready, but the shared array works for another context. `launch`: a delay of the control program.
enum class WaitKind : std::uint8_t { semaphore, memory, bank_conflict, queue_full, control, throttle, engine, launch };
constexpr std::size_t kWaitKindCount = static_cast<std::size_t>(WaitKind::launch) + 1;
[[nodiscard]] std::string_view name(WaitKind kind);

/// busy + sum(waiting) + idle == total, exactly.
struct EngineAccount {
    std::string path;  ///< "chip.cluster0.tile3.ttu0"
    Cycle busy = 0;
    std::array<Cycle, kWaitKindCount> waiting{};
    Cycle idle = 0;
    Cycle total = 0;
};

struct NodeAccount {
    std::uint64_t instructions = 0;
    Cycle first_fetch = 0;  ///< first DMA start; meaningful if instructions > 0
    Cycle start = 0;        ///< first compute (TTU, TVP, reshaper) start; first instruction start if none computes
    Cycle end = 0;          ///< last completion
    Bytes hbm_read = 0, hbm_written = 0, csram = 0, tsram = 0, noc = 0;
    EnergyCounts energy{};
};

/// A command that an HBM channel was given. Commands to a whole pseudo-channel name no bank, refreshes no row: 0.
struct HbmCommand {
    std::uint64_t ck = 0;  ///< cycle of the memory's clock
    isa::DramCommand command = isa::DramCommand::activate;
    std::uint16_t channel = 0;  ///< of the chip
    std::uint8_t pseudo_channel = 0, rank = 0, group = 0, bank = 0;
    std::uint32_t row = 0;
};

struct CriticalSegment {
    std::string resource;  ///< "hbm", "csram", "noc", "ttu", "tvp", "control", "semaphore", ...
    Cycle cycles = 0;
};

struct StatValue {
    std::string path;
    std::string unit;
    std::string description;
    double value = 0;
};

}  // namespace sluice::sim
