// SPDX-License-Identifier: Apache-2.0
// Does the controller that jumps from event to event do in every CK what the written policy says?
#include "sim/mem/dram_channel.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/sim/dram_cases.hpp"
#include "tests/sim/dram_reference.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Client final : sim::DramClient {
    void accepted(std::uint64_t tag, Ck arrival, Ck at) override { accepts.push_back({tag, arrival, at}); }
    void served(const sim::DramServed& s) override { serves.push_back(s); }
    std::vector<DramReference::Accepted> accepts;
    std::vector<sim::DramServed> serves;
};

/// In order of time; commands of one CK in any order.
std::vector<sim::DramTraceEntry> sorted(std::vector<sim::DramTraceEntry> trace) {
    const auto key = [](const sim::DramTraceEntry& e) {
        return std::tuple(e.at, e.command, e.pseudo_channel, e.bank, e.row);
    };
    std::sort(trace.begin(), trace.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    return trace;
}

std::string shown(const sim::DramServed& s) {
    return fmt::format("request {} ends at {}, {} activates, {} bursts, {}", s.tag, s.end, s.activates, s.bursts,
                       s.hit ? "hit" : "no hit");
}
std::string shown(const DramReference::Accepted& a) {
    return fmt::format("write {} enters at {}", a.tag, a.at);
}
using test::shown;

/// The first place where two lists differ, or nothing.
template <class List, class Text>
std::string difference(const List& expected, const List& found, Text text) {
    const std::size_t common = std::min(expected.size(), found.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (text(expected[i]) != text(found[i])) {
            return fmt::format("{}: policy {} | controller {}\n", i, text(expected[i]), text(found[i]));
        }
    }
    if (expected.size() != found.size()) {
        return fmt::format("policy {} | controller {}, after {}\n", expected.size(), found.size(),
                           common == 0 ? "nothing" : text(expected[common - 1]));
    }
    return {};
}

void by_tag(std::vector<sim::DramServed>& list) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.tag < b.tag; });
}

struct Driven {
    Client client;
    std::vector<sim::DramTraceEntry> trace;
    std::uint64_t turns = 0;
    std::uint64_t refreshes = 0;
};

/// Requests are pushed some time ahead of their arrival, and time passes in steps of any length.
Driven drive(const DramCase& c, Ck end, bool traced, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Driven driven;
    const sim::DramTable table(c.spec, c.interleave);
    sim::DramChannel channel(c.spec, table, c.number, c.total, driven.client);
    channel.record_to(traced ? &driven.trace : nullptr);
    Ck told = 0;
    for (const sim::DramRequest& request : c.requests) {
        channel.push(request);
        if (random() % 2 == 0) {
            told = std::max(told, request.arrival - std::min<Ck>(request.arrival, random() % 3));
            channel.run_until(told);
        }
    }
    while (!channel.idle() && told < end) {
        told = random() % 4 == 0 ? told + 1 + random() % 50 : channel.next_action() + 1;
        channel.run_until(std::min(told, end));
    }
    channel.run_until(end);
    driven.turns = channel.turns();
    for (std::size_t p = 0; p < channel.pseudo_channels(); ++p) {
        driven.refreshes += channel.counts(p).refreshes;
    }
    by_tag(driven.client.serves);
    return driven;
}

std::string compare(const DramCase& c, std::uint64_t seed) {
    DramReference reference(c.spec, c.interleave, c.number, c.total);
    for (const sim::DramRequest& request : c.requests) {
        reference.push(request);
    }
    constexpr Ck kStuck = 300'000;
    while (!reference.idle()) {
        if (reference.now() > kStuck) {
            return "the policy does not end\n";
        }
        reference.tick();
    }
    const Ck end = reference.now() + c.tail;
    while (reference.now() < end) {
        reference.tick();
    }
    by_tag(reference.served);

    const auto text = [](const auto& x) { return shown(x); };
    const Driven traced = drive(c, end, true, seed);
    std::string differences = difference(sorted(reference.trace), sorted(traced.trace), text) +
                              difference(reference.served, traced.client.serves, text) +
                              difference(reference.accepted, traced.client.accepts, text);
    if (traced.turns != reference.turns()) {
        differences += fmt::format("turns: policy {}, controller {}\n", reference.turns(), traced.turns);
    }
    // Without a trace, refreshes of idle channels are skipped in bulk.
    const Driven fast = drive(c, end, false, seed + 1);
    differences += difference(reference.served, fast.client.serves, text);
    if (fast.refreshes != traced.refreshes) {
        differences += fmt::format("refreshes: {} with a trace, {} without\n", traced.refreshes, fast.refreshes);
    }
    return differences;
}

}  // namespace

TEST_CASE("every command of random traffic is that of the policy, in the same CK") {
    const int cases = std::getenv("SLUICE_FULL") != nullptr ? 100'000 : 10'000;
    DramCases random(1);
    int wrong = 0;
    for (int i = 0; i < cases && wrong < 5; ++i) {
        const DramCase c = random.next();
        const std::string differences = compare(c, static_cast<std::uint64_t>(i));
        wrong += differences.empty() ? 0 : 1;
        INFO("case " << i << ": " << shown(c.spec) << ", interleave " << c.interleave << "\n" << differences);
        CHECK(differences.empty());
    }
}

// A client may sleep until then: what it is told later would come too late.
TEST_CASE("no read ends before the notice that was given of it") {
    DramCases random(2);
    int to_the_ck = 0;
    for (int i = 0; i < 300; ++i) {
        DramCase c = random.next();
        const auto granule = static_cast<std::uint8_t>(c.spec.granule_bytes / c.spec.burst_bytes);
        for (std::size_t r = 0; r < c.requests.size(); ++r) {
            const bool cut = i % 2 == 0 && r % 16 == 7;
            c.requests[r].first = 0;
            c.requests[r].bursts = static_cast<std::uint8_t>(granule / (cut ? 4 : 1));
        }
        Client client;
        const sim::DramTable table(c.spec, c.interleave);
        sim::DramChannel channel(c.spec, table, c.number, c.total, client);
        std::size_t told = 0;
        for (std::size_t next = 0; next < c.requests.size() || !channel.idle();) {
            const Ck action = channel.next_action();
            if (next < c.requests.size() && c.requests[next].arrival <= action) {
                channel.push(c.requests[next++]);
                continue;
            }
            const Ck least = action + channel.notice();
            channel.run_until(action + 1);
            for (; told < client.serves.size(); ++told) {
                const sim::DramServed& served = client.serves[told];
                INFO("case " << i << ": " << shown(c.spec) << "\n" << shown(served) << ", notice until " << least);
                CHECK((served.write || served.end >= least));
                to_the_ck += !served.write && served.end == least ? 1 : 0;
            }
        }
        CHECK(client.serves.size() == c.requests.size());
    }
    CHECK(to_the_ck > 1000);
}
