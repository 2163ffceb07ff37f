// SPDX-License-Identifier: Apache-2.0
// Does the network move random traffic exactly as a reference does that books every resource cycle by cycle?
#include "sim/noc/transport.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "sim/mem/sram.hpp"
#include "sim/noc/control_plane.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;

namespace {

/// HBM that answers a fixed time after it was asked; where an address lies is its stack.
struct FixedHbm final : sim::MemoryPort {
    static constexpr Cycle kLatency = 100;
    static constexpr std::uint64_t kStackBytes = 1 << 20;
    FixedHbm(sim::Scheduler& s, sim::DataPort& d) : scheduler(s), data(d) {}
    [[nodiscard]] sim::HbmPlace decode(std::uint64_t address, std::uint32_t) const override {
        sim::HbmPlace place;
        place.stack = static_cast<std::uint8_t>(address / kStackBytes);
        return place;
    }
    void read(sim::PacketId packet) override { data.read_done(packet, scheduler.now() + kLatency); }
    void write(sim::PacketId packet) override { data.write_done(packet, scheduler.now() + kLatency); }
    sim::Scheduler& scheduler;
    sim::DataPort& data;
};

struct Shot {
    Cycle at = 0;
    sim::Transfer transfer;
    std::uint64_t src_offset = 0, dst_offset = 0;
    std::uint32_t bytes = 0;
    Cycle landed = 0;
};

/// The control plane has a test of its own (control_plane_test).
isa::ChipSpec uncontended_requests(isa::ChipSpec chip) {
    chip.noc.control_port_bytes_per_cycle = 1 << 20;
    return chip;
}

/// The networks of a chip without engines: packets are shot from outside.
struct Bench final : sim::EventTarget, sim::PacketOwner {
    explicit Bench(const isa::ChipSpec& spec)
        : chip(uncontended_requests(spec)),
          scheduler("scheduler", sim::ClockDomain(static_cast<std::uint64_t>(spec.clock.core_hz))),
          messages("control_plane", chip, scheduler),
          transport(scheduler, packets, chip, messages),
          gnoc("gnoc", chip),
          hbm(scheduler, transport) {
        std::vector<sim::ClusterNoc*> nocs;
        std::vector<sim::Link*> ports;
        for (std::int64_t c = 0; c < chip.soc.clusters; ++c) {
            cluster_nocs.push_back(std::make_unique<sim::ClusterNoc>(("noc" + std::to_string(c)).c_str(), chip));
            csrams.push_back(std::make_unique<sim::Csram>(("csram" + std::to_string(c)).c_str(), chip.csram));
            nocs.push_back(cluster_nocs.back().get());
            ports.push_back(&csrams.back()->port());
        }
        for (std::int64_t t = 0; t < isa::tile_count(chip); ++t) {
            tsrams.push_back(std::make_unique<sim::Tsram>(("tsram" + std::to_string(t)).c_str(), chip.tsram));
            banks.push_back(&tsrams.back()->banks());
        }
        for (const auto& csram : csrams) {
            banks.push_back(&csram->banks());
        }
        routes = std::make_unique<sim::RouteTable>(chip, gnoc, nocs, ports, banks);
        transport.connect(*routes, hbm);
    }
    void run(std::vector<Shot>& traffic) {
        shots = &traffic;
        for (std::size_t i = 0; i < traffic.size(); ++i) {
            scheduler.at(traffic[i].at, sim::Phase::arbitrate, *this, 0, i);
        }
        scheduler.run();
    }
    void on_event(std::uint32_t, std::uint64_t i) override {
        Shot& shot = (*shots)[i];
        sim::PacketId id = 0;
        sim::Packet& packet = transport.prepare(id);
        packet.transfer = &shot.transfer;
        packet.owner = this;
        packet.tag = static_cast<std::uint32_t>(i);
        packet.src_offset = shot.src_offset;
        packet.dst_offset = shot.dst_offset;
        packet.src_bytes = packet.dst_bytes = packet.wire_bytes = shot.bytes;
        transport.launch(id);
    }
    void on_landing(sim::Packet& packet, Cycle cycle) override { (*shots)[packet.tag].landed = cycle; }

    isa::ChipSpec chip;
    sim::Scheduler scheduler;
    sim::PacketPool packets;
    sim::ControlPlane messages;
    sim::Transport transport;
    sim::Gnoc gnoc;
    FixedHbm hbm;
    std::vector<std::unique_ptr<sim::ClusterNoc>> cluster_nocs;
    std::vector<std::unique_ptr<sim::Csram>> csrams;
    std::vector<std::unique_ptr<sim::Tsram>> tsrams;
    std::vector<sim::SramBanks*> banks;
    std::unique_ptr<sim::RouteTable> routes;
    std::vector<Shot>* shots = nullptr;
};

/// The reference: no closed form and no free-at time. A resource is a row of cycles with so many bytes left in each.
class Reference {
public:
    explicit Reference(Bench& bench) : bench_(bench) {}

    std::vector<Cycle> run(const std::vector<Shot>& shots) {
        landed_.assign(shots.size(), 0);
        shots_ = &shots;
        for (std::size_t i = 0; i < shots.size(); ++i) {
            later(shots[i].at, 1, {Step::launch, i, 0});
        }
        // (cycle, phase, order): each step may add steps at or after its own place.
        while (!steps_.empty()) {
            const auto [key, step] = *steps_.begin();
            steps_.erase(steps_.begin());
            now_ = std::get<0>(key);
            phase_ = std::get<1>(key);
            take(step);
        }
        return landed_;
    }
    /// Cycles that packets have waited in front of a resource, all added up.
    [[nodiscard]] Cycle kept(const sim::Link& link) const {
        const auto found = kept_.find(&link);
        return found == kept_.end() ? 0 : found->second;
    }

private:
    struct Step {
        enum Kind { launch, source, enter, expected, write, decide } kind;
        std::size_t shot;
        std::uint32_t node;
        const sim::Link* link = nullptr;
    };
    struct Waiting {
        std::size_t shot;
        std::uint32_t node;
        Cycle since;
    };
    /// Room that packets have taken: all of them, with the cycle in which it is there again, if that is known.
    struct Taken {
        std::uint32_t bytes;
        std::size_t shot;
        std::optional<Cycle> back;
    };
    struct Row {
        std::vector<std::uint32_t> used;  // by cycle
        Cycle last = 0;
    };
    using Key = std::tuple<Cycle, int, std::uint64_t>;

    void later(Cycle cycle, int phase, Step step) {
        if (cycle == now_ && phase < phase_) {
            phase = phase_;
        }
        steps_.emplace(Key{cycle, phase, order_++}, step);
    }

    [[nodiscard]] sim::Endpoint endpoint(const sim::TransferEnd& end, std::uint64_t offset) const {
        switch (end.space) {
            case isa::Space::hbm: return bench_.routes->stack(static_cast<std::size_t>(offset / FixedHbm::kStackBytes));
            case isa::Space::csram: return bench_.routes->csram(end.unit);
            case isa::Space::tsram: break;
        }
        return bench_.routes->tile(end.unit);
    }
    [[nodiscard]] const sim::Route& route(const Shot& s) const {
        const sim::Endpoint from = endpoint(s.transfer.src, s.src_offset);
        return bench_.routes->route(s.transfer.dst.mask != 0
                                        ? bench_.routes->multicast(from, s.transfer.dst)
                                        : bench_.routes->unicast(from, endpoint(s.transfer.dst, s.dst_offset)));
    }

    void take(const Step& step) {
        const Shot& s = (*shots_)[step.shot];
        switch (step.kind) {
            case Step::launch: {
                const sim::Endpoint from = endpoint(s.transfer.src, s.src_offset);
                if (from == s.transfer.issuer) {
                    take({Step::source, step.shot, 0});
                } else {
                    later(now_ + bench_.routes->request_latency(s.transfer.issuer, from), 0,
                          {Step::source, step.shot, 0});
                }
                break;
            }
            case Step::source:
                if (s.transfer.src.space == isa::Space::hbm) {
                    later(now_ + FixedHbm::kLatency, 0, {Step::enter, step.shot, route(s).root});
                } else {
                    enter(step.shot, route(s).root);
                }
                break;
            case Step::expected: --expected_[bench_.routes->node(step.node).link]; [[fallthrough]];
            case Step::enter: enter(step.shot, step.node); break;
            case Step::decide: decide(*step.link); break;
            case Step::write: landed_[step.shot] = std::max(landed_[step.shot], now_ + FixedHbm::kLatency); break;
        }
    }

    [[nodiscard]] std::vector<std::uint32_t> children(std::uint32_t index) const {
        std::vector<std::uint32_t> out;
        for (std::uint32_t child = bench_.routes->node(index).first_child; child != sim::RouteNode::kNone;
             child = bench_.routes->node(child).next_sibling) {
            out.push_back(child);
        }
        return out;
    }
    /// The first cycle from `cycle` on that has bytes left behind what was booked last.
    Cycle free_from(const sim::Link* link, Cycle cycle) {
        Row& row = rows_[link];
        row.used.resize(std::max<std::size_t>(row.used.size(), row.last + 1), 0);
        const bool full = row.used[row.last] >= link->width();
        return std::max(cycle, full ? row.last + 1 : row.last);
    }
    /// As far as is known now, in front of everything that follows.
    [[nodiscard]] bool room(std::size_t i, std::uint32_t index, Cycle start) {
        for (const std::uint32_t child : children(index)) {
            const sim::Credits* credits = bench_.routes->node(child).credits;
            std::uint64_t taken = (*shots_)[i].bytes;
            for (const Taken& each : taken_room_[credits]) {
                taken += each.back && *each.back <= start ? 0 : each.bytes;
            }
            if (taken > credits->capacity()) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] Cycle lead(std::size_t i, std::uint32_t index) const {
        const Shot& s = (*shots_)[i];
        const bool reads = s.transfer.src.space == isa::Space::tsram && index == route(s).root;
        return reads ? static_cast<Cycle>(bench_.chip.tsram.latency_cycles) : 0;
    }
    [[nodiscard]] bool goes_first(std::size_t i) const {
        const Shot& s = (*shots_)[i];
        return s.transfer.src.space != isa::Space::hbm && s.transfer.dst.space != isa::Space::hbm;
    }

    void enter(std::size_t i, std::uint32_t index) {
        const sim::Link* link = bench_.routes->node(index).link;
        std::vector<Waiting>& waiting = waiting_[link];
        const bool in_turn = bench_.chip.noc.sram_first == 0;
        if (in_turn && waiting.empty() && room(i, index, free_from(link, now_ + lead(i, index)))) {
            cross(i, index, now_);
            return;
        }
        waiting.push_back({i, index, now_});
        if (waiting.size() == 1) {
            steps_.emplace(Key{now_, 2, link->number}, Step{Step::decide, 0, 0, link});
        }
    }
    void enter_next(std::size_t i, std::uint32_t index, Cycle ready) {
        const sim::RouteNode& node = bench_.routes->node(index);
        if (!node.chained) {
            later(ready, 0, {Step::enter, i, index});
        } else if (bench_.chip.noc.sram_first == 0 && waiting_[node.link].empty() && expected_[node.link] == 0 &&
                   room(i, index, free_from(node.link, ready + lead(i, index)))) {
            cross(i, index, ready);
        } else {
            ++expected_[node.link];
            later(ready, 0, {Step::expected, i, index});
        }
    }
    /// In every cycle in which somebody waits.
    void decide(const sim::Link& link) {
        std::vector<Waiting>& waiting = waiting_[&link];
        while (take_one(link, waiting)) {
        }
        if (!waiting.empty()) {
            steps_.emplace(Key{now_ + 1, 2, link.number}, Step{Step::decide, 0, 0, &link});
        }
    }
    bool take_one(const sim::Link& link, std::vector<Waiting>& waiting) {
        for (const bool urgent : {true, false}) {
            // Nobody passes one that came before and goes on to the same resource, in the same class.
            std::set<const sim::Credits*> held;
            for (std::size_t k = 0; k < waiting.size(); ++k) {
                const auto [i, index, since] = waiting[k];
                const bool first = bench_.chip.noc.sram_first != 0 && goes_first(i);
                if (first != urgent) {
                    continue;
                }
                const std::vector<std::uint32_t> next = children(index);
                const sim::Credits* flow = next.empty() ? nullptr : bench_.routes->node(next.front()).credits;
                const Cycle start = now_ + lead(i, index);
                if (held.insert(flow).second && free_from(&link, start) == start && room(i, index, start)) {
                    kept_[&link] += now_ - since;
                    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(k));
                    cross(i, index, now_);
                    return true;
                }
            }
        }
        return false;
    }

    void cross(std::size_t i, std::uint32_t index, Cycle grant) {
        const Cycle ready = grant + lead(i, index);
        const Shot& s = (*shots_)[i];
        const sim::RouteNode& node = bench_.routes->node(index);
        // Byte after byte into the cycles that have room, not before what was booked last.
        Row& row = rows_[node.link];
        const auto width = static_cast<std::uint32_t>(node.link->width());
        std::uint32_t left = s.bytes;
        Cycle head = 0;
        Cycle cycle = std::max(ready, row.last);
        for (bool first = true; left > 0; ++cycle) {
            row.used.resize(std::max<std::size_t>(row.used.size(), cycle + 1), 0);
            const std::uint32_t moved = std::min(left, width - row.used[cycle]);
            row.used[cycle] += moved;
            left -= moved;
            if (moved > 0 && first) {
                head = cycle;
                first = false;
            }
            row.last = cycle;
        }
        hold(row, pass_banks(s, node, head));
        const Cycle tail = row.last + 1;
        if (node.credits != nullptr) {
            for (Taken& each : taken_room_[node.credits]) {
                if (each.shot == i) {
                    each.back = tail + node.credits->return_latency();
                }
            }
            std::erase_if(taken_room_[node.credits],
                          [this](const Taken& each) { return each.back && *each.back < now_; });
        }
        if (node.end == sim::RouteEnd::sram) {
            landed_[i] = std::max(landed_[i], tail + node.latency);
        } else if (node.end == sim::RouteEnd::hbm) {
            later(tail + node.latency, 0, {Step::write, i, 0});
        }
        for (const std::uint32_t child : children(index)) {
            taken_room_[bench_.routes->node(child).credits].push_back({s.bytes, i, std::nullopt});
        }
        for (const std::uint32_t child : children(index)) {
            const sim::RouteNode& next = bench_.routes->node(child);
            // The last byte, which crosses here in cycle tail - 1, must be there in the last of its cycles there.
            const auto needed = static_cast<Cycle>((s.bytes + next.link->width() - 1) / next.link->width());
            Cycle start = head + node.latency;
            while (start + needed - 1 < tail - 1 + node.latency) {
                ++start;
            }
            enter_next(i, child, start);
        }
    }

    /// What has crossed last stays in its place of a cycle, `held` cycles later; nothing crosses before.
    static void hold(Row& row, Cycle held) {
        const std::uint32_t used = row.used[row.last];
        row.used.resize(row.last + held + 1, 0);
        for (Cycle i = 0; i < held; ++i) {
            row.used[row.last++] = ~std::uint32_t{0} >> 1;
        }
        row.used[row.last] = used;
    }
    /// Line after line, each not before the one in front of it by more than the width lets it be.
    Cycle pass_banks(const Shot& s, const sim::RouteNode& node, Cycle head) {
        if (node.banks == nullptr) {
            return 0;
        }
        const bool written = node.end == sim::RouteEnd::sram;
        const auto& chip = bench_.chip;
        const std::uint64_t line_bytes =
            static_cast<std::uint64_t>(node.csram ? chip.csram.bank_bytes_per_cycle : chip.tsram.bank_bytes_per_cycle);
        const auto banks = static_cast<std::uint64_t>(node.csram ? chip.csram.banks : chip.tsram.banks);
        const std::uint64_t offset = written ? s.dst_offset : s.src_offset;
        // A TSRAM is read a latency before its bytes cross the port.
        head -= written || node.csram ? 0 : static_cast<Cycle>(chip.tsram.latency_cycles);
        Cycle held = 0;
        for (std::uint64_t byte = 0; byte < s.bytes; ++byte) {
            if (byte > 0 && (offset + byte) % line_bytes != 0) {
                continue;
            }
            const std::uint64_t bank = (offset + byte) / line_bytes % banks;
            while (!taken_.emplace(node.banks, head + byte / node.link->width() + held, bank).second) {
                ++held;
            }
        }
        return held;
    }

    Bench& bench_;
    std::set<std::tuple<const sim::SramBanks*, Cycle, std::uint64_t>> taken_;
    const std::vector<Shot>* shots_ = nullptr;
    std::vector<Cycle> landed_;
    std::map<Key, Step> steps_;
    std::map<const sim::Link*, Row> rows_;
    std::map<const sim::Link*, std::vector<Waiting>> waiting_;
    std::map<const sim::Link*, std::uint32_t> expected_;
    std::map<const sim::Link*, Cycle> kept_;
    std::map<const sim::Credits*, std::vector<Taken>> taken_room_;
    std::uint64_t order_ = 0;
    Cycle now_ = 0;
    int phase_ = 0;
};

sim::TransferEnd random_end(std::mt19937_64& random, const isa::ChipSpec& chip) {
    switch (random() % 3) {
        case 0: return {isa::Space::hbm, 0, 0};
        case 1:
            return {isa::Space::csram,
                    static_cast<std::uint32_t>(random() % static_cast<std::uint64_t>(chip.soc.clusters)), 0};
        default:
            return {isa::Space::tsram,
                    static_cast<std::uint32_t>(random() % static_cast<std::uint64_t>(isa::tile_count(chip))), 0};
    }
}

std::vector<Shot> random_traffic(std::mt19937_64& random, const Bench& bench, std::size_t count, std::uint64_t gap) {
    std::vector<Shot> shots(count);
    Cycle at = 0;
    const isa::ChipSpec& chip = bench.chip;
    for (Shot& s : shots) {
        at += random() % gap;
        s.at = at;
        s.transfer.src = random_end(random, chip);
        s.transfer.dst = random_end(random, chip);
        const auto stacks = static_cast<std::uint64_t>(chip.hbm.stacks);
        const auto offset = [&](const sim::TransferEnd& end) {
            return end.space == isa::Space::hbm ? random() % stacks * FixedHbm::kStackBytes : random() % (1U << 20);
        };
        s.src_offset = offset(s.transfer.src);
        s.dst_offset = offset(s.transfer.dst);
        s.bytes = static_cast<std::uint32_t>(random() % 3 == 0 ? 1 + random() % 1024 : 1024);
        if (s.transfer.dst.space == isa::Space::tsram && random() % 3 == 0) {
            const auto tiles = static_cast<std::uint32_t>(chip.soc.tiles_per_cluster);
            s.transfer.dst.unit = s.transfer.dst.unit / tiles * tiles;
            s.transfer.dst.mask = 1 + random() % ((1ULL << tiles) - 1);
        } else if (s.transfer.dst.space == isa::Space::csram && random() % 3 == 0) {
            s.transfer.dst.unit = 0;
            s.transfer.dst.mask = 1 + random() % ((1ULL << chip.soc.clusters) - 1);
        }
        const bool by_tile = random() % 2 == 0;
        const std::uint64_t engines =
            by_tile ? static_cast<std::uint64_t>(isa::tile_count(chip)) : static_cast<std::uint64_t>(chip.soc.clusters);
        const std::size_t engine = random() % engines;
        s.transfer.issuer = by_tile ? bench.routes->tile(engine) : bench.routes->csram(engine);
    }
    return shots;
}

/// Returns how many packets waited for room.
std::uint64_t compare(const isa::ChipSpec& chip, std::uint64_t seed, std::size_t count, std::uint64_t gap) {
    const sim::SimulationContext simulation;
    Bench bench(chip);
    std::mt19937_64 random(seed);
    std::vector<Shot> shots = random_traffic(random, bench, count, gap);
    Reference reference(bench);
    const std::vector<Cycle> expected = reference.run(shots);
    bench.run(shots);
    for (std::size_t i = 0; i < shots.size(); ++i) {
        INFO("packet " << i << " of " << shots[i].bytes << " bytes shot at " << shots[i].at);
        REQUIRE(shots[i].landed == expected[i]);
    }
    CHECK(bench.packets.in_use() == 0);
    bench.routes->check_conserved();
    std::uint64_t waited = 0;
    for (std::uint32_t link = 0; link < bench.routes->links(); ++link) {
        waited += bench.routes->link(link).kept_back;
        REQUIRE(bench.routes->link(link).kept == reference.kept(bench.routes->link(link)));
    }
    return waited;
}

}  // namespace

// 56,000 packets over ports, crossbars and links; two ninths of them, 12,000, are multicasts.
TEST_CASE("random traffic on the shipped chip lands in the reference's cycles, crowded or not") {
    compare(test::maia200(), 1, 20000, 2);
    compare(test::maia200(), 2, 10000, 20);
}

TEST_CASE("random traffic on odd chips lands in the reference's cycles") {
    isa::ChipSpec chip = test::maia200();
    chip.soc = {3, 5, 4, 2};
    chip.hbm.stacks = 5;
    chip.noc.tile_port_bytes_per_cycle = 100;
    chip.noc.tile_mesh_bytes_per_cycle = 300;
    chip.gnoc.link_bytes_per_cycle = 700;
    chip.csram.bytes_per_cycle = 1500;
    compare(chip, 3, 10000, 3);
    chip.soc = {8, 3, 3, 3};
    compare(chip, 4, 10000, 2);
    compare(test::toy(), 5, 6000, 6);
}

TEST_CASE("packets that wait for room land in the reference's cycles, whoever goes first") {
    isa::ChipSpec chip = test::maia200();
    for (const std::int64_t first : {0, 1}) {
        chip.noc.sram_first = first;
        std::uint64_t seed = 10;
        for (const auto& [buffer, landing] : {std::pair{1, 1}, std::pair{2, 4}, std::pair{8, 2}}) {
            chip.noc.buffer_packets = buffer;
            chip.noc.landing_packets = landing;
            // All at once: far more than the ports take.
            CHECK(compare(chip, ++seed, 4000, 1) > 1000);
            compare(chip, ++seed, 4000, 2);
        }
    }
}

TEST_CASE("room in front of a resource is what crosses there and back, and the packets that it keeps") {
    const sim::SimulationContext simulation;
    Bench bench(test::maia200());
    const isa::ChipSpec& chip = bench.chip;
    const auto& routes = bench.routes;
    const sim::Route& route = routes->route(routes->unicast(routes->csram(0), routes->tile(3)));
    const sim::RouteNode& ingress = routes->node(routes->node(route.root).first_child);
    // Its latency within the SRAM is none of the wire's.
    const auto wire = static_cast<std::uint64_t>(chip.noc.crossbar_latency_cycles);
    const auto width = static_cast<std::uint64_t>(chip.csram.bytes_per_cycle);
    CHECK(ingress.credits->capacity() ==
          2 * wire * width + static_cast<std::uint64_t>(chip.noc.landing_packets) * 1024);
    CHECK(ingress.credits->return_latency() == wire);
}

TEST_CASE("resources that one other alone feeds are booked without an event") {
    const sim::SimulationContext simulation;
    Bench bench(test::maia200());
    // A stack at the left edge is the only one to send east from its router.
    const sim::Route& route =
        bench.routes->route(bench.routes->unicast(bench.routes->stack(0), bench.routes->csram(3)));
    const sim::RouteNode& east = bench.routes->node(bench.routes->node(route.root).first_child);
    CHECK(east.chained);
    CHECK_FALSE(bench.routes->node(east.first_child).chained);
}

TEST_CASE("the floorplan gives every port a place, for any counts") {
    for (const std::int64_t clusters : {1, 2, 3, 4, 8}) {
        for (const std::int64_t stacks : {1, 2, 3, 6, 8}) {
            isa::ChipSpec chip = test::maia200();
            chip.soc.clusters = clusters;
            chip.hbm.stacks = stacks;
            const sim::Floorplan plan(chip);
            const auto inside = [&](const sim::MeshPosition& p) {
                return p.x >= 0 && p.x < sim::Floorplan::kColumns && p.y >= 0 && p.y < plan.rows;
            };
            std::vector<sim::MeshPosition> taken;
            for (const auto* group : {&plan.clusters, &plan.stacks}) {
                for (const sim::MeshPosition& p : *group) {
                    CHECK(inside(p));
                    CHECK(std::find(taken.begin(), taken.end(), p) == taken.end());
                    taken.push_back(p);
                }
            }
            CHECK(inside(plan.pcie));
        }
    }
    const sim::Floorplan maia(test::maia200());
    CHECK(maia.rows == 3);
    CHECK(maia.clusters[3] == sim::MeshPosition{2, 2});
    CHECK(maia.stacks[5] == sim::MeshPosition{3, 2});
}
