// SPDX-License-Identifier: Apache-2.0
// Do ports and engines get the banks of an SRAM in the cycles that the rule gives them?
#include "sim/core/sram_banks.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "isa/errors.hpp"
#include "tests/sim/bank_reference.hpp"

using namespace sluice;
using sim::BankClient;
using sim::LineStream;

namespace {

constexpr std::array kEngines{BankClient::ttu, BankClient::tvp, BankClient::reshaper};

struct Random {
    std::mt19937_64 source;
    std::int64_t operator()(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(source);
    }
    template <class Value>
    Value one_of(std::initializer_list<Value> values) {
        return *(values.begin() + (*this)(0, static_cast<std::int64_t>(values.size()) - 1));
    }
};

sim::BankSpec random_spec(Random& random) {
    return {
        static_cast<std::uint32_t>(random.one_of({std::int64_t{1}, std::int64_t{32}, std::int64_t{64}, random(1, 64)})),
        static_cast<std::uint32_t>(random.one_of({std::int64_t{1}, std::int64_t{128}, random(1, 256)})),
        static_cast<Cycle>(random(1, 64))};
}

LineStream random_stream(Random& random, const sim::BankSpec& spec, Cycle cycles) {
    LineStream stream;
    const auto line = static_cast<std::int64_t>(spec.line_bytes);
    const auto turn = line * static_cast<std::int64_t>(spec.banks);
    stream.offset = 1'000'000 + random(0, 2 * turn);
    stream.run = random(0, 9) == 0 ? 0 : random(1, random.one_of({line, 8 * line, 2 * turn}));
    for (std::size_t i = 0; i < 3; ++i) {
        stream.counts[i] = random(0, 3) == 0 ? random(1, 5) : 1;
        stream.strides[i] =
            random.one_of({std::int64_t{0}, turn, -turn, line, stream.run, random(-2 * turn, 2 * turn)});
    }
    stream.start = static_cast<Cycle>(random(0, static_cast<std::int64_t>(cycles) - 1));
    stream.duration = static_cast<Cycle>(random(1, static_cast<std::int64_t>(cycles - stream.start)));
    return stream;
}

/// The two side by side, through the same random life.
class Pair {
public:
    explicit Pair(Random& random) : random_(random), spec_(random_spec(random)), banks_(spec_), reference_(spec_) {}

    void live(int events) {
        for (int i = 0; i < events; ++i) {
            pass(static_cast<Cycle>(random_(0, random_(0, 40) == 0 ? 3000 : random_.one_of({0, 3, 60}))));
            if (random_(0, 2) == 0) {
                start(random_.one_of({kEngines[0], kEngines[1], kEngines[2]}));
            } else {
                send();
            }
        }
        for (int i = 0; i < 100'000 && (running_[0] || running_[1] || running_[2]); ++i) {
            pass(1);
        }
        banks_.advance(reference_.now());
        REQUIRE_FALSE((running_[0] || running_[1] || running_[2]));
        const sim::BankCounts counts = banks_.counts();
        CHECK(counts.lines == reference_.counts().lines);
        CHECK(counts.stalled == reference_.counts().stalled);
    }

private:
    /// Time goes on; what has finished by then is ended.
    void pass(Cycle cycles) {
        for (Cycle i = 0; i < cycles; ++i) {
            reference_.tick();
        }
        // Sometimes in two steps, sometimes not yet: the result must not depend on it.
        const std::int64_t way = random_(0, 3);
        if (way == 0) {
            return;
        }
        if (way == 1 && reference_.now() - banks_.now() > 1) {
            banks_.advance(banks_.now() + 1);
        }
        banks_.advance(reference_.now());
        for (std::size_t i = 0; i < kEngines.size(); ++i) {
            if (running_[i]) {
                compare(i);
            }
        }
    }
    void compare(std::size_t i) {
        const BankClient engine = kEngines[i];
        REQUIRE(banks_.clock(engine) == reference_.clock(engine));
        REQUIRE(banks_.stalls(engine) == reference_.stalls(engine));
        REQUIRE(banks_.finished(engine) == reference_.finished(engine));
        if (banks_.finished(engine)) {
            banks_.end(engine);
            reference_.end(engine);
            running_[i] = false;
        }
    }

    void start(BankClient engine) {
        bool& running = running_[static_cast<std::size_t>(engine) - static_cast<std::size_t>(BankClient::ttu)];
        if (running) {
            return;
        }
        running = true;
        const auto cycles = static_cast<Cycle>(random_(1, random_.one_of({5, 60})));
        std::vector<LineStream> streams;
        for (std::int64_t i = random_(0, 4); i > 0; --i) {
            streams.push_back(random_stream(random_, spec_, cycles));
        }
        banks_.start(engine, streams, cycles, reference_.now());
        reference_.start(engine, streams, cycles);
    }

    void send() {
        const BankClient port = random_.one_of({BankClient::written, BankClient::read});
        const auto offset = static_cast<std::uint64_t>(random_(0, 20'000));
        const auto bytes = static_cast<std::uint64_t>(random_(1, random_.one_of({64, 1024})));
        const Cycle from = reference_.now() + static_cast<Cycle>(random_(0, random_.one_of({0, 10, 500})));
        const auto width =
            static_cast<std::uint64_t>(random_.one_of({std::int64_t{128}, std::int64_t{2048}, random_(1, 700)}));
        REQUIRE(banks_.reserve(port, offset, bytes, from, width, reference_.now()) ==
                reference_.reserve(port, offset, bytes, from, width));
    }

    Random& random_;
    sim::BankSpec spec_;
    sim::SramBanks banks_;
    test::BankReference reference_;
    std::array<bool, 3> running_{};
};

/// A run of whole lines from the first bank on, over the whole macro.
LineStream lines(std::int64_t count, Cycle cycles, std::int64_t first = 0) {
    LineStream stream;
    stream.offset = first * 128;
    stream.run = count * 128;
    stream.duration = cycles;
    return stream;
}

/// As an engine does it: looks again when the macro could be over at the earliest.
Cycle end_of(sim::SramBanks& banks, BankClient engine, Cycle now, Cycle cycles) {
    while (!banks.finished(engine)) {
        now += std::max<Cycle>(cycles - banks.clock(engine), 1);
        banks.advance(now);
    }
    banks.end(engine);
    return now;
}

}  // namespace

TEST_CASE("random macros and packets have the reference's cycles, stalls and counts") {
    for (std::uint64_t seed = 0; seed < 12'000; ++seed) {
        INFO("seed " << seed);
        Random random{std::mt19937_64(seed)};
        Pair(random).live(12);
    }
}

TEST_CASE("a macro whose lines keep out of each other's way takes its cycles") {
    sim::SramBanks banks({32, 128, 64});
    // Two sweeps of 16 lines a cycle, half a turn apart: every bank is asked for once a cycle.
    banks.start(BankClient::ttu, {lines(1600, 100), lines(1600, 100, 16)}, 110, 7);
    CHECK(end_of(banks, BankClient::ttu, 7, 110) == 7 + 110);
    CHECK(banks.counts().lines[2] == 3200);
}

TEST_CASE("sweeps that begin in one bank follow each other without a stall while no bank is asked for too much") {
    sim::SramBanks banks({32, 128, 64});
    // 8 lines a cycle each, three of them: 24 of 32 banks.
    banks.start(BankClient::ttu, {lines(800, 100), lines(800, 100), lines(800, 100)}, 110, 0);
    CHECK(end_of(banks, BankClient::ttu, 0, 110) == 110);
}

TEST_CASE("lines of one bank cross one a cycle") {
    sim::SramBanks banks({32, 128, 64});
    LineStream stream;
    stream.run = 128;
    stream.counts = {1, 1, 300};
    stream.strides = {0, 0, 32 * 128};
    stream.duration = 100;  // three lines a cycle are due
    banks.start(BankClient::ttu, {stream}, 100, 0);
    // The last line enters in cycle 299 and is served in it.
    CHECK(end_of(banks, BankClient::ttu, 0, 100) == 300);
    CHECK(banks.counts().stalled[2][2] == 200);
}

TEST_CASE("a bank that a port keeps makes an engine stand until it is let go") {
    sim::SramBanks banks({32, 128, 64});
    // One line of bank 0 after the other, for 50 cycles.
    for (std::uint64_t i = 0; i < 50; ++i) {
        CHECK(banks.reserve(BankClient::written, i * 32 * 128, 128, i, 128, 0) == 0);
    }
    banks.start(BankClient::tvp, {lines(2 * 32, 2)}, 2, 0);
    // The first line of bank 0 waits in its slot from cycle 0 on, the second one is due in cycle 1; the slot is served
    // in cycle 50, the second line enters in cycle 51.
    CHECK(end_of(banks, BankClient::tvp, 0, 2) == 52);
    CHECK(banks.counts().stalled[3][0] == 50);
}

TEST_CASE("a port whose bank another has taken is held up as long") {
    sim::SramBanks calendar({32, 128, 1});
    CHECK(calendar.reserve(BankClient::written, 0, 1024, 10, 128, 0) == 0);
    CHECK(calendar.reserve(BankClient::read, 0, 1024, 10, 128, 0) == 1);         // one bank behind, all the way
    CHECK(calendar.reserve(BankClient::read, 16 * 128, 1024, 10, 128, 0) == 0);  // other banks
    // Far ahead, where nobody has been.
    CHECK(calendar.reserve(BankClient::written, 0, 1024, 100'000, 128, 20) == 0);
    CHECK(calendar.counts().lines[0] == 16);
    CHECK(calendar.counts().stalled[1][0] == 1);
}

TEST_CASE("an engine that has stood for the age bound goes first") {
    const auto stalls = [](Cycle age_bound) {
        sim::SramBanks banks({1, 128, age_bound});
        // One bank, asked for in every cycle by both.
        banks.start(BankClient::ttu, {lines(100, 100)}, 100, 0);
        banks.start(BankClient::reshaper, {lines(10, 10)}, 10, 0);
        const Cycle end = end_of(banks, BankClient::reshaper, 0, 10);
        banks.advance(1000);
        CHECK(banks.finished(BankClient::ttu));
        CHECK(banks.counts().lines[2] + banks.counts().lines[4] == 110);
        return end;
    };
    // Each of ten lines stands for at most the bound, then goes first, and the next one enters.
    CHECK(stalls(4) <= 10 * (4 + 2));
    CHECK(stalls(1000) > 100);
}

TEST_CASE("what cannot be is refused") {
    CHECK_THROWS_AS(sim::SramBanks({65, 128, 1}), InvariantError);
    CHECK_THROWS_AS(sim::SramBanks({32, 0, 1}), InvariantError);
    CHECK_THROWS_AS(sim::SramBanks({32, 128, 0}), InvariantError);
    sim::SramBanks banks({32, 128, 64});
    CHECK_THROWS_AS(banks.start(BankClient::ttu, {lines(1, 11)}, 10, 0), InvariantError);
    sim::SramBanks other({32, 128, 64});
    other.start(BankClient::ttu, {lines(1, 10)}, 10, 5);
    CHECK_THROWS_AS(other.start(BankClient::ttu, {lines(1, 10)}, 10, 6), InvariantError);
    CHECK_THROWS_AS(other.end(BankClient::ttu), InvariantError);
    CHECK_THROWS_AS(other.advance(3), InvariantError);
}
