// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scheduling policy of sim/mem/README.md, followed cycle by cycle: slow, plain, and written from that page alone.
// Whether a command is allowed is looked up in all past commands.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::test {

using sim::Bank;
using sim::Ck;
using Command = isa::DramCommand;
using Level = isa::DramLevel;

/// All commands that a pseudo-channel was given, and what the constraints make of them.
class DramPast {
public:
    explicit DramPast(const isa::HbmSpec& spec)
        : spec_(spec), groups_(static_cast<Bank>(spec.bank_groups)), sets_(static_cast<Bank>(spec.banks_per_group)) {
        for (const isa::DramConstraint& c : spec.rules.constraints) {
            before_[static_cast<std::size_t>(c.to)].push_back(c);
        }
    }

    void add(Command command, Bank bank, Ck at) {
        for (std::size_t level = 0; level < isa::kDramLevels; ++level) {
            std::vector<Ck>& times =
                times_of(static_cast<Level>(level), part(static_cast<Level>(level), bank), command);
            times.insert(std::upper_bound(times.begin(), times.end(), at), at);
        }
    }

    [[nodiscard]] bool allowed(Command command, Bank bank, Ck at) {
        const std::vector<isa::DramConstraint>& constraints = before_[static_cast<std::size_t>(command)];
        return std::all_of(constraints.begin(), constraints.end(), [&](const isa::DramConstraint& c) {
            const std::size_t own = part(c.level, bank);
            if (!c.others) {
                return kept(c, own, at);
            }
            for (std::size_t rank = 0; rank < static_cast<std::size_t>(spec_.ranks); ++rank) {
                if (rank != own && !kept(c, rank, at)) {
                    return false;
                }
            }
            return true;
        });
    }

private:
    [[nodiscard]] bool kept(const isa::DramConstraint& c, std::size_t part, Ck at) {
        const std::vector<Ck>& times = times_of(c.level, part, c.from);
        const auto count = static_cast<std::size_t>(c.count);
        return times.size() < count || at >= times[times.size() - count] + static_cast<Ck>(c.gap);
    }
    [[nodiscard]] std::size_t part(Level level, Bank bank) const {
        const Bank rank = bank / groups_ / sets_;
        switch (level) {
            case Level::pseudo_channel: return 0;
            case Level::rank: return rank;
            case Level::bank_group: return rank * groups_ + bank % groups_;
            case Level::bank: break;
        }
        return bank;
    }
    std::vector<Ck>& times_of(Level level, std::size_t part, Command command) {
        std::vector<std::array<std::vector<Ck>, isa::kDramCommands>>& parts = times_[static_cast<std::size_t>(level)];
        if (parts.size() <= part) {
            parts.resize(part + 1);
        }
        return parts[part][static_cast<std::size_t>(command)];
    }

    const isa::HbmSpec& spec_;
    Bank groups_, sets_;
    std::array<std::vector<isa::DramConstraint>, isa::kDramCommands> before_;
    std::array<std::vector<std::array<std::vector<Ck>, isa::kDramCommands>>, isa::kDramLevels> times_;
};

class DramReference {
public:
    struct Accepted {
        std::uint64_t tag;
        Ck arrival, at;
        friend bool operator==(const Accepted&, const Accepted&) = default;
    };

    /// `number`: of the first pseudo-channel, of `total` on the chip.
    DramReference(const isa::HbmSpec& spec, std::uint32_t interleave, std::uint64_t number, std::uint64_t total)
        : spec_(spec),
          interleave_(interleave),
          groups_(static_cast<Bank>(spec.bank_groups)),
          banks_(static_cast<Bank>(spec.bank_groups * spec.banks_per_group * spec.ranks)),
          parts_(spec.refresh == "per_bank" ? banks_ : 1) {
        for (std::uint64_t p = 0; p < static_cast<std::uint64_t>(spec.pseudo_channels); ++p) {
            channels_.emplace_back(spec, banks_);
            channels_.back().first_due =
                static_cast<Ck>(spec.timing.nrefi) * (number + p + 1) / (std::uint64_t{parts_} * total);
        }
        set_steps();
    }

    void push(const sim::DramRequest& request) { port_[request.write ? 1 : 0].push_back(request); }

    /// One CK.
    void tick() {
        arrive();
        turn();
        for (PseudoChannel& pc : channels_) {
            refresh(pc);
        }
        column(channels_[now_ % channels_.size()]);
        if (now_ >= row_bus_free_) {
            row();
        }
        ++now_;
    }

    [[nodiscard]] bool idle() const {
        return queue_[0].empty() && queue_[1].empty() && port_[0].empty() && port_[1].empty();
    }
    [[nodiscard]] Ck now() const { return now_; }
    [[nodiscard]] std::uint64_t turns() const { return turns_; }

    std::vector<sim::DramTraceEntry> trace;
    std::vector<sim::DramServed> served;
    std::vector<Accepted> accepted;

private:
    struct Request {
        sim::DramRequest asked;
        std::uint32_t done = 0;  ///< bursts whose run has started
        std::int64_t passed_over = 0;
        std::uint32_t activates = 0;
        bool hit_at_arrival = false;
    };
    using Queue = std::vector<Request>;  ///< by age

    struct BankState {
        std::optional<std::uint32_t> row;
        Ck used = 0;  ///< last column command, or ACT
        bool refreshed = false;
    };
    struct PseudoChannel {
        PseudoChannel(const isa::HbmSpec& spec, std::size_t count) : past(spec), banks(count) {}
        DramPast past;
        std::vector<BankState> banks;
        Ck first_due = 0;
        std::uint64_t refreshes = 0;
        Bank look_first = 0;  ///< bank after the one refreshed last
        std::optional<Bank> chosen;
        bool closed_for_refresh = false;  ///< all_bank: due
    };

    // ---- requests --------------------------------------------------------------------------------------------------

    [[nodiscard]] std::size_t index(const PseudoChannel& pc) const {
        return static_cast<std::size_t>(&pc - channels_.data());
    }
    [[nodiscard]] bool belongs(const Request& r, const PseudoChannel& pc) const {
        return r.asked.pseudo_channel == index(pc);
    }
    [[nodiscard]] PseudoChannel& channel_of(const Request& r) { return channels_[r.asked.pseudo_channel]; }

    [[nodiscard]] Bank bank_of(const Request& r, std::uint32_t burst) const {
        return r.asked.set * groups_ + r.asked.base + (r.asked.first + burst) % interleave_;
    }
    /// Banks of the bursts that are left, each once, in their order.
    [[nodiscard]] std::vector<Bank> banks_of(const Request& r) const {
        std::vector<Bank> banks;
        for (std::uint32_t j = r.done; j < r.asked.bursts && j < r.done + interleave_; ++j) {
            banks.push_back(bank_of(r, j));
        }
        return banks;
    }
    [[nodiscard]] bool wants(const Request& r, const PseudoChannel& pc, Bank bank) const {
        if (!belongs(r, pc) || bank / groups_ != r.asked.set) {
            return false;
        }
        const std::vector<Bank> banks = banks_of(r);
        return std::find(banks.begin(), banks.end(), bank) != banks.end();
    }
    [[nodiscard]] bool ready(const Request& r, Bank bank) const {
        return channels_[r.asked.pseudo_channel].banks[bank].row == r.asked.row;
    }
    [[nodiscard]] bool hit(const Request& r) const {
        const std::vector<Bank> banks = banks_of(r);
        return std::all_of(banks.begin(), banks.end(), [&](Bank bank) { return ready(r, bank); });
    }
    [[nodiscard]] Queue& current() { return queue_[writing_ ? 1 : 0]; }

    /// Whether any queued request wants a bank, whatever its row.
    [[nodiscard]] bool wanted(const PseudoChannel& pc, Bank bank) const {
        return any([&](const Request& r) { return wants(r, pc, bank); });
    }
    [[nodiscard]] bool open_row_wanted(const PseudoChannel& pc, Bank bank) const {
        return any([&](const Request& r) { return wants(r, pc, bank) && ready(r, bank); });
    }
    template <class Holds>
    [[nodiscard]] bool any(Holds holds) const {
        return std::any_of(queue_[0].begin(), queue_[0].end(), holds) ||
               std::any_of(queue_[1].begin(), queue_[1].end(), holds);
    }
    [[nodiscard]] Request* oldest(Queue& queue, const PseudoChannel& pc) const {
        const auto found = std::find_if(queue.begin(), queue.end(), [&](const Request& r) { return belongs(r, pc); });
        return found == queue.end() ? nullptr : &*found;
    }
    [[nodiscard]] bool aged(const Request& r) const { return r.passed_over >= spec_.age_limit; }

    // ---- 1, 2: arrivals and direction ------------------------------------------------------------------------------

    void arrive() {
        for (const std::size_t d : {0, 1}) {
            const auto capacity = static_cast<std::size_t>(d == 0 ? spec_.read_queue : spec_.write_queue);
            while (!port_[d].empty() && port_[d].front().arrival <= now_ && queue_[d].size() < capacity) {
                Request request;
                request.asked = port_[d].front();
                request.hit_at_arrival = hit(request);
                queue_[d].push_back(request);
                if (d == 1) {
                    accepted.push_back({request.asked.tag, request.asked.arrival, now_});
                }
                port_[d].erase(port_[d].begin());
            }
        }
    }

    void turn() {
        const std::size_t reads = queue_[0].size();
        const std::size_t writes = queue_[1].size();
        const bool many = writes >= static_cast<std::size_t>(spec_.write_high);
        if (!writing_) {
            if (many || (reads == 0 && writes > 0)) {
                writing_ = true;
                drain_ = many;
                ++turns_;
            }
            return;
        }
        drain_ = drain_ || many;
        const bool low = writes <= static_cast<std::size_t>(spec_.write_low);
        if (writes == 0 || (reads > 0 && (low || !drain_))) {
            writing_ = false;
            ++turns_;
        }
    }

    // ---- 3: refresh ------------------------------------------------------------------------------------------------

    /// When the refresh of this number falls due.
    [[nodiscard]] Ck due(const PseudoChannel& pc, std::uint64_t number) const {
        return pc.first_due + number * static_cast<Ck>(spec_.timing.nrefi) / parts_;
    }

    void refresh(PseudoChannel& pc) {
        if (spec_.refresh == "all_bank") {
            pc.closed_for_refresh = due(pc, pc.refreshes) <= now_;
        } else if (spec_.refresh == "per_bank" && !pc.chosen) {
            choose(pc);
        }
    }

    void choose(PseudoChannel& pc) {
        const Ck interval = static_cast<Ck>(spec_.timing.nrefi);
        const Ck next = due(pc, pc.refreshes);
        const bool no_requests = !any([&](const Request& r) { return belongs(r, pc); });
        const bool is_due = next <= now_;
        const bool early = no_requests && next <= now_ + static_cast<Ck>(spec_.refresh_ahead) * interval;
        if (!is_due && !early) {
            return;
        }
        const bool late = next + static_cast<Ck>(spec_.refresh_postponed) * interval <= now_;
        std::optional<Bank> first;
        for (Bank i = 0; i < banks_; ++i) {
            const Bank bank = (pc.look_first + i) % banks_;
            if (pc.banks[bank].refreshed) {
                continue;
            }
            first = first ? first : bank;
            if (!wanted(pc, bank)) {
                pc.chosen = bank;
                return;
            }
        }
        if (late) {
            pc.chosen = first;
        }
    }

    // ---- 4: column -------------------------------------------------------------------------------------------------

    /// CK between the commands of a run, and whether a run of any length keeps the standard.
    void set_steps() {
        const auto turns = static_cast<Ck>(spec_.pseudo_channels);
        for (const std::size_t d : {0, 1}) {
            const Command column = d == 1 ? Command::write : Command::read;
            Ck step = static_cast<Ck>(spec_.timing.nbl);
            Ck again = 0;  // in the same bank group
            for (const isa::DramConstraint& c : spec_.rules.constraints) {
                if (c.from == column && c.to == column && !c.others) {
                    const bool any_group = c.level == Level::pseudo_channel || c.level == Level::rank;
                    (any_group ? step : again) = std::max(any_group ? step : again, static_cast<Ck>(c.gap));
                }
            }
            step_[d] = (step + turns - 1) / turns * turns;
            unbroken_[d] = again <= step_[d] * interleave_;
        }
    }

    [[nodiscard]] std::uint32_t run_length(const Request& r) const {
        const std::uint32_t left = r.asked.bursts - r.done;
        return unbroken_[r.asked.write ? 1 : 0] ? left : std::min(left, interleave_);
    }

    [[nodiscard]] bool may_start(const Request& r) {
        const Command command = r.asked.write ? Command::write : Command::read;
        for (std::uint32_t i = 0; i < run_length(r); ++i) {
            if (!channel_of(r).past.allowed(command, bank_of(r, r.done + i), now_ + i * step_[r.asked.write ? 1 : 0])) {
                return false;
            }
        }
        return hit(r);
    }

    void column(PseudoChannel& pc) {
        if (pc.closed_for_refresh) {
            return;
        }
        Request* const first = oldest(current(), pc);
        for (std::size_t i = 0; i < current().size(); ++i) {
            Request& r = current()[i];
            if (!belongs(r, pc) || !hit(r)) {
                continue;
            }
            if (may_start(r)) {
                first->passed_over = &r == first ? 0 : first->passed_over + 1;
                start(pc, r);
                if (r.done == r.asked.bursts) {
                    current().erase(current().begin() + static_cast<std::ptrdiff_t>(i));
                }
                return;
            }
            if (&r == first && aged(r)) {
                return;
            }
        }
    }

    void start(PseudoChannel& pc, Request& r) {
        const Command command = r.asked.write ? Command::write : Command::read;
        Ck at = now_;
        for (std::uint32_t left = run_length(r); left > 0; --left) {
            const Bank bank = bank_of(r, r.done++);
            pc.past.add(command, bank, at);
            pc.banks[bank].used = at;
            note(pc, command, at, bank, r.asked.row);
            at += step_[r.asked.write ? 1 : 0];
        }
        const Ck last = at - step_[r.asked.write ? 1 : 0];
        if (r.done == r.asked.bursts) {
            const std::int64_t latency = r.asked.write ? spec_.timing.ncwl : spec_.timing.ncl;
            served.push_back({r.asked.tag, r.asked.arrival, last + static_cast<Ck>(latency + spec_.timing.nbl),
                              r.activates, r.asked.bursts, r.hit_at_arrival, r.asked.write});
        }
    }

    // ---- 5: row ----------------------------------------------------------------------------------------------------

    void row() {
        if (refresh_command() || for_requests(writing_, false) || close_page()) {
            return;
        }
        const auto writes = static_cast<std::int64_t>(queue_[1].size());
        const bool turns_soon =
            writing_ ? writes <= spec_.write_low + spec_.prepare : writes >= spec_.write_high - spec_.prepare;
        if (turns_soon) {
            for_requests(!writing_, true);
        }
    }

    bool give(PseudoChannel& pc, Command command, Bank bank, std::uint32_t row_number) {
        if (!pc.past.allowed(command, bank, now_)) {
            return false;
        }
        pc.past.add(command, bank, now_);
        note(pc, command, now_, bank, row_number);
        row_bus_free_ =
            now_ + static_cast<Ck>(spec_.rules.row_bus_half_clocks[static_cast<std::size_t>(command)] + 1) / 2;
        return true;
    }

    bool close(PseudoChannel& pc, Bank bank) {
        if (!give(pc, Command::precharge, bank, *pc.banks[bank].row)) {
            return false;
        }
        pc.banks[bank].row.reset();
        return true;
    }

    bool refresh_command() {
        return std::any_of(channels_.begin(), channels_.end(), [this](PseudoChannel& pc) {
            return pc.closed_for_refresh ? refresh_all(pc) : pc.chosen && refresh_bank(pc, *pc.chosen);
        });
    }

    bool refresh_all(PseudoChannel& pc) {
        const bool closed = std::none_of(pc.banks.begin(), pc.banks.end(), [](const BankState& b) { return b.row; });
        if (!closed) {
            if (!give(pc, Command::precharge_all, 0, 0)) {
                return false;
            }
            for (BankState& bank : pc.banks) {
                bank.row.reset();
            }
            return true;
        }
        if (!give(pc, Command::refresh_all, 0, 0)) {
            return false;
        }
        ++pc.refreshes;
        pc.closed_for_refresh = false;
        return true;
    }

    bool refresh_bank(PseudoChannel& pc, Bank bank) {
        if (pc.banks[bank].row) {
            return close(pc, bank);
        }
        if (!give(pc, Command::refresh_bank, bank, 0)) {
            return false;
        }
        ++pc.refreshes;
        pc.look_first = (bank + 1) % banks_;
        pc.chosen.reset();
        pc.banks[bank].refreshed = true;
        if (std::all_of(pc.banks.begin(), pc.banks.end(), [](const BankState& b) { return b.refreshed; })) {
            for (BankState& b : pc.banks) {
                b.refreshed = false;
            }
        }
        return true;
    }

    /// The oldest request of a direction that wants a bank and does not find its row open.
    [[nodiscard]] Request* claimant(bool write, const PseudoChannel& pc, Bank bank) {
        Queue& queue = queue_[write ? 1 : 0];
        const auto found = std::find_if(queue.begin(), queue.end(),
                                        [&](const Request& r) { return wants(r, pc, bank) && !ready(r, bank); });
        return found == queue.end() ? nullptr : &*found;
    }

    /// `ahead`: of the direction that the channel is about to turn to.
    bool for_requests(bool write, bool ahead) {
        for (Request& r : queue_[write ? 1 : 0]) {
            PseudoChannel& pc = channel_of(r);
            if (pc.closed_for_refresh) {
                continue;
            }
            for (const Bank bank : banks_of(r)) {
                if (ready(r, bank) || claimant(write, pc, bank) != &r ||
                    (ahead && claimant(!write, pc, bank) != nullptr)) {
                    continue;
                }
                if (serve_claim(pc, r, bank, ahead)) {
                    return true;
                }
            }
        }
        return false;
    }

    bool serve_claim(PseudoChannel& pc, Request& r, Bank bank, bool ahead) {
        BankState& state = pc.banks[bank];
        if (state.row) {
            return !(ahead ? open_row_wanted(pc, bank) : kept_open(pc, r, bank)) && close(pc, bank);
        }
        if (pc.chosen == bank || !give(pc, Command::activate, bank, r.asked.row)) {
            return false;
        }
        state.row = r.asked.row;
        state.used = now_;
        ++r.activates;
        return true;
    }

    /// For another queued request of the direction, whatever `r` would have in its place.
    [[nodiscard]] bool kept_open(const PseudoChannel& pc, const Request& r, Bank bank) {
        if (oldest(current(), pc) == &r && aged(r)) {
            return false;
        }
        return std::any_of(current().begin(), current().end(), [&](const Request& q) {
            return wants(q, pc, bank) && ready(q, bank) && (hit(q) || &q < &r);
        });
    }

    bool close_page() {
        if (spec_.page == "open") {
            return false;
        }
        const Ck timeout = spec_.page == "timeout" ? static_cast<Ck>(spec_.page_timeout) : 0;
        for (PseudoChannel& pc : channels_) {
            for (Bank bank = 0; bank < banks_ && !pc.closed_for_refresh; ++bank) {
                const BankState& state = pc.banks[bank];
                if (state.row && now_ >= state.used + timeout && !open_row_wanted(pc, bank) && close(pc, bank)) {
                    return true;
                }
            }
        }
        return false;
    }

    void note(const PseudoChannel& pc, Command command, Ck at, Bank bank, std::uint32_t row_number) {
        trace.push_back({at, command, static_cast<std::uint8_t>(index(pc)), bank, row_number});
    }

    const isa::HbmSpec& spec_;
    std::uint32_t interleave_;
    Bank groups_, banks_, parts_;
    std::vector<PseudoChannel> channels_;
    std::array<std::vector<sim::DramRequest>, 2> port_;  ///< reads, writes
    std::array<Queue, 2> queue_;
    std::array<Ck, 2> step_{};
    std::array<bool, 2> unbroken_{};
    bool writing_ = false, drain_ = false;
    std::uint64_t turns_ = 0;
    Ck row_bus_free_ = 0;
    Ck now_ = 0;
};

}  // namespace sluice::test
