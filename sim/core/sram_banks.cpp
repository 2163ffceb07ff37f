// SPDX-License-Identifier: Apache-2.0
#include "sim/core/sram_banks.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::sim {

namespace {

constexpr std::size_t kFirstDays = 256;

const BankSpec& checked(const BankSpec& spec) {
    SLUICE_CHECK(spec.banks >= 1 && spec.banks <= kMaxBanks && spec.line_bytes >= 1 && spec.age_bound >= 1,
                 "a bank group out of its ranges");
    return spec;
}

}  // namespace

std::string_view name(BankClient client) {
    switch (client) {
        case BankClient::written: return "written";
        case BankClient::read: return "read";
        case BankClient::ttu: return "ttu";
        case BankClient::tvp: return "tvp";
        case BankClient::reshaper: return "reshaper";
    }
    return "?";
}

// ---- ports ----------------------------------------------------------------------------------------------------------

BankCalendar::BankCalendar(const BankSpec& spec)
    : banks_(checked(spec).banks), line_bytes_(spec.line_bytes), days_(kFirstDays) {}

BankCalendar::Taken& BankCalendar::at(Cycle cycle, Cycle keep) {
    while (cycle - keep >= days_.size()) {
        grow();
    }
    Day& day = days_[cycle & (days_.size() - 1)];
    if (day.cycle != cycle) {
        day = {cycle, {}};
    }
    return day.taken;
}

void BankCalendar::grow() {
    std::vector<Day> larger(days_.size() * 2);
    for (const Day& day : days_) {
        if (day.cycle != kNever) {
            larger[day.cycle & (larger.size() - 1)] = day;
        }
    }
    days_ = std::move(larger);
}

Cycle BankCalendar::reserve(BankClient port, std::uint64_t offset, std::uint64_t bytes, Cycle from, std::uint64_t width,
                            Cycle keep) {
    const std::uint64_t first = offset / line_bytes_;
    const std::uint64_t last = (offset + bytes - 1) / line_bytes_;
    std::uint64_t bank = first % banks_;
    std::uint64_t position = 0;  // of the line's first byte in the packet
    std::uint64_t next = line_bytes_ - offset % line_bytes_;
    Cycle held = 0;
    const int shift = std::has_single_bit(width) ? std::countr_zero(width) : -1;
    for (std::uint64_t line = first; line <= last; ++line) {
        Cycle cycle = from + (shift >= 0 ? position >> shift : position / width) + held;
        const std::uint64_t bit = std::uint64_t{1} << bank;
        Taken* taken = &at(cycle, keep);
        while ((taken->all() & bit) != 0) {
            const BankClient other = (taken->written & bit) != 0 ? BankClient::written : BankClient::read;
            ++counts_.stalled[static_cast<std::size_t>(port)][static_cast<std::size_t>(other)];
            ++held;
            taken = &at(++cycle, keep);
        }
        (port == BankClient::written ? taken->written : taken->read) |= bit;
        bank = bank + 1 == banks_ ? 0 : bank + 1;
        position = next;
        next += line_bytes_;
    }
    counts_.lines[static_cast<std::size_t>(port)] += last - first + 1;
    return held;
}

// ---- streams --------------------------------------------------------------------------------------------------------

LineWalk::LineWalk(const LineStream& stream, std::uint64_t banks, std::uint64_t line_bytes)
    : stream_(stream), banks_(banks), line_bytes_(line_bytes) {
    const bool empty = stream.run <= 0 || *std::min_element(stream.counts.begin(), stream.counts.end()) <= 0;
    if (!empty) {
        begin_run();
    }
}

void LineWalk::begin_run() {
    std::int64_t offset = stream_.offset;
    for (std::size_t i = 0; i < at_.size(); ++i) {
        offset += at_[i] * stream_.strides[i];
    }
    SLUICE_CHECK(offset >= 0, "a stream leaves its memory");
    const auto byte = static_cast<std::uint64_t>(offset);
    const std::uint64_t line = byte / line_bytes_;
    bank_ = line % banks_;
    left_ = (byte + static_cast<std::uint64_t>(stream_.run) - 1) / line_bytes_ - line + 1;
}

void LineWalk::next_run() {
    left_ = 0;
    for (std::size_t i = at_.size(); i-- > 0;) {
        if (++at_[i] < stream_.counts[i]) {
            begin_run();
            return;
        }
        at_[i] = 0;
    }
}

void LineWalk::advance(std::uint64_t lines) {
    left_ -= lines;
    bank_ += lines;
    bank_ -= bank_ >= banks_ ? banks_ : 0;
    if (left_ == 0) {
        next_run();
    }
}

std::uint64_t LineWalk::total(const LineStream& stream, std::uint64_t line_bytes) {
    LineWalk walk(stream, 1, line_bytes);
    const auto line = static_cast<std::int64_t>(line_bytes);
    std::uint64_t runs = 1;
    bool alike = true;
    for (std::size_t i = 0; i < stream.counts.size(); ++i) {
        runs *= static_cast<std::uint64_t>(std::max<std::int64_t>(stream.counts[i], 0));
        alike = alike && (stream.counts[i] == 1 || stream.strides[i] % line == 0);
    }
    if (alike) {
        return runs * walk.left();
    }
    std::uint64_t lines = 0;
    for (; walk.left() > 0; walk.next_run()) {
        lines += walk.left();
    }
    return lines;
}

// ---- macros ---------------------------------------------------------------------------------------------------------

SramBanks::SramBanks(const BankSpec& spec)
    : banks_(checked(spec).banks),
      line_bytes_(spec.line_bytes),
      all_(spec.banks == kMaxBanks ? ~std::uint64_t{0} : (std::uint64_t{1} << spec.banks) - 1),
      age_bound_(spec.age_bound),
      calendar_(spec) {}

Cycle SramBanks::reserve(BankClient port, std::uint64_t offset, std::uint64_t bytes, Cycle from, std::uint64_t width,
                         Cycle now) {
    SLUICE_CHECK(port <= BankClient::read && bytes > 0 && width > 0 && now <= from,
                 "a port asks for banks that cannot be");
    const bool running = std::any_of(macros_.begin(), macros_.end(), [](const Macro& each) { return each.running; });
    if (!running || now > now_ + kLongestLag) {
        advance(now);
    }
    // A stall is put down to who had the bank in the cycle before.
    return calendar_.reserve(port, offset, bytes, from, width, now_ > 0 ? now_ - 1 : 0);
}

void SramBanks::start(BankClient engine, const std::vector<LineStream>& streams, Cycle cycles, Cycle now) {
    advance(now);
    SLUICE_CHECK(engine >= BankClient::ttu, "a port has no macros");
    Macro& macro = this->macro(engine);
    SLUICE_CHECK(!macro.running && now == now_ && cycles >= 1, "a macro starts before the one before it has ended");
    macro.running = true;
    macro.standing = false;
    macro.cycles = cycles;
    macro.clock = macro.stalls = macro.stalled_in_a_row = 0;
    active_ = true;
    macro.streams.clear();
    for (const LineStream& stream : streams) {
        const std::uint64_t lines = LineWalk::total(stream, line_bytes_);
        SLUICE_CHECK(stream.duration >= 1 && stream.duration <= cycles && stream.start <= cycles - stream.duration,
                     "a stream outlasts its macro");
        if (lines > 0) {
            macro.streams.push_back({LineWalk(stream, banks_, line_bytes_), stream.start,
                                     stream.start + stream.duration, lines / stream.duration, lines % stream.duration,
                                     stream.duration});
            counts_.lines[static_cast<std::size_t>(engine)] += lines;
        }
    }
}

bool SramBanks::finished(BankClient engine) const {
    const Macro& macro = this->macro(engine);
    return macro.clock == macro.cycles && std::all_of(macro.streams.begin(), macro.streams.end(),
                                                      [](const Stream& stream) { return stream.waiting == 0; });
}

void SramBanks::end(BankClient engine) {
    SLUICE_CHECK(finished(engine), "a macro ends before its last line has crossed");
    macro(engine).running = false;
    macro(engine).stalled_in_a_row = 0;
}

void SramBanks::advance(Cycle to) {
    SLUICE_CHECK(to >= now_, "banks' time runs backwards");
    while (now_ < to) {
        const Cycle quiet = active_ ? 0 : quiet_cycles(to - now_);
        if (quiet == 0) {
            step();
            ++now_;
            continue;
        }
        for (Macro& macro : macros_) {
            macro.clock += macro.running ? std::min(quiet, macro.cycles - macro.clock) : 0;
            macro.has = 0;
        }
        now_ += quiet;
    }
}

/// So many cycles, at most `most`, in which no line is due and none waits.
Cycle SramBanks::quiet_cycles(Cycle most) const {
    for (const Macro& macro : macros_) {
        if (!macro.running) {
            continue;
        }
        for (const Stream& stream : macro.streams) {
            const bool over = macro.clock >= stream.end && stream.due == 0;
            if (stream.waiting != 0 || (macro.clock >= stream.start && !over)) {
                return 0;
            }
            if (macro.clock < stream.start) {
                most = std::min(most, stream.start - macro.clock);
            }
        }
    }
    return most;
}

void SramBanks::step() {
    std::uint64_t taken = calendar_.taken(now_).all();
    bool aged = false;
    active_ = false;
    for (Macro& macro : macros_) {
        macro.had = macro.has;
        macro.has = 0;
        aged = aged || macro.stalled_in_a_row >= age_bound_;
    }
    std::array<std::size_t, kBankEngines> order{0, 1, 2};
    if (aged) {
        const auto age = [this](std::size_t engine) {
            const Cycle stalled = macros_[engine].stalled_in_a_row;
            return stalled >= age_bound_ ? stalled : 0;
        };
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return age(a) > age(b); });
    }
    for (const std::size_t engine : order) {
        if (macros_[engine].running) {
            step(engine, taken);
        }
    }
}

/// `lines` consecutive lines as banks, beginning with bank `first`.
std::uint64_t SramBanks::spread(std::uint64_t lines, std::uint64_t first) const {
    const std::uint64_t plain = lines == kMaxBanks ? ~std::uint64_t{0} : (std::uint64_t{1} << lines) - 1;
    return ((plain << first) | (first == 0 ? 0 : plain >> (banks_ - first))) & all_;
}

/// Lines that are due enter their slots, in order. False if one found its slot taken; then `blocked` is that bank.
bool SramBanks::enter(Stream& stream, std::uint64_t& blocked) const {
    while (stream.due > 0) {
        const std::uint64_t lines = std::min({stream.due, stream.walk.left(), banks_});
        const std::uint64_t first = stream.walk.bank();
        const std::uint64_t wanted = spread(lines, first);
        const std::uint64_t met = stream.waiting & wanted;
        if (met != 0) {
            // The first of them in the order of the lines.
            const std::uint64_t ahead = met >> first << first;
            blocked = static_cast<std::uint64_t>(std::countr_zero(ahead != 0 ? ahead : met));
            const std::uint64_t free = blocked >= first ? blocked - first : blocked + banks_ - first;
            if (free > 0) {
                stream.waiting |= spread(free, first);
                stream.walk.advance(free);
                stream.due -= free;
            }
            return false;
        }
        stream.waiting |= wanted;
        stream.walk.advance(lines);
        stream.due -= lines;
    }
    return true;
}

std::size_t SramBanks::holder(std::size_t engine, std::uint64_t bank) const {
    constexpr std::size_t kPorts = kBankClients - kBankEngines;
    for (std::size_t other = 0; other < kBankEngines; ++other) {
        if ((macros_[other].had >> bank & 1U) != 0) {
            return other + kPorts;
        }
    }
    const BankCalendar::Taken ports = calendar_.taken(now_ - 1);
    if ((ports.all() >> bank & 1U) != 0) {
        return static_cast<std::size_t>((ports.written >> bank & 1U) != 0 ? BankClient::written : BankClient::read);
    }
    return engine + kPorts;
}

/// The lines of the cycle that the macro's clock shows.
void SramBanks::become_due(Macro& macro) {
    for (Stream& stream : macro.streams) {
        if (macro.clock >= stream.start && macro.clock < stream.end) {
            stream.carried += stream.rest;
            const bool one_more = stream.carried >= stream.duration;
            stream.carried -= one_more ? stream.duration : 0;
            stream.due += stream.every + (one_more ? 1 : 0);
        }
    }
}

void SramBanks::step(std::size_t engine, std::uint64_t& taken) {
    Macro& macro = macros_[engine];
    constexpr std::uint64_t kNone = ~std::uint64_t{0};
    const bool over = macro.clock == macro.cycles;
    std::uint64_t held_at = kNone;  // the bank that the macro waits for
    bool own = false;               // its slot was filled in this very cycle
    if (!macro.standing && !over) {
        become_due(macro);
    }
    for (Stream& stream : macro.streams) {
        const std::uint64_t old = stream.waiting;
        if (stream.due == 0 && old == 0) {
            continue;
        }
        active_ = true;
        std::uint64_t blocked = kNone;
        if (over) {
            blocked = static_cast<std::uint64_t>(std::countr_zero(old));
        } else if (stream.due > 0) {
            (void)enter(stream, blocked);
        }
        if (blocked != kNone && held_at == kNone) {
            held_at = blocked;
            own = (old >> blocked & 1U) == 0;
        }
        const std::uint64_t served = stream.waiting & ~taken;
        stream.waiting &= ~served;
        taken |= served;
        macro.has |= served;
    }
    if (held_at == kNone) {
        macro.standing = false;
        macro.stalled_in_a_row = 0;
        macro.clock += over ? 0 : 1;
        return;
    }
    macro.standing = !over;
    ++macro.stalls;
    ++macro.stalled_in_a_row;
    const std::size_t client = engine + (kBankClients - kBankEngines);
    ++counts_.stalled[client][own ? client : holder(engine, held_at)];
}

BankCounts SramBanks::counts() const {
    BankCounts counts = calendar_.counts();
    for (std::size_t client = kBankClients - kBankEngines; client < kBankClients; ++client) {
        counts.lines[client] = counts_.lines[client];
        counts.stalled[client] = counts_.stalled[client];
    }
    return counts;
}

}  // namespace sluice::sim
