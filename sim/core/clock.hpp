// SPDX-License-Identifier: Apache-2.0
#pragma once
// Clock domains as values. Time is computed from the absolute cycle and the exact frequency, never by adding periods.
// A domain is a list of epochs, so that a governor may change its frequency; today every domain has one.
#include <cstdint>
#include <numeric>
#include <vector>

#include "isa/units.hpp"

namespace sluice::sim {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kFemtosecondsPerSecond = 1'000'000'000'000'000;

class ClockDomain {
public:
    struct Epoch {
        Cycle first_cycle = 0;
        Femtoseconds first_femtosecond = 0;
        std::uint64_t hertz = 1;
    };

    explicit ClockDomain(std::uint64_t hertz) : epochs_{{0, 0, hertz}} {}

    /// The femtosecond in which `cycle` begins.
    [[nodiscard]] Femtoseconds time_of(Cycle cycle) const {
        const Epoch& epoch = epochs_.back();
        if (kFemtosecondsPerSecond % epoch.hertz == 0) {
            return epoch.first_femtosecond + (cycle - epoch.first_cycle) * (kFemtosecondsPerSecond / epoch.hertz);
        }
        return epoch.first_femtosecond +
               static_cast<Femtoseconds>(Wide{cycle - epoch.first_cycle} * kFemtosecondsPerSecond / epoch.hertz);
    }
    [[nodiscard]] std::uint64_t hertz() const { return epochs_.back().hertz; }

private:
    std::vector<Epoch> epochs_;
};

/// Crossing from one domain to another: an edge of the source is seen at the receiver's first edge at or after it.
/// Exact integer arithmetic on the reduced ratio of the two frequencies.
class ClockCrossing {
public:
    ClockCrossing(std::uint64_t from_hertz, std::uint64_t to_hertz) {
        const std::uint64_t common = std::gcd(from_hertz, to_hertz);
        up_ = to_hertz / common;
        down_ = from_hertz / common;
        narrow_ = up_ < kNarrowLimit && down_ < kNarrowLimit;
    }

    [[nodiscard]] std::uint64_t operator()(std::uint64_t edge) const {
        if (narrow_ && edge < kNarrowEdge) {
            return (edge * up_ + down_ - 1) / down_;
        }
        return static_cast<std::uint64_t>((Wide{edge} * up_ + down_ - 1) / down_);
    }

private:
    static constexpr std::uint64_t kNarrowLimit = std::uint64_t{1} << 16;
    static constexpr std::uint64_t kNarrowEdge = std::uint64_t{1} << 47;  // edge * up_ fits 64 bits
    std::uint64_t up_ = 1;
    std::uint64_t down_ = 1;
    bool narrow_ = false;
};

}  // namespace sluice::sim
