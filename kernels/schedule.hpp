// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the operators of a graph follow one another on the chip.
#include <cstdint>
#include <string_view>

namespace sluice::kernels {

enum class Schedule : std::uint8_t {
    fused,  ///< nothing waits for an operator to end: what the next ones need streams while one computes
    eager,  ///< one after the other, each launched when all of the one before is complete
};

[[nodiscard]] constexpr std::string_view name(Schedule schedule) {
    return schedule == Schedule::eager ? "eager" : "fused";
}

}  // namespace sluice::kernels
