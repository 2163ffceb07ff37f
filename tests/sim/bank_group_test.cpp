// SPDX-License-Identifier: Apache-2.0
// Does the banked SRAM, which never ticks, keep the cycles of the rule in its header?
#include "sim/mem/bank_group.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bank_reference.hpp"
#include "isa/errors.hpp"

using namespace sluice;
using sim::AccessTrain;
using sim::BankGroup;
using sim::BankGroupSpec;
using test::BankReference;

namespace {

constexpr Cycle kNoBound = Cycle{1} << 40;

AccessTrain banks_train(std::uint32_t client, Bytes first_bank, std::int64_t stride, Bytes banks, std::uint64_t beats) {
    constexpr Bytes width = 128;
    return {client, first_bank * width, stride * static_cast<std::int64_t>(width), banks * width, beats, 1};
}

std::vector<Cycle> ends_of(BankGroup& group, std::size_t trains) {
    std::vector<Cycle> ends(trains);
    while (const std::optional<Cycle> next = group.next_end()) {
        group.advance(*next);
    }
    while (const std::optional<sim::TrainEnd> end = group.take_ended()) {
        ends.at(end->id) = end->at;
    }
    return ends;
}

class Dice {
public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    /// low..high
    std::int64_t roll(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
    }
    template <class T>
    T pick(const std::vector<T>& values) {
        return values[static_cast<std::size_t>(roll(0, static_cast<std::int64_t>(values.size()) - 1))];
    }

private:
    std::mt19937_64 engine_;
};

BankGroupSpec random_spec(Dice& dice) {
    BankGroupSpec spec;
    spec.banks = static_cast<std::uint32_t>(dice.pick<std::int64_t>({dice.roll(1, 8), dice.roll(1, 64), 32, 64}));
    spec.bank_bytes = static_cast<std::uint32_t>(dice.pick<std::int64_t>({1, 4, 128, dice.roll(1, 200)}));
    spec.age_bound = static_cast<Cycle>(dice.pick<std::int64_t>({1, 2, dice.roll(1, 20), 64, 1 << 30}));
    return spec;
}

/// `steady`: whole banks and few strides, as of trains that never meet, always meet or soon repeat.
AccessTrain random_train(Dice& dice, const BankGroupSpec& spec, bool steady) {
    const auto width = static_cast<std::int64_t>(spec.bank_bytes);
    const std::int64_t whole = width * static_cast<std::int64_t>(spec.banks);
    const std::int64_t grain = steady ? width : 1;
    AccessTrain train;
    train.client = static_cast<std::uint32_t>(dice.roll(0, dice.pick<std::int64_t>({1, 7})));
    train.start = static_cast<Bytes>(dice.roll(0, 3 * whole) / grain * grain);
    train.stride = steady ? width * dice.roll(0, 2) : dice.roll(-2 * whole, 2 * whole);
    const std::int64_t apart = std::gcd(train.stride, width);
    const std::int64_t offset = static_cast<std::int64_t>(train.start) % apart;
    const std::int64_t most = whole - (width - apart) - offset;  // whatever the offset of a beat, no bank twice
    if (most < 1) {
        return random_train(dice, spec, true);
    }
    train.bytes = static_cast<Bytes>(dice.roll(1, std::max<std::int64_t>(1, most / dice.roll(1, 8))));
    train.beats = static_cast<std::uint64_t>(dice.roll(1, dice.pick<std::int64_t>({1, 10, 60, 400})));
    train.interval = static_cast<Cycle>(dice.pick<std::int64_t>({1, 1, 1, dice.roll(1, 4), dice.roll(1, 30)}));
    return train;
}

/// The trains of a tile: DMA packets, the TTU's operands and sums, vector operands.
AccessTrain tile_train(Dice& dice) {
    const auto start = static_cast<Bytes>(32 * dice.roll(0, 1 << 15));
    switch (dice.roll(0, 3)) {
        case 0: return {0, start / 128 * 128, 128, 128, 8, 1};
        case 1: return {1, start, 1056, 1056, static_cast<std::uint64_t>(dice.roll(1, 400)), 1};
        case 2: return {1, start, 544, 544, static_cast<std::uint64_t>(dice.roll(1, 400)), 1};
        default: return {2, start, 512, 512, static_cast<std::uint64_t>(dice.roll(1, 200)), 1};
    }
}

/// What the two differ in; empty if nothing. One assertion a look: there are millions of comparisons.
std::string difference(BankGroup& group, const BankReference& reference, std::vector<sim::TrainEnd>& ends) {
    for (std::size_t i = 0; i < reference.trains().size(); ++i) {
        const BankReference::Train& train = reference.trains()[i];
        const std::optional<std::uint64_t> done = group.beats_done(i);
        if (done.has_value() == train.ended || done.value_or(train.shape.beats) != train.beats_done) {
            return "beats of train " + std::to_string(i);
        }
    }
    const sim::BankCounts counts = group.counts();
    const sim::BankCounts& expected = reference.counts();
    if (counts.beats != expected.beats || counts.stalled != expected.stalled || counts.cycles != expected.cycles) {
        return "counts";
    }
    while (const std::optional<sim::TrainEnd> end = group.take_ended()) {
        ends.push_back(*end);
    }
    const std::vector<std::size_t> order = reference.ended();
    const bool same_ends = std::equal(ends.begin(), ends.end(), order.begin(), order.end(),
                                      [&](const sim::TrainEnd& end, std::size_t index) {
                                          return end.id == index && end.at == reference.trains()[index].end;
                                      });
    return same_ends ? "" : "ends";
}

std::string outlook_difference(BankGroup& group, BankReference reference, bool exactly) {
    const std::optional<Cycle> wake = group.next_wake();
    if (reference.all_ended()) {
        return wake || group.next_end() ? "an end of no train" : "";
    }
    const Cycle now = group.now();
    const std::size_t ended = reference.ended().size();
    while (reference.ended().size() == ended) {
        reference.tick();
    }
    if (!wake || *wake <= now || *wake > reference.now()) {
        return "next_wake";
    }
    if (exactly && group.next_end() != reference.now()) {
        return "next_end";
    }
    return group.now() == now ? "" : "the cycle after a question";
}

void tick_to(BankReference& reference, Cycle to) {
    while (reference.now() < to) {
        reference.tick();
    }
}

/// Joins at random cycles, looks at random cycles, until all have ended.
template <class NextTrain>
void compare(Dice& dice, const BankGroupSpec& spec, NextTrain next_train) {
    BankGroup group(spec);
    BankReference reference(spec);
    std::vector<sim::TrainEnd> ends;
    const std::int64_t trains = dice.roll(1, 10);
    const std::int64_t longest_gap = dice.pick<std::int64_t>({1, 5, 30, 300});
    for (std::int64_t i = 0; i < trains; ++i) {
        const Cycle at = reference.now() + static_cast<Cycle>(dice.roll(0, longest_gap));
        const AccessTrain train = next_train();
        tick_to(reference, at);
        reference.join(train);
        REQUIRE(group.join(train, at) == static_cast<sim::TrainId>(i));
        REQUIRE(difference(group, reference, ends) == "");
        if (dice.roll(0, 3) == 0) {
            REQUIRE(outlook_difference(group, reference, dice.roll(0, 1) == 0) == "");
        }
    }
    while (!reference.all_ended()) {
        tick_to(reference, reference.now() + static_cast<Cycle>(dice.roll(1, dice.pick<std::int64_t>({3, 100, 1000}))));
        group.advance(reference.now());
        REQUIRE(difference(group, reference, ends) == "");
        if (dice.roll(0, 3) == 0) {
            REQUIRE(outlook_difference(group, reference, dice.roll(0, 1) == 0) == "");
        }
    }
    REQUIRE(std::all_of(reference.trains().begin(), reference.trains().end(), [](const BankReference::Train& train) {
        return train.end - train.joined == BankGroup::solo_cycles(train.shape) + train.stalled;
    }));
}

}  // namespace

TEST_CASE("random trains have the ends, beats and stalls of the reference") {
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        CAPTURE(seed);
        Dice dice(seed);
        const BankGroupSpec spec = random_spec(dice);
        compare(dice, spec, [&] { return random_train(dice, spec, false); });
    }
}

TEST_CASE("random steady trains have the ends, beats and stalls of the reference") {
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        CAPTURE(seed);
        Dice dice(1'000'000 + seed);
        const BankGroupSpec spec = random_spec(dice);
        compare(dice, spec, [&] { return random_train(dice, spec, true); });
    }
}

TEST_CASE("the trains of a tile have the ends, beats and stalls of the reference") {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        CAPTURE(seed);
        Dice dice(2'000'000 + seed);
        compare(dice, {32, 128, static_cast<Cycle>(dice.pick<std::int64_t>({4, 64, 1000}))},
                [&] { return tile_train(dice); });
    }
}

TEST_CASE("every bound on the age gives the reference's cycles while one train starves another") {
    for (Cycle age_bound = 1; age_bound < 300; ++age_bound) {
        CAPTURE(age_bound);
        const BankGroupSpec spec{4, 128, age_bound};
        BankGroup group(spec);
        BankReference reference(spec);
        std::vector<sim::TrainEnd> ends;
        for (const AccessTrain& train :
             {banks_train(0, 0, 1, 3, 1000), banks_train(1, 0, 0, 1, 5), banks_train(1, 2, 1, 2, 3)}) {
            group.join(train, 0);
            reference.join(train);
        }
        while (!reference.all_ended()) {
            tick_to(reference, *group.next_end());
            group.advance(reference.now());
            REQUIRE(difference(group, reference, ends) == "");
        }
    }
}

TEST_CASE("a stall that is over does not count towards the age bound") {
    const BankGroupSpec spec{32, 128, 3};
    BankGroup group(spec);
    group.join(banks_train(0, 0, 1, 1, 1), 0);
    group.join(banks_train(0, 16, 1, 1, 100), 0);
    group.join(banks_train(1, 0, 1, 1, 100), 0);  // stalls in cycle 0, then is clear of the other
    group.advance(10);                            // it comes to bank 9
    group.join(banks_train(0, 9, 0, 1, 5), 10);
    group.advance(13);
    CHECK(group.counts().stalled[1][0] == 1 + 3);
    group.advance(14);
    CHECK(group.beats_done(2) == 10);  // its tenth, after three stalls in a row
    CHECK(ends_of(group, 4) == std::vector<Cycle>{1, 100, 1 + 3 + 100, 10 + 5 + 1});
}

TEST_CASE("a train that is alone takes its beats and rests") {
    const AccessTrain train{0, 77, 1056, 1056, 1000, 7};
    CHECK(BankGroup::solo_cycles(train) == 999 * 7 + 1);
    BankGroup group({32, 128, 64});
    group.join(train, 100);
    group.advance(100 + 7 * 500);
    CHECK(group.beats_done(0) == 500);  // those of cycles 100, 107, ..., 100 + 7 * 499
    group.advance(100 + 7 * 500 + 1);
    CHECK(group.beats_done(0) == 501);
    CHECK(ends_of(group, 1)[0] == 100 + BankGroup::solo_cycles(train));
}

TEST_CASE("trains of one stride that keep clear of each other take the time of one") {
    constexpr std::uint64_t beats = 1'000'000'000'000'000;
    BankGroup group({32, 128, 64});
    group.join({0, 0, 1056, 1056, beats, 1}, 0);
    group.join({1, 1056 + 96, 1056, 1056, beats - 1, 1}, 0);  // 96 = a bank less the grain of 32 bytes
    CHECK(ends_of(group, 2) == std::vector<Cycle>{beats, beats - 1});
    CHECK(group.counts().stalled == sim::BankCounts{}.stalled);
    CHECK(group.counts().beats[1] == beats - 1);
}

TEST_CASE("a train behind another of the same stride stalls until it is clear of it, and never again") {
    constexpr std::uint64_t beats = 1'000'000'000'000'000;
    for (const Cycle width : {1, 3, 8, 16}) {
        BankGroup group({32, 128, 64});
        group.join(banks_train(0, 5, 1, width, beats), 0);
        group.join(banks_train(1, 5, 1, width, beats), 0);
        // Its last bank is free once the other has gone on by its whole width.
        CHECK(ends_of(group, 2) == std::vector<Cycle>{beats, beats + width});
        CHECK(group.counts().stalled[1][0] == width);
    }
}

TEST_CASE("two trains that always meet share the bank as the age bound says") {
    constexpr std::uint64_t beats = 1'000'000'000'000'000;
    for (const Cycle age_bound : {2, 3, 64, 100, 1000}) {
        BankGroup group({32, 128, age_bound});
        group.join(banks_train(0, 9, 0, 1, beats), 0);
        group.join(banks_train(1, 9, 0, 1, beats), 0);
        // After every age_bound beats of client 0 comes one of client 1; the bank is never idle.
        const std::uint64_t given_way = (beats - 1) / age_bound;
        CHECK(ends_of(group, 2) == std::vector<Cycle>{beats + given_way, 2 * beats});
        CHECK(group.counts().stalled[0][1] == given_way);
        CHECK(group.counts().stalled[1][0] == beats);
        CHECK(group.counts().cycles == 2 * beats);
    }
}

TEST_CASE("with an age bound of one cycle, two trains that always meet alternate") {
    constexpr std::uint64_t beats = 1'000'000'000'000'000;
    BankGroup group({32, 128, 1});
    group.join(banks_train(0, 9, 0, 1, beats), 0);
    group.join(banks_train(1, 9, 0, 1, beats), 0);
    CHECK(ends_of(group, 2) == std::vector<Cycle>{2 * beats - 1, 2 * beats});
    CHECK(group.counts().stalled[0][1] == beats - 1);
    CHECK(group.counts().stalled[1][0] == beats);
}

TEST_CASE("without an effective age bound a train starves as long as another holds its bank") {
    constexpr std::uint64_t beats = kNoBound - 1;
    BankGroup group({16, 128, kNoBound});
    group.join(banks_train(3, 0, 5, 1, 10), 0);
    group.join(banks_train(2, 3, 7, 16, beats), 0);
    CHECK(ends_of(group, 2) == std::vector<Cycle>{beats + 10, beats});
    CHECK(group.counts().stalled[3][2] == beats);
}

TEST_CASE("huge trains whose strides differ end at once and lose no beat") {
    constexpr std::uint64_t beats = 1'000'000'000'000'000;
    BankGroup group({32, 128, 64});
    const std::vector<AccessTrain> trains = {{0, 0, 128, 128, beats, 3},
                                             {1, 4096, 1056, 1056, beats, 1},
                                             {1, 9600, 544, 544, beats, 1},
                                             {2, 512, 512, 512, beats, 1}};
    Cycle solo = 0;
    for (const AccessTrain& train : trains) {
        group.join(train, 0);
        solo += BankGroup::solo_cycles(train);
    }
    const std::vector<Cycle> ends = ends_of(group, trains.size());
    const sim::BankCounts counts = group.counts();
    CHECK(counts.beats[0] == beats);
    CHECK(counts.beats[1] == 2 * beats);
    CHECK(counts.beats[2] == beats);
    CHECK(counts.cycles == *std::max_element(ends.begin(), ends.end()));
    Cycle stalled = 0;
    for (const auto& row : counts.stalled) {
        stalled += std::accumulate(row.begin(), row.end(), Cycle{0});
    }
    CHECK(stalled > 0);
    CHECK(std::accumulate(ends.begin(), ends.end(), Cycle{0}) == solo + stalled);
}

TEST_CASE("bytes in the middle of a bank take one bank more") {
    BankGroup group({32, 128, 64});
    group.join({0, 64, 0, 8 * 128, 10, 1}, 0);  // banks 0..8
    group.join({1, 8 * 128, 0, 1, 1, 1}, 0);    // bank 8: waits for all ten
    group.join({1, 9 * 128, 0, 1, 1, 1}, 0);    // bank 9: free
    CHECK(ends_of(group, 3) == std::vector<Cycle>{10, 11, 1});
}

TEST_CASE("a stall is put down to the first train that holds one of the banks") {
    BankGroup group({32, 128, 64});
    group.join(banks_train(2, 4, 0, 1, 1), 0);
    group.join(banks_train(1, 2, 0, 1, 1), 0);
    group.join(banks_train(5, 0, 0, 8, 1), 0);
    CHECK(ends_of(group, 3) == std::vector<Cycle>{1, 1, 2});
    CHECK(group.counts().stalled[5][1] == 1);
    CHECK(group.counts().stalled[5][2] == 0);
}

TEST_CASE("what cannot be is refused by name") {
    CHECK_THROWS_WITH(BankGroup({65, 128, 64}), Catch::Contains("banks: 65, allowed is 1..64"));
    CHECK_THROWS_WITH(BankGroup({32, 0, 64}), Catch::Contains("bank_bytes: 0"));
    CHECK_THROWS_WITH(BankGroup({32, 128, 0}), Catch::Contains("age_bound: 0"));
    BankGroup group({32, 128, 64});
    CHECK_THROWS_WITH(group.join({8, 0, 128, 128, 1, 1}, 0), Catch::Contains("client: 8, allowed is 0..7"));
    CHECK_THROWS_WITH(group.join({0, 0, 128, 128, 0, 1}, 0), Catch::Contains("beats and interval"));
    CHECK_THROWS_WITH(group.join({0, 0, 128, 128, 1, 0}, 0), Catch::Contains("beats and interval"));
    CHECK_THROWS_WITH(group.join({0, 0, 128, 0, 1, 1}, 0), Catch::Contains("bytes: 0"));
    CHECK_THROWS_WITH(group.join({0, 0, 128, 4097, 1, 1}, 0), Catch::Contains("bytes: 4097"));
    CHECK_THROWS_WITH(group.join({0, 0, 32, 4096 - 95, 1, 1}, 0), Catch::Contains("bytes: 4001"));
    CHECK_NOTHROW(group.join({0, 0, 32, 4096 - 96, 1, 1}, 0));
    group.advance(10);
    CHECK_THROWS_WITH(group.advance(9), Catch::Contains("from 10 to 9"));
    CHECK_THROWS_AS(group.join({0, 0, 128, 128, 1, 1}, 9), InvariantError);
}
