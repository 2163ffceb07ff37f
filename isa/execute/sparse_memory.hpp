// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of one memory, kept page by page as they are written, with a bit for every byte that says whether anybody
// wrote it. What nobody wrote reads as 0xFF, which is NaN in every number format that has one.
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isa/units.hpp"

namespace sluice::isa {

class SparseMemory {
public:
    explicit SparseMemory(Bytes size);

    [[nodiscard]] Bytes size() const { return size_; }
    /// Offsets and sizes lie within the memory; SLUICE_CHECK otherwise.
    void read(std::uint64_t offset, std::span<std::byte> out) const;
    void write(std::uint64_t offset, std::span<const std::byte> in);
    /// The first byte of [offset, offset + bytes) that nobody wrote.
    [[nodiscard]] std::optional<std::uint64_t> first_unwritten(std::uint64_t offset, Bytes bytes) const;
    /// The first byte in which the two memories differ (contents, or whether it was written).
    [[nodiscard]] std::optional<std::uint64_t> first_difference(const SparseMemory& other) const;

private:
    static constexpr std::size_t kPageBytes = 4096;
    static constexpr std::size_t kGroupPages = 1024;
    struct Page {
        std::array<std::byte, kPageBytes> data;
        std::bitset<kPageBytes> written;
        std::size_t written_count = 0;
    };
    using Group = std::array<std::unique_ptr<Page>, kGroupPages>;

    [[nodiscard]] const Page* page(std::uint64_t offset) const;
    Page& touch(std::uint64_t offset);
    void check(std::uint64_t offset, Bytes bytes) const;

    Bytes size_;
    std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace sluice::isa
