// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who wrote every byte of a memory last, and who has read it since.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "isa/units.hpp"

namespace sluice::isa {

/// An access: part of an instruction, by number.
struct AccessId {
    std::uint32_t instruction = 0;
    std::uint32_t part = 0;
    friend bool operator==(const AccessId&, const AccessId&) = default;
};

class ShadowMemory {
public:
    explicit ShadowMemory(Bytes size);

    /// Calls on_conflict(earlier access, it wrote, first byte, bytes) for accesses of these bytes that are not ordered
    /// before this one by `ordered`, in pieces of at most 32 bytes that both touch wholly, then takes this one in.
    void access(std::uint64_t offset, Bytes bytes, AccessId id, bool write,
                const std::function<bool(AccessId)>& ordered,
                const std::function<void(AccessId, bool, std::uint64_t, Bytes)>& on_conflict);

private:
    static constexpr std::uint64_t kLineBytes = 32;
    static constexpr std::size_t kGroupLines = 4096;
    struct Entry {
        AccessId id;
        std::uint32_t bytes;  ///< of the line, one bit each
        bool write;
    };
    /// Mostly a writer and a reader.
    struct Line {
        std::vector<Entry> entries;
    };
    using Group = std::array<Line, kGroupLines>;

    std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace sluice::isa
