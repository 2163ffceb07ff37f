// SPDX-License-Identifier: Apache-2.0
#pragma once
// The SRAMs: their banks (core/sram_banks.hpp), and what stands in front of them. Networks reach a TSRAM through its
// tile's ports; its engines have ports of their own, whose capacities the engines' closed forms respect. A CSRAM has
// one port whose capacity reads and writes share.
#include <fmt/format.h>

#include <systemc>

#include "isa/chip_spec.hpp"
#include "sim/core/link.hpp"
#include "sim/core/sram_banks.hpp"
#include "sim/core/stats.hpp"
#include "sim/core/transfer.hpp"

namespace sluice::sim {

/// Conflicts that happened, by pair.
inline void report_banks(StatSheet& sheet, const std::string& path, const BankCounts& counts) {
    for (std::size_t client = 0; client < kBankClients; ++client) {
        for (std::size_t holder = 0; holder < kBankClients; ++holder) {
            if (counts.stalled[client][holder] > 0) {
                const auto who = static_cast<BankClient>(client);
                const auto whom = static_cast<BankClient>(holder);
                sheet.add(fmt::format("{}.banks.{}_by_{}", path, name(who), name(whom)), "cycles",
                          "cycles in which the first stood because the second had its bank",
                          counts.stalled[client][holder]);
            }
        }
    }
}

class Tsram : public sc_core::sc_module {
public:
    Tsram(const sc_core::sc_module_name& name, const isa::TsramSpec& spec)
        : sc_module(name),
          banks_({static_cast<std::uint32_t>(spec.banks), static_cast<std::uint32_t>(spec.bank_bytes_per_cycle),
                  static_cast<Cycle>(spec.age_bound_cycles)}) {}

    [[nodiscard]] TsramTraffic& traffic() { return traffic_; }
    [[nodiscard]] SramBanks& banks() { return banks_; }
    void report(StatSheet& sheet) const {
        const std::string path = name();
        sheet.add(path + ".operand_read_bytes", "B", "bytes read through the wide TTU ports", traffic_.operand_read);
        sheet.add(path + ".read_bytes", "B", "bytes read by other ports", traffic_.read);
        sheet.add(path + ".written_bytes", "B", "bytes written", traffic_.written);
        report_banks(sheet, path, banks_.counts());
    }

private:
    TsramTraffic traffic_;
    SramBanks banks_;
};

class Csram : public sc_core::sc_module {
public:
    Csram(const sc_core::sc_module_name& name, const isa::CsramSpec& spec)
        : sc_module(name),
          port_(std::string(this->name()) + ".port", spec.bytes_per_cycle),
          banks_({static_cast<std::uint32_t>(spec.banks), static_cast<std::uint32_t>(spec.bank_bytes_per_cycle), 1}) {}

    [[nodiscard]] Link& port() { return port_; }
    [[nodiscard]] SramBanks& banks() { return banks_; }
    void report(StatSheet& sheet) const {
        sheet.link(port_);
        report_banks(sheet, name(), banks_.counts());
    }

private:
    Link port_;
    SramBanks banks_;
};

}  // namespace sluice::sim
