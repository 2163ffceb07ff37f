// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random memories, controllers and traffic for the tests of DramChannel.
#include <fmt/format.h>
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "isa/chip_spec_reader.hpp"
#include "isa/memory_reader.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::test {

struct DramCase {
    isa::HbmSpec spec;
    std::uint32_t interleave = 1;
    std::uint64_t number = 0, total = 1;  ///< of the pseudo-channels on the chip
    std::vector<sim::DramRequest> requests;
    sim::Ck tail = 0;  ///< to go on for when all are served
};

class DramCases {
public:
    explicit DramCases(std::uint64_t seed)
        : random_(seed), file_(isa::read_json_file(isa::configs_directory() / "memories" / "hbm3e-9115.json")) {}

    [[nodiscard]] DramCase next() {
        DramCase c;
        organisation(c);
        timing(c.spec);
        controller(c.spec);
        refresh(c);
        traffic(c);
        c.tail = below(3) == 0 ? below(static_cast<std::uint64_t>(c.spec.timing.nrefi)) : 0;
        return c;
    }

private:
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
    }
    template <class T>
    T one_of(std::initializer_list<T> list) {
        return *(list.begin() + below(list.size()));
    }

    void organisation(DramCase& c) {
        isa::HbmSpec& h = c.spec;
        h.pseudo_channels = one_of({1, 2, 2, 2, 2, 3, 4});
        h.bank_groups = one_of({2, 4, 4, 4});
        h.banks_per_group = between(1, 4);
        h.ranks = between(1, 4);
        h.rows = 1024;
        h.burst_bytes = 32;
        h.granule_bytes = 32 * h.burst_bytes;
        c.interleave = static_cast<std::uint32_t>(std::min<std::int64_t>(one_of({1, 2, 4, 4}), h.bank_groups));
        c.total = static_cast<std::uint64_t>(h.pseudo_channels) * static_cast<std::uint64_t>(between(1, 8));
        c.number = below(c.total / static_cast<std::uint64_t>(h.pseudo_channels)) *
                   static_cast<std::uint64_t>(h.pseudo_channels);
    }

    /// The shipped table of constraints on parameters around the shipped ones, or around a fraction of them.
    void timing(isa::HbmSpec& h) {
        const std::int64_t divisor = one_of({1, 2, 3, 4, 6});
        const auto near = [&](std::int64_t value) {
            return std::max<std::int64_t>(1, value / divisor + between(-2, 2));
        };
        isa::HbmTimingSpec& t = h.timing;
        t.nbl = one_of({1, 2, 2, 2, 4});
        t.ncl = near(29), t.ncwl = near(15), t.nrcdrd = near(45), t.nrcdwr = near(22), t.nrp = near(38);
        t.nras = near(65), t.nrc = t.nras + near(38), t.nrtp = near(13), t.nwr = near(47);
        t.nccds = t.nbl + one_of({0, 0, 0, 1, 2}), t.nccdl = t.nccds + one_of({0, 1, 2, 2, 4});
        t.nccdr = t.nccds + between(0, 2), t.nrrds = near(6), t.nrrdl = t.nrrds + between(0, 3);
        t.nrrds *= below(16) == 0 ? 5 : 1,
            t.nrrdl = std::max(t.nrrdl, t.nrrds);  // trains that would take the row bus for too long
        t.nfaw = std::max(near(35), t.nrrds), t.nwtrs = near(10), t.nwtrl = t.nwtrs + between(0, 5);
        t.nrtw = near(29), t.nppd = between(1, 3), t.nrfc = near(300), t.nrfcpb = near(200), t.nrrefd = near(19);
        h.rules = isa::read_dram_rules(file_, "table", [&](const std::string& name) { return parameter(t, name); });
        for (std::uint64_t i = below(3); i > 0; --i) {
            h.rules.constraints.push_back(unusual());
        }
        h.rules.row_bus_half_clocks = {between(1, 4), between(1, 3), 1, 0, 0, between(1, 2), 1};
    }

    /// A constraint that no shipped table has.
    isa::DramConstraint unusual() {
        using C = isa::DramCommand;
        using L = isa::DramLevel;
        const std::int64_t gap = between(2, 40);
        const std::int64_t count = between(2, 6);
        return one_of<isa::DramConstraint>({
            {L::rank, C::activate, C::activate, gap * 2, count, false},
            {L::bank_group, C::activate, C::activate, gap, count, false},
            {L::pseudo_channel, C::precharge, C::precharge, gap, count, false},
            {L::rank, C::activate, C::activate, gap, 1, true},
            {L::rank, C::write, C::write, gap, 1, true},
            {L::rank, C::read, C::write, gap, 1, true},
            {L::rank, C::precharge, C::activate, gap, 1, true},
            {L::rank, C::refresh_bank, C::activate, gap, 1, false},
            {L::bank_group, C::precharge, C::precharge, gap, 1, false},
            {L::rank, C::refresh_bank, C::refresh_bank, gap, 2, false},
            {L::bank, C::read, C::read, gap / 2, 1, false},
        });
    }

    static const std::int64_t* parameter(const isa::HbmTimingSpec& t, const std::string& name) {
        const std::vector<std::pair<const char*, const std::int64_t*>> all = {
            {"nbl", &t.nbl},       {"ncl", &t.ncl},       {"ncwl", &t.ncwl},    {"nrcdrd", &t.nrcdrd},
            {"nrcdwr", &t.nrcdwr}, {"nrp", &t.nrp},       {"nras", &t.nras},    {"nrc", &t.nrc},
            {"nrtp", &t.nrtp},     {"nwr", &t.nwr},       {"nccds", &t.nccds},  {"nccdl", &t.nccdl},
            {"nccdr", &t.nccdr},   {"nrrds", &t.nrrds},   {"nrrdl", &t.nrrdl},  {"nfaw", &t.nfaw},
            {"nwtrs", &t.nwtrs},   {"nwtrl", &t.nwtrl},   {"nrtw", &t.nrtw},    {"nppd", &t.nppd},
            {"nrfc", &t.nrfc},     {"nrfcpb", &t.nrfcpb}, {"nrrefd", &t.nrrefd}};
        const auto found = std::find_if(all.begin(), all.end(), [&](const auto& entry) { return name == entry.first; });
        return found == all.end() ? nullptr : found->second;
    }

    void controller(isa::HbmSpec& h) {
        h.read_queue = between(1, 16);
        h.write_queue = between(1, 16);
        h.write_high = between(1, h.write_queue);
        h.write_low = between(0, h.write_high - 1);
        h.prepare = one_of<std::int64_t>({0, 1, 2, 4, 100});
        h.age_limit = one_of<std::int64_t>({1, 2, 5, 20, 1000});
        h.page = one_of<const char*>({"open", "open", "timeout", "closed"});
        h.page_timeout = between(0, 200);
    }

    void refresh(DramCase& c) {
        isa::HbmSpec& h = c.spec;
        h.refresh = one_of<const char*>({"none", "all_bank", "per_bank", "per_bank"});
        h.refresh_postponed = one_of<std::int64_t>({0, 1, 2, 8});
        h.refresh_ahead = one_of<std::int64_t>({0, 0, 1, 3});
        const std::int64_t banks = h.bank_groups * h.banks_per_group * h.ranks;
        const isa::HbmTimingSpec& t = h.timing;
        // Between the refreshes of the banks of a granule, at worst evenly spread, they have time to be open together;
        // and the row bus has time for others than refreshes.
        const std::int64_t open = t.nrp + t.nrc + t.nrcdrd + h.bank_groups * (t.nrrdl + t.nfaw);
        const std::int64_t least = h.refresh == "per_bank" ? std::max(banks * std::max(t.nrrefd, 8 * h.pseudo_channels),
                                                                      h.bank_groups * (t.nrfcpb + t.nrp + t.nwr + open))
                                                           : t.nrfc + 2 * open;
        h.timing.nrefi = least + 1 + between(0, least * 2);
    }

    void traffic(DramCase& c) {
        const isa::HbmSpec& h = c.spec;
        const std::uint64_t count = 10 + below(50);
        const std::uint64_t rows = one_of<std::uint64_t>({1, 2, 3, 8, 1000});
        const std::uint64_t writes = one_of<std::uint64_t>({0, 10, 30, 50, 90, 100});
        const std::uint64_t most_bursts = one_of<std::uint64_t>({1, 4, 32});
        const std::uint64_t gap = one_of<std::uint64_t>({1, 5, 20, 100});
        const std::uint64_t pause = one_of<std::uint64_t>({1, 1, 200, 1000});
        const bool in_order = below(4) == 0;
        const auto sets = static_cast<std::uint64_t>(h.banks_per_group * h.ranks);
        const auto bases = static_cast<std::uint64_t>(h.bank_groups) / c.interleave;
        const auto channels = static_cast<std::uint64_t>(h.pseudo_channels);
        const std::uint64_t lonely = below(6) == 0 ? 1 : channels;  // traffic for one pseudo-channel only
        sim::Ck now = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            now += below(gap);
            now += below(12) == 0 ? below(pause) : 0;
            sim::DramRequest r;
            r.arrival = now;
            r.tag = i;
            r.write = below(100) < writes;
            r.pseudo_channel = static_cast<std::uint8_t>(in_order ? i % lonely : below(lonely));
            r.set = static_cast<std::uint8_t>(in_order ? i / channels / bases % sets : below(sets));
            r.base = static_cast<std::uint8_t>((in_order ? i / channels % bases : below(bases)) * c.interleave);
            r.row = static_cast<std::uint32_t>(in_order ? i / channels / bases / sets % rows : below(rows));
            r.first = static_cast<std::uint8_t>(below(2) == 0 ? 0 : below(32));
            r.bursts = static_cast<std::uint8_t>(below(2) == 0 ? most_bursts : 1 + below(most_bursts));
            c.requests.push_back(r);
        }
    }

    std::mt19937_64 random_;
    nlohmann::json file_;
};

inline std::string shown(const isa::HbmSpec& h) {
    return fmt::format(
        "{} pseudo-channels, {} groups x {} banks x {} ranks, queues {} / {}, writes {} to {}, prepare {}, age {}, "
        "page {} "
        "{}, refresh {} every {}, postponed {}, ahead {}, nbl {} nccds {} nccdl {}",
        h.pseudo_channels, h.bank_groups, h.banks_per_group, h.ranks, h.read_queue, h.write_queue, h.write_high,
        h.write_low, h.prepare, h.age_limit, h.page, h.page_timeout, h.refresh, h.timing.nrefi, h.refresh_postponed,
        h.refresh_ahead, h.timing.nbl, h.timing.nccds, h.timing.nccdl);
}

inline std::string shown(const sim::DramTraceEntry& e) {
    return fmt::format("{} pc {} bank {} row {} at {}", isa::name(e.command), e.pseudo_channel, e.bank, e.row, e.at);
}

}  // namespace sluice::test
