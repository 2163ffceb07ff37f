// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stream of requests into one HBM channel, and the fraction of its data buses that it reaches.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/sim/hbm_checker.hpp"

namespace sluice::test {

using sim::Ck;

struct StreamClient final : sim::DramClient {
    void accepted(std::uint64_t, Ck, Ck) override {}
    void served(const sim::DramServed& s) override {
        last = std::max(last, s.end);
        bursts += s.bursts;
    }
    Ck last = 0;
    std::uint64_t bursts = 0;
};

struct StreamOutcome {
    double use = 0;  ///< of the data buses
    sim::DramCounts counts;
};

/// One channel behind a single FIFO: a request waits for room in its queue, and those behind it wait with it. The
/// commands of the first 3,000 requests are checked.
template <class Next>
StreamOutcome in_order(const isa::HbmSpec& spec, std::uint32_t interleave, int requests, Next&& next) {
    StreamClient client;
    const sim::DramTable table(spec, interleave);
    sim::DramChannel channel(spec, table, 0, 192, client);
    std::vector<sim::DramTraceEntry> trace;
    channel.record_to(&trace);
    const std::array<std::int64_t, 2> room{spec.read_queue, spec.write_queue};
    Ck now = 0;
    for (int i = 0; i < requests; ++i) {
        if (i == 3000) {
            channel.record_to(nullptr);
        }
        sim::DramRequest request = next(i);
        while (channel.queued(request.write) + channel.waiting(request.write) >=
               static_cast<std::size_t>(room[request.write ? 1 : 0])) {
            now = std::max(now + 1, channel.next_action());
            channel.run_until(now);
        }
        request.arrival = now;
        channel.push(request);
        channel.run_until(now);
    }
    while (!channel.idle()) {
        channel.run_until(channel.next_action() + 1);
    }
    CHECK(HbmChecker(spec).check(trace).empty());
    const auto buses = static_cast<double>(spec.pseudo_channels);
    const auto busy = static_cast<double>(client.bursts * static_cast<std::uint64_t>(spec.timing.nbl));
    return {busy / buses / static_cast<double>(client.last), channel.counts(0)};
}

}  // namespace sluice::test
