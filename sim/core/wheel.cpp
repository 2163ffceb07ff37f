// SPDX-License-Identifier: Apache-2.0
#include "sim/core/wheel.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::sim {

TimingWheel::TimingWheel() {
    pool_.reserve(1 << 14);
}

void TimingWheel::append(Cycle cycle, Phase phase, EventTarget* target, std::uint32_t kind, std::uint64_t payload) {
    std::uint32_t slot = free_;
    if (slot == kNone) {
        slot = static_cast<std::uint32_t>(pool_.size());
        pool_.push_back({});
    } else {
        free_ = pool_[slot].next;
    }
    pool_[slot] = {target, payload, kind, kNone};
    const std::size_t bucket = cycle % kBuckets;
    List& list = buckets_[bucket][static_cast<std::size_t>(phase)];
    if (list.head == kNone) {
        list.head = slot;
    } else {
        pool_[list.tail].next = slot;
    }
    list.tail = slot;
    occupied_[bucket / 64] |= std::uint64_t{1} << (bucket % 64);
    occupied_words_ |= std::uint64_t{1} << (bucket / 64);
    ++near_;
}

void TimingWheel::push(Cycle cycle, Phase phase, EventTarget& target, std::uint32_t kind, std::uint64_t payload) {
    SLUICE_CHECK(cycle >= now_, "event in the past");
    if (cycle == now_ && running_ && phase < phase_) {
        phase = phase_;
    }
    if (cycle - now_ < kBuckets) {
        append(cycle, phase, &target, kind, payload);
        return;
    }
    overflow_.push_back({cycle, order_++, &target, payload, kind, phase});
    std::push_heap(overflow_.begin(), overflow_.end(), later);
}

Cycle TimingWheel::next_cycle() const {
    if (near_ == 0) {
        return overflow_.front().cycle;
    }
    const std::size_t start = now_ % kBuckets;
    const std::size_t word = start / 64;
    const std::uint64_t first = occupied_[word] & (~std::uint64_t{0} << (start % 64));
    if (first != 0) {
        return now_ + (word * 64 + static_cast<std::size_t>(std::countr_zero(first)) - start);
    }
    // Words after the present one, then round the ring to the present one's lower bits.
    const std::uint64_t after = word == 63 ? 0 : occupied_words_ & (~std::uint64_t{0} << (word + 1));
    const std::uint64_t words = after != 0 ? after : occupied_words_;
    const auto found = static_cast<std::size_t>(std::countr_zero(words));
    const std::size_t bucket = found * 64 + static_cast<std::size_t>(std::countr_zero(occupied_[found]));
    return now_ + (bucket + kBuckets - start) % kBuckets;
}

void TimingWheel::drain(List& list) {
    while (list.head != kNone) {
        const std::uint32_t slot = list.head;
        const Event event = pool_[slot];
        list.head = event.next;
        pool_[slot].next = free_;
        free_ = slot;
        --near_;
        ++delivered_;
        event.target->on_event(event.kind, event.payload);
    }
    list.tail = kNone;
}

void TimingWheel::run_cycle(Cycle cycle) {
    now_ = cycle;
    while (!overflow_.empty() && overflow_.front().cycle - now_ < kBuckets) {
        std::pop_heap(overflow_.begin(), overflow_.end(), later);
        const Far far = overflow_.back();
        overflow_.pop_back();
        append(far.cycle, far.phase, far.target, far.kind, far.payload);
    }
    const std::size_t bucket = cycle % kBuckets;
    running_ = true;
    phase_ = Phase::arrive;
    drain(buckets_[bucket][0]);
    phase_ = Phase::arbitrate;
    drain(buckets_[bucket][1]);
    running_ = false;
    phase_ = Phase::arrive;
    occupied_[bucket / 64] &= ~(std::uint64_t{1} << (bucket % 64));
    if (occupied_[bucket / 64] == 0) {
        occupied_words_ &= ~(std::uint64_t{1} << (bucket / 64));
    }
}

void TimingWheel::clear() {
    buckets_ = {};
    occupied_ = {};
    occupied_words_ = 0;
    pool_.clear();
    free_ = kNone;
    overflow_.clear();
    near_ = 0;
    running_ = false;
}

}  // namespace sluice::sim
