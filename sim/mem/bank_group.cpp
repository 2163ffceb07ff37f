// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/bank_group.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "isa/errors.hpp"

namespace sluice::sim {

namespace {

constexpr Cycle kNever = std::numeric_limits<Cycle>::max();
/// Steps before the search for a repetition begins: trains that come and go sooner never pay for it.
constexpr std::uint64_t kFirstSeen = 64;
/// Cycles between two looks for trains that keep clear of each other.
constexpr Cycle kClearPause = 16;

/// The lowest `count` bits; count is 0..64.
std::uint64_t ones(std::uint32_t count) {
    return count == 0 ? 0 : ~std::uint64_t{0} >> (kMaxBanks - count);
}

}  // namespace

inline std::uint64_t BankGroup::Places::mask(const Active& train) const {
    const std::uint64_t one_more = train.offset + train.tail >= bank_bytes ? 1 : 0;
    const std::uint64_t straight = train.narrow << one_more | one_more;
    // What goes beyond the last bank goes on at the first; in two shifts, since one by 64 is none.
    return (straight << train.bank | straight >> 1 >> (banks - 1 - train.bank)) & all_banks;
}

void BankGroup::Places::put(Active& train, Bytes place) const {
    train.bank = static_cast<std::uint32_t>(place / bank_bytes);
    train.offset = static_cast<std::uint32_t>(place % bank_bytes);
    train.mask = mask(train);
}

/// By one beat; without branches, since none of these could be foretold.
inline void BankGroup::Places::move(Active& train) const {
    const std::uint32_t offset = train.offset + train.stride_offset;
    const std::uint32_t carry = offset >= bank_bytes ? 1 : 0;
    train.offset = offset - (bank_bytes & -carry);
    const std::uint32_t bank = train.bank + train.stride_banks + carry;
    const std::uint32_t wrap = bank >= banks ? 1 : 0;
    train.bank = bank - (banks & -wrap);
    train.mask = mask(train);
}

void BankGroup::Places::move(Active& train, std::uint64_t beats) const {
    const Bytes stride = Bytes{train.stride_banks} * bank_bytes + train.stride_offset;
    put(train, (of(train) + beats % size() * stride) % size());
}

void BankGroup::Schedule::changed() {
    steps = 0;
    renew_at = kFirstSeen;
    seen_trains.clear();
    look_for_clear_at = now;
}

/// Runs to `until`, or to the first cycle before or at it in which a train ends; true if one does.
bool BankGroup::Schedule::run(Cycle until) {
    const Cycle from = now;
    bool ended = false;
    while (now < until && !ended) {
        ended = run_some(until);
    }
    cycles += now - from;
    return ended;
}

bool BankGroup::Schedule::run_some(Cycle until) {
    Ready ready;
    collect_ready(ready);
    if (ready.count == 0) {
        now = std::min(until, ready.next_due);
        return false;
    }
    if (ready.count == 1) {
        if (trains.size() > 1 && skip_repetitions(until)) {
            return false;
        }
        return run_alone(*ready.trains[0], std::min(until, ready.next_due));
    }
    if (now >= look_for_clear_at) {
        if (clear_of_each_other()) {
            return run_clear(until);
        }
        look_for_clear_at = now + kClearPause;
    }
    return !skip_repetitions(until) && serve(ready, cycles_in_this_order(ready, until));
}

void BankGroup::Schedule::collect_ready(Ready& ready) {
    ready.next_due = kNever;
    for (Active& train : trains) {
        if (train.due <= now) {
            ready.trains[ready.count++] = &train;
            ready.longest_stall = std::max(ready.longest_stall, train.stalled);
        } else {
            ready.next_due = std::min(ready.next_due, train.due);
        }
    }
    if (ready.longest_stall >= age_bound) {
        std::stable_sort(
            ready.trains.begin(), ready.trains.begin() + static_cast<std::ptrdiff_t>(ready.count),
            [this](const Active* a, const Active* b) { return a->stalled >= age_bound && a->stalled > b->stalled; });
    }
}

/// For how long the same trains stay ready in the same order, whatever happens: if none ever rests, up to the next end,
/// age bound or look for a repetition.
Cycle BankGroup::Schedule::cycles_in_this_order(const Ready& ready, Cycle until) const {
    if (ready.longest_stall >= age_bound || !seen_trains.empty()) {
        return 1;
    }
    Cycle cycles = std::min({until - now, age_bound - ready.longest_stall, renew_at - steps});
    for (const Active& train : trains) {
        cycles = train.interval == 1 ? std::min(cycles, train.remaining) : 1;
    }
    return cycles;
}

/// By the rule.
bool BankGroup::Schedule::serve(const Ready& ready, Cycle cycles) {
    std::array<std::uint64_t, kMaxBankTrains> taken;
    bool ended = false;
    for (const Cycle end = now + cycles; now < end; ++now) {
        std::uint64_t all_taken = 0;
        for (std::size_t i = 0; i < ready.count; ++i) {
            Active& train = *ready.trains[i];
            if ((train.mask & all_taken) == 0) {
                taken[i] = train.mask;
                all_taken |= train.mask;
                train.stalled = 0;
                train.due = now + train.interval;
                ended = --train.remaining == 0 || ended;
                places.move(train);
                continue;
            }
            taken[i] = 0;
            ++train.stalled;
            std::size_t holder = 0;
            while ((taken[holder] & train.mask) == 0) {
                ++holder;
            }
            ++stalls[train.client][ready.trains[holder]->client];
        }
    }
    steps += cycles - 1;
    return ended;
}

bool BankGroup::Schedule::run_alone(Active& train, Cycle until) {
    const std::uint64_t beats = std::min(train.remaining, ceil_div(until - now, train.interval));
    train.stalled = 0;
    train.remaining -= beats;
    places.move(train, beats);
    if (train.remaining == 0) {
        now += (beats - 1) * train.interval + 1;
        return true;
    }
    train.due = now + beats * train.interval;
    now = until;
    return false;
}

/// Trains of one stride that have a beat in every cycle keep their distances. If between the last byte of any
/// one and the first of any other there always is the start of a bank, they never meet.
bool BankGroup::Schedule::clear_of_each_other() const {
    const Bytes size = places.size();
    const Bytes apart = places.bank_bytes - granule;
    for (const Active& a : trains) {
        if (a.interval != 1 || a.stride_banks != trains[0].stride_banks || a.stride_offset != trains[0].stride_offset) {
            return false;
        }
    }
    for (const Active& a : trains) {
        for (const Active& b : trains) {
            if (&a != &b && (places.of(b) + size - places.of(a)) % size < a.bytes + apart) {
                return false;
            }
        }
    }
    return true;
}

bool BankGroup::Schedule::run_clear(Cycle until) {
    std::uint64_t beats = until - now;
    for (const Active& train : trains) {
        beats = std::min(beats, train.remaining);
    }
    now += beats;
    bool ended = false;
    for (Active& train : trains) {
        train.remaining -= beats;
        train.stalled = 0;
        train.due = now;
        places.move(train, beats);
        ended = ended || train.remaining == 0;
    }
    return ended;
}

void BankGroup::Schedule::remember() {
    seen_trains = trains;
    seen_stalls = stalls;
    seen_at = now;
    steps = 0;
}

/// If the state is that of an earlier time, goes on by as many whole periods as fit before `until` and before any end.
bool BankGroup::Schedule::skip_repetitions(Cycle until) {
    if (++steps == renew_at) {
        remember();
        renew_at *= 2;
        return false;
    }
    const std::uint64_t times = seen_trains.empty() ? 0 : repetitions(until);
    if (times == 0) {
        return false;
    }
    const Cycle period = now - seen_at;
    const Cycle skipped = times * period;
    now += skipped;
    for (std::size_t i = 0; i < trains.size(); ++i) {
        trains[i].stalled += times * (trains[i].stalled - seen_trains[i].stalled);
        trains[i].remaining -= times * (seen_trains[i].remaining - trains[i].remaining);
        trains[i].due += skipped;
    }
    for (std::size_t x = 0; x < kMaxBankClients; ++x) {
        for (std::size_t y = 0; y < kMaxBankClients; ++y) {
            stalls[x][y] += times * (stalls[x][y] - seen_stalls[x][y]);
        }
    }
    remember();
    return true;
}

/// 0 if the state is another one than that remembered. A train that has stalled ever since is in the same state as long
/// as its stall stays below the age bound, since nothing else depends on how long it is.
std::uint64_t BankGroup::Schedule::repetitions(Cycle until) const {
    const Cycle period = now - seen_at;
    if (period == 0 || period > until - now) {
        return 0;
    }
    std::uint64_t times = (until - now) / period;
    for (std::size_t i = 0; i < trains.size(); ++i) {
        const Active& train = trains[i];
        const Active& seen = seen_trains[i];
        const Cycle rest = train.due > now ? train.due - now : 0;
        const Cycle seen_rest = seen.due > seen_at ? seen.due - seen_at : 0;
        if (train.bank != seen.bank || train.offset != seen.offset || rest != seen_rest) {
            return 0;
        }
        if (train.stalled != seen.stalled) {
            if (train.stalled != seen.stalled + period || train.stalled >= age_bound) {
                return 0;
            }
            times = std::min(times, (age_bound - 1 - train.stalled) / period);
        }
        const std::uint64_t beats = seen.remaining - train.remaining;
        if (beats > 0) {
            times = std::min(times, (train.remaining - 1) / beats);
        }
    }
    return times;
}

BankGroup::BankGroup(const BankGroupSpec& spec) {
    SLUICE_CHECK(spec.banks >= 1 && spec.banks <= kMaxBanks,
                 "banks: " + std::to_string(spec.banks) + ", allowed is 1..64");
    SLUICE_CHECK(spec.bank_bytes >= 1 && spec.bank_bytes <= 1U << 24,
                 "bank_bytes: " + std::to_string(spec.bank_bytes) + ", allowed is 1..2^24");
    SLUICE_CHECK(spec.age_bound >= 1, "age_bound: 0, allowed is 1 or more");
    schedule_.places = {spec.banks, spec.bank_bytes, ones(spec.banks)};
    schedule_.age_bound = spec.age_bound;
    schedule_.granule = spec.bank_bytes;
}

Bytes BankGroup::reduced_stride(const AccessTrain& train) const {
    const auto size = static_cast<std::int64_t>(schedule_.places.size());
    return static_cast<Bytes>((train.stride % size + size) % size);
}

void BankGroup::check(const AccessTrain& train) const {
    SLUICE_CHECK(train.client < kMaxBankClients, "client: " + std::to_string(train.client) + ", allowed is 0..7");
    SLUICE_CHECK(train.beats >= 1 && train.interval >= 1 && train.beats < (Cycle{1} << 62) / train.interval,
                 "beats and interval: each at least 1, their product below 2^62");
    // Of the offsets in a bank that the stride leads to, the last one needs the most banks.
    const Bytes width = schedule_.places.bank_bytes;
    const Bytes apart = std::gcd(reduced_stride(train), width);
    const Bytes last_offset = train.start % apart + width - apart;
    SLUICE_CHECK(train.bytes >= 1 && train.bytes <= schedule_.places.size() &&
                     last_offset + train.bytes <= schedule_.places.size(),
                 "bytes: " + std::to_string(train.bytes) + " of a beat touch no bank, or one twice");
}

TrainId BankGroup::join(const AccessTrain& train, Cycle now) {
    check(train);
    advance(now);
    SLUICE_CHECK(schedule_.trains.size() < kMaxBankTrains, "more than 64 trains at a time");
    const Bytes width = schedule_.places.bank_bytes;
    const Bytes stride = reduced_stride(train);
    Active active;
    active.stride_banks = static_cast<std::uint32_t>(stride / width);
    active.stride_offset = static_cast<std::uint32_t>(stride % width);
    active.tail = static_cast<std::uint32_t>((train.bytes - 1) % width);
    active.client = train.client;
    active.narrow = ones(static_cast<std::uint32_t>((train.bytes - 1) / width + 1));
    active.remaining = active.beats = train.beats;
    active.due = now;
    active.interval = train.interval;
    active.bytes = train.bytes;
    active.id = next_id_++;
    schedule_.places.put(active, train.start % schedule_.places.size());

    std::vector<Active>& trains = schedule_.trains;
    trains.insert(
        std::find_if(trains.begin(), trains.end(), [&](const Active& other) { return other.client > train.client; }),
        active);
    schedule_.granule = static_cast<std::uint32_t>(
        std::gcd(std::gcd(Bytes{schedule_.granule}, train.start), std::gcd(stride, train.bytes)));
    schedule_.changed();
    joined_beats_[train.client] += train.beats;
    foreseen_ = false;
    return active.id;
}

void BankGroup::advance(Cycle to) {
    SLUICE_CHECK(to >= schedule_.now,
                 "time runs backwards: from " + std::to_string(schedule_.now) + " to " + std::to_string(to));
    while (schedule_.now < to && !schedule_.trains.empty()) {
        if (foreseen_ && ahead_.now <= to) {
            std::swap(schedule_, ahead_);
            remove_ended();
        } else if (schedule_.run(to)) {
            remove_ended();
        }
    }
    schedule_.now = to;
}

void BankGroup::remove_ended() {
    std::vector<Active>& trains = schedule_.trains;
    for (const Active& train : trains) {
        if (train.remaining == 0) {
            ended_.push_back({train.id, schedule_.now});
        }
    }
    trains.erase(std::remove_if(trains.begin(), trains.end(), [](const Active& train) { return train.remaining == 0; }),
                 trains.end());
    schedule_.changed();
    foreseen_ = false;
}

std::optional<TrainEnd> BankGroup::take_ended() {
    if (taken_ == ended_.size()) {
        ended_.clear();
        taken_ = 0;
        return std::nullopt;
    }
    return ended_[taken_++];
}

std::optional<std::uint64_t> BankGroup::beats_done(TrainId id) const {
    for (const Active& train : schedule_.trains) {
        if (train.id == id) {
            return train.beats - train.remaining;
        }
    }
    return std::nullopt;
}

BankCounts BankGroup::counts() const {
    BankCounts counts{joined_beats_, schedule_.stalls, schedule_.cycles};
    for (const Active& train : schedule_.trains) {
        counts.beats[train.client] -= train.remaining;
    }
    return counts;
}

std::optional<Cycle> BankGroup::next_end() {
    if (schedule_.trains.empty()) {
        return std::nullopt;
    }
    if (!foreseen_) {
        ahead_ = schedule_;
        foreseen_ = ahead_.run(kNever);
    }
    return ahead_.now;
}

std::optional<Cycle> BankGroup::next_wake() const {
    if (schedule_.trains.empty()) {
        return std::nullopt;
    }
    Cycle wake = kNever;
    for (const Active& train : schedule_.trains) {
        wake = std::min(wake, std::max(train.due, schedule_.now) + (train.remaining - 1) * train.interval + 1);
    }
    return wake;
}

}  // namespace sluice::sim
