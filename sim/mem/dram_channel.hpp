// SPDX-License-Identifier: Apache-2.0
#pragma once
// The controller of one HBM channel: its pseudo-channels, which share a read queue, a write queue and the command
// buses. README.md beside this file is its specification. It never ticks: `run_until` jumps from one CK in which
// something can happen to the next. Plain C++; `hbm` puts it behind the network, tests and benchmarks drive it alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/mem/dram_timing.hpp"

namespace sluice::sim {

/// Up to a granule of bursts in one row of one bank set. Burst j lies in bank group base + (first + j) mod interleave.
struct DramRequest {
    Ck arrival = 0;
    std::uint64_t tag = 0;  ///< the client's
    std::uint32_t row = 0;
    std::uint8_t pseudo_channel = 0;  ///< of the channel
    std::uint8_t set = 0;
    std::uint8_t base = 0;
    std::uint8_t first = 0;
    std::uint8_t bursts = 1;
    bool write = false;
};

struct DramServed {
    std::uint64_t tag = 0;
    Ck arrival = 0;
    Ck end = 0;                   ///< after the last data on the bus
    std::uint32_t activates = 0;  ///< rows opened for it
    std::uint32_t bursts = 0;
    bool hit = false;  ///< its banks were ready when it came to the queue
    bool write = false;
};

class DramClient {
public:
    /// A write has entered the write queue at CK `at`: whoever reads from now on finds it.
    virtual void accepted(std::uint64_t tag, Ck arrival, Ck at) = 0;
    /// Called once a request's last run has started, which is before its end.
    virtual void served(const DramServed& served) = 0;

protected:
    ~DramClient() = default;
};

struct DramTraceEntry {
    Ck at = 0;
    isa::DramCommand command = isa::DramCommand::activate;
    std::uint8_t pseudo_channel = 0;
    Bank bank = 0;  ///< 0 for commands to the whole pseudo-channel
    std::uint32_t row = 0;

    friend bool operator==(const DramTraceEntry&, const DramTraceEntry&) = default;
};

struct DramCounts {
    std::uint64_t requests = 0, hits = 0, activates = 0, refreshes = 0;
    std::uint64_t read_bursts = 0, written_bursts = 0;
};

class DramChannel {
public:
    /// `number`: of its first pseudo-channel on the chip, for the stagger of refreshes over `total` pseudo-channels.
    DramChannel(const isa::HbmSpec& spec, const DramTable& table, std::uint64_t number, std::uint64_t total,
                DramClient& client);

    /// In the order of arrivals, none before what `run_until` has been told.
    void push(const DramRequest& request) { waiting_[request.write ? 1 : 0].push_back(request); }
    /// Performs everything before CK `end`.
    void run_until(Ck end);
    /// The first CK, not yet performed, in which something will happen if nothing arrives; kNever if nothing will.
    /// Refreshes of a channel without requests do not count.
    [[nodiscard]] Ck next_action() { return idle() ? kNever : next(); }
    /// The client hears of a request at least this long before its end.
    [[nodiscard]] Ck notice() const { return std::min(latency_[0], latency_[1]); }
    /// A write has arrived and is not yet accepted.
    [[nodiscard]] bool write_waits() const { return !waiting_[1].empty(); }

    [[nodiscard]] bool idle() const { return entries_in_use_ == 0 && waiting_[0].empty() && waiting_[1].empty(); }
    [[nodiscard]] const DramCounts& counts(std::size_t pseudo_channel) const {
        return channels_[pseudo_channel].counts;
    }
    /// Of the direction, reads to writes or back.
    [[nodiscard]] std::uint64_t turns() const { return turns_; }
    /// Requests in the queue of a direction.
    [[nodiscard]] std::size_t queued(bool write) const { return queued_[write ? 1 : 0]; }
    [[nodiscard]] std::size_t waiting(bool write) const { return waiting_[write ? 1 : 0].size(); }
    [[nodiscard]] std::size_t pseudo_channels() const { return channels_.size(); }
    void record_to(std::vector<DramTraceEntry>* trace) { trace_ = trace; }

private:
    using Slot = std::uint16_t;
    static constexpr Slot kNone = ~Slot{0};
    enum Priority : std::uint8_t { kRefresh, kDirection, kPage, kPrepare };

    struct Entry {
        DramRequest request;
        std::uint64_t sequence = 0;
        std::uint32_t passed_over = 0;
        std::uint32_t activates = 0;
        Slot older = kNone, younger = kNone;  ///< of the same set and direction
        std::uint8_t mask = 0;                ///< bank groups of the bursts that are left
        std::uint8_t open = 0;                ///< those of them whose row is open
        std::uint8_t left = 0;                ///< bursts
        std::uint8_t next = 0;                ///< bank group of the first of them, counted from the base
        bool hit_at_arrival = false;

        [[nodiscard]] bool hit() const { return open == mask; }
    };
    struct BankState {
        std::uint32_t row = kNoRow;
        std::uint16_t queued = 0;                 ///< requests, of both directions
        std::array<std::uint16_t, 2> hits{};      ///< queued reads and writes that want the open row
        std::array<Slot, 2> claim{kNone, kNone};  ///< the oldest read and write that want another row
        Ck used = 0;                              ///< last column command, or ACT
    };
    struct ColumnChoice {
        Ck at = kNever;
        Slot slot = kNone;
    };
    /// The best row command so far: the earliest, of those the first by priority, age and place in its request.
    struct RowChoice {
        Ck at = kNever;
        Priority priority = kRefresh;
        isa::DramCommand command = isa::DramCommand::activate;
        Slot slot = kNone;  ///< whose request it serves
        Bank bank = 0;
        std::uint64_t sequence = 0;
    };
    struct Refresh {
        std::uint64_t issued = 0;
        Ck offset = 0;
        Ck due = 0;              ///< of the next one
        std::uint64_t done = 0;  ///< banks of this round
        Bank next = 0;           ///< first to look at
        std::int32_t target = -1;
        bool all_under_way = false;
        bool check = false;  ///< look for a target in the next CK
    };
    /// Queued requests of one direction.
    struct Queue {
        std::vector<Slot> hits, misses;  ///< by age
        std::array<std::uint16_t, kMaxRanks> hits_of_rank{};
        struct Ends {
            Slot oldest = kNone, youngest = kNone;
        };
        std::vector<Ends> sets;
        std::uint64_t claimed_open = 0, claimed_closed = 0;  ///< banks with a claim, by whether a row is open
        std::uint64_t kept = 0;                              ///< of the first: banks whose open row others may keep
    };
    struct PseudoChannel {
        PseudoChannel(const DramTable& table) : timing(table), banks(table.sets * table.groups) {
            queues[0].sets.resize(table.sets);
            queues[1].sets.resize(table.sets);
        }

        DramTiming timing;
        std::vector<BankState> banks;
        std::array<Queue, 2> queues;
        std::uint64_t wanted = 0;  ///< banks that a queued request needs
        std::uint64_t open = 0;    ///< banks with a row
        Refresh refresh;
        ColumnChoice column;
        RowChoice precharge, activate, row;  ///< the best of each, refresh commands with the first; the better of them
        bool column_stale = true, precharge_stale = true, activate_stale = true;
        DramCounts counts;
    };

    void step(Ck now);
    [[nodiscard]] Ck next();
    void admit(Ck now);
    void enter(const DramRequest& request);
    void offer_rows(PseudoChannel& pc, std::size_t direction, std::uint32_t set);
    void leave(PseudoChannel& pc, Slot slot);
    void turn();
    [[nodiscard]] bool wants_turn() const;
    [[nodiscard]] bool preparing() const;
    void sizes_changed();

    void choose_column(PseudoChannel& pc);
    void offer_column(PseudoChannel& pc, Slot slot);
    void becomes_hit(PseudoChannel& pc, std::size_t direction, Slot slot);
    void no_longer_hit(PseudoChannel& pc, std::size_t direction, Slot slot);
    [[nodiscard]] Ck soonest_column(const PseudoChannel& pc) const;
    [[nodiscard]] Ck in_slot(const PseudoChannel& pc, Ck at) const;
    void start_run(PseudoChannel& pc, Ck now);
    void shrink(PseudoChannel& pc, Entry& entry);

    void refresh_row_choice(PseudoChannel& pc) {
        if (pc.precharge_stale || pc.activate_stale || pc.row.at < row_free_) {
            choose_row(pc);
        }
    }
    void choose_row(PseudoChannel& pc);
    void choose_refresh_command(PseudoChannel& pc, RowChoice& best) const;
    void choose_precharge(const PseudoChannel& pc, std::size_t direction, Priority priority, std::uint64_t except,
                          RowChoice& best) const;
    [[nodiscard]] bool kept(const Queue& queue, Slot claim, Bank bank, std::uint32_t row) const;
    void look_who_keeps(PseudoChannel& pc, std::size_t direction, std::uint32_t set);
    void choose_activate(const PseudoChannel& pc, std::size_t direction, Priority priority, std::uint64_t except,
                         RowChoice& best) const;
    void choose_page_closing(const PseudoChannel& pc, RowChoice& best) const;
    [[nodiscard]] bool before(const RowChoice& a, const RowChoice& b) const;
    void offer(RowChoice& best, RowChoice choice) const;
    void offer_for(RowChoice& best, const PseudoChannel& pc, Priority priority, isa::DramCommand command, Slot slot,
                   Bank bank) const;
    void issue_row(PseudoChannel& pc, const RowChoice& choice, Ck now);
    void after_activate(PseudoChannel& pc, Bank bank);
    void after_precharge(PseudoChannel& pc, Bank bank);
    void open(PseudoChannel& pc, Bank bank, std::uint32_t row);
    void close(PseudoChannel& pc, Bank bank);
    void claim_anew(PseudoChannel& pc, std::size_t direction, Bank bank);

    void look_for_refresh(PseudoChannel& pc, Ck now);
    void pick_target(PseudoChannel& pc, bool forced);
    void count_refresh(PseudoChannel& pc);
    [[nodiscard]] Ck due(const Refresh& refresh, std::uint64_t k) const;
    [[nodiscard]] Ck next_look(const PseudoChannel& pc) const;
    void skip_idle_refreshes(Ck end);

    [[nodiscard]] std::uint64_t banks_of(std::uint32_t set) const {
        return ((std::uint64_t{1} << table_.groups) - 1) << set * table_.groups;
    }
    [[nodiscard]] ColumnRun run_of(const Entry& entry) const;
    [[nodiscard]] std::uint8_t groups_of(const DramRequest& request, std::uint32_t next, std::uint32_t left) const;
    [[nodiscard]] std::uint8_t position_of(const Entry& entry, std::uint32_t group) const;
    [[nodiscard]] Slot oldest(const Queue& queue) const;
    [[nodiscard]] bool aged(const Queue& queue, Slot slot) const {
        return entries_[slot].passed_over >= age_limit_ && oldest(queue) == slot;
    }
    void insert_by_age(std::vector<Slot>& list, Slot slot) const;
    [[nodiscard]] static bool has_requests(const PseudoChannel& pc) { return pc.wanted != 0; }
    [[nodiscard]] std::size_t direction() const { return writing_ ? 1 : 0; }
    [[nodiscard]] std::uint64_t number_of(const PseudoChannel& pc) const {
        return static_cast<std::uint64_t>(&pc - channels_.data());
    }
    void note(const PseudoChannel& pc, isa::DramCommand command, Ck at, Bank bank, std::uint32_t row) const {
        if (trace_ != nullptr) {
            trace_->push_back({at, command, static_cast<std::uint8_t>(number_of(pc)), bank, row});
        }
    }

    DramClient& client_;
    const DramTable& table_;
    std::uint32_t banks_;
    std::array<std::uint32_t, 2> capacity_;
    std::uint32_t write_high_, write_low_, prepare_, age_limit_;
    std::array<Ck, isa::kDramCommands> row_bus_{};
    std::array<Ck, 2> latency_;  ///< last column command to the end of its data
    bool per_bank_, all_bank_, closes_pages_;
    Ck page_timeout_ = 0;
    std::uint64_t refresh_interval_, refresh_parts_, postponed_, ahead_;

    std::vector<PseudoChannel> channels_;
    std::vector<Entry> entries_;
    std::vector<Slot> free_;
    std::size_t entries_in_use_ = 0;
    std::array<std::deque<DramRequest>, 2> waiting_;  ///< at the port
    std::array<std::uint32_t, 2> queued_{};
    std::uint64_t next_sequence_ = 0, turns_ = 0;
    bool writing_ = false, draining_ = false, prepared_ = false;
    Ck row_free_ = 0;
    Ck tick_ = 0;  ///< the first CK not yet performed
    std::vector<DramTraceEntry>* trace_ = nullptr;
};

}  // namespace sluice::sim
