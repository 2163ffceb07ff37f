// SPDX-License-Identifier: Apache-2.0
#pragma once
// A network controller or the PCIe port: it stands on its GNoC port and does nothing yet.
#include <systemc>

#include "sim/core/account.hpp"

namespace sluice::sim {

class IdlePort final : public sc_core::sc_module {
public:
    explicit IdlePort(const sc_core::sc_module_name& name) : sc_module(name) {}
    [[nodiscard]] EngineAccount finish(Cycle end) { return LaneAccount{}.finish(name(), end); }
};

}  // namespace sluice::sim
