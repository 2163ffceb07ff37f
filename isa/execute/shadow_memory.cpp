// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/shadow_memory.hpp"

#include <algorithm>
#include <bit>

namespace sluice::isa {

namespace {

/// Calls body(first bit, bits) for every unbroken run of bits that are set.
void for_runs(std::uint32_t bits, const std::function<void(int, int)>& body) {
    for (int at = 0; bits != 0;) {
        const int gap = std::countr_zero(bits);
        const int count = std::countr_one(bits >> gap);
        body(at + gap, count);
        at += gap + count;
        bits = at == 32 ? 0 : bits >> gap >> count;
    }
}

}  // namespace

ShadowMemory::ShadowMemory(Bytes size)
    : groups_(static_cast<std::size_t>(ceil_div<Bytes>(size, kLineBytes * kGroupLines))) {}

void ShadowMemory::access(std::uint64_t offset, Bytes bytes, AccessId id, bool write,
                          const std::function<bool(AccessId)>& ordered,
                          const std::function<void(AccessId, bool, std::uint64_t, Bytes)>& on_conflict) {
    const std::uint64_t end = offset + bytes;
    for (std::uint64_t line_number = offset / kLineBytes; line_number * kLineBytes < end; ++line_number) {
        const std::uint64_t base = line_number * kLineBytes;
        const std::uint64_t first = std::max(offset, base) - base;
        const std::uint64_t last = std::min(end, base + kLineBytes) - base;
        const auto mask = static_cast<std::uint32_t>(((std::uint64_t{1} << (last - first)) - 1) << first);
        std::unique_ptr<Group>& group = groups_[static_cast<std::size_t>(line_number / kGroupLines)];
        if (!group) {
            group = std::make_unique<Group>();
        }
        std::vector<Entry>& entries = (*group)[static_cast<std::size_t>(line_number % kGroupLines)].entries;
        for (Entry& entry : entries) {
            const std::uint32_t common = entry.bytes & mask;
            if (common == 0) {
                continue;
            }
            if ((write || entry.write) && !(entry.id == id) && !ordered(entry.id)) {
                for_runs(common, [&](int at, int count) {
                    on_conflict(entry.id, entry.write, base + static_cast<std::uint64_t>(at), count);
                });
            }
            // A write takes the place of all before it; a read that is ordered after another one stands for both, since
            // whatever is ordered after the later is ordered after the earlier.
            if (write || (!entry.write && ordered(entry.id))) {
                entry.bytes &= ~mask;
            }
        }
        std::erase_if(entries, [](const Entry& entry) { return entry.bytes == 0; });
        entries.push_back({id, mask, write});
    }
}

}  // namespace sluice::isa
