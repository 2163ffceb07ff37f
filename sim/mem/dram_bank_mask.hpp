// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets of banks as masks, for the parts of DramChannel.
#include <bit>
#include <cstdint>

#include "sim/mem/dram_timing.hpp"

namespace sluice::sim {

/// Directions.
constexpr std::size_t kRead = 0;
constexpr std::size_t kWrite = 1;

constexpr std::uint64_t bit(Bank bank) {
    return std::uint64_t{1} << bank;
}

/// Visits the set bits of a mask, lowest first.
template <class Mask, class Visit>
void for_each_bit(Mask mask, Visit&& visit) {
    for (; mask != 0; mask = static_cast<Mask>(mask & (mask - 1))) {
        visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
    }
}

}  // namespace sluice::sim
