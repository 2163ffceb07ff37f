// SPDX-License-Identifier: Apache-2.0
// Does the controller reach what a public cycle-level simulator reached on the same streams? Its figures stand in
// recorded_streams.csv beside this file; sim/mem/README.md says what was run, and has the table.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "tests/sim/dram_stream.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

namespace fs = std::filesystem;

/// One line of the file, by column.
using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line) {
    std::vector<std::string> fields;
    std::stringstream in(line);
    for (std::string field; std::getline(in, field, ',');) {
        fields.push_back(field);
    }
    return fields;
}

std::vector<Row> read_rows(const fs::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    const std::vector<std::string> names = split(line);
    std::vector<Row> rows;
    while (std::getline(in, line)) {
        const std::vector<std::string> fields = split(line);
        Row& row = rows.emplace_back();
        for (std::size_t i = 0; i < names.size(); ++i) {
            row[names[i]] = i < fields.size() ? fields[i] : "";
        }
    }
    return rows;
}

/// Requests of one burst, alternately to the two pseudo-channels; the record does not say in which order they visit
/// banks. By rows: a row of the four bank groups, then the next. By banks: a burst in each of the 32 banks in turn,
/// whose rows end one after the other.
enum class Order { rows, banks };

sim::DramRequest sequential(Order order, std::uint32_t i) {
    const std::uint32_t k = i >> 1;
    sim::DramRequest request;
    request.pseudo_channel = static_cast<std::uint8_t>(i & 1);
    request.base = static_cast<std::uint8_t>(k % 4);
    request.set = static_cast<std::uint8_t>(order == Order::rows ? k / 128 % 8 : k / 4 % 8);
    request.row = order == Order::rows ? k / 1024 : (k / 32 + k % 32) / 32;
    return request;
}

/// `bursts` in one row, then as many in another of the next bank.
sim::DramRequest random_rows(std::uint32_t i, std::uint32_t bursts) {
    const std::uint32_t visit = (i >> 1) / bursts;
    sim::DramRequest request;
    request.pseudo_channel = static_cast<std::uint8_t>(i & 1);
    request.base = static_cast<std::uint8_t>(visit % 4);
    request.set = static_cast<std::uint8_t>(visit / 4 % 8);
    request.row = visit * 7919 % 16384;
    return request;
}

isa::HbmSpec memory(const Row& row) {
    const int writes = std::stoi(row.at("write_buffer"));
    const std::string refresh = row.at("refresh");
    return maia200({row.at("case") == "preset64" ? "hbm.memory=hbm3-6400" : "hbm.memory=hbm3e-9115-8hi",
                    "hbm.refresh=" + (refresh == "none"      ? refresh
                                      : refresh == "allbank" ? "all_bank"
                                                             : "per_bank"),
                    "hbm.read_queue=" + row.at("read_buffer"), fmt::format("hbm.write_queue={}", writes),
                    fmt::format("hbm.write_high={}", writes * 8 / 10), fmt::format("hbm.write_low={}", writes * 2 / 10),
                    "hbm.age_limit=4096"})
        .hbm;
}

/// Fraction of the data buses, behind a port that keeps its order.
double fraction(const Row& row, Order order) {
    const isa::HbmSpec spec = memory(row);
    const std::uint32_t bursts = static_cast<std::uint32_t>(std::stoi(row.at("bytes_per_activate"))) / 32;
    const double reads = std::stod(row.at("read_fraction"));
    std::mt19937_64 random(1);
    return in_order(spec, 1, 200'000,
                    [&](int i) {
                        const auto number = static_cast<std::uint32_t>(i);
                        sim::DramRequest request =
                            row.at("case") == "random" ? random_rows(number, bursts) : sequential(order, number);
                        request.write = static_cast<double>(random() % 1000) >= reads * 1000;
                        return request;
                    })
        .use;
}

}  // namespace

TEST_CASE("streams reach what a public cycle-level simulator was recorded to reach") {
    const std::vector<Row> rows = read_rows(fs::path(SLUICE_SOURCE_DIR) / "tests" / "sim" / "recorded_streams.csv");
    REQUIRE(rows.size() == 21);
    for (const Row& row : rows) {
        const double recorded = std::stod(row.at("fraction_of_peak"));
        const double by_rows = fraction(row, Order::rows);
        const double by_banks = row.at("case") == "random" ? by_rows : fraction(row, Order::banks);
        INFO(fmt::format("{} refresh {} {} B/ACT reads {} queues {}/{}\nrecorded {:.3f} +- {} rows {:.3f} banks {:.3f}",
                         row.at("case"), row.at("refresh"), row.at("bytes_per_activate"), row.at("read_fraction"),
                         row.at("read_buffer"), row.at("write_buffer"), recorded, row.at("tolerance"), by_rows,
                         by_banks));
        if (!row.at("tolerance").empty()) {
            const double tolerance = std::stod(row.at("tolerance"));
            CHECK(std::min(std::abs(by_rows - recorded), std::abs(by_banks - recorded)) <= tolerance);
        } else if (row.at("refresh") == "perbank") {
            CHECK(std::min(by_rows, by_banks) > recorded);  // a controller that sees refreshes come does better
        }
    }
}
