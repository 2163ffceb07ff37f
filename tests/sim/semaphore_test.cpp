// SPDX-License-Identifier: Apache-2.0
// Do semaphores count, join, arrive after their latencies, and fail loudly?
#include <catch2/catch.hpp>

#include "isa/errors.hpp"
#include "sim/run.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Contains;

namespace {

constexpr Cycle kIssue = 8;
constexpr Cycle kFence = 1;  // to prepare, on a DMA channel

isa::Statement fence(isa::QueueId queue, std::vector<isa::SemUse> waits, std::vector<isa::SemUse> signals,
                     std::string label = "fence") {
    return instruction(queue, isa::FenceMacro{}, std::move(label), std::move(waits), std::move(signals));
}
isa::Statement signal(isa::SemUse use) {
    return {isa::SignalStatement{std::move(use)}};
}
isa::Statement wait(isa::SemUse use) {
    return {isa::WaitStatement{std::move(use)}};
}

template <class Error>
std::string failure(const isa::ChipSpec& chip, const isa::Program& p) {
    try {
        (void)sim::run(chip, p);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a signal is visible after the latency of the level that both ends share") {
    const isa::ChipSpec chip = maia200();
    const auto cycles = [&](std::int64_t from, std::int64_t to) {
        return sim::run(chip, program({control(isa::Level::tile, from, 1, {signal(tile_sem(to, 5))}, "sender"),
                                       control(isa::Level::tile, to, 1, {wait(tile_sem(to, 5))}, "receiver")}))
            .cycles;
    };
    CHECK(cycles(0, 8) == kIssue + 24);  // one cluster
    CHECK(cycles(0, 9) == kIssue + 80);  // another
    CHECK(cycles(35, 0) == kIssue + 80);
    const isa::SemUse chip_sem{{isa::Level::chip, 0, 0, 7}, 1};
    CHECK(sim::run(chip, program({control(isa::Level::tile, 0, 1, {signal(chip_sem)}, "sender"),
                                  control(isa::Level::chip, 0, 1, {wait(chip_sem)}, "receiver")}))
              .cycles == kIssue + 80);
    const isa::SemUse cluster_sem{{isa::Level::cluster, 1, 0, 7}, 1};
    CHECK(sim::run(chip, program({control(isa::Level::tile, 9, 1, {signal(cluster_sem)}, "sender"),
                                  control(isa::Level::cluster, 1, 1, {wait(cluster_sem)}, "receiver")}))
              .cycles == kIssue + 24);
}

TEST_CASE("within a tile: the waiting channel goes on a local latency after the signalling one is done") {
    const isa::Program p = program(
        {control(isa::Level::tile, 0, 1, {fence(tdma(1), {own_sem(0)}, {}), fence(tdma(0), {}, {own_sem(0)})})});
    CHECK(sim::run(toy(), p).cycles == 2 * kIssue + kFence + 4 + kFence);
}

TEST_CASE("a wait for n takes n, from several producers") {
    const isa::Program p = program({
        control(isa::Level::tile, 0, 1, {fence(tdma(0), {own_sem(0, 3)}, {})}, "consumer"),
        control(isa::Level::tile, 1, 1, {signal(tile_sem(0, 0)), signal(tile_sem(0, 0, 2))}, "producer"),
    });
    CHECK(sim::run(toy(), p).cycles == 2 * kIssue + 24 + kFence);
}

TEST_CASE("initial values count, and a mask signals every unit") {
    isa::Program p = program({
        control(isa::Level::cluster, 0, 1, {signal(tile_sem(0, 1, 1, 0b11))}, "producer"),
        control(isa::Level::tile, 0, 2, {wait(own_sem(1, 4))}, "consumers"),
    });
    p.semaphores.push_back({{0, isa::Level::tile, 0, 1}, 2, 3});
    // One message a cycle leaves the producer: the second unit hears of it a cycle later.
    CHECK(sim::run(toy(), p).cycles == kIssue + 24 + 1);
}

TEST_CASE("waits are taken together or not at all") {
    // The first instruction waits for #0 and #1; while #1 is missing it must not hold #0, which the second needs.
    const isa::Program p = program({
        control(isa::Level::tile, 0, 1,
                {fence(tdma(0), {own_sem(0), own_sem(1)}, {}, "both"), fence(tdma(1), {own_sem(0)}, {}, "one")}),
        control(isa::Level::tile, 1, 1,
                {{isa::Loop{10, std::make_shared<isa::Block>(isa::Block{signal(tile_sem(1, 9))})}},
                 signal(tile_sem(0, 0)),
                 signal(tile_sem(0, 1))},
                "producer"),
    });
    const std::string message = failure<DeadlockError>(toy(), p);
    CHECK_THAT(message, Contains("\"both\" waits until tile 0 semaphore #0 >= 1 (is 0)"));
    CHECK_THAT(message, !Contains("\"one\""));
}

TEST_CASE("an overflow is the program's error and names the signaller") {
    isa::Program p = program({control(isa::Level::tile, 0, 1, {fence(tdma(0), {}, {own_sem(3)}, "one too many")})});
    p.semaphores.push_back({{0, isa::Level::tile, 0, 3}, 1, 65535});
    CHECK_THAT(failure<InputError>(toy(), p), Contains("one too many") && Contains("tile 0 semaphore #3 overflows"));
    p.semaphores[0].value = 65534;
    CHECK(failure<InputError>(toy(), p) == "");
}

TEST_CASE("a semaphore that is not there is an error") {
    CHECK_THAT(failure<InputError>(
                   toy(), program({control(isa::Level::tile, 0, 1, {fence(tdma(0), {own_sem(64)}, {}, "w")})})),
               Contains("w: no tile semaphore 0 #64"));
    CHECK_THAT(failure<InputError>(toy(), program({control(isa::Level::tile, 0, 1, {signal(tile_sem(2, 0))}, "p")})),
               Contains("control program p"));
}

TEST_CASE("a deadlock report says who waits for whom") {
    const isa::Program p = program({
        control(isa::Level::tile, 0, 1, {fence(tdma(0), {own_sem(0)}, {tile_sem(1, 0)}, "left")}, "a"),
        control(isa::Level::tile, 1, 1, {fence(tdma(2), {own_sem(0)}, {tile_sem(0, 0)}, "right"), wait(own_sem(7))},
                "b"),
    });
    const std::string message = failure<DeadlockError>(toy(), p);
    CHECK_THAT(message,
               Contains("chip.cluster0.tile0.tdma.ch0: \"left\" waits until tile 0 semaphore #0 >= 1 (is 0); it "
                        "would be signalled by \"right\", number 1 in the queue chip.cluster0.tile1.tdma.ch2"));
    CHECK_THAT(message,
               Contains("chip.cluster0.tile1.control: waits until tile 1 semaphore #7 >= 1 (is 0); nothing in the "
                        "program signals it"));
    CHECK_THAT(message, Contains("3 wait"));
}

TEST_CASE("a long deadlock report is cut") {
    const isa::Program p = program({control(isa::Level::tile, 0, 36, {fence(tdma(0), {own_sem(0)}, {})})});
    CHECK_THAT(failure<DeadlockError>(maia200(), p), Contains("36 wait") && Contains("and 16 more"));
}
