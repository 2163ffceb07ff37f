// SPDX-License-Identifier: Apache-2.0
#pragma once
// The regions that a program declares, by memory: which of them overlap, and which one holds some bytes.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "isa/bounds.hpp"
#include "isa/program.hpp"
#include "isa/verify_problems.hpp"

namespace sluice::isa {

class RegionMap {
public:
    explicit RegionMap(const std::vector<Region>& regions);

    /// Notes regions that share bytes of one unit.
    void check_overlaps(Problems& problems);

    /// Nothing can be said of a memory without regions, or whose regions overlap.
    [[nodiscard]] bool rules(Space space) const;
    /// One region holds all these bytes in all these units.
    [[nodiscard]] bool hold(Space space, Interval units, Interval bytes) const;
    /// `from region "a" into region "b"`, of bytes that no region holds.
    [[nodiscard]] std::string describe(Space space, std::int64_t unit, Interval bytes) const;

private:
    using Sorted = std::vector<const Region*>;  ///< those that exist in one unit, by offset

    [[nodiscard]] const Sorted& in(Space space, std::int64_t unit) const;
    [[nodiscard]] const Region* at(Space space, std::int64_t unit, std::int64_t byte) const;

    std::array<std::vector<Sorted>, 3> units_;
    std::array<bool, 3> overlaps_{};
    Sorted none_;
};

}  // namespace sluice::isa
