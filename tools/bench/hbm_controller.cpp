// SPDX-License-Identifier: Apache-2.0
// One HBM channel alone: beats (bursts of 32 bytes) that its controller simulates in a second of this machine's time.
#include <benchmark/benchmark.h>

#include <random>

#include "isa/chip_spec_reader.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice {
namespace {

struct Client final : sim::DramClient {
    void accepted(std::uint64_t, sim::Ck, sim::Ck) override {}
    void served(const sim::DramServed& served) override { beats += served.bursts; }
    std::uint64_t beats = 0;
};

/// Granules of one pseudo-channel after the other, row by row.
sim::DramRequest sequential(std::uint64_t i) {
    sim::DramRequest request;
    request.pseudo_channel = static_cast<std::uint8_t>(i & 1);
    request.bursts = 32;
    request.set = static_cast<std::uint8_t>((i >> 3) % 12);
    request.row = static_cast<std::uint32_t>((i >> 3) / 12 & 0x3FFF);
    return request;
}

/// A row of its own for every request, in sets at random: `bursts` of them over four bank groups.
template <std::uint8_t bursts>
sim::DramRequest thrash(std::uint64_t) {
    static std::mt19937 random(1);
    sim::DramRequest request;
    const std::uint32_t number = random();
    request.pseudo_channel = static_cast<std::uint8_t>(number & 1);
    request.bursts = bursts;
    request.set = static_cast<std::uint8_t>((number >> 1 & 0xFFF) % 12);
    request.row = number >> 13 & 0x3FFF;
    return request;
}

sim::DramRequest two_reads_a_write(std::uint64_t i) {
    sim::DramRequest request = sequential(i);
    request.write = i % 3 == 2;
    return request;
}

/// Requests wait at the port in numbers, as behind a saturated network.
void run(benchmark::State& state, sim::DramRequest (*next)(std::uint64_t)) {
    const isa::ChipSpec chip = isa::read_chip("maia200", {}).spec;
    const sim::DramTable table(chip.hbm, 4);
    std::uint64_t beats = 0;
    for (auto _ : state) {
        Client client;
        sim::DramChannel channel(chip.hbm, table, 0, 192, client);
        sim::Ck now = 0;
        for (std::uint64_t i = 0; i < 100'000; ++i) {
            sim::DramRequest request = next(i);
            request.arrival = now;
            channel.push(request);
            if (channel.waiting(request.write) >= 32) {
                now += 100;
                channel.run_until(now);
            }
        }
        while (!channel.idle()) {
            channel.run_until(now += 100);
        }
        beats += client.beats;
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(beats));
}

BENCHMARK_CAPTURE(run, sequential, sequential)->Name("hbm/sequential")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, row_per_kib, thrash<32>)->Name("hbm/a_row_for_every_KiB")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, row_per_256, thrash<8>)->Name("hbm/64_B_per_activate")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, row_per_burst, thrash<1>)->Name("hbm/32_B_per_activate")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, mixed, two_reads_a_write)->Name("hbm/two_reads_a_write")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
