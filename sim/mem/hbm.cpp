// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/hbm.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::sim {

HbmStack::HbmStack(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number, bool reverse)
    : sc_module(name) {
    const std::size_t count = context.map.geometry().pseudo_channels_per_stack;
    pseudo_channels_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t pc = reverse ? count - 1 - i : i;
        pseudo_channels_[pc] =
            std::make_unique<PseudoChannel>(fmt::format("pc{}", pc).c_str(), context, number * count + pc);
    }
}

Hbm::Hbm(const isa::ChipSpec& chip, Scheduler& scheduler, PacketPool& packets, DataPort& network, bool reverse)
    : context_(chip, scheduler, packets, network), packets_(packets) {
    const auto count = static_cast<std::size_t>(chip.hbm.stacks);
    stacks_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t stack = reverse ? count - 1 - i : i;
        stacks_[stack] = std::make_unique<HbmStack>(fmt::format("hbm{}", stack).c_str(), context_, stack, reverse);
    }
    for (const auto& stack : stacks_) {
        for (std::size_t i = 0; i < geometry().pseudo_channels_per_stack; ++i) {
            pseudo_channels_.push_back(&stack->pseudo_channel(i));
        }
    }
}

HbmPlace Hbm::decode(std::uint64_t address, std::uint32_t bytes) const {
    return context_.map.decode(address, bytes);
}

void Hbm::read(PacketId packet) {
    pseudo_channels_[packets_[packet].src_place.pseudo_channel]->push(packet, false);
}

void Hbm::write(PacketId packet) {
    pseudo_channels_[packets_[packet].dst_place.pseudo_channel]->push(packet, true);
}

void Hbm::finish(Cycle end) {
    for (MemoryController* channel : pseudo_channels_) {
        channel->finish(end);
    }
}

MemoryCounts Hbm::counts() const {
    MemoryCounts sum;
    for (const MemoryController* channel : pseudo_channels_) {
        const MemoryCounts counts = channel->counts();
        sum.packets += counts.packets;
        sum.row_hits += counts.row_hits;
        sum.activates += counts.activates;
        sum.refreshes += counts.refreshes;
        sum.read_beats += counts.read_beats;
        sum.written_beats += counts.written_beats;
    }
    return sum;
}

std::uint64_t Hbm::refreshes() const {
    const bool sets = context_.spec.refresh == "per_bank";
    return counts().refreshes * (sets ? geometry().groups : 1);
}

Bytes Hbm::read_bytes() const {
    return counts().read_beats * geometry().beat_bytes;
}

Bytes Hbm::written_bytes() const {
    return counts().written_beats * geometry().beat_bytes;
}

void Hbm::report(StatSheet& sheet) const {
    const MemoryCounts sum = counts();
    sheet.add("chip.hbm.read_bytes", "B", "bytes read, in whole beats", read_bytes());
    sheet.add("chip.hbm.written_bytes", "B", "bytes written, in whole beats", written_bytes());
    sheet.add("chip.hbm.activates", "activates", "rows activated", sum.activates);
    sheet.add("chip.hbm.row_hits", "packets", "packets that found their rows open", sum.row_hits);
    sheet.add("chip.hbm.packets", "packets", "packets served", sum.packets);
    sheet.add("chip.hbm.refreshes", "refreshes", "banks (per_bank) or pseudo-channels (all_bank) refreshed",
              refreshes());
    for (const MemoryController* channel : pseudo_channels_) {
        channel->report(sheet);
    }
}

}  // namespace sluice::sim
