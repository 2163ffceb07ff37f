// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collects declared stats: each has a path, a unit and a description.
#include <string>
#include <vector>

#include "sim/core/fifo_server.hpp"
#include "sim/core/link.hpp"
#include "sim/core/report.hpp"

namespace sluice::sim {

class StatSheet {
public:
    explicit StatSheet(Cycle cycles) : cycles_(cycles) {}

    void add(std::string path, std::string unit, std::string description, double value) {
        values_.push_back({std::move(path), std::move(unit), std::move(description), value});
    }
    void add(std::string path, std::string unit, std::string description, std::uint64_t value) {
        add(std::move(path), std::move(unit), std::move(description), static_cast<double>(value));
    }
    void server(const FifoServer& server) {
        add(server.path() + ".bytes", "B", "bytes that crossed", server.bytes());
        const double capacity = static_cast<double>(server.width()) * static_cast<double>(cycles_);
        add(server.path() + ".utilization", "fraction", "bytes that crossed / capacity of the run",
            capacity > 0 ? static_cast<double>(server.bytes()) / capacity : 0.0);
    }
    void link(const Link& link) {
        server(link);
        add(link.path() + ".waited", "packets",
            "packets kept back for want of room behind it, or by others that waited", link.kept_back);
        add(link.path() + ".waited_cycles", "cycles", "cycles from being ready to the start, over all packets",
            link.waited_cycles() + static_cast<double>(link.kept));
    }
    [[nodiscard]] Cycle cycles() const { return cycles_; }
    [[nodiscard]] std::vector<StatValue> take() { return std::move(values_); }

private:
    Cycle cycles_;
    std::vector<StatValue> values_;
};

}  // namespace sluice::sim
