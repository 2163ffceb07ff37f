// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/dma_engine.hpp"

#include "sim/core/conservation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace sluice::sim {

namespace {

Resource slowest_side(const Transfer& transfer) {
    const Cycle memories = transfer.hbm_cycles + transfer.csram_cycles;
    const Cycle noc = transfer.total_cycles > memories ? transfer.total_cycles - memories : 0;
    if (transfer.hbm_cycles >= transfer.csram_cycles && transfer.hbm_cycles >= noc && transfer.hbm_cycles > 0) {
        return Resource::hbm;
    }
    return transfer.csram_cycles >= noc && transfer.csram_cycles > 0 ? Resource::csram : Resource::noc;
}

}  // namespace

DmaEngine::DmaEngine(const sc_core::sc_module_name& name, EngineContext& context, Location location,
                     const isa::DmaSpec& spec)
    : sc_module(name),
      context_(context),
      location_(location),
      max_in_flight_(static_cast<std::uint64_t>(spec.max_inflight_bytes)),
      setup_(static_cast<Cycle>(spec.setup_cycles)),
      channels_(static_cast<std::size_t>(spec.channels)) {
    const std::string path = this->name();
    for (std::size_t i = 0; i < channels_.size(); ++i) {
        lanes_.emplace_back(fmt::format("{}.ch{}", path, i), context, *this, i);
    }
    paths_[0].pipe = FifoServer(path + ".inbound", spec.bytes_per_cycle);
    paths_[1].pipe = FifoServer(path + ".outbound", spec.bytes_per_cycle);
}

void DmaEngine::update(std::size_t i) {
    const Channel& channel = channels_[i];
    Lane& lane = lanes_[i];
    if (channel.sending != nullptr) {
        if (paths_[channel.sending->outward ? 1 : 0].blocked) {
            lane.enter(WaitKind::memory);
        } else {
            lane.enter(LaneAccount::State::busy);
        }
    } else if (channel.preparing != nullptr) {
        lane.enter(LaneAccount::State::busy);
    } else if (channel.pending > 0) {
        lane.enter(WaitKind::memory);
    } else {
        lane.rest();
    }
}

void DmaEngine::on_lane(std::size_t i) {
    prepare(i);
    update(i);
}

void DmaEngine::prepare(std::size_t i) {
    Channel& channel = channels_[i];
    if (channel.preparing != nullptr) {
        return;
    }
    Task* task = lanes_[i].begin(Resource::noc);
    if (task == nullptr) {
        return;
    }
    channel.preparing = task;
    channel.prepared = false;
    const bool fence = std::holds_alternative<isa::FenceMacro>(task->text->macro);
    context_.scheduler.after(fence ? 1 : setup_, Phase::arrive, *this, kPrepared, i);
}

void DmaEngine::promote(std::size_t i) {
    Channel& channel = channels_[i];
    if (channel.sending != nullptr || channel.preparing == nullptr || !channel.prepared) {
        return;
    }
    Task* task = channel.preparing;
    channel.preparing = nullptr;
    channel.draining.push(task);
    ++channel.pending;
    lanes_[i].released(task->record);
    if (task->walk.done()) {
        task->launched = true;
        channel.last_record = task->record;
        check_retirement(i);
    } else {
        channel.sending = task;
        // Its packet may be smaller, and its turn may come first.
        unblock(task->outward ? 1 : 0);
    }
    prepare(i);
}

void DmaEngine::request_grant(std::size_t p) {
    Path& path = paths_[p];
    if (path.grant_at != kNever || path.blocked) {
        return;
    }
    path.grant_at = std::max(path.pipe.free_cycle(), context_.scheduler.now());
    context_.scheduler.at(path.grant_at, Phase::arbitrate, *this, kArbitrate);
}

/// Both paths in their order, whichever of them this event was meant for: what leaves makes room for what comes.
void DmaEngine::arbitrate() {
    const Cycle now = context_.scheduler.now();
    if (wake_at_ <= now) {
        wake_at_ = kNever;
        for (std::size_t p = 0; p < paths_.size(); ++p) {
            if (paths_[p].blocked) {
                unblock(p);
            }
        }
    }
    for (std::size_t p = paths_.size(); p-- > 0;) {
        if (paths_[p].grant_at <= now) {
            paths_[p].grant_at = kNever;
            grant(p);
        }
    }
}

std::size_t DmaEngine::next_channel(std::size_t p) {
    const std::size_t count = channels_.size();
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t i = paths_[p].turn + k < count ? paths_[p].turn + k : paths_[p].turn + k - count;
        if (channels_[i].sending != nullptr && channels_[i].sending->outward == (p == 1)) {
            return i;
        }
    }
    return count;
}

void DmaEngine::release_landed() {
    const Cycle now = context_.scheduler.now();
    while (!landings_.empty() && landings_.front().cycle <= now) {
        in_flight_ -= landings_.front().bytes;
        std::pop_heap(landings_.begin(), landings_.end(), Landing::below);
        landings_.pop_back();
    }
}

void DmaEngine::check_conserved(Cycle end) const {
    std::uint64_t landed = 0;
    for (const Landing& landing : landings_) {
        landed += landing.cycle <= end ? landing.bytes : 0;
    }
    require_conserved(std::string(name()) + ".max_inflight_bytes", "bytes", in_flight_, landed);
}

void DmaEngine::grant(std::size_t p) {
    Path& path = paths_[p];
    const Cycle now = context_.scheduler.now();
    while (true) {
        const std::size_t i = next_channel(p);
        if (i == channels_.size()) {
            return;
        }
        if (path.pipe.free_cycle() > now) {
            request_grant(p);
            return;
        }
        const std::uint64_t bytes = channels_[i].sending->walk.piece().src_bytes;
        if (in_flight_ + bytes > max_in_flight_) {
            release_landed();
        }
        if (in_flight_ > 0 && in_flight_ + bytes > max_in_flight_) {
            block(p);
            return;
        }
        send(p, i);
    }
}

void DmaEngine::send(std::size_t p, std::size_t i) {
    Path& path = paths_[p];
    Task* task = channels_[i].sending;
    const DmaWalk::Piece piece = task->walk.piece();
    task->walk.next();
    ++task->in_flight;
    ++packets_;
    in_flight_ += piece.src_bytes;
    path.turn = i + 1 == channels_.size() ? 0 : i + 1;
    path.pipe.reserve(context_.scheduler.now(), std::max(piece.src_bytes, piece.dst_bytes));
    PacketId id = 0;
    Packet& packet = context_.network.prepare(id);
    packet.transfer = task;
    packet.owner = this;
    packet.tag = static_cast<std::uint32_t>(i);
    packet.src_offset = piece.src_offset;
    packet.dst_offset = piece.dst_offset;
    packet.src_bytes = piece.src_bytes;
    packet.dst_bytes = piece.dst_bytes;
    packet.wire_bytes = task->wire_is_dst ? piece.dst_bytes : piece.src_bytes;
    if (task->walk.done()) {
        task->launched = true;
    }
    context_.network.launch(id);
    if (task->launched) {
        finish_sending(i);
    }
}

void DmaEngine::finish_sending(std::size_t i) {
    Channel& channel = channels_[i];
    channel.last_record = channel.sending->record;
    channel.sending = nullptr;
    if (channel.preparing != nullptr && channel.prepared) {
        // It was held up by the descriptor that has just sent its last packet.
        const Cycle now = context_.scheduler.now();
        channel.preparing->record =
            context_.path.add(now, {channel.last_record, now}, Resource::noc, Resource::control);
    }
    promote(i);
    update(i);
}

void DmaEngine::block(std::size_t p) {
    paths_[p].blocked = true;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
        update(i);
    }
    schedule_wake();
}

void DmaEngine::schedule_wake() {
    if (!landings_.empty() && landings_.front().cycle < wake_at_) {
        wake_at_ = std::max(landings_.front().cycle, context_.scheduler.now());
        context_.scheduler.at(wake_at_, Phase::arbitrate, *this, kArbitrate);
    }
}

void DmaEngine::unblock(std::size_t p) {
    if (paths_[p].blocked) {
        paths_[p].blocked = false;
        for (std::size_t i = 0; i < channels_.size(); ++i) {
            update(i);
        }
    }
    request_grant(p);
}

void DmaEngine::on_landing(Packet& packet, Cycle cycle) {
    Task* task = static_cast<Task*>(packet.transfer);
    landings_.push_back({cycle, packet.src_bytes});
    std::push_heap(landings_.begin(), landings_.end(), Landing::below);
    task->landed = std::max(task->landed, cycle);
    --task->in_flight;
    if (task->launched && task->in_flight == 0) {
        check_retirement(packet.tag);
    }
    if (paths_[0].blocked || paths_[1].blocked) {
        schedule_wake();
    }
}

void DmaEngine::check_retirement(std::size_t i) {
    Channel& channel = channels_[i];
    while (!channel.draining.empty() && channel.draining.front()->launched &&
           channel.draining.front()->in_flight == 0) {
        Task* task = channel.draining.pop();
        channel.retire_at = std::max({task->landed, channel.retire_at, context_.scheduler.now()});
        channel.retiring.push(task);
        context_.scheduler.at(channel.retire_at, Phase::arrive, *this, kRetire, i);
    }
}

void DmaEngine::book(Task& task, Cycle now) {
    const Transfer& t = task;
    const isa::ChipSpec& chip = context_.chip;
    const Bytes beat = static_cast<Bytes>(chip.hbm.burst_bytes);
    EnergyList energy = task.energy;
    Traffic traffic;
    traffic.hbm_read = t.read_beats * beat;
    traffic.hbm_written = t.written_beats * beat;
    traffic.noc = t.wire_bytes;
    using E = EnergyEvent;
    energy.add(E::hbm_read_byte, traffic.hbm_read);
    energy.add(E::hbm_write_byte, traffic.hbm_written);
    energy.add(E::hbm_phy_byte, traffic.hbm_read + traffic.hbm_written);
    energy.add(E::hbm_activate, t.activates);
    if (t.src.space == isa::Space::tsram) {
        traffic.tsram += t.src_bytes;
        energy.add(E::tsram_read_byte, t.src_bytes);
        context_.tsram[t.src.unit]->read += t.src_bytes;
    } else if (t.src.space == isa::Space::csram) {
        traffic.csram += t.src_bytes;
        energy.add(E::csram_read_byte, t.src_bytes);
    }
    if (t.dst.space == isa::Space::tsram) {
        traffic.tsram += t.dst_bytes;
        energy.add(E::tsram_write_byte, t.dst_bytes);
        const std::uint64_t mask = t.dst.mask == 0 ? 1 : t.dst.mask;
        const auto copies = static_cast<Bytes>(std::popcount(mask));
        for (std::uint32_t bit = 0; bit < 64; ++bit) {
            if ((mask >> bit & 1U) != 0) {
                context_.tsram[t.dst.unit + bit]->written += t.dst_bytes / copies;
            }
        }
    } else if (t.dst.space == isa::Space::csram) {
        traffic.csram += t.dst_bytes;
        energy.add(E::csram_write_byte, t.dst_bytes);
    }
    energy.add(E::cnoc_byte, t.cnoc_bytes);
    energy.add(E::gnoc_byte_micrometre, t.gnoc_link_bytes * static_cast<std::uint64_t>(chip.gnoc.link_micrometres));
    energy.add(E::gnoc_byte_router, t.gnoc_router_bytes);
    energy.add(E::dma_byte, t.wire_bytes);
    energy.add(E::dma_descriptor, 1);
    context_.ledger.book(task.node, energy, task.start, now);
    context_.ledger.traffic(task.node, traffic);
}

void DmaEngine::retire(std::size_t i) {
    Channel& channel = channels_[i];
    const Cycle now = context_.scheduler.now();
    Task* task = channel.retiring.pop();
    --channel.pending;
    ++descriptors_;
    const bool fence = std::holds_alternative<isa::FenceMacro>(task->text->macro);
    context_.path.set_resource(task->record, fence ? Resource::fence : slowest_side(*task));
    for (std::size_t s = 0; s < task->signal_count; ++s) {
        context_.semaphores.signal(location_, task->signals[s], {task->record, now}, task->where);
    }
    if (fence) {
        context_.ledger.book(task->node, task->energy, task->start, now);
    } else {
        book(*task, now);
    }
    context_.ledger.instruction(task->node, !fence, false, task->start, now);
    context_.ended(task->record, now);
    context_.tasks.give_back(task);
    update(i);
}

void DmaEngine::on_event(std::uint32_t kind, std::uint64_t payload) {
    const auto index = static_cast<std::size_t>(payload);
    switch (kind) {
        case kPrepared:
            channels_[index].prepared = true;
            promote(index);
            update(index);
            return;
        case kArbitrate: arbitrate(); return;
        case kRetire: retire(index); return;
    }
}

void DmaEngine::report(StatSheet& sheet) const {
    const std::string path = name();
    sheet.add(path + ".descriptors", "descriptors", "descriptors completed", descriptors_);
    sheet.add(path + ".packets", "packets", "packets sent", packets_);
    sheet.server(paths_[0].pipe);
    sheet.server(paths_[1].pipe);
}

}  // namespace sluice::sim
