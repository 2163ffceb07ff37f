// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the checks of all statements share: where they stand, requirements on values over all iterations, and when a
// violation happens for the first time.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "isa/verify_limits.hpp"
#include "isa/verify_problems.hpp"
#include "isa/verify_regions.hpp"
#include "isa/verify_search.hpp"

namespace sluice::isa {

/// More than any count, size or address.
constexpr std::int64_t kAnything = std::int64_t{1} << 50;

/// Calls body(bit) for every bit of the mask, lowest first.
template <class Body>
void for_bits(std::uint64_t mask, const Body& body) {
    for (std::int64_t bit = 0; bit < 64; ++bit) {
        if ((mask >> bit & 1U) != 0) {
            body(bit);
        }
    }
}

/// A whole program while it is verified.
struct Verification {
    Verification(const Program& checked, const ChipSpec& chip)
        : program(checked), limits(chip), regions(checked.regions) {}

    const Program& program;
    ChipLimits limits;
    RegionMap regions;
    Problems problems;
    std::map<std::string, std::int64_t> vector_operands;  ///< how many each vector program uses
    std::int64_t most_node = 0;
    std::int64_t search_budget = 200'000;                          ///< steps of all searches: 0.2 s
    std::map<std::pair<Level, std::int64_t>, std::string> waited;  ///< semaphores, and where one waits for them
    std::set<std::pair<Level, std::int64_t>> signalled;
};

/// The bytes from the first to the last that something touches.
struct Extent {
    explicit Extent(const Affine& offset) : first(offset), last(offset) {}

    /// The pieces lie `stride` bytes apart, ceil(count / divisor) of them.
    void repeat(const Affine& count, std::int64_t stride, std::int64_t divisor = 1);
    /// The last piece is that long.
    void end(const Quantity& bytes);

    Quantity first;
    Quantity last;
};

class Checker {
public:
    Checker(Verification& all, const ControlProgram& control);

    void at(const Statement& statement) { statement_ = &statement; }
    void note(const std::string& what) { all.problems.note(what); }
    /// Notes that nothing is known of a value.
    void note_unbounded(const std::string& what);

    /// Bounds of a value that must lie in [lowest, highest]; nothing after a violation.
    std::optional<Interval> require(const Quantity& value, std::int64_t lowest, std::int64_t highest, const char* what);
    /// The same of a unit, and of those that bits of a mask (0: none) name beyond it. True: they are among `units`.
    bool require_unit(const Affine& unit, std::uint64_t mask, std::int64_t units, const char* what);
    /// Notes `what`, and when it happens first, unless the condition never holds. True: noted.
    bool refuse(const Condition& condition, const std::string& what);

    /// What a piece of memory must keep to.
    struct Memory {
        Space space = Space::tsram;
        std::int64_t capacity = 0;
        Affine unit;
        std::uint64_t mask = 1;  ///< of units beyond the first
    };
    /// `reach` makes the extent from its offset. All of it lies in the memory, and in one region if there are any.
    void require_within(const char* what, const Memory& memory, const Affine& offset,
                        const std::function<Extent(const Affine&)>& reach);

    /// What depends on registers happens when the control program comes to it: call this at its end.
    void finish();

    Verification& all;
    Position position;

private:
    /// A violation of which it is not known yet when it happens.
    struct Pending {
        std::size_t problem;
        const Statement* statement;
        Condition condition;
        Position position;
    };

    void note_first(const std::string& what, const Condition& condition, const Search& search, Search::Outcome outcome);
    void require_region(const char* what, const Memory& memory, const Extent& extent);

    const Statement* statement_ = nullptr;
    std::vector<Pending> pending_;
    bool unbounded_ = false;  ///< of some value nothing is known: evaluating it might overflow
};

}  // namespace sluice::isa
