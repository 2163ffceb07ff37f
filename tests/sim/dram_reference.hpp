// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scheduling policy of sim/mem/README.md, followed cycle by cycle: slow, plain, and written from that page alone.
// Whether a command is allowed is looked up in all past commands.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/mem/dram_channel.hpp"
#include "tests/sim/dram_past.hpp"

namespace sluice::test {

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
        set_paces();
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
        for (std::size_t i = 0; i < channels_.size(); ++i) {
            row(channels_[(now_ + i) % channels_.size()]);
        }
        row_bus_.erase(now_);
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
    /// Row commands of one kind to banks of one request, or one command of another cause.
    struct Train {
        Command command = Command::precharge;
        std::vector<Bank> banks;
        std::uint32_t row = 0;             ///< of ACTs
        std::optional<std::uint64_t> tag;  ///< of the request that ACTs are for
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
        std::optional<Train> nominee;
        Ck train_over = 0;  ///< after the last command of the last train
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

    /// One of its banks is to be refreshed, or needed by the oldest request, which has waited too long.
    [[nodiscard]] bool held_back(const PseudoChannel& pc, const Request& r, const Request& first) const {
        const std::vector<Bank> banks = banks_of(r);
        return std::any_of(banks.begin(), banks.end(), [&](Bank bank) {
            return pc.chosen == bank || (aged(first) && wants(first, pc, bank) && !ready(first, bank));
        });
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
            if (may_start(r) && !held_back(pc, r, *first)) {
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

    /// CK between the commands of a train, and how many it has at most.
    struct Pace {
        Ck step = 1;
        std::size_t most = SIZE_MAX;
    };

    void set_paces() {
        for (std::size_t k = 0; k < isa::kDramCommands; ++k) {
            const auto kind = static_cast<Command>(k);
            Pace& pace = paces_[k];
            pace.step = std::max<Ck>(pace.step, bus_time(kind));
            for (const isa::DramConstraint& c : spec_.rules.constraints) {
                if (c.from != kind || c.to != kind) {
                    continue;
                }
                if (c.count > 1) {
                    pace.most = std::min(pace.most, static_cast<std::size_t>(c.count));
                } else if (!c.others && (c.level == Level::pseudo_channel || c.level == Level::rank)) {
                    pace.step = std::max(pace.step, static_cast<Ck>(c.gap));
                }
            }
            pace.most = std::min<std::size_t>(pace.most, (64 - bus_time(kind)) / pace.step + 1);
        }
    }
    [[nodiscard]] const Pace& pace(Command kind) const { return paces_[static_cast<std::size_t>(kind)]; }
    [[nodiscard]] Ck bus_time(Command kind) const {
        return static_cast<Ck>(spec_.rules.row_bus_half_clocks[static_cast<std::size_t>(kind)] + 1) / 2;
    }

    void row(PseudoChannel& pc) {
        // A REFab that falls due (and the PREA before it) takes a nominee's place.
        if (pc.closed_for_refresh && pc.nominee && pc.nominee->command != Command::precharge_all &&
            pc.nominee->command != Command::refresh_all) {
            pc.nominee.reset();
        }
        if (pc.nominee && !allowed(pc, *pc.nominee)) {
            pc.nominee.reset();  // a run forbids it
        }
        if (!pc.nominee && now_ >= pc.train_over) {
            pc.nominee = nomination(pc);
        }
        if (pc.nominee && bus_free(*pc.nominee)) {
            const Train train = *std::exchange(pc.nominee, std::nullopt);
            start(pc, train);
        }
    }

    [[nodiscard]] std::optional<Train> nomination(PseudoChannel& pc) {
        std::optional<Train> refresh = for_refresh(pc);
        if (refresh && allowed(pc, *refresh)) {
            return refresh;
        }
        if (pc.closed_for_refresh) {
            return {};
        }
        std::optional<Train> train = for_requests(pc, writing_, false);
        if (!train) {
            train = for_page(pc);
        }
        if (!train && about_to_turn()) {
            train = for_requests(pc, !writing_, true);
        }
        return train;
    }

    // ---- a train's start

    [[nodiscard]] bool allowed(PseudoChannel& pc, const Train& train) const {
        return pc.past.allowed(train.command, train.banks, now_, pace(train.command).step);
    }

    /// Trains of other pseudo-channels may have taken CKs to come.
    [[nodiscard]] bool bus_free(const Train& train) const {
        for (std::size_t i = 0; i < train.banks.size(); ++i) {
            const Ck at = now_ + i * pace(train.command).step;
            const auto taken = row_bus_.lower_bound(at);
            if (taken != row_bus_.end() && *taken < at + bus_time(train.command)) {
                return false;
            }
        }
        return true;
    }

    void start(PseudoChannel& pc, const Train& train) {
        Ck at = now_;
        for (const Bank bank : train.banks) {
            const bool closes = train.command == Command::precharge;
            note(pc, train.command, at, bank, closes ? *pc.banks[bank].row : train.row);
            pc.past.add(train.command, bank, at);
            for (Ck i = 0; i < bus_time(train.command); ++i) {
                row_bus_.insert(at + i);
            }
            give(pc, train, bank, at);
            pc.train_over = at + 1;
            at += pace(train.command).step;
        }
        if (train.tag) {
            request_of(*train.tag).activates += static_cast<std::uint32_t>(train.banks.size());
        }
    }

    /// What one command does to its bank, or to all.
    void give(PseudoChannel& pc, const Train& train, Bank bank, Ck at) {
        BankState& state = pc.banks[bank];
        switch (train.command) {
            case Command::activate: state.row = train.row, state.used = at; break;
            case Command::precharge: state.row.reset(); break;
            case Command::precharge_all:
                for (BankState& b : pc.banks) {
                    b.row.reset();
                }
                break;
            case Command::refresh_all: ++pc.refreshes, pc.closed_for_refresh = false; break;
            case Command::refresh_bank: refreshed(pc, bank); break;
            case Command::read:
            case Command::write: break;
        }
    }

    void refreshed(PseudoChannel& pc, Bank bank) {
        ++pc.refreshes;
        pc.look_first = (bank + 1) % banks_;
        pc.chosen.reset();
        pc.banks[bank].refreshed = true;
        if (std::all_of(pc.banks.begin(), pc.banks.end(), [](const BankState& b) { return b.refreshed; })) {
            for (BankState& b : pc.banks) {
                b.refreshed = false;
            }
        }
    }

    /// It is still queued: it cannot be served before its banks are open.
    [[nodiscard]] Request& request_of(std::uint64_t tag) {
        const auto is = [tag](const Request& r) { return r.asked.tag == tag; };
        const auto read = std::find_if(queue_[0].begin(), queue_[0].end(), is);
        return read != queue_[0].end() ? *read : *std::find_if(queue_[1].begin(), queue_[1].end(), is);
    }

    // ---- a, c: for a refresh and for the page policy

    [[nodiscard]] std::optional<Train> for_refresh(const PseudoChannel& pc) const {
        if (pc.closed_for_refresh) {
            const bool open = std::any_of(pc.banks.begin(), pc.banks.end(), [](const BankState& b) { return b.row; });
            return Train{open ? Command::precharge_all : Command::refresh_all, {0}, 0, {}};
        }
        if (pc.chosen) {
            const bool open = pc.banks[*pc.chosen].row.has_value();
            return Train{open ? Command::precharge : Command::refresh_bank, {*pc.chosen}, 0, {}};
        }
        return {};
    }

    [[nodiscard]] std::optional<Train> for_page(PseudoChannel& pc) const {
        if (spec_.page == "open") {
            return {};
        }
        const Ck timeout = spec_.page == "timeout" ? static_cast<Ck>(spec_.page_timeout) : 0;
        for (Bank bank = 0; bank < banks_; ++bank) {
            const BankState& state = pc.banks[bank];
            const Train train{Command::precharge, {bank}, 0, {}};
            if (state.row && now_ >= state.used + timeout && !open_row_wanted(pc, bank) && allowed(pc, train)) {
                return train;
            }
        }
        return {};
    }

    // ---- b, d: for requests

    [[nodiscard]] bool about_to_turn() const {
        const auto writes = static_cast<std::int64_t>(queue_[1].size());
        return writing_ ? writes <= spec_.write_low + spec_.prepare : writes >= spec_.write_high - spec_.prepare;
    }

    /// `ahead`: of the direction that the channel is about to turn to.
    [[nodiscard]] std::optional<Train> for_requests(PseudoChannel& pc, bool write, bool ahead) {
        for (const Request& r : queue_[write ? 1 : 0]) {
            if (belongs(r, pc)) {
                std::optional<Train> train = asked_by(r, pc, ahead);
                if (train && allowed(pc, *train)) {
                    return train;
                }
            }
        }
        return {};
    }

    /// Whether a request asks is judged by all banks that it needs, even if a train has not room for all.
    [[nodiscard]] std::optional<Train> asked_by(const Request& r, const PseudoChannel& pc, bool ahead) {
        const std::vector<Bank> needs = needed(r);
        if (needs.empty() || !has_claims(r, pc, needs, ahead)) {
            return {};
        }
        std::vector<Bank> open;
        std::copy_if(needs.begin(), needs.end(), std::back_inserter(open),
                     [&](Bank bank) { return pc.banks[bank].row; });
        if (open.empty()) {
            const bool refreshes = pc.chosen && std::find(needs.begin(), needs.end(), *pc.chosen) != needs.end();
            return refreshes ? std::nullopt : std::optional(train_of(Command::activate, needs, &r));
        }
        const bool kept = std::any_of(open.begin(), open.end(), [&](Bank bank) {
            return ahead ? open_row_wanted(pc, bank) : kept_open(pc, r, bank);
        });
        return kept ? std::nullopt : std::optional(train_of(Command::precharge, open, nullptr));
    }

    [[nodiscard]] Train train_of(Command command, std::vector<Bank> banks, const Request* activates) const {
        banks.resize(std::min(banks.size(), pace(command).most));
        Train train{command, std::move(banks), 0, {}};
        if (activates != nullptr) {
            train.row = activates->asked.row;
            train.tag = activates->asked.tag;
        }
        return train;
    }

    /// Banks of its remaining bursts that have not its row open.
    [[nodiscard]] std::vector<Bank> needed(const Request& r) const {
        std::vector<Bank> banks = banks_of(r);
        banks.erase(std::remove_if(banks.begin(), banks.end(), [&](Bank bank) { return ready(r, bank); }), banks.end());
        return banks;
    }

    /// Whether no other request comes first at any of the banks it needs.
    [[nodiscard]] bool has_claims(const Request& r, const PseudoChannel& pc, const std::vector<Bank>& needs,
                                  bool ahead) {
        return std::all_of(needs.begin(), needs.end(), [&](Bank bank) {
            return claimant(r.asked.write, pc, bank) == &r && !(ahead && claimant(!r.asked.write, pc, bank) != nullptr);
        });
    }

    /// The oldest request of a direction that needs a bank.
    [[nodiscard]] Request* claimant(bool write, const PseudoChannel& pc, Bank bank) {
        Queue& queue = queue_[write ? 1 : 0];
        const auto found = std::find_if(queue.begin(), queue.end(),
                                        [&](const Request& r) { return wants(r, pc, bank) && !ready(r, bank); });
        return found == queue.end() ? nullptr : &*found;
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
    std::array<Pace, isa::kDramCommands> paces_{};
    std::set<Ck> row_bus_;  ///< CKs taken, from now on
    bool writing_ = false, drain_ = false;
    std::uint64_t turns_ = 0;
    Ck now_ = 0;
};

}  // namespace sluice::test
