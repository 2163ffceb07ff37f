// SPDX-License-Identifier: Apache-2.0
// Does a memory kept page by page behave as a plain array with a bit for every byte?
#include "isa/execute/sparse_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "isa/errors.hpp"

using namespace sluice;
using namespace sluice::isa;

namespace {

constexpr Bytes kPage = 4096;
constexpr Bytes kGroup = 1024 * kPage;
constexpr auto kUnwritten = std::byte{0xFF};

std::vector<std::byte> bytes_of(const SparseMemory& memory, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    memory.read(offset, out);
    return out;
}

/// The same as the memory, the plain way.
struct Model {
    std::vector<std::byte> data;
    std::vector<bool> written;

    explicit Model(Bytes size)
        : data(static_cast<std::size_t>(size), kUnwritten), written(static_cast<std::size_t>(size), false) {}
    void write(std::size_t offset, const std::vector<std::byte>& in) {
        std::copy(in.begin(), in.end(), data.begin() + static_cast<std::ptrdiff_t>(offset));
        std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(offset), in.size(), true);
    }
    [[nodiscard]] std::optional<std::uint64_t> first_unwritten(std::size_t offset, std::size_t bytes) const {
        for (std::size_t i = offset; i < offset + bytes; ++i) {
            if (!written[i]) {
                return i;
            }
        }
        return std::nullopt;
    }
    [[nodiscard]] std::optional<std::uint64_t> first_difference(const Model& other) const {
        for (std::size_t i = 0; i < data.size(); ++i) {
            if (data[i] != other.data[i] || written[i] != other.written[i]) {
                return i;
            }
        }
        return std::nullopt;
    }
};

class RandomPieces {
public:
    explicit RandomPieces(std::size_t size) : size_(size) {}

    struct Piece {
        std::size_t offset, bytes;
    };
    /// Mostly short, a third of them across the end of a page, some over several pages.
    Piece next() {
        const std::size_t bytes = std::min<std::size_t>(size_, draw(10) == 0 ? draw(3 * kPage) : draw(40));
        std::size_t offset = draw(size_ - bytes + 1);
        if (draw(3) == 0) {
            const std::size_t end = (1 + draw(size_ / kPage - 1)) * kPage;
            offset = std::min(size_ - bytes, end - std::min(end, draw(bytes + 1)));
        }
        return {offset, bytes};
    }
    std::vector<std::byte> data(std::size_t bytes) {
        std::vector<std::byte> out(bytes);
        for (std::byte& byte : out) {
            byte = static_cast<std::byte>(draw(256));
        }
        return out;
    }
    std::size_t draw(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

private:
    std::size_t size_;
    std::mt19937_64 random_{1};
};

}  // namespace

TEST_CASE("what nobody wrote reads as 0xFF and is named") {
    SparseMemory memory(3 * kPage);
    CHECK(bytes_of(memory, kPage - 1, 2) == std::vector<std::byte>(2, kUnwritten));
    CHECK(memory.first_unwritten(0, 3 * kPage) == 0);

    memory.write(10, std::vector<std::byte>(4, std::byte{7}));
    CHECK(bytes_of(memory, 9, 6) ==
          std::vector<std::byte>{kUnwritten, std::byte{7}, std::byte{7}, std::byte{7}, std::byte{7}, kUnwritten});
    CHECK(memory.first_unwritten(10, 4) == std::nullopt);
    CHECK(memory.first_unwritten(10, 5) == 14);
    CHECK(memory.first_unwritten(9, 5) == 9);
    CHECK(memory.first_unwritten(14, 0) == std::nullopt);
}

TEST_CASE("a byte that is written as 0xFF is written") {
    SparseMemory memory(kPage);
    memory.write(5, std::vector<std::byte>(1, kUnwritten));
    CHECK(memory.first_unwritten(5, 1) == std::nullopt);
    CHECK(memory.first_difference(SparseMemory(kPage)) == 5);
}

TEST_CASE("pieces across the ends of pages and groups of pages are whole") {
    for (const Bytes edge : {kPage, kGroup - kPage, kGroup, 2 * kGroup}) {
        SparseMemory memory(3 * kGroup);
        const std::vector<std::byte> data{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
        memory.write(edge - 2, data);
        CHECK(bytes_of(memory, edge - 2, 4) == data);
        CHECK(bytes_of(memory, edge - 3, 1).front() == kUnwritten);
        CHECK(bytes_of(memory, edge + 2, 1).front() == kUnwritten);
        CHECK(memory.first_unwritten(edge - 2, 4) == std::nullopt);
        CHECK(memory.first_unwritten(edge - 2, 5) == edge + 2);
        CHECK(memory.first_difference(SparseMemory(3 * kGroup)) == edge - 2);
    }
}

TEST_CASE("a memory ends where it ends, although its last page is longer") {
    SparseMemory memory(kGroup + 5);
    memory.write(kGroup + 4, std::vector<std::byte>(1, std::byte{1}));
    CHECK(bytes_of(memory, kGroup + 4, 1).front() == std::byte{1});
    CHECK(memory.first_unwritten(kGroup + 5, 0) == std::nullopt);
    CHECK_THROWS_AS(bytes_of(memory, kGroup + 4, 2), InvariantError);
    CHECK_THROWS_AS(memory.write(kGroup + 5, std::vector<std::byte>(1)), InvariantError);
    CHECK_THROWS_AS(memory.first_unwritten(kGroup, 6), InvariantError);
    CHECK_THROWS_AS(memory.first_unwritten(~std::uint64_t{0}, 2), InvariantError);
    CHECK_THROWS_AS(memory.first_difference(SparseMemory(kGroup)), InvariantError);
}

TEST_CASE("a page that has been filled piece by piece is written, and stays so") {
    SparseMemory memory(2 * kPage);
    for (Bytes at = 0; at < kPage; at += 64) {
        CHECK(memory.first_unwritten(0, kPage) == at);
        memory.write(at, std::vector<std::byte>(64, std::byte{3}));
    }
    CHECK(memory.first_unwritten(0, kPage) == std::nullopt);
    memory.write(100, std::vector<std::byte>(1, std::byte{4}));
    CHECK(bytes_of(memory, 99, 3) == std::vector<std::byte>{std::byte{3}, std::byte{4}, std::byte{3}});
    CHECK(memory.first_unwritten(0, kPage + 1) == kPage);
}

TEST_CASE("random writes and reads give what a plain array gives") {
    constexpr std::size_t kSize = 5 * kPage + 123;
    RandomPieces pieces(kSize);
    SparseMemory memory(kSize);
    SparseMemory other(kSize);
    Model model(kSize);
    Model other_model(kSize);
    for (int i = 0; i < 3000; ++i) {
        const RandomPieces::Piece piece = pieces.next();
        const std::vector<std::byte> data = pieces.data(piece.bytes);
        // The other one misses a write now and then, and catches up.
        const bool both = i % 50 != 0;
        memory.write(piece.offset, data);
        model.write(piece.offset, data);
        if (both) {
            other.write(piece.offset, data);
            other_model.write(piece.offset, data);
        }
        const RandomPieces::Piece look = pieces.next();
        REQUIRE(memory.first_unwritten(look.offset, look.bytes) == model.first_unwritten(look.offset, look.bytes));
        const auto at = model.data.begin() + static_cast<std::ptrdiff_t>(look.offset);
        REQUIRE(bytes_of(memory, look.offset, look.bytes) ==
                std::vector<std::byte>(at, at + static_cast<std::ptrdiff_t>(look.bytes)));
        if (i % 10 == 0) {
            REQUIRE(memory.first_difference(other) == model.first_difference(other_model));
            REQUIRE(other.first_difference(memory) == model.first_difference(other_model));
        }
    }
    CHECK(memory.first_unwritten(0, kSize) == std::nullopt);
}
