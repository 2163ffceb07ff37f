// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/hbm.hpp"

#include "sim/core/conservation.hpp"
#include "sim/mem/hbm_request.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::sim {

HbmContext::HbmContext(const isa::ChipSpec& chip, Scheduler& sched, PacketPool& pool, DataPort& net,
                       PostedWrites& posted)
    : spec(chip.hbm),
      map(chip.hbm),
      table(chip.hbm, map.interleave()),
      to_ck(static_cast<std::uint64_t>(chip.clock.core_hz), ck_hertz(chip.hbm)),
      to_core(ck_hertz(chip.hbm), static_cast<std::uint64_t>(chip.clock.core_hz)),
      controller_ck(ck_of(spec.controller_picoseconds, spec)),
      latency_ck(ck_of(spec.controller_picoseconds + spec.phy_picoseconds, spec)),
      pseudo_channels(static_cast<std::uint64_t>(spec.stacks * spec.channels_per_stack * spec.pseudo_channels)),
      scheduler(sched),
      packets(pool),
      network(net),
      writes(posted) {}

// ---- a channel ------------------------------------------------------------------------------------------------------

HbmChannel::HbmChannel(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number)
    : sc_module(name),
      context_(context),
      controller_(context.spec, context.table, number * static_cast<std::uint64_t>(context.spec.pseudo_channels),
                  context.pseudo_channels, *this) {}

void HbmChannel::push(PacketId id, bool write) {
    const Packet& packet = context_.packets[id];
    const HbmPlace& place = write ? packet.dst_place : packet.src_place;
    DramRequest request = request_at(place, context_.spec, context_.map.interleave());
    request.arrival = context_.to_ck(context_.scheduler.now());
    request.tag = write ? std::uint64_t{post(*packet.transfer)} << 32 | id : id;
    request.write = write;
    asked_[write ? 1 : 0] += request.bursts;
    controller_.push(request);
    wake_for(request.arrival);
}

std::uint32_t HbmChannel::post(const Transfer& transfer) {
    if (free_posted_ == kNone) {
        free_posted_ = static_cast<std::uint32_t>(posted_.size());
        posted_.push_back({0, kNoRecord, kNone});
    }
    const std::uint32_t number = free_posted_;
    Posted& posted = posted_[number];
    free_posted_ = posted.next_free;
    posted = {transfer.node, transfer.record, kNone};
    return number;
}

// What an action at CK `action` leads to is asked for no earlier than this wake-up's cycle.
void HbmChannel::wake_for(Ck action) {
    const Ck notice = controller_.write_waits() ? context_.controller_ck : controller_.notice() + context_.latency_ck;
    const Cycle latest = context_.to_core(action + notice);
    const Cycle cycle = std::max(latest > 1 ? latest - 1 : 0, context_.scheduler.now());
    if (cycle < wake_) {
        wake_ = cycle;
        context_.scheduler.at(cycle, Phase::arbitrate, *this, 0, cycle);
    }
}

void HbmChannel::on_event(std::uint32_t, std::uint64_t cycle) {
    if (cycle != wake_) {
        return;  // an earlier one took its place
    }
    wake_ = ~Cycle{0};
    // All requests up to the present core cycle are known; those of the next are seen no earlier than its first CK.
    perform(context_.to_ck(context_.scheduler.now() + 1));
    if (const Ck next = controller_.next_action(); next != kNever) {
        wake_for(next);
    }
}

void HbmChannel::accepted(std::uint64_t tag, Ck arrival, Ck at) {
    const auto id = static_cast<PacketId>(tag);
    const Packet& packet = context_.packets[id];
    // Not before the next cycle, should the controller take no time at all.
    const Cycle done = std::max(context_.to_core(at + context_.controller_ck), context_.scheduler.now() + 1);
    packet.transfer->written_beats += packet.dst_place.beats;
    packet.transfer->hbm_cycles += done - context_.to_core(arrival);
    context_.network.write_done(id, done);
}

void HbmChannel::served(const DramServed& served) {
    if (served.write) {
        const auto number = static_cast<std::uint32_t>(served.tag >> 32);
        Posted& posted = posted_[number];
        context_.writes.written(posted.node, posted.record, served.activates, context_.to_core(served.end));
        posted.next_free = free_posted_;
        free_posted_ = number;
        return;
    }
    const auto id = static_cast<PacketId>(served.tag);
    Transfer& transfer = *context_.packets[id].transfer;
    const Cycle done = context_.to_core(served.end + context_.latency_ck);
    transfer.activates += served.activates;
    transfer.hbm_cycles += done - context_.to_core(served.arrival);
    transfer.read_beats += served.bursts;
    context_.network.read_done(id, done);
}

void HbmChannel::finish(Cycle end) {
    perform(context_.to_ck(end));
}

void HbmChannel::perform(Ck end) {
    controller_.run_until(end);
    if (keep_to_ > 0) {
        keep_commands();
    }
}

void HbmChannel::record_commands(Ck from, Ck to) {
    keep_from_ = from;
    keep_to_ = to;
    controller_.record_to(&given_);
}

void HbmChannel::keep_commands() {
    for (const DramTraceEntry& entry : given_) {
        if (entry.at >= keep_from_ && entry.at < keep_to_) {
            kept_.push_back(entry);
        }
    }
    given_.clear();
}

void HbmChannel::check_conserved() const {
    std::array<std::uint64_t, 2> served{};
    for (std::size_t p = 0; p < controller_.pseudo_channels(); ++p) {
        served[0] += controller_.counts(p).read_bursts;
        served[1] += controller_.counts(p).written_bursts;
    }
    require_conserved(std::string(name()) + ".reads", "bursts", asked_[0], served[0]);
    require_conserved(std::string(name()) + ".writes", "bursts", asked_[1], served[1]);
}

void HbmChannel::report(StatSheet& sheet) const {
    const std::string channel = name();
    const auto cycles = static_cast<double>(context_.to_ck(sheet.cycles()));
    sheet.add(channel + ".turns", "turns", "changes of direction, reads to writes or back", controller_.turns());
    for (std::size_t p = 0; p < controller_.pseudo_channels(); ++p) {
        const DramCounts& counts = controller_.counts(p);
        const std::string path = fmt::format("{}.pc{}", channel, p);
        const auto bursts = static_cast<double>(counts.read_bursts + counts.written_bursts);
        sheet.add(path + ".read_beats", "beats", "bursts read", counts.read_bursts);
        sheet.add(path + ".written_beats", "beats", "bursts written", counts.written_bursts);
        sheet.add(path + ".activates", "activates", "rows activated", counts.activates);
        sheet.add(path + ".row_hits", "packets", "packets that found their rows open", counts.hits);
        sheet.add(path + ".refreshes", "refreshes", "banks (per_bank) or pseudo-channels (all_bank) refreshed",
                  counts.refreshes);
        sheet.add(path + ".utilization", "fraction", "data bus cycles used / cycles of the run",
                  cycles > 0 ? bursts * static_cast<double>(context_.spec.timing.nbl) / cycles : 0.0);
    }
}

// ---- stacks ---------------------------------------------------------------------------------------------------------

HbmStack::HbmStack(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number, bool reverse)
    : sc_module(name) {
    const auto count = static_cast<std::size_t>(context.spec.channels_per_stack);
    channels_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t c = reverse ? count - 1 - i : i;
        channels_[c] = std::make_unique<HbmChannel>(fmt::format("ch{}", c).c_str(), context, number * count + c);
    }
}

Hbm::Hbm(const isa::ChipSpec& chip, Scheduler& scheduler, PacketPool& packets, DataPort& network, PostedWrites& writes,
         bool reverse)
    : context_(chip, scheduler, packets, network, writes), packets_(packets) {
    const auto count = static_cast<std::size_t>(chip.hbm.stacks);
    stacks_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t stack = reverse ? count - 1 - i : i;
        stacks_[stack] = std::make_unique<HbmStack>(fmt::format("hbm{}", stack).c_str(), context_, stack, reverse);
    }
    for (const auto& stack : stacks_) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(chip.hbm.channels_per_stack); ++i) {
            channels_.push_back(&stack->channel(i));
        }
    }
}

void Hbm::read(PacketId packet) {
    const auto per_channel = static_cast<std::uint16_t>(context_.spec.pseudo_channels);
    channels_[packets_[packet].src_place.pseudo_channel / per_channel]->push(packet, false);
}

void Hbm::write(PacketId packet) {
    const auto per_channel = static_cast<std::uint16_t>(context_.spec.pseudo_channels);
    channels_[packets_[packet].dst_place.pseudo_channel / per_channel]->push(packet, true);
}

void Hbm::finish(Cycle end) {
    for (HbmChannel* channel : channels_) {
        channel->finish(end);
    }
}

void Hbm::record_commands(Cycle from, Cycle to) {
    for (HbmChannel* channel : channels_) {
        channel->record_commands(context_.to_ck(from), context_.to_ck(to));
    }
}

std::vector<HbmCommand> Hbm::commands() const {
    const DramTable& table = context_.table;
    std::vector<HbmCommand> commands;
    for (std::size_t c = 0; c < channels_.size(); ++c) {
        for (const DramTraceEntry& entry : channels_[c]->commands()) {
            const std::uint32_t set = entry.bank / table.groups;
            commands.push_back({entry.at, entry.command, static_cast<std::uint16_t>(c), entry.pseudo_channel,
                                static_cast<std::uint8_t>(set / table.sets_per_rank),
                                static_cast<std::uint8_t>(entry.bank % table.groups),
                                static_cast<std::uint8_t>(set % table.sets_per_rank), entry.row});
        }
    }
    std::stable_sort(commands.begin(), commands.end(),
                     [](const HbmCommand& a, const HbmCommand& b) { return a.ck < b.ck; });
    return commands;
}

void Hbm::check_conserved() const {
    for (const HbmChannel* channel : channels_) {
        channel->check_conserved();
    }
}

DramCounts Hbm::counts() const {
    DramCounts sum;
    for (const HbmChannel* channel : channels_) {
        for (std::size_t p = 0; p < channel->controller().pseudo_channels(); ++p) {
            const DramCounts& counts = channel->controller().counts(p);
            sum.requests += counts.requests;
            sum.hits += counts.hits;
            sum.activates += counts.activates;
            sum.refreshes += counts.refreshes;
            sum.read_bursts += counts.read_bursts;
            sum.written_bursts += counts.written_bursts;
        }
    }
    return sum;
}

Bytes Hbm::read_bytes() const {
    return counts().read_bursts * static_cast<Bytes>(context_.spec.burst_bytes);
}

Bytes Hbm::written_bytes() const {
    return counts().written_bursts * static_cast<Bytes>(context_.spec.burst_bytes);
}

void Hbm::report(StatSheet& sheet) const {
    const DramCounts sum = counts();
    sheet.add("chip.hbm.read_bytes", "B", "bytes read, in whole beats", read_bytes());
    sheet.add("chip.hbm.written_bytes", "B", "bytes written, in whole beats", written_bytes());
    sheet.add("chip.hbm.activates", "activates", "rows activated", sum.activates);
    sheet.add("chip.hbm.row_hits", "packets", "packets that found their rows open", sum.hits);
    sheet.add("chip.hbm.packets", "packets", "packets served", sum.requests);
    sheet.add("chip.hbm.refreshes", "refreshes", "banks (per_bank) or pseudo-channels (all_bank) refreshed",
              sum.refreshes);
    for (const HbmChannel* channel : channels_) {
        channel->report(sheet);
    }
}

}  // namespace sluice::sim
