// SPDX-License-Identifier: Apache-2.0
// Do control processors execute what is written, at their stated cost, and stall where they must?
#include <catch2/catch.hpp>

#include "isa/control_walker.hpp"
#include "isa/errors.hpp"
#include "sim/run.hpp"
#include "tests/sim/test_chip.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Contains;

namespace {

isa::Statement fence(isa::QueueId queue, std::vector<isa::SemUse> waits = {}, isa::Affine node = 0) {
    return instruction(queue, isa::FenceMacro{}, "fence", std::move(waits), {}, std::move(node));
}

const sim::EngineAccount& account(const sim::RunResult& result, const std::string& path) {
    for (const sim::EngineAccount& entry : result.engines) {
        if (entry.path == path) {
            return entry;
        }
    }
    FAIL("no account " << path);
    throw 0;
}

Cycle waiting(const sim::EngineAccount& entry, sim::WaitKind kind) {
    return entry.waiting[static_cast<std::size_t>(kind)];
}

}  // namespace

TEST_CASE("a walk unrolls loops, conditionals and registers") {
    // for i0 in 0..2: for i1 in 0..i0: if i1 - 1 >= 0 then A else B; r0 += 10
    isa::Affine r0(0, {{isa::Var::r0, 1}, {isa::Var::i0, 100}, {isa::Var::i1, 1}});
    const isa::Statement a = fence(tdma(1), {}, r0);
    const isa::Statement b = fence(tdma(0), {}, r0);
    isa::If branch;
    branch.value = of(isa::Var::i1, 1, -1);
    branch.then_body = std::make_shared<isa::Block>(isa::Block{a});
    branch.else_body = std::make_shared<isa::Block>(isa::Block{b});
    const isa::SetRegister add{0, true, 10, 0, 60};
    const isa::ControlProgram p =
        control(isa::Level::tile, 0, 1, {loop(3, {loop(of(isa::Var::i0, 1, 1), {{branch}, {add}})})});
    isa::ControlWalker walker(p, {});
    std::int64_t reg = 0;
    for (std::int64_t i0 = 0; i0 < 3; ++i0) {
        for (std::int64_t i1 = 0; i1 <= i0; ++i1, reg += 10) {
            const isa::Statement* statement = walker.next();
            REQUIRE(statement != nullptr);
            const auto& got = std::get<isa::Instruction>(statement->body);
            CHECK(got.queue.lane == (i1 >= 1 ? 1 : 0));
            CHECK(got.node.evaluate(walker.environment()) == reg + 100 * i0 + i1);
        }
    }
    CHECK(walker.next() == nullptr);
    CHECK(walker.next() == nullptr);
}

TEST_CASE("a register that leaves its declared range stops the run") {
    const auto counted = [](std::int64_t turns) {
        const isa::ControlProgram p =
            control(isa::Level::tile, 0, 1, {loop(turns, {{isa::SetRegister{0, true, 2, 0, 6}}})}, "counter");
        return isa::ControlWalker(p, {}).next();
    };
    CHECK(counted(3) == nullptr);
    CHECK_THROWS_WITH(counted(4), Contains("control program counter") && Contains("r0 becomes 8") && Contains("0..6"));
}

TEST_CASE("a program that loops without issuing anything is stopped") {
    const auto first = [](isa::Block body) {
        const isa::ControlProgram p =
            control(isa::Level::tile, 0, 1, {loop(1'000'000'000'000, std::move(body)), fence(tdma())}, "spinner");
        return isa::ControlWalker(p, {}).next();
    };
    const isa::SetRegister count{0, true, 1, 0, std::int64_t{1} << 40};
    CHECK_THROWS_WITH(first({{count}}), Contains("control program spinner") && Contains("loops without issuing"));
    CHECK_THROWS_WITH(first({loop(2, {loop(0, {fence(tdma())})})}), Contains("loops without issuing"));
    CHECK(first({{count}, fence(tdma())}) != nullptr);
    const isa::ControlProgram once = control(isa::Level::tile, 0, 1, {loop(400'000, {{count}}), fence(tdma())});
    CHECK(isa::ControlWalker(once, {}).next() != nullptr);
}

TEST_CASE("loops of no turns are skipped and nesting is bounded") {
    const isa::ControlProgram empty =
        control(isa::Level::tile, 0, 1, {loop(0, {fence(tdma())}), loop(-5, {fence(tdma())}), loop(4, {})});
    CHECK(isa::ControlWalker(empty, {}).next() == nullptr);
    isa::Statement deep = fence(tdma());
    for (int i = 0; i < isa::kMaxLoopDepth; ++i) {
        deep = loop(1, {deep});
    }
    const isa::ControlProgram fits = control(isa::Level::tile, 0, 1, {deep});
    CHECK(isa::ControlWalker(fits, {}).next() != nullptr);
    const isa::ControlProgram deeper = control(isa::Level::tile, 0, 1, {loop(1, {deep})});
    CHECK_THROWS_AS(isa::ControlWalker(deeper, {}).next(), InputError);
}

TEST_CASE("instructions cost issue cycles, look-ups their own, loops nothing") {
    isa::Program p = program({control(
        isa::Level::tile, 0, 1,
        {loop(5,
              {fence(tdma()), {isa::SetRegister{1, false, 3, 3, 3}}, {isa::LoadIndex{0, "t", of(isa::Var::i0)}}})})});
    p.tables.push_back({"t", 5, 0, 9, "sequence", 0, {}});
    const sim::RunResult result = sim::run(toy(), p);
    CHECK(result.cycles == 5 * (8 + 8));
    CHECK(account(result, "chip.cluster0.tile0.control").busy == 5 * (8 + 8));
}

TEST_CASE("a delay takes its cycles and no more, and queues go on meanwhile") {
    constexpr Cycle kIssue = 8;
    const isa::Statement delay{isa::DelayStatement{of(isa::Var::i0, 10, 100)}};
    const isa::Statement none{isa::DelayStatement{0}};
    const isa::Block around{fence(tdma()), none, fence(tdma(1))};
    const auto with = [&](const isa::Block& body) {
        return sim::run(toy(), program({control(isa::Level::tile, 0, 1, body)}));
    };
    const sim::RunResult plain = with(around);
    CHECK(plain.cycles == 2 * kIssue + 1);
    const sim::RunResult result = with({around[0], loop(3, {delay, none}), around[2]});
    constexpr Cycle kDelays = 100 + 110 + 120;
    CHECK(result.cycles == plain.cycles + kDelays);
    const sim::EngineAccount& processor = account(result, "chip.cluster0.tile0.control");
    CHECK(processor.busy == 2 * kIssue);
    CHECK(waiting(processor, sim::WaitKind::launch) == kDelays);
    CHECK(waiting(account(plain, "chip.cluster0.tile0.control"), sim::WaitKind::launch) == 0);
    // The first fence runs as soon as it is issued.
    CHECK(account(result, "chip.cluster0.tile0.tdma.ch0").busy == 1);
    Cycle on_path = 0;
    for (const sim::CriticalSegment& segment : result.critical_path) {
        on_path += segment.resource == "launch" ? segment.cycles : 0;
    }
    CHECK(on_path == kDelays);
    // One that ends a program counts too, and so does the chip's.
    CHECK(with({delay}).cycles == 100);
    CHECK(sim::run(toy(), program({control(isa::Level::chip, 0, 1, {delay, delay})})).cycles == 200);
}

TEST_CASE("a delay that is negative or too long stops the run, and one of no cycles does not count as work") {
    const auto first = [](const isa::Affine& cycles) {
        const isa::ControlProgram p = control(isa::Level::tile, 0, 1, {{isa::DelayStatement{cycles}}}, "late");
        return isa::ControlWalker(p, {}).next() != nullptr;
    };
    CHECK(first(isa::kMaxDelayCycles));
    CHECK(first(1));
    CHECK_FALSE(first(0));
    for (const std::int64_t cycles : {std::int64_t{-1}, isa::kMaxDelayCycles + 1}) {
        CHECK_THROWS_WITH(first(cycles), Contains("control program late") && Contains("a delay of") &&
                                             Contains(std::to_string(cycles) + " cycles, allowed is 0..4294967296"));
    }
    const isa::ControlProgram spinner =
        control(isa::Level::tile, 0, 1, {loop(1'000'000'000'000, {{isa::DelayStatement{0}}})});
    CHECK_THROWS_WITH(isa::ControlWalker(spinner, {}).next(), Contains("loops without issuing"));
}

TEST_CASE("a looked-up index decides what happens") {
    isa::Program p = program(
        {control(isa::Level::tile, 0, 1, {{isa::LoadIndex{2, "t", 3}}, loop(of(isa::Var::r2), {fence(tdma())})})});
    p.tables.push_back({"t", 5, 0, 9, "sequence", 0, {}});
    const sim::RunResult result = sim::run(toy(), p);
    CHECK(result.nodes.at(0).instructions == 3);
    p.controls[0].body[0] = {isa::LoadIndex{2, "t", 5}};
    CHECK_THROWS_WITH(sim::run(toy(), p), Contains("element 5"));
}

TEST_CASE("a full queue stalls the processor until its head starts") {
    isa::ChipSpec chip = toy();
    chip.control.queue_depth = 2;
    constexpr Cycle kIssue = 8;
    constexpr std::int64_t kBefore = 20;
    const isa::Statement idle{isa::SignalStatement{{{isa::Level::chip, 0, 0, 0}, 1}}};
    const isa::Statement go{isa::SignalStatement{tile_sem(0, 0)}};
    const isa::Program p = program({
        control(isa::Level::tile, 0, 1, {fence(tdma(), {own_sem(0)}), fence(tdma()), fence(tdma()), fence(tdma(1))}),
        control(isa::Level::cluster, 0, 1, {loop(kBefore, {idle}), go}, "starter"),
    });
    const sim::RunResult result = sim::run(chip, p);
    const Cycle released = (kBefore + 1) * kIssue + 24;
    const sim::EngineAccount& processor = account(result, "chip.cluster0.tile0.control");
    CHECK(waiting(processor, sim::WaitKind::queue_full) == released - 3 * kIssue);
    CHECK(processor.busy == 4 * kIssue);
    CHECK(result.cycles == released + kIssue + 1);
    // The channel waited for the semaphore from the first issue on.
    CHECK(waiting(account(result, "chip.cluster0.tile0.tdma.ch0"), sim::WaitKind::semaphore) == released - kIssue);
}

TEST_CASE("an instruction waits for as many semaphores as a chip may allow") {
    isa::ChipSpec chip = toy();
    chip.control.max_waits = 8;
    std::vector<isa::SemUse> waits;
    isa::Block signals;
    for (std::int64_t i = 0; i < 8; ++i) {
        waits.push_back(own_sem(i));
        signals.push_back({isa::SignalStatement{tile_sem(0, i)}});
    }
    const auto with = [&](const std::vector<isa::SemUse>& uses) {
        return program({control(isa::Level::tile, 0, 1, {fence(tdma(), uses)}),
                        control(isa::Level::cluster, 0, 1, signals, "starter")});
    };
    CHECK(sim::run(chip, with(waits)).nodes.at(0).instructions == 1);
    waits.push_back(own_sem(0));
    CHECK_THROWS_WITH(sim::run(chip, with(waits)), Contains("9 waits and 0 signals; the chip takes 8 and 2"));
}

TEST_CASE("a processor reaches its own engines only, and runs one program") {
    const auto message = [](const isa::Program& p) -> std::string {
        try {
            (void)sim::run(toy(), p);
        } catch (const InputError& error) {
            return error.what();
        }
        return "";
    };
    CHECK_THAT(message(program({control(isa::Level::tile, 0, 1, {fence(cdma())})})), Contains("cannot issue to cdma"));
    CHECK_THAT(message(program({control(isa::Level::cluster, 0, 1, {fence(tdma())})})),
               Contains("cannot issue to tdma"));
    CHECK_THAT(message(program({control(isa::Level::chip, 0, 1, {fence(cdma())})})), Contains("cannot issue to cdma"));
    CHECK_THAT(message(program({control(isa::Level::tile, 0, 1, {fence(tdma(4))})})), Contains("tdma 4"));
    CHECK_THAT(
        message(program({control(isa::Level::tile, 0, 2, {}, "first"), control(isa::Level::tile, 1, 1, {}, "second")})),
        Contains("second") && Contains("first"));
    CHECK_THAT(message(program({control(isa::Level::tile, 1, 2, {}, "wide")})), Contains("wide") && Contains("has 2"));
}

TEST_CASE("the ids of a processor are among its variables") {
    const isa::Affine node(0, {{isa::Var::self, 1000}, {isa::Var::cluster, 100}, {isa::Var::tile, 1}});
    const sim::RunResult result =
        sim::run(maia200(), program({control(isa::Level::tile, 11, 1, {fence(tdma(), {}, node)})}));
    REQUIRE(result.nodes.size() == 11103);
    CHECK(result.nodes[11 * 1000 + 100 + 2].instructions == 1);
}
