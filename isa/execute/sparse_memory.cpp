// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/sparse_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr auto kUnwritten = std::byte{0xFF};

/// Calls body(offset, within the piece's page, position in the whole, bytes) for the parts of a range page by page.
template <class Body>
void for_pages(std::uint64_t offset, std::size_t bytes, std::size_t page_bytes, const Body& body) {
    std::size_t done = 0;
    while (done < bytes) {
        const std::uint64_t at = offset + done;
        const auto within = static_cast<std::size_t>(at % page_bytes);
        const std::size_t part = std::min(bytes - done, page_bytes - within);
        body(at, within, done, part);
        done += part;
    }
}

}  // namespace

SparseMemory::SparseMemory(Bytes size)
    : size_(size), groups_(static_cast<std::size_t>(ceil_div<Bytes>(size, kPageBytes * kGroupPages))) {}

void SparseMemory::check(std::uint64_t offset, Bytes bytes) const {
    SLUICE_CHECK(offset <= size_ && bytes <= size_ - offset,
                 fmt::format("access to bytes {} + {} of a memory of {}", offset, bytes, size_));
}

const SparseMemory::Page* SparseMemory::page(std::uint64_t offset) const {
    const auto number = static_cast<std::size_t>(offset / kPageBytes);
    const std::unique_ptr<Group>& group = groups_[number / kGroupPages];
    return group ? (*group)[number % kGroupPages].get() : nullptr;
}

SparseMemory::Page& SparseMemory::touch(std::uint64_t offset) {
    const auto number = static_cast<std::size_t>(offset / kPageBytes);
    std::unique_ptr<Group>& group = groups_[number / kGroupPages];
    if (!group) {
        group = std::make_unique<Group>();
    }
    std::unique_ptr<Page>& page = (*group)[number % kGroupPages];
    if (!page) {
        page = std::make_unique<Page>();
        page->data.fill(kUnwritten);
    }
    return *page;
}

void SparseMemory::read(std::uint64_t offset, std::span<std::byte> out) const {
    check(offset, out.size());
    for_pages(offset, out.size(), kPageBytes,
              [&](std::uint64_t at, std::size_t within, std::size_t done, std::size_t n) {
                  const Page* source = page(at);
                  if (source == nullptr) {
                      std::memset(&out[done], static_cast<int>(kUnwritten), n);
                  } else {
                      std::memcpy(&out[done], &source->data[within], n);
                  }
              });
}

void SparseMemory::write(std::uint64_t offset, std::span<const std::byte> in) {
    check(offset, in.size());
    for_pages(offset, in.size(), kPageBytes,
              [&](std::uint64_t at, std::size_t within, std::size_t done, std::size_t n) {
                  Page& target = touch(at);
                  std::memcpy(&target.data[within], &in[done], n);
                  if (target.written_count == kPageBytes) {
                      return;
                  }
                  for (std::size_t i = within; i < within + n; ++i) {
                      if (!target.written[i]) {
                          target.written[i] = true;
                          ++target.written_count;
                      }
                  }
              });
}

std::optional<std::uint64_t> SparseMemory::first_unwritten(std::uint64_t offset, Bytes bytes) const {
    check(offset, bytes);
    std::optional<std::uint64_t> first;
    for_pages(offset, static_cast<std::size_t>(bytes), kPageBytes,
              [&](std::uint64_t at, std::size_t within, std::size_t, std::size_t n) {
                  if (first) {
                      return;
                  }
                  const Page* source = page(at);
                  if (source == nullptr) {
                      first = at;
                      return;
                  }
                  if (source->written_count == kPageBytes) {
                      return;
                  }
                  for (std::size_t i = 0; i < n && !first; ++i) {
                      if (!source->written[within + i]) {
                          first = at + i;
                      }
                  }
              });
    return first;
}

std::optional<std::uint64_t> SparseMemory::first_difference(const SparseMemory& other) const {
    SLUICE_CHECK(size_ == other.size_, "memories of different size are compared");
    static const Page kEmpty = [] {
        Page page;
        page.data.fill(kUnwritten);
        return page;
    }();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (!groups_[g] && !other.groups_[g]) {
            continue;
        }
        for (std::size_t p = 0; p < kGroupPages; ++p) {
            const std::uint64_t at = (g * kGroupPages + p) * kPageBytes;
            if (at >= size_) {
                break;
            }
            const Page* const mine = page(at) != nullptr ? page(at) : &kEmpty;
            const Page* const theirs = other.page(at) != nullptr ? other.page(at) : &kEmpty;
            if (mine->data == theirs->data && mine->written == theirs->written) {
                continue;
            }
            for (std::size_t i = 0; i < kPageBytes; ++i) {
                if (mine->data[i] != theirs->data[i] || mine->written[i] != theirs->written[i]) {
                    return at + i;
                }
            }
        }
    }
    return std::nullopt;
}

}  // namespace sluice::isa
