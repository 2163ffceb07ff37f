// SPDX-License-Identifier: Apache-2.0
#pragma once
// The SRAMs. A TSRAM's engines have ports of their own, whose capacities the engines' closed forms respect; networks
// reach it through the tile's crossbar ports. A CSRAM has one port whose capacity reads and writes share. Bank
// conflicts are not modelled: capacities are those of the ports.
#include <systemc>

#include "isa/chip_spec.hpp"
#include "sim/core/fifo_server.hpp"
#include "sim/core/stats.hpp"
#include "sim/core/transfer.hpp"

namespace sluice::sim {

class Tsram : public sc_core::sc_module {
public:
    explicit Tsram(const sc_core::sc_module_name& name) : sc_module(name) {}

    [[nodiscard]] TsramTraffic& traffic() { return traffic_; }
    void report(StatSheet& sheet) const {
        const std::string path = name();
        sheet.add(path + ".operand_read_bytes", "B", "bytes read through the wide TTU ports", traffic_.operand_read);
        sheet.add(path + ".read_bytes", "B", "bytes read by other ports", traffic_.read);
        sheet.add(path + ".written_bytes", "B", "bytes written", traffic_.written);
    }

private:
    TsramTraffic traffic_;
};

class Csram : public sc_core::sc_module {
public:
    Csram(const sc_core::sc_module_name& name, const isa::CsramSpec& spec)
        : sc_module(name), port_(std::string(this->name()) + ".port", spec.bytes_per_cycle) {}

    [[nodiscard]] FifoServer& port() { return port_; }
    void report(StatSheet& sheet) const { sheet.server(port_); }

private:
    FifoServer port_;
};

}  // namespace sluice::sim
