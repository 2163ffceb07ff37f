// SPDX-License-Identifier: Apache-2.0
// Is each shipped address map one-to-one, does it keep granules together, and do strides camp on few channels only
// where a map says so?
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "isa/memory_reader.hpp"
#include "sim/mem/address_map.hpp"
#include "tests/sim/test_chip.hpp"
#include "tests/support/files.hpp"

using namespace sluice;

namespace {

using Fields = sim::AddressMap::Fields;

std::uint32_t of(const Fields& fields, isa::AddressField field) {
    return fields[static_cast<std::size_t>(field)];
}

const std::vector<std::string> kMaps = {"hashed", "linear", "numa"};

isa::HbmSpec spec_of(const std::string& map, std::vector<std::string> sets = {}) {
    sets.push_back("hbm.address_map=" + map);
    return test::maia200(sets).hbm;
}

std::uint64_t bytes_of(const isa::HbmSpec& hbm) {
    std::uint64_t bytes = static_cast<std::uint64_t>(hbm.burst_bytes);
    for (std::size_t f = 0; f < isa::kAddressFields; ++f) {
        bytes *= isa::field_range(hbm, static_cast<isa::AddressField>(f));
    }
    return bytes;
}

/// Which of all bursts the fields name, in an order of its own; none if a field is out of range.
std::uint64_t number_of(const Fields& fields, const isa::HbmSpec& hbm) {
    std::uint64_t number = 0;
    for (std::size_t f = 0; f < isa::kAddressFields; ++f) {
        const std::uint64_t range = isa::field_range(hbm, static_cast<isa::AddressField>(f));
        if (fields[f] >= range) {
            return ~std::uint64_t{0};
        }
        number = number * range + fields[f];
    }
    return number;
}

/// What a hash adds to its target, from the definition of isa::AddressHash.
std::uint64_t mixed(const isa::AddressHash& hash, const Fields& fields, std::uint64_t range) {
    std::uint64_t sum = 0;
    for (const isa::AddressBits& bits : hash.sources) {
        std::uint64_t value = 0;
        for (unsigned bit = bits.low; bit <= bits.high; ++bit) {
            value |= std::uint64_t{of(fields, bits.field) >> bit & 1U} << (bit - bits.low + bits.shift);
        }
        sum = hash.add ? sum + value : sum ^ value;
    }
    return sum % range;
}

/// The way back: hashes undone from the last to the first, then the number composed from its digits.
std::uint64_t address_of(Fields fields, const isa::HbmSpec& hbm) {
    for (std::size_t h = hbm.map.hashes.size(); h-- > 0;) {
        const isa::AddressHash& hash = hbm.map.hashes[h];
        const std::uint64_t range = isa::field_range(hbm, hash.target);
        std::uint32_t& target = fields[static_cast<std::size_t>(hash.target)];
        const std::uint64_t other = mixed(hash, fields, range);
        target = static_cast<std::uint32_t>(hash.add ? (target + range - other) % range : target ^ other);
    }
    std::uint64_t burst = 0;
    std::uint64_t weight = 1;
    for (const isa::AddressDigit& digit : hbm.map.digits) {
        std::uint32_t& rest = fields[static_cast<std::size_t>(digit.field)];
        burst += rest % digit.radix * weight;
        rest = static_cast<std::uint32_t>(rest / digit.radix);
        weight *= digit.radix;
    }
    return burst * static_cast<std::uint64_t>(hbm.burst_bytes);
}

/// The most that one pseudo-channel gets of `count` accesses at a stride.
int most_loaded(const sim::AddressMap& map, std::uint64_t stride, int count) {
    std::vector<int> load(192, 0);
    for (int i = 0; i < count; ++i) {
        ++load[map.decode(static_cast<std::uint64_t>(i) * stride, 1).pseudo_channel];
    }
    return *std::max_element(load.begin(), load.end());
}

}  // namespace

TEST_CASE("every burst of a small memory has a place of its own, and every place is used") {
    // Odd numbers of stacks, ranks and rows; fewer rows than the hashes take bits from.
    const std::vector<std::vector<std::string>> shapes = {
        {"hbm.stacks=3", "hbm.rows=7"},
        {"hbm.stacks=1", "hbm.rows=24", "hbm.channels_per_stack=4", "hbm.ranks=1"},
        {"hbm.stacks=2", "hbm.rows=5", "hbm.granule_bytes=256", "noc.packet_bytes=256", "hbm.ranks=2"},
    };
    for (const std::string& name : kMaps) {
        for (const std::vector<std::string>& shape : shapes) {
            const isa::HbmSpec hbm = spec_of(name, shape);
            const sim::AddressMap map(hbm);
            const std::uint64_t bursts = bytes_of(hbm) / 32;
            std::vector<bool> seen(bursts, false);
            std::uint64_t twice = 0;
            for (std::uint64_t burst = 0; burst < bursts; ++burst) {
                const std::uint64_t number = number_of(map.fields(burst * 32), hbm);
                if (number >= bursts) {
                    FAIL("a place that does not exist");
                }
                twice += seen[number] ? 1 : 0;
                seen[number] = true;
            }
            INFO(name);
            CHECK(twice == 0);
        }
    }
}

TEST_CASE("the shipped maps are one-to-one on the shipped memory: every sample is found again on the way back") {
    const isa::ChipSpec chip = test::maia200();
    for (const std::string& name : kMaps) {
        const isa::HbmSpec hbm = spec_of(name);
        REQUIRE(bytes_of(hbm) == static_cast<std::uint64_t>(isa::hbm_bytes(chip)));
        const sim::AddressMap map(hbm);
        std::mt19937_64 random(1);
        std::uint64_t lost = 0;
        for (int i = 0; i < 200'000; ++i) {
            // Anywhere, and near both ends.
            const std::uint64_t anywhere = random() % (bytes_of(hbm) / 32);
            const std::uint64_t near = static_cast<std::uint64_t>(i);
            for (const std::uint64_t burst : {anywhere, near, bytes_of(hbm) / 32 - 1 - near}) {
                const Fields fields = map.fields(burst * 32);
                lost += address_of(fields, hbm) == burst * 32 ? 0 : 1;
                if (number_of(fields, hbm) >= bytes_of(hbm) / 32) {
                    FAIL("a place that does not exist");
                }
            }
        }
        INFO(name);
        CHECK(lost == 0);
    }
}

TEST_CASE("a granule lies in one row of one bank set, its bursts in the bank groups in turn") {
    for (const std::string& name : kMaps) {
        for (const std::uint64_t bytes : {128U, 256U, 1024U, 2048U, 4096U}) {
            const isa::HbmSpec hbm = spec_of(
                name, {"hbm.granule_bytes=" + std::to_string(bytes), "noc.packet_bytes=" + std::to_string(bytes)});
            const sim::AddressMap map(hbm);
            CHECK(map.interleave() == 4);
            CHECK(map.granule_bytes() == bytes);
            std::mt19937_64 random(2);
            for (int i = 0; i < 2'000; ++i) {
                const std::uint64_t granule = random() % (bytes_of(hbm) / bytes) * bytes;
                const Fields first = map.fields(granule);
                CHECK(of(first, isa::AddressField::column) % (bytes / 128) == 0);
                for (std::uint32_t j = 0; j < bytes / 32; ++j) {
                    Fields expected = first;
                    expected[static_cast<std::size_t>(isa::AddressField::group)] = j % 4;
                    expected[static_cast<std::size_t>(isa::AddressField::column)] += j / 4;
                    REQUIRE(map.fields(granule + j * 32) == expected);
                }
            }
        }
    }
}

// The sum is as large as its terms make it: six stacks do not divide 2^32.
TEST_CASE("what is added to a field is added modulo its values, however large") {
    const test::TemporaryFolder folder;
    const std::string file = folder.write("large.json", R"({"digits": [{"field": "group"},
        {"field": "column", "radix": "granule"}, {"field": "stack"}, {"field": "pseudo_channel"}, {"field": "channel"},
        {"field": "column"}, {"field": "bank"}, {"field": "rank"}, {"field": "row"}], "hash": [{"field": "stack", "add": [
        {"field": "row", "bits": [0, 13], "shift": 18}, {"field": "row", "bits": [0, 13], "shift": 4},
        {"field": "row", "bits": [0, 3]}]}]})");
    const isa::HbmSpec hbm = spec_of(file);
    const sim::AddressMap map(hbm);
    const std::uint64_t row_bytes = bytes_of(hbm) / static_cast<std::uint64_t>(hbm.rows);
    for (const std::uint64_t row : {0U, 5U, 8191U, 16383U}) {
        const std::uint64_t added = (row << 18) + (row << 4) + row % 16;
        for (std::uint64_t stack = 0; stack < 6; ++stack) {
            CHECK(of(map.fields(row * row_bytes + stack * 1024), isa::AddressField::stack) == (stack + added) % 6);
        }
    }
}

TEST_CASE("a packet's place is that of its fields, and it touches the bursts that hold its bytes") {
    for (const std::string& name : kMaps) {
        const isa::HbmSpec hbm = spec_of(name);
        const sim::AddressMap map(hbm);
        std::mt19937_64 random(3);
        for (int i = 0; i < 20'000; ++i) {
            const std::uint64_t granule = random() % (bytes_of(hbm) / 1024) * 1024;
            const std::uint64_t from = random() % 1024;
            const std::uint64_t bytes = 1 + random() % (1024 - from);
            const sim::HbmPlace place = map.decode(granule + from, static_cast<std::uint32_t>(bytes));
            const Fields fields = map.fields(granule + from);
            using F = isa::AddressField;
            REQUIRE(place.stack == of(fields, F::stack));
            REQUIRE(place.pseudo_channel ==
                    (of(fields, F::stack) * 16 + of(fields, F::channel)) * 2 + of(fields, F::pseudo_channel));
            REQUIRE(place.set == of(fields, F::rank) * 4 + of(fields, F::bank));
            REQUIRE(place.row == of(fields, F::row));
            REQUIRE(place.base_group == 0);
            REQUIRE(place.first_beat == from / 32);
            REQUIRE(place.beats == (from + bytes - 1) / 32 - from / 32 + 1);
        }
    }
}

TEST_CASE("bank groups may be split between the lowest digit and a higher one") {
    const test::TemporaryFolder folder;
    const std::string file = folder.write("pairs.json", R"({"digits": [
        {"field": "group", "radix": 2}, {"field": "column", "radix": "granule"}, {"field": "group"},
        {"field": "pseudo_channel"}, {"field": "channel"}, {"field": "stack"}, {"field": "column"}, {"field": "bank"},
        {"field": "rank"}, {"field": "row"}]})");
    const sim::AddressMap map(spec_of(file));
    CHECK(map.interleave() == 2);
    CHECK(map.decode(0, 1024).base_group == 0);
    CHECK(map.decode(1024, 1024).base_group == 2);
    CHECK(map.decode(2048, 1024).pseudo_channel == 1);
    CHECK(of(map.fields(1024 + 32), isa::AddressField::group) == 3);
}

TEST_CASE("hashed maps spread power-of-two strides over the pseudo-channels") {
    const sim::AddressMap map(spec_of("hashed"));
    for (int shift = 10; shift <= 24; ++shift) {
        // Twice a fair share of 32 is 5.7 sigma of a random throw, and camping would show hundreds.
        INFO("stride 2^" << shift);
        CHECK(most_loaded(map, std::uint64_t{1} << shift, 192 * 32) <= 64);
    }
    for (const std::uint64_t granules : {3, 6, 12, 48, 96, 192, 384, 768, 1536}) {
        INFO("stride " << granules << " granules");
        CHECK(most_loaded(map, granules * 1024, 192 * 32) <= 64);
    }
}

TEST_CASE("the linear map camps: strides of 32 and of 192 granules stay on one pseudo-channel of a stack and of all") {
    const sim::AddressMap map(spec_of("linear"));
    CHECK(most_loaded(map, 1024, 192) == 1);
    CHECK(most_loaded(map, 32 * 1024, 192) == 192 / 6);
    CHECK(most_loaded(map, 192 * 1024, 192) == 192);
}

TEST_CASE("the numa map keeps a sixth of the addresses in each stack") {
    const isa::HbmSpec hbm = spec_of("numa");
    const sim::AddressMap map(hbm);
    const std::uint64_t share = bytes_of(hbm) / 6;
    std::mt19937_64 random(4);
    for (std::uint64_t stack = 0; stack < 6; ++stack) {
        CHECK(map.decode(stack * share, 1).stack == stack);
        CHECK(map.decode((stack + 1) * share - 1, 1).stack == stack);
        for (int i = 0; i < 1'000; ++i) {
            CHECK(map.decode(stack * share + random() % share, 1).stack == stack);
        }
    }
}
