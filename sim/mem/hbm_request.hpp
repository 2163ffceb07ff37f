// SPDX-License-Identifier: Apache-2.0
#pragma once
// What everything in front of a DramChannel does alike: the memory's clock, latencies in CK, a request from a place.
#include "isa/chip_spec.hpp"
#include "sim/core/clock.hpp"
#include "sim/core/transfer.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

[[nodiscard]] inline std::uint64_t ck_hertz(const isa::HbmSpec& spec) {
    return static_cast<std::uint64_t>(spec.bits_per_second_per_pin / spec.transfers_per_ck);
}

/// Rounded up.
[[nodiscard]] inline Ck ck_of(std::int64_t picoseconds, const isa::HbmSpec& spec) {
    constexpr std::uint64_t kPicosecondsPerSecond = 1'000'000'000'000;
    return static_cast<Ck>(
        ceil_div(Wide{static_cast<std::uint64_t>(picoseconds)} * ck_hertz(spec), Wide{kPicosecondsPerSecond}));
}

/// `interleave`: bank groups that a granule visits in turn. Arrival, tag and direction are the caller's.
[[nodiscard]] inline DramRequest request_at(const HbmPlace& place, const isa::HbmSpec& spec, std::uint32_t interleave) {
    DramRequest request;
    request.row = place.row;
    request.pseudo_channel =
        static_cast<std::uint8_t>(place.pseudo_channel % static_cast<std::uint16_t>(spec.pseudo_channels));
    request.set = place.set;
    request.base = place.base_group;
    request.first = static_cast<std::uint8_t>(place.first_beat % interleave);
    request.bursts = place.beats;
    return request;
}

}  // namespace sluice::sim
