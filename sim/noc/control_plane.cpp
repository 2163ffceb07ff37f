// SPDX-License-Identifier: Apache-2.0
#include "sim/noc/control_plane.hpp"

#include <fmt/format.h>

namespace sluice::sim {

ControlPlane::ControlPlane(const sc_core::sc_module_name& name, const isa::ChipSpec& chip, Scheduler& scheduler)
    : sc_module(name),
      scheduler_(scheduler),
      message_bytes_(static_cast<std::uint64_t>(chip.noc.control_message_bytes)) {
    const std::string path = this->name();
    const auto add = [&](const std::string& endpoint) {
        out_.emplace_back(fmt::format("{}.{}.out", path, endpoint), chip.noc.control_port_bytes_per_cycle);
        in_.emplace_back(fmt::format("{}.{}.in", path, endpoint), chip.noc.control_port_bytes_per_cycle);
    };
    for (std::int64_t i = 0; i < isa::tile_count(chip); ++i) {
        add(fmt::format("tile{}", i));
    }
    for (std::int64_t i = 0; i < chip.soc.clusters; ++i) {
        add(fmt::format("cluster{}", i));
    }
    for (std::int64_t i = 0; i < chip.hbm.stacks; ++i) {
        add(fmt::format("hbm{}", i));
    }
    add("chip");
}

std::uint32_t ControlPlane::take() {
    if (free_ == kNone) {
        free_ = static_cast<std::uint32_t>(messages_.size());
        messages_.push_back({nullptr, 0, 0, kNone});
    }
    const std::uint32_t slot = free_;
    free_ = messages_[slot].next_free;
    ++under_way_;
    return slot;
}

void ControlPlane::send(Endpoint from, Endpoint to, Cycle latency, MessageReceiver& receiver, std::uint64_t payload) {
    const std::uint32_t slot = take();
    messages_[slot] = {&receiver, payload, to, kNone};
    const Cycle now = scheduler_.now();
    if (from == to) {
        scheduler_.at(now + latency, Phase::arrive, *this, kDeliver, slot);
        return;
    }
    const Cycle start = out_[from].reserve(now, message_bytes_).head;
    waited_out_ += start - now;
    scheduler_.at(start + latency, Phase::arrive, *this, kArrive, slot);
}

void ControlPlane::deliver(std::uint32_t slot) {
    const Message message = messages_[slot];
    messages_[slot].next_free = free_;
    free_ = slot;
    --under_way_;
    message.receiver->on_message(message.payload);
}

void ControlPlane::on_event(std::uint32_t kind, std::uint64_t payload) {
    const auto slot = static_cast<std::uint32_t>(payload);
    if (kind == kArrive) {
        const Cycle now = scheduler_.now();
        const Cycle start = in_[messages_[slot].to].reserve(now, message_bytes_).head;
        if (start > now) {
            waited_in_ += start - now;
            scheduler_.at(start, Phase::arrive, *this, kDeliver, slot);
            return;
        }
    }
    deliver(slot);
}

void ControlPlane::report(StatSheet& sheet) const {
    const std::string path = name();
    sheet.add(path + ".waited_out", "cycles", "cycles that messages waited for their sender's port", waited_out_);
    sheet.add(path + ".waited_in", "cycles", "cycles that messages waited for their receiver's port", waited_in_);
    for (const auto* ports : {&out_, &in_}) {
        for (const FifoServer& port : *ports) {
            if (port.bytes() > 0) {
                sheet.server(port);
            }
        }
    }
}

}  // namespace sluice::sim
