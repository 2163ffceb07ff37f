// SPDX-License-Identifier: Apache-2.0
// Do ports and engines get the banks of an SRAM in the cycles that the rule gives them?
#include "sim/core/sram_banks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "isa/errors.hpp"
#include "tests/sim/bank_reference.hpp"

using namespace sluice;
using sim::BankClient;
using sim::LineStream;

namespace {

constexpr std::array kEngines{BankClient::ttu, BankClient::tvp, BankClient::reshaper};

std::size_t number(BankClient client) {
    return static_cast<std::size_t>(client);
}

// ---- random lives ---------------------------------------------------------------------------------------------------

struct Random {
    std::mt19937_64 source;
    std::int64_t operator()(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(source);
    }
    template <class Value>
    Value one_of(std::initializer_list<Value> values) {
        return *(values.begin() + (*this)(0, static_cast<std::int64_t>(values.size()) - 1));
    }
    bool one_in(std::int64_t times) { return (*this)(1, times) == 1; }
};

struct Packet {
    Cycle now = 0, from = 0;
    BankClient port = BankClient::written;
    std::uint64_t offset = 0, bytes = 0, width = 0;
    Cycle held = 0;  ///< by the reference
};

struct Macro {
    std::vector<LineStream> streams;
    Cycle cycles = 1;
    Cycle pause = 0;           ///< after the macro before
    Cycle start = 0, end = 0;  ///< by the reference
};

/// What happens to an SRAM, and what comes of it by the reference.
struct Life {
    sim::BankSpec spec;
    std::vector<Packet> packets;               ///< in the order in which they are granted
    std::array<std::vector<Macro>, 3> macros;  ///< of each engine, one after the other
    struct Seen {
        Cycle clock = 0, stalls = 0;
    };
    std::vector<std::array<Seen, 3>> seen;  ///< of every engine's macro, before the cycle
    sim::BankCounts counts;
};

sim::BankSpec random_spec(Random& random) {
    return {
        static_cast<std::uint32_t>(random.one_of({std::int64_t{1}, std::int64_t{32}, std::int64_t{64}, random(1, 64)})),
        static_cast<std::uint32_t>(random.one_of({std::int64_t{1}, std::int64_t{128}, random(1, 256)})),
        static_cast<Cycle>(random.one_of({random(1, 8), random(1, 64)}))};
}

LineStream random_stream(Random& random, const sim::BankSpec& spec, Cycle cycles) {
    LineStream stream;
    const auto line = static_cast<std::int64_t>(spec.line_bytes);
    const auto turn = line * static_cast<std::int64_t>(spec.banks);
    stream.offset = 1'000'000 + random(0, 2 * turn);  // strides lead below it
    stream.run = random.one_in(10) ? 0 : random(1, random.one_of({line, 8 * line, 2 * turn}));
    for (std::size_t i = 0; i < 3; ++i) {
        stream.counts[i] = random.one_in(4) ? random(random.one_in(20) ? 0 : 1, 5) : 1;
        stream.strides[i] =
            random.one_of({std::int64_t{0}, turn, -turn, line, stream.run, random(-2 * turn, 2 * turn)});
    }
    stream.start = random.one_in(2) ? 0 : static_cast<Cycle>(random(0, static_cast<std::int64_t>(cycles) - 1));
    const auto rest = static_cast<std::int64_t>(cycles - stream.start);
    stream.duration = static_cast<Cycle>(random.one_of({random(1, rest), rest}));
    return stream;
}

Macro random_macro(Random& random, const sim::BankSpec& spec) {
    Macro macro;
    // The longest are longer than the fast model leaves the past undone while packets come.
    macro.cycles = static_cast<Cycle>(random(1, random.one_in(60) ? 3000 : random.one_of({5, 60})));
    macro.pause = static_cast<Cycle>(random.one_in(2) ? 0 : random(0, 40));
    for (std::int64_t i = random(0, 4); i > 0; --i) {
        macro.streams.push_back(random_stream(random, spec, macro.cycles));
    }
    return macro;
}

Packet random_packet(Random& random, Cycle now) {
    Packet packet;
    packet.now = now;
    packet.from = now + static_cast<Cycle>(random(0, random.one_of({0, 10, 500})));
    packet.port = random.one_of({BankClient::written, BankClient::read});
    packet.offset = static_cast<std::uint64_t>(random(0, 20'000));
    packet.bytes = static_cast<std::uint64_t>(random(1, random.one_of({8, 64, 1024})));
    packet.width = static_cast<std::uint64_t>(random.one_of({std::int64_t{128}, std::int64_t{2048}, random(1, 700)}));
    return packet;
}

/// The reference through a life, cycle by cycle until every macro has ended: fills in what comes of it.
class Living {
public:
    explicit Living(Life& life) : life_(life), reference_(life.spec) {}

    void run() {
        while (!over()) {
            REQUIRE(reference_.now() < 100'000);
            life_.seen.emplace_back();
            for (std::size_t i = 0; i < kEngines.size(); ++i) {
                life_.seen.back()[i] = {reference_.clock(kEngines[i]), reference_.stalls(kEngines[i])};
                end(i);
                start(i);
            }
            send();
            reference_.tick();
        }
        life_.counts = reference_.counts();
    }

private:
    struct Engine {
        std::size_t next = 0;  ///< macro
        bool running = false;
        Cycle free_at = 0;
    };

    [[nodiscard]] bool over() const {
        bool over = packet_ == life_.packets.size();
        for (std::size_t i = 0; i < kEngines.size(); ++i) {
            over = over && engines_[i].next == life_.macros[i].size();
        }
        return over;
    }

    void end(std::size_t i) {
        Engine& engine = engines_[i];
        if (engine.running && reference_.finished(kEngines[i])) {
            reference_.end(kEngines[i]);
            life_.macros[i][engine.next].end = engine.free_at = reference_.now();
            engine.running = false;
            ++engine.next;
        }
    }

    void start(std::size_t i) {
        Engine& engine = engines_[i];
        if (engine.running || engine.next == life_.macros[i].size()) {
            return;
        }
        Macro& macro = life_.macros[i][engine.next];
        if (reference_.now() == engine.free_at + macro.pause) {
            reference_.start(kEngines[i], macro.streams, macro.cycles);
            macro.start = reference_.now();
            engine.running = true;
        }
    }

    void send() {
        for (; packet_ < life_.packets.size() && life_.packets[packet_].now == reference_.now(); ++packet_) {
            Packet& packet = life_.packets[packet_];
            packet.held = reference_.reserve(packet.port, packet.offset, packet.bytes, packet.from, packet.width);
        }
    }

    Life& life_;
    test::BankReference reference_;
    std::array<Engine, 3> engines_;
    std::size_t packet_ = 0;
};

Life random_life(std::uint64_t seed) {
    Random random{std::mt19937_64(seed)};
    Life life;
    life.spec = random_spec(random);
    for (std::vector<Macro>& macros : life.macros) {
        for (std::int64_t i = random(0, 3); i > 0; --i) {
            macros.push_back(random_macro(random, life.spec));
        }
    }
    Cycle now = 0;
    for (std::int64_t i = random(0, 12); i > 0; --i) {
        now += static_cast<Cycle>(random(0, random.one_in(40) ? 3000 : random.one_of({0, 3, 60})));
        life.packets.push_back(random_packet(random, now));
    }
    Living(life).run();
    return life;
}

/// The fast model through the same life, asked when an engine asks: when its macro could be over at the earliest. With
/// `moments`, also in between, and an engine may see late that its macro has ended.
class Replay {
public:
    explicit Replay(const Life& life, Random* moments = nullptr) : life_(life), moments_(moments), banks_(life.spec) {}

    void run() {
        for (Cycle now = 0; now < life_.seen.size(); ++now) {
            if (moments_ != nullptr && moments_->one_in(5)) {
                banks_.advance(now);
                compare(now);
            }
            for (std::size_t i = 0; i < kEngines.size(); ++i) {
                wake(i, now);
            }
            for (std::size_t i = 0; i < kEngines.size(); ++i) {
                start(i, now);
            }
            send(now);
        }
        CHECK(banks_.counts().lines == life_.counts.lines);
        CHECK(banks_.counts().stalled == life_.counts.stalled);
    }

private:
    struct Engine {
        std::size_t next = 0;  ///< macro
        bool running = false;
        Cycle wake = 0;
    };

    void compare(Cycle now) {
        for (std::size_t i = 0; i < kEngines.size(); ++i) {
            if (engines_[i].running) {
                REQUIRE(banks_.clock(kEngines[i]) == life_.seen[now][i].clock);
                REQUIRE(banks_.stalls(kEngines[i]) == life_.seen[now][i].stalls);
                REQUIRE(banks_.finished(kEngines[i]) == (now >= macro(i).end));
            }
        }
    }
    [[nodiscard]] const Macro& macro(std::size_t i) const { return life_.macros[i][engines_[i].next]; }

    [[nodiscard]] Cycle next_start(std::size_t i) const {
        const std::size_t next = engines_[i].next + 1;
        return next < life_.macros[i].size() ? life_.macros[i][next].start : life_.seen.size();
    }

    void wake(std::size_t i, Cycle now) {
        Engine& engine = engines_[i];
        if (!engine.running || engine.wake != now) {
            return;
        }
        banks_.advance(now);
        compare(now);
        if (banks_.finished(kEngines[i])) {
            const bool late = moments_ != nullptr && moments_->one_in(2) && next_start(i) > now;
            engine.wake = now + 1;
            if (!late) {
                banks_.end(kEngines[i]);
                engine.running = false;
                ++engine.next;
            }
        } else {
            engine.wake = now + std::max<Cycle>(macro(i).cycles - banks_.clock(kEngines[i]), 1);
        }
    }

    void start(std::size_t i, Cycle now) {
        Engine& engine = engines_[i];
        if (!engine.running && engine.next < life_.macros[i].size() && macro(i).start == now) {
            banks_.start(kEngines[i], macro(i).streams, macro(i).cycles, now);
            engine.running = true;
            engine.wake = now + macro(i).cycles;
        }
    }

    void send(Cycle now) {
        for (; packet_ < life_.packets.size() && life_.packets[packet_].now == now; ++packet_) {
            const Packet& packet = life_.packets[packet_];
            REQUIRE(banks_.reserve(packet.port, packet.offset, packet.bytes, packet.from, packet.width, now) ==
                    packet.held);
        }
    }

    const Life& life_;
    Random* moments_;
    sim::SramBanks banks_;
    std::array<Engine, 3> engines_;
    std::size_t packet_ = 0;
};

// ---- closed forms ---------------------------------------------------------------------------------------------------

constexpr std::int64_t kLine = 128;

/// So many whole lines from line `first` on, evenly over the first `duration` cycles of a macro.
LineStream sweep(std::int64_t lines, Cycle duration, std::int64_t first = 0) {
    LineStream stream;
    stream.offset = first * kLine;
    stream.run = lines * kLine;
    stream.duration = duration;
    return stream;
}

/// So many lines of bank 0.
LineStream one_bank(std::int64_t lines, Cycle duration, const sim::BankSpec& spec) {
    LineStream stream;
    stream.run = kLine;
    stream.counts[2] = lines;
    stream.strides[2] = static_cast<std::int64_t>(spec.banks) * kLine;
    stream.duration = duration;
    return stream;
}

/// A packet of one whole line.
Cycle send_line(sim::SramBanks& banks, BankClient port, std::uint64_t line, Cycle from, Cycle now = 0) {
    return banks.reserve(port, line * kLine, kLine, from, kLine, now);
}

/// The cycles until the engine's macro has ended. Asks as an engine does.
Cycle cycles_of(sim::SramBanks& banks, BankClient engine, Cycle start, Cycle cycles) {
    Cycle now = start;
    while (!banks.finished(engine)) {
        now += std::max<Cycle>(cycles - banks.clock(engine), 1);
        banks.advance(now);
    }
    CHECK(now - start == cycles + banks.stalls(engine));
    banks.end(engine);
    return now - start;
}

/// The cycles in which the macros of all three engines are seen to have ended. They have begun in cycle 0.
std::array<Cycle, 3> ends_of(sim::SramBanks& banks) {
    std::array<Cycle, 3> ends{};
    for (Cycle now = 1; std::count(ends.begin(), ends.end(), 0) > 0; ++now) {
        banks.advance(now);
        for (std::size_t i = 0; i < kEngines.size(); ++i) {
            if (ends[i] == 0 && banks.finished(kEngines[i])) {
                banks.end(kEngines[i]);
                ends[i] = now;
            }
        }
    }
    return ends;
}

Cycle stalled(const sim::SramBanks& banks, BankClient client, BankClient by) {
    return banks.counts().stalled[number(client)][number(by)];
}

}  // namespace

TEST_CASE("random lives are the reference's, asked as engines ask and at random moments") {
    sim::BankCounts all;
    for (std::uint64_t seed = 0; seed < 12'000; ++seed) {
        INFO("seed " << seed);
        const Life life = random_life(seed);
        Replay(life).run();
        Random moments{std::mt19937_64(~seed)};
        Replay(life, &moments).run();
        for (std::size_t x = 0; x < sim::kBankClients; ++x) {
            for (std::size_t y = 0; y < sim::kBankClients; ++y) {
                all.stalled[x][y] += life.counts.stalled[x][y];
            }
        }
    }
    // Everybody has stood because of everybody, but ports never because of engines.
    for (std::size_t x = 0; x < sim::kBankClients; ++x) {
        for (std::size_t y = 0; y < sim::kBankClients; ++y) {
            const bool port_by_engine = x < number(BankClient::ttu) && y >= number(BankClient::ttu);
            CHECK((all.stalled[x][y] > 0) == !port_by_engine);
        }
    }
}

TEST_CASE("a macro alone whose lines keep out of each other's way takes its cycles") {
    for (const std::int64_t banks_number : {2, 3, 31, 32, 64}) {
        const sim::BankSpec spec{static_cast<std::uint32_t>(banks_number), kLine, 64};
        sim::SramBanks banks(spec);
        // Two sweeps that ask for half of the banks a cycle each, so far apart that they never meet.
        const std::int64_t half = banks_number / 2;
        banks.start(BankClient::ttu, {sweep(100 * half, 100), sweep(100 * half, 100, half)}, 110, 7);
        CHECK(cycles_of(banks, BankClient::ttu, 7, 110) == 110);
        CHECK(banks.counts().lines[number(BankClient::ttu)] == static_cast<std::uint64_t>(200 * half));
    }
}

TEST_CASE("a macro without lines takes its cycles") {
    sim::SramBanks banks({32, kLine, 64});
    LineStream no_runs = sweep(1, 10);
    no_runs.counts[1] = 0;
    banks.start(BankClient::reshaper, {sweep(0, 10), no_runs}, 10, 3);
    CHECK(cycles_of(banks, BankClient::reshaper, 3, 10) == 10);
    CHECK(banks.counts().lines[number(BankClient::reshaper)] == 0);
}

TEST_CASE("lines of one bank cross one a cycle") {
    // n lines are due in a cycle of the clock: one enters and crosses, the clock stands for n - 1 cycles. Over the
    // stream's duration that makes max(duration, lines). The last line crosses in the cycle in which it enters: nothing
    // is left to cross when the clock has run out.
    const sim::BankSpec spec{32, kLine, 64};
    for (const std::int64_t lines : {1, 7, 99, 100, 101, 300, 1234}) {
        for (const Cycle duration : {Cycle{1}, Cycle{33}, Cycle{100}}) {
            sim::SramBanks banks(spec);
            banks.start(BankClient::ttu, {one_bank(lines, duration, spec)}, 100, 0);
            const Cycle stalls = std::max(duration, static_cast<Cycle>(lines)) - duration;
            CHECK(cycles_of(banks, BankClient::ttu, 0, 100) == 100 + stalls);
            CHECK(stalled(banks, BankClient::ttu, BankClient::ttu) == stalls);
        }
    }
}

TEST_CASE("sweeps that begin in one bank follow each other without loss while banks suffice") {
    const sim::BankSpec spec{30, kLine, 64};
    for (const std::int64_t pace : {1, 4, 7, 10, 15, 30}) {  // lines a cycle
        for (std::int64_t sweeps = 1; sweeps <= 5; ++sweeps) {
            sim::SramBanks banks(spec);
            const std::vector<LineStream> streams(static_cast<std::size_t>(sweeps), sweep(100 * pace, 100));
            banks.start(BankClient::ttu, streams, 100, 0);
            const Cycle cycles = cycles_of(banks, BankClient::ttu, 0, 100);
            if (sweeps * pace <= spec.banks) {
                // Each of them falls back a cycle behind the one before, once; that shows at the end only.
                CHECK(cycles == 100 + static_cast<Cycle>(sweeps - 1));
            } else {
                CHECK(cycles * spec.banks >= static_cast<Cycle>(sweeps * pace * 100));
            }
        }
    }
}

TEST_CASE("sweeps of several engines follow each other as well") {
    sim::SramBanks banks({32, kLine, 64});
    for (const BankClient engine : kEngines) {
        banks.start(engine, {sweep(1000, 100)}, 100, 0);
    }
    CHECK(ends_of(banks) == std::array<Cycle, 3>{100, 101, 102});
}

TEST_CASE("a bank that a port keeps makes an engine stand until it is let go") {
    constexpr std::int64_t kBanks = 16;
    for (const BankClient port : {BankClient::written, BankClient::read}) {
        for (Cycle kept = 0; kept < 60; ++kept) {
            for (const std::int64_t bank : {0, 5, 15}) {
                sim::SramBanks banks({kBanks, kLine, 64});
                for (Cycle i = 0; i < kept; ++i) {
                    CHECK(send_line(banks, port, static_cast<std::uint64_t>(bank), i) == 0);
                }
                // Two turns, a line a cycle. The bank's first line waits in its slot and holds up nothing until the
                // second one comes, in cycle kBanks + bank. The slot is free in the cycle after `kept`.
                banks.start(BankClient::tvp, {sweep(2 * kBanks, 2 * kBanks)}, 2 * kBanks, 0);
                const auto second = static_cast<Cycle>(kBanks + bank);
                const Cycle stalls = std::max(kept + 1, second) - second;
                CHECK(cycles_of(banks, BankClient::tvp, 0, 2 * kBanks) == 2 * kBanks + stalls);
                CHECK(stalled(banks, BankClient::tvp, port) == stalls);
            }
        }
    }
}

TEST_CASE("a macro has not finished before its last line has crossed") {
    for (Cycle kept = 1; kept < 30; ++kept) {
        sim::SramBanks banks({16, kLine, 64});
        for (Cycle i = 0; i < kept; ++i) {
            CHECK(send_line(banks, BankClient::read, 3, i) == 0);
        }
        banks.start(BankClient::ttu, {sweep(16, 1)}, 10, 0);  // line 3 crosses in cycle `kept`
        CHECK(cycles_of(banks, BankClient::ttu, 0, 10) == std::max<Cycle>(10, kept + 1));
    }
}

TEST_CASE("a port whose bank another has taken is held up, all of its packet behind that line") {
    const auto send = [](sim::SramBanks& banks, BankClient port, std::uint64_t line) {
        return banks.reserve(port, line * kLine, 8 * kLine, 10, kLine, 0);
    };
    sim::SramBanks behind({32, kLine, 1});
    for (Cycle others = 0; others < 20; ++others) {
        CHECK(send(behind, BankClient::written, 0) == others);  // one bank behind each of them, all the way
    }
    CHECK(send(behind, BankClient::read, 8) == 0);  // other banks
    CHECK(stalled(behind, BankClient::written, BankClient::written) == 19 * 20 / 2);

    // Line 4 would cross in cycle 14. If it crosses in cycle 15, line 6 crosses in cycle 17.
    for (const Cycle next : {16, 17}) {
        sim::SramBanks banks({32, kLine, 1});
        CHECK(send_line(banks, BankClient::written, 4, 14) == 0);
        CHECK(send_line(banks, BankClient::written, 6, next) == 0);
        CHECK(send(banks, BankClient::read, 0) == (next == 17 ? 2 : 1));
        CHECK(stalled(banks, BankClient::read, BankClient::written) == (next == 17 ? 2 : 1));
    }
}

TEST_CASE("a line's first byte says when it needs its bank") {
    // Bank 1 is taken in one cycle. A packet from the middle of line 0 on needs it once 64 bytes have crossed.
    for (const std::uint64_t width : {1, 5, 64, 100, 128, 500}) {
        const Cycle needed = 1000 + 64 / width;
        for (const Cycle taken : {needed - 1, needed, needed + 1}) {
            sim::SramBanks banks({4, kLine, 64});
            CHECK(send_line(banks, BankClient::written, 1, taken) == 0);
            CHECK(banks.reserve(BankClient::read, 64, kLine, 1000, width, 0) == (taken == needed ? 1 : 0));
            CHECK(stalled(banks, BankClient::read, BankClient::written) == (taken == needed ? 1 : 0));
        }
    }
}

TEST_CASE("an engine that has stood for the age bound goes first") {
    // One bank, asked for in every cycle by both. The reshaper's line enters, the next one stands for age_bound cycles,
    // in the next cycle the first is served (and the second still finds the slot taken), then the second; then the
    // TTU has its line of that cycle served, and all begins anew: two lines in age_bound + 3 cycles.
    for (const Cycle age_bound : {1, 2, 3, 10, 64}) {
        for (const Cycle twice : {1, 2, 7}) {
            const sim::BankSpec spec{1, kLine, age_bound};
            sim::SramBanks banks(spec);
            banks.start(BankClient::ttu, {one_bank(2000, 2000, spec)}, 2000, 0);
            const auto lines = static_cast<std::int64_t>(2 * twice);
            banks.start(BankClient::reshaper, {one_bank(lines, 2 * twice, spec)}, 2 * twice, 0);
            CHECK(cycles_of(banks, BankClient::reshaper, 0, 2 * twice) == twice * (age_bound + 3));
        }
    }
}

TEST_CASE("an engine that never stands for the age bound waits for those before it") {
    const sim::BankSpec spec{1, kLine, 1000};
    sim::SramBanks banks(spec);
    banks.start(BankClient::reshaper, {one_bank(10, 10, spec)}, 10, 0);
    banks.start(BankClient::ttu, {one_bank(100, 100, spec)}, 100, 0);
    banks.start(BankClient::tvp, {one_bank(50, 50, spec)}, 50, 0);
    CHECK(ends_of(banks) == std::array<Cycle, 3>{100, 100 + 50, 100 + 50 + 10});
}

TEST_CASE("every line of streams and packets is counted once") {
    Random random{std::mt19937_64(1)};
    for (int i = 0; i < 200; ++i) {
        const sim::BankSpec spec = random_spec(random);
        const auto line = static_cast<std::int64_t>(spec.line_bytes);
        // Bytes [offset, offset + bytes) touch as many lines as there are from the first one to the last one.
        const auto touched = [line](std::int64_t offset, std::int64_t bytes) {
            return static_cast<std::uint64_t>((offset + bytes - 1) / line - offset / line + 1);
        };
        sim::SramBanks banks(spec);
        LineStream stream;
        stream.offset = random(0, 1000);
        stream.run = random(1, 1000);
        stream.counts = {random(1, 4), 1, random(1, 4)};
        stream.strides = {random(0, 500), 0, random(0, 500)};
        std::uint64_t lines = 0;
        for (std::int64_t j = 0; j < stream.counts[0] * stream.counts[2]; ++j) {
            lines += touched(
                stream.offset + j / stream.counts[2] * stream.strides[0] + j % stream.counts[2] * stream.strides[2],
                stream.run);
        }
        std::array<std::uint64_t, 2> packets{};
        for (int j = 0; j < 10; ++j) {
            const std::int64_t port = random(0, 1), offset = random(0, 1000), bytes = random(1, 1000);
            banks.reserve(static_cast<BankClient>(port), static_cast<std::uint64_t>(offset),
                          static_cast<std::uint64_t>(bytes), 0, 128, 0);
            packets[static_cast<std::size_t>(port)] += touched(offset, bytes);
        }
        banks.start(BankClient::tvp, {stream, stream}, 1, 0);
        cycles_of(banks, BankClient::tvp, 0, 1);
        CHECK(banks.counts().lines == std::array<std::uint64_t, 5>{packets[0], packets[1], 0, 2 * lines, 0});
    }
}

TEST_CASE("packets may be queued far ahead, and are remembered until then") {
    constexpr Cycle kAhead = 100'000;
    const sim::BankSpec spec{32, kLine, 64};
    sim::SramBanks banks(spec);
    // In every thousandth cycle a line of bank 0; the farthest first.
    for (Cycle cycle = kAhead; cycle > 0; cycle -= 1000) {
        CHECK(send_line(banks, BankClient::written, 0, cycle - 500) == 0);
    }
    for (Cycle cycle = kAhead; cycle > 0; cycle -= 1000) {
        CHECK(send_line(banks, BankClient::read, 32, cycle - 500) == 1);  // of the same bank: a cycle later
    }
    // A line a cycle of that bank. The line of the first of two such cycles waits in its slot; the next line stands for
    // both, one put down to either port.
    banks.start(BankClient::ttu, {one_bank(kAhead, kAhead, spec)}, kAhead, 0);
    CHECK(cycles_of(banks, BankClient::ttu, 0, kAhead) == kAhead + 200);
    CHECK(stalled(banks, BankClient::ttu, BankClient::written) == 100);
    CHECK(stalled(banks, BankClient::ttu, BankClient::read) == 100);
}

TEST_CASE("a cycle is not forgotten for another one, however far apart they are") {
    sim::SramBanks banks({32, kLine, 64});
    CHECK(send_line(banks, BankClient::read, 0, 100'000) == 0);
    for (Cycle apart = 65'536; apart > 0; apart /= 2) {
        CHECK(send_line(banks, BankClient::written, 0, 100'000 - apart) == 0);
    }
    CHECK(send_line(banks, BankClient::written, 0, 100'000) == 1);
}

TEST_CASE("packets that come while nobody asks for a macro's clock do not make its past forgotten") {
    const sim::BankSpec spec{32, kLine, 64};
    constexpr Cycle kCycles = 50'000;
    sim::SramBanks banks(spec);
    banks.start(BankClient::ttu, {one_bank(kCycles, kCycles, spec)}, kCycles, 0);
    // One line of the bank after the other, each of which holds up the macro for a cycle.
    for (Cycle now = 0; now < kCycles; now += 10) {
        CHECK(send_line(banks, BankClient::read, 0, now + 5, now) == 0);
        CHECK(now - banks.now() < 10'000);  // nor are all of them kept until somebody asks
    }
    banks.advance(kCycles + kCycles / 10 - 1);
    CHECK_FALSE(banks.finished(BankClient::ttu));
    banks.advance(kCycles + kCycles / 10);
    CHECK(banks.finished(BankClient::ttu));
    CHECK(stalled(banks, BankClient::ttu, BankClient::read) == kCycles / 10);
}

TEST_CASE("what cannot be is refused") {
    for (const sim::BankSpec& spec : {sim::BankSpec{0, 128, 1}, {65, 128, 1}, {32, 0, 1}, {32, 128, 0}}) {
        CHECK_THROWS_AS(sim::SramBanks(spec), InvariantError);
        CHECK_THROWS_AS(sim::BankCalendar(spec), InvariantError);
    }
    const auto begun = [] {
        sim::SramBanks banks({32, kLine, 64});
        banks.start(BankClient::ttu, {sweep(1, 10)}, 10, 5);
        return banks;
    };
    const auto start = [&](BankClient engine, const LineStream& stream, Cycle cycles, Cycle now) {
        begun().start(engine, {stream}, cycles, now);
    };
    CHECK_NOTHROW(start(BankClient::tvp, sweep(1, 10), 10, 5));
    // Two macros of an engine at once.
    CHECK_THROWS_AS(start(BankClient::ttu, sweep(1, 10), 10, 6), InvariantError);
    // A stream that outlasts its macro, from its beginning or because it begins late, or has no time.
    LineStream late = sweep(1, 10);
    late.start = 1;
    CHECK_THROWS_AS(start(BankClient::tvp, sweep(1, 11), 10, 6), InvariantError);
    CHECK_THROWS_AS(start(BankClient::tvp, late, 10, 6), InvariantError);
    CHECK_NOTHROW(start(BankClient::tvp, late, 11, 6));
    CHECK_THROWS_AS(start(BankClient::tvp, sweep(1, 0), 10, 6), InvariantError);
    // A macro without cycles.
    CHECK_THROWS_AS(begun().start(BankClient::tvp, {}, 0, 6), InvariantError);
    // A stream that leaves its memory.
    LineStream outside = sweep(1, 10);
    outside.offset = -1;
    CHECK_THROWS_AS(start(BankClient::tvp, outside, 10, 6), InvariantError);
    // Time that runs backwards.
    CHECK_THROWS_AS(start(BankClient::tvp, sweep(1, 10), 10, 4), InvariantError);
    CHECK_THROWS_AS(begun().advance(4), InvariantError);
    CHECK_NOTHROW(begun().advance(5));
    // An end before the last line has crossed: one cycle too early, and in time.
    sim::SramBanks banks = begun();
    banks.advance(14);
    CHECK_THROWS_AS(banks.end(BankClient::ttu), InvariantError);
    banks.advance(15);
    CHECK_NOTHROW(banks.end(BankClient::ttu));
}

TEST_CASE("requests that cannot be are refused, not waited for") {
    sim::SramBanks banks({32, 128, 64});
    CHECK_THROWS_AS(banks.reserve(BankClient::read, 0, 0, 10, 128, 0), InvariantError);
    CHECK_THROWS_AS(banks.reserve(BankClient::read, 0, 128, 10, 0, 0), InvariantError);
    CHECK_THROWS_AS(banks.reserve(BankClient::ttu, 0, 128, 10, 128, 0), InvariantError);
    CHECK_THROWS_AS(banks.reserve(BankClient::read, 0, 128, 50, 128, 100), InvariantError);
    CHECK_THROWS_AS(banks.start(BankClient::read, {}, 1, 0), InvariantError);
}
