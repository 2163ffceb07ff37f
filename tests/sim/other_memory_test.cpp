// SPDX-License-Identifier: Apache-2.0
// Does a whole chip run in front of a memory of another model? Written to be read as an example.
#include <catch2/catch.hpp>

#include "isa/errors.hpp"
#include "sim/mem/hbm_initiator.hpp"
#include "sim/mem/hbm_socket.hpp"
#include "sim/run.hpp"
#include "tests/sim/fixed_memory.hpp"
#include "tests/sim/one_stack.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::int64_t kBytes = 64 * 1024;

isa::DmaMacro load() {
    return copy(hbm_at(of(isa::Var::self, kBytes)), own_tsram(0), kBytes);
}

/// Two tiles load, store elsewhere what they loaded, and load again when that has been stored.
isa::Program loads_and_stores() {
    const isa::DmaMacro store = copy(own_tsram(0), hbm_at(of(isa::Var::self, kBytes, 1 << 24)), kBytes);
    return program({control(isa::Level::tile, 0, 2,
                            {loop(3, {instruction(tdma(), load(), "load", {}, {own_sem(0)}),
                                      instruction(tdma(), store, "store", {own_sem(0)}, {own_sem(1)}),
                                      instruction(tdma(), isa::FenceMacro{}, "stored", {own_sem(1)})})})});
}

}  // namespace

TEST_CASE("a chip runs in front of another TLM-2.0 memory") {
    const isa::ChipSpec chip = one_stack("per_bank");
    const isa::Program p = loads_and_stores();
    const sim::RunResult own = sim::run(chip, p);
    const auto run_before = [&](double latency) {
        sim::RunOptions options;
        options.bind_hbm = [&](sim::HbmInitiator& initiator) {
            auto memory = std::make_shared<FixedMemory>("memory", nanoseconds(latency));
            initiator.socket.bind(memory->socket);
            return memory;
        };
        return sim::run(chip, p, options);
    };
    const sim::RunResult near = run_before(50);
    CHECK(near.hbm_read == own.hbm_read);
    CHECK(near.hbm_written == own.hbm_written);
    CHECK(near.hbm_read == 3 * 2 * kBytes);
    // Nothing but the latency of the memory differs, and every load and every store waits for it once.
    const sim::RunResult far = run_before(1050);
    CHECK(far.cycles == near.cycles + 3 * 2 * 2000);
}

// Loads alone: a write of the socket counts as in the DRAM when it is posted.
TEST_CASE("a chip in front of HbmSocket runs as in front of its own HBM") {
    const isa::ChipSpec chip = one_stack("per_bank");
    const isa::Program p = program({control(isa::Level::tile, 0, 2, {loop(5, {instruction(tdma(), load(), "load")})})});
    sim::RunOptions options;
    options.bind_hbm = [&](sim::HbmInitiator& initiator) {
        auto target = std::make_shared<sim::HbmSocket>("target", chip);
        initiator.socket.bind(target->socket);
        return target;
    };
    const sim::RunResult through = sim::run(chip, p, options);
    const sim::RunResult own = sim::run(chip, p);
    CHECK(through.cycles == own.cycles);
    CHECK(through.hbm_read == own.hbm_read);
}

TEST_CASE("the commands of a memory from elsewhere are not known") {
    sim::RunOptions options;
    options.bind_hbm = [](sim::HbmInitiator&) { return nullptr; };
    options.hbm_commands = {0, 100};
    CHECK_THROWS_AS(sim::run(one_stack(), loads_and_stores(), options), InputError);
}
