// SPDX-License-Identifier: Apache-2.0
// Does the controller reach what a public cycle-level simulator reached on the same streams? sim/mem/README.md says
// what was run, and has the table.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <optional>
#include <random>

#include "tests/sim/dram_stream.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

enum class Stream { sequential, random, hbm3_sequential };

/// Fraction of the data buses that Ramulator 2.1 reached.
struct Recorded {
    Stream stream;
    const char* refresh;
    int burst_count;  ///< of one activate, where rows are random
    int reads_percent;
    int read_queue;
    int write_queue;
    double fraction;
    std::optional<double> tolerance;  ///< none: for orientation
};

constexpr Recorded recorded_streams[] = {
    {Stream::sequential, "none", 32, 100, 128, 64, 0.998, 0.005},
    {Stream::sequential, "all_bank", 32, 100, 64, 64, 0.882, 0.015},
    {Stream::sequential, "all_bank", 32, 100, 128, 64, 0.891, 0.010},
    {Stream::sequential, "all_bank", 32, 100, 256, 64, 0.895, 0.010},
    {Stream::sequential, "all_bank", 32, 100, 1024, 64, 0.898, 0.010},
    {Stream::random, "none", 1, 100, 128, 64, 0.229, 0.005},
    {Stream::random, "none", 2, 100, 128, 64, 0.458, 0.010},
    {Stream::random, "none", 4, 100, 128, 64, 0.916, 0.010},
    {Stream::random, "none", 8, 100, 128, 64, 0.996, 0.010},
    {Stream::random, "none", 16, 100, 128, 64, 0.996, 0.010},
    {Stream::sequential, "none", 32, 67, 128, 256, 0.870, 0.020},
    {Stream::sequential, "none", 32, 80, 256, 256, 0.913, 0.030},
    {Stream::hbm3_sequential, "none", 32, 100, 128, 64, 0.998, 0.005},
    {Stream::hbm3_sequential, "all_bank", 32, 100, 128, 64, 0.890, 0.010},
    {Stream::sequential, "all_bank", 32, 100, 32, 64, 0.863, {}},
    {Stream::sequential, "per_bank", 32, 100, 128, 64, 0.606, {}},
    {Stream::sequential, "none", 32, 67, 128, 64, 0.639, {}},
    {Stream::sequential, "all_bank", 32, 90, 128, 64, 0.765, {}},
    {Stream::sequential, "all_bank", 32, 80, 128, 64, 0.675, {}},
    {Stream::sequential, "all_bank", 32, 67, 128, 64, 0.567, {}},
    {Stream::sequential, "all_bank", 32, 50, 128, 64, 0.495, {}},
};

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

isa::HbmSpec memory(const Recorded& recorded) {
    const bool hbm3 = recorded.stream == Stream::hbm3_sequential;
    return maia200({hbm3 ? "hbm.memory=hbm3-6400" : "hbm.memory=hbm3e-9115-8hi",
                    fmt::format("hbm.refresh={}", recorded.refresh),
                    fmt::format("hbm.read_queue={}", recorded.read_queue),
                    fmt::format("hbm.write_queue={}", recorded.write_queue),
                    fmt::format("hbm.write_high={}", recorded.write_queue * 8 / 10),
                    fmt::format("hbm.write_low={}", recorded.write_queue * 2 / 10), "hbm.age_limit=4096"})
        .hbm;
}

/// Fraction of the data buses, behind a port that keeps its order.
double fraction(const Recorded& recorded, Order order) {
    const auto bursts = static_cast<std::uint32_t>(recorded.burst_count);
    std::mt19937_64 random(1);
    return in_order(memory(recorded), 1, 200'000,
                    [&](int i) {
                        const auto number = static_cast<std::uint32_t>(i);
                        sim::DramRequest request =
                            recorded.stream == Stream::random ? random_rows(number, bursts) : sequential(order, number);
                        request.write = static_cast<int>(random() % 100) >= recorded.reads_percent;
                        return request;
                    })
        .use;
}

}  // namespace

TEST_CASE("streams reach what a public cycle-level simulator was recorded to reach") {
    for (const Recorded& recorded : recorded_streams) {
        const double by_rows = fraction(recorded, Order::rows);
        const double by_banks = recorded.stream == Stream::random ? by_rows : fraction(recorded, Order::banks);
        INFO(fmt::format("refresh {} bursts {} reads {} % queues {}/{}\nrecorded {:.3f} rows {:.3f} banks {:.3f}",
                         recorded.refresh, recorded.burst_count, recorded.reads_percent, recorded.read_queue,
                         recorded.write_queue, recorded.fraction, by_rows, by_banks));
        if (recorded.tolerance) {
            CHECK(std::min(std::abs(by_rows - recorded.fraction), std::abs(by_banks - recorded.fraction)) <=
                  *recorded.tolerance);
        } else if (std::string(recorded.refresh) == "per_bank") {
            CHECK(std::min(by_rows, by_banks) >
                  recorded.fraction);  // a controller that sees refreshes come does better
        }
    }
}
