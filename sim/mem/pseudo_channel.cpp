// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/pseudo_channel.hpp"

#include <algorithm>
#include <bit>

#include "isa/errors.hpp"

namespace sluice::sim {

namespace {

// CK of the data rate: 4 transfers a CK.
std::uint64_t ck_hertz(const isa::HbmSpec& spec) {
    return static_cast<std::uint64_t>(spec.bits_per_second_per_pin) / 4;
}

constexpr std::uint64_t kPicosecondsPerSecond = 1'000'000'000'000;

}  // namespace

HbmContext::HbmContext(const isa::ChipSpec& chip, Scheduler& sched, PacketPool& pool, DataPort& net)
    : spec(chip.hbm),
      map(chip.hbm),
      to_ck(static_cast<std::uint64_t>(chip.clock.core_hz), ck_hertz(chip.hbm)),
      to_core(ck_hertz(chip.hbm), static_cast<std::uint64_t>(chip.clock.core_hz)),
      latency_ck(static_cast<Ck>(ceil_div(
          Wide{static_cast<std::uint64_t>(spec.controller_picoseconds + spec.phy_picoseconds)} * ck_hertz(spec),
          Wide{kPicosecondsPerSecond}))),
      scheduler(sched),
      packets(pool),
      network(net) {
    if (spec.refresh != "per_bank" && spec.refresh != "all_bank" && spec.refresh != "none") {
        throw InputError("chip.hbm.refresh", "is \"" + spec.refresh + "\"; known: per_bank, all_bank, none");
    }
}

PseudoChannel::PseudoChannel(const sc_core::sc_module_name& name, HbmContext& context, std::size_t number)
    : sc_module(name),
      context_(context),
      timing_(context.spec.timing, context.map.geometry()),
      window_size_(static_cast<std::size_t>(std::max<std::int64_t>(context.spec.window_packets, 1))) {
    window_.reserve(window_size_);
    const HbmGeometry& geometry = context.map.geometry();
    if (context.spec.refresh == "none" || context.spec.timing.nrefi <= 0) {
        return;
    }
    refresh_interval_ = static_cast<Ck>(context.spec.timing.nrefi);
    refresh_sets_ = context.spec.refresh == "per_bank";
    const std::size_t parts = refresh_sets_ ? geometry.sets : 1;
    for (std::size_t part = 0; part < parts; ++part) {
        // Evenly over the interval, and the channels of the chip evenly between the sets of one.
        const Ck step = part * geometry.pseudo_channels + number + 1;
        refresh_due_.push_back(refresh_interval_ * step / (parts * geometry.pseudo_channels));
    }
    next_due_ = *std::min_element(refresh_due_.begin(), refresh_due_.end());
}

Ck PseudoChannel::decision_time() const {
    const Ck free = timing_.bus_free();
    const Ck room = free > kHorizonCk ? free - kHorizonCk : 0;
    return std::max({room, window_.front().arrival, decision_});
}

void PseudoChannel::push(PacketId id, bool write) {
    const Packet& packet = context_.packets[id];
    const HbmPlace& place = write ? packet.dst_place : packet.src_place;
    const Entry entry{
        context_.to_ck(context_.scheduler.now()), id, {place.row, place.set, place.first_beat, place.beats, write}};
    if (window_.size() < window_size_) {
        window_.push_back(entry);
    } else {
        backlog_.push_back(entry);
    }
    if (!pending_) {
        schedule_decision();
    }
}

void PseudoChannel::schedule_decision() {
    pending_ = true;
    decision_ = decision_time();
    const Cycle cycle = std::max(context_.to_core(decision_), context_.scheduler.now());
    context_.scheduler.at(cycle, Phase::arbitrate, *this, 0);
}

void PseudoChannel::on_event(std::uint32_t, std::uint64_t) {
    pending_ = false;
    // Every request that arrives up to the present core cycle is known, so decisions up to it can be taken now.
    const Cycle now = context_.scheduler.now();
    decide(decision_);
    while (!window_.empty()) {
        const Ck next = decision_time();
        if (context_.to_core(next) > now) {
            schedule_decision();
            return;
        }
        decision_ = next;
        decide(next);
    }
}

std::size_t PseudoChannel::choose(Ck now) const {
    if (passed_over_ >= 2 * window_size_) {
        return 0;
    }
    std::size_t best = 0;
    Ck best_start = ~Ck{0};
    for (std::size_t i = 0; i < window_.size() && window_[i].arrival <= now; ++i) {
        const HbmAccess& access = window_[i].access;
        const Ck start = std::max(timing_.estimate(access, now), now);
        if (start < best_start) {
            best = i;
            best_start = start;
            if (start <= timing_.bus_free()) {
                break;  // nothing can start earlier than the bus is free
            }
        }
    }
    return best;
}

void PseudoChannel::serve(std::size_t position, Ck now) {
    const Entry entry = window_[position];
    window_.erase(window_.begin() + static_cast<std::ptrdiff_t>(position));
    if (backlog_head_ < backlog_.size()) {
        window_.push_back(backlog_[backlog_head_++]);
        if (backlog_head_ == backlog_.size() || backlog_head_ >= 4096) {
            backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(backlog_head_));
            backlog_head_ = 0;
        }
    }
    passed_over_ = position == 0 ? 0 : passed_over_ + 1;

    const HbmPlan plan = timing_.plan(entry.access, now);
    timing_.commit(entry.access, plan);
    ++counts_.packets;
    counts_.row_hits += plan.hit ? 1 : 0;
    Packet& packet = context_.packets[entry.packet];
    packet.transfer->activates += static_cast<std::uint64_t>(std::popcount(plan.activated));
    const Cycle done = context_.to_core(plan.data_end + context_.latency_ck);
    packet.transfer->hbm_cycles += done - context_.to_core(entry.arrival);
    if (entry.access.write) {
        counts_.written_beats += entry.access.beats;
        packet.transfer->written_beats += entry.access.beats;
        context_.network.write_done(entry.packet, done);
    } else {
        counts_.read_beats += entry.access.beats;
        packet.transfer->read_beats += entry.access.beats;
        context_.network.read_done(entry.packet, done);
    }
}

void PseudoChannel::decide(Ck now) {
    if (next_due_ <= now) {
        catch_up(now);
    }
    serve(choose(now), now);
}

void PseudoChannel::catch_up(Ck now) {
    next_due_ = ~Ck{0};
    for (std::size_t part = 0; part < refresh_due_.size(); ++part) {
        Ck& due = refresh_due_[part];
        if (due <= now) {
            // All but the last of those that are due are long over.
            const Ck missed = (now - due) / refresh_interval_;
            due += missed * refresh_interval_;
            if (refresh_sets_) {
                timing_.refresh_set(part, due);
            } else {
                timing_.refresh_all(due);
            }
            counts_.refreshes += missed + 1;
            due += refresh_interval_;
        }
        next_due_ = std::min(next_due_, due);
    }
}

void PseudoChannel::finish(Cycle end) {
    if (end > 0 && next_due_ < context_.to_ck(end)) {
        catch_up(context_.to_ck(end) - 1);
    }
}

MemoryCounts PseudoChannel::counts() const {
    MemoryCounts counts = counts_;
    counts.activates = timing_.activates();
    return counts;
}

void PseudoChannel::report(StatSheet& sheet) const {
    const std::string path = name();
    const auto bursts = static_cast<double>(counts_.read_beats + counts_.written_beats);
    const auto cycles = static_cast<double>(context_.to_ck(sheet.cycles()));
    sheet.add(path + ".read_beats", "beats", "bursts read", counts_.read_beats);
    sheet.add(path + ".written_beats", "beats", "bursts written", counts_.written_beats);
    sheet.add(path + ".activates", "activates", "rows activated", timing_.activates());
    sheet.add(path + ".row_hits", "packets", "packets that found their rows open", counts_.row_hits);
    sheet.add(path + ".refreshes", "refreshes", "bank sets (per_bank) or channels (all_bank) refreshed",
              counts_.refreshes);
    sheet.add(path + ".utilization", "fraction", "data bus cycles used / cycles of the run",
              cycles > 0 ? bursts * static_cast<double>(timing_.burst_ck()) / cycles : 0.0);
}

}  // namespace sluice::sim
