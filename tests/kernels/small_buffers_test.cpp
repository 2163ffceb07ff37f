// SPDX-License-Identifier: Apache-2.0
// Do compiled programs come to an end, with all their work done, when networks and memories leave them as little room
// as a chip can have? Back-pressure must slow a program down, never stop it.
#include <catch2/catch.hpp>

#include "tests/kernels/compiled.hpp"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("programs end with one packet of room in front of everything, whoever goes first") {
    isa::ChipSpec large = chip("maia200");
    for (const std::int64_t first : {0, 1}) {
        for (const std::int64_t banks : {32, 1}) {
            for (isa::ChipSpec narrow : {chip("toy"), large}) {
                narrow.noc.buffer_packets = narrow.noc.landing_packets = 1;
                narrow.noc.sram_first = first;
                narrow.tsram.banks = banks;
                narrow.csram.banks = 2 * banks;
                // Latencies are part of the room: as short as they may be.
                narrow.noc.crossbar_latency_cycles = narrow.noc.router_latency_cycles = 1;
                narrow.gnoc.interface_latency_cycles = 1;
                for (const models::Workload& work : {decode(5, 100), prefill(2, 100)}) {
                    // It checks what was moved and computed, and that every credit came back.
                    const Ran ran = compile_and_run(models::build_graph(small_model(2), work), narrow);
                    CHECK(ran.result.cycles > 0);
                }
            }
        }
    }
}
