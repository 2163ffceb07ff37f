// SPDX-License-Identifier: Apache-2.0
#pragma once
// A chip with one stack of HBM, for the tests of its TLM-2.0 sides.
#include <systemc>

#include "tests/sim/test_chip.hpp"

namespace sluice::test {

constexpr std::uint32_t kGranule = 1024;

/// One stack; its address map is of one stack, too.
inline isa::ChipSpec one_stack(const std::string& refresh = "none") {
    return maia200({"soc.clusters=1", "soc.tiles_per_cluster_physical=2", "soc.tiles_per_cluster=2", "hbm.stacks=1",
                    "network.anc_count=1", "hbm.refresh=" + refresh});
}

inline sc_core::sc_time nanoseconds(double value) {
    return {value, sc_core::SC_NS};
}

}  // namespace sluice::test
