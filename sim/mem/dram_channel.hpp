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
    std::uint32_t row = 0;
    std::uint8_t pseudo_channel = 0;  ///< of the channel
    std::uint8_t set = 0;
    std::uint8_t base = 0;
    std::uint8_t first = 0;
    std::uint8_t bursts = 1;
    bool write = false;
    Ck arrival = 0;
    std::uint64_t tag = 0;  ///< the client's
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
    void push(const DramRequest& request);
    /// Performs everything before CK `end`.
    void run_until(Ck end);
    /// The first CK, not yet performed, in which something will happen if nothing arrives; kNever if nothing will.
    /// Refreshes of a channel without requests do not count.
    [[nodiscard]] Ck next_action() { return idle() ? kNever : next(); }
    /// No read that has been pushed ends earlier than this after the next action: the latency of a column command and,
    /// if no request is shorter than a granule, those before its last.
    [[nodiscard]] Ck notice() const { return latency_[0] + (short_requests_ == 0 ? granule_ck_ : 0); }
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
    /// Bank groups of a set.
    using Groups = std::uint8_t;

    /// What is looked at often comes first, in one cache line.
    struct alignas(64) Entry {
        std::uint64_t sequence = 0;
        Ck ready = 0;  ///< of a hit, for its next run, as far as its banks are concerned, or earlier
        std::uint32_t passed_over = 0;
        Slot older = kNone, younger = kNone;                ///< of the same set and direction
        Slot older_of_all = kNone, younger_of_all = kNone;  ///< of the same pseudo-channel and direction
        Groups mask = 0;                                    ///< of the bursts that are left
        Groups open = 0;                                    ///< those of them whose row is open
        std::uint8_t left = 0;                              ///< bursts
        std::uint8_t next = 0;                              ///< bank group of the first of them, from the base
        std::uint8_t rank = 0;
        bool whole = false;  ///< its next run is, and `ready` says all that its banks forbid
        bool hit = false;
        bool hit_at_arrival = false;
        bool claims = false;  ///< in Queue::claims
        DramRequest request;
        std::uint32_t activates = 0;
        RowTrain train;  ///< asked for, if it claims

        [[nodiscard]] Groups needs() const { return static_cast<Groups>(mask & ~open); }
    };
    struct Ends {
        Slot oldest = kNone, youngest = kNone;
    };
    /// What the queued requests of one direction make of a set.
    struct Wishes {
        Ends requests;
        Groups wanted = 0;        ///< banks of bursts that are left
        Groups used = 0;          ///< those of them whose open row is the one wanted
        Groups needed = 0;        ///< those whose row is not
        std::uint8_t claims = 0;  ///< requests that ask for trains
    };
    struct Set {
        Groups open = 0;
        std::array<Wishes, 2> wishes;
    };
    /// A request that asks for a train if nothing keeps it from it.
    struct Claim {
        Ck ready = 0;  ///< as far as its banks are concerned
        Slot slot = kNone;
        std::uint8_t rank = 0;
        bool precharge = false;
        bool whole = false;
        bool kept = false;  ///< a row that it would close is wanted
    };
    /// Queued requests of one direction.
    struct Queue {
        Ends requests;
        std::vector<Slot> hits;     ///< by age
        std::vector<Claim> claims;  ///< by age
    };
    struct ColumnChoice {
        Ck at = kNever;
        Slot slot = kNone;
    };
    /// The train to be nominated: the earliest, of those the first by priority and age.
    struct RowChoice {
        Ck at = kNever;
        Priority priority = kRefresh;
        Slot slot = kNone;  ///< whose request it serves
        std::uint64_t sequence = 0;
        RowTrain train;
    };
    struct Refresh {
        std::uint64_t issued = 0;
        Ck offset = 0;
        Ck due = 0;              ///< of the next one
        std::uint64_t done = 0;  ///< banks of this round
        Bank next = 0;           ///< first to look at
        std::int32_t target = -1;
        bool all_under_way = false;
        bool check = false;  ///< something left: look for a target in the next CK
    };
    struct PseudoChannel {
        explicit PseudoChannel(const DramTable& table)
            : timing(table),
              rows(std::size_t{table.sets} * table.groups, kNoRow),
              used(rows.size()),
              sets(table.sets) {}

        DramTiming timing;
        std::vector<std::uint32_t> rows;  ///< of every bank
        std::vector<Ck> used;             ///< last column command, or ACT, of every bank
        std::vector<Set> sets;
        std::array<Queue, 2> queues;
        std::array<std::uint64_t, 2> wanted{};  ///< banks that a queued request needs, by direction
        std::uint64_t open = 0;                 ///< banks with a row
        Refresh refresh;
        ColumnChoice column;
        RowChoice row;
        Ck rows_free = 0;  ///< first CK after its last train
        Ck look = 0;       ///< when a refresh could next be found to be due
        bool nominated = false;
        bool column_stale = true, row_stale = true, look_stale = true;
        DramCounts counts;
    };

    void step(Ck now);
    [[nodiscard]] Ck next();
    [[nodiscard]] Ck admission() const;
    void admit(Ck now);
    void enter(const DramRequest& request);
    void leave(PseudoChannel& pc, Slot slot);
    void turn();
    [[nodiscard]] bool wants_turn() const;
    [[nodiscard]] bool preparing() const;
    void sizes_changed();

    void choose_column(PseudoChannel& pc);
    void offer_column(PseudoChannel& pc, Slot slot, std::uint64_t held_back);
    [[nodiscard]] std::uint64_t banks_held_back(const PseudoChannel& pc) const;
    void becomes_hit(PseudoChannel& pc, std::size_t direction, Slot slot);
    void no_longer_hit(PseudoChannel& pc, std::size_t direction, Slot slot);
    [[nodiscard]] Ck in_slot(const PseudoChannel& pc, Ck at) const;
    void start_run(PseudoChannel& pc, Ck now);
    void note_run(PseudoChannel& pc, const ColumnRun& run, std::uint32_t row, Ck now);
    void row_after_run(PseudoChannel& pc, const ColumnRun& run, Ck now);

    void settle_arrival(PseudoChannel& pc, std::size_t direction, Slot slot);
    void settle_run(PseudoChannel& pc, std::uint32_t set);
    void settle(PseudoChannel& pc, std::uint32_t set);
    void settle(PseudoChannel& pc, std::size_t direction, std::uint32_t set);
    void settle_rows(PseudoChannel& pc, std::size_t direction, Slot slot);
    void settle_train(PseudoChannel& pc, Slot slot);
    void update_wanted(PseudoChannel& pc, std::size_t direction, std::uint32_t set);
    void drop_claim(PseudoChannel& pc, std::size_t direction, Slot slot);
    void claim(PseudoChannel& pc, std::size_t direction, Slot slot, Groups kept);
    [[nodiscard]] RowTrain train_for(const Entry& entry, Groups open) const;
    void row_after_arrival(PseudoChannel& pc, std::size_t direction, Slot slot);

    void choose_row(PseudoChannel& pc);
    void choose_refresh_command(PseudoChannel& pc, RowChoice& best) const;
    void choose_claim(const PseudoChannel& pc, std::size_t direction, RowChoice& best) const;
    [[nodiscard]] bool keeps_from(const PseudoChannel& pc, std::size_t direction, const Claim& claim) const;
    [[nodiscard]] std::vector<Claim>::iterator claim_of(Queue& queue, Slot slot) const;
    void choose_page_closing(const PseudoChannel& pc, RowChoice& best) const;
    void offer(const PseudoChannel& pc, const RowChoice& choice, Ck allowed, RowChoice& best) const;
    [[nodiscard]] static bool before(const RowChoice& a, const RowChoice& b);
    [[nodiscard]] Ck row_start(const PseudoChannel& pc) const;
    void take_row_bus(const RowTrain& train, Ck now);
    void start_train(PseudoChannel& pc, Ck now);
    void open_row(PseudoChannel& pc, Bank bank, std::uint32_t row, Ck now);
    void close_row(PseudoChannel& pc, Bank bank, Ck now);
    void forget_row(PseudoChannel& pc, Bank bank);
    void start_for_all(PseudoChannel& pc, isa::DramCommand command, Ck now);
    void note_bank_refreshed(PseudoChannel& pc, Bank bank, Ck now);

    void look_for_refresh(PseudoChannel& pc, Ck now);
    void pick_target(PseudoChannel& pc, bool forced);
    void count_refresh(PseudoChannel& pc, Ck now);
    void check_progress(Ck now) const;
    [[nodiscard]] Ck due(const Refresh& refresh, std::uint64_t k) const;
    [[nodiscard]] Ck next_look(PseudoChannel& pc) const {
        if (pc.look_stale) {
            pc.look_stale = false;
            pc.look = find_next_look(pc);
        }
        return std::max(pc.look, tick_);
    }
    [[nodiscard]] Ck find_next_look(const PseudoChannel& pc) const;
    void skip_idle_refreshes(Ck end);

    [[nodiscard]] ColumnRun run_of(const Entry& entry) const;
    [[nodiscard]] Ck column_time(const PseudoChannel& pc, const Entry& entry) const;
    void set_left(Entry& entry, std::uint32_t left);
    [[nodiscard]] static std::uint64_t banks_of(const Entry& entry, std::uint32_t groups) {
        return std::uint64_t{entry.mask} << entry.request.set * groups;
    }
    [[nodiscard]] Groups groups_of(const DramRequest& request, std::uint32_t next, std::uint32_t left) const;
    [[nodiscard]] static Groups groups_of(const RowTrain& train) {
        std::uint32_t groups = 0;
        for (std::uint32_t i = 0; i < train.count; ++i) {
            groups |= 1U << train.groups[i];
        }
        return static_cast<Groups>(groups);
    }
    [[nodiscard]] Groups open_to(const PseudoChannel& pc, const Entry& entry) const;
    [[nodiscard]] bool aged(const Queue& queue, Slot slot) const {
        return queue.requests.oldest == slot && entries_[slot].passed_over >= age_limit_;
    }
    void insert_by_age(std::vector<Slot>& list, Slot slot) const;
    [[nodiscard]] static std::uint64_t wanted(const PseudoChannel& pc) { return pc.wanted[0] | pc.wanted[1]; }
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
    std::array<Ck, 2> latency_;  ///< last column command to the end of its data
    std::uint32_t granule_bursts_;
    Ck granule_ck_ = 0;  ///< first to last column command of a granule that is read in one run
    std::uint64_t short_requests_ = 0;
    bool per_bank_, all_bank_, closes_pages_;
    Ck page_timeout_ = 0;
    Ck patience_ = 0;  ///< longest that requests may wait while refreshes go on
    std::uint64_t refresh_interval_, refresh_parts_, postponed_, ahead_;

    std::vector<PseudoChannel> channels_;
    std::vector<Entry> entries_;
    std::vector<Slot> free_;
    std::size_t entries_in_use_ = 0;
    std::array<std::deque<DramRequest>, 2> waiting_;  ///< at the port
    std::array<Ck, 2> arrival_{kNever, kNever};       ///< of the first of them
    std::array<std::uint32_t, 2> queued_{};
    bool sizes_changed_ = false;  ///< since the direction was looked at
    std::uint64_t next_sequence_ = 0, turns_ = 0;
    bool writing_ = false, draining_ = false, prepared_ = false;
    Ck progress_ = 0;              ///< when the last run started, or the first request came
    std::uint64_t bus_taken_ = 0;  ///< bit i: the row bus at CK bus_from_ + i; later ones are free
    Ck bus_from_ = 0;
    Ck tick_ = 0;          ///< the first CK not yet performed
    Ck columns_from_ = 0;  ///< the first CK whose column command is not yet decided
    std::vector<DramTraceEntry>* trace_ = nullptr;
};

}  // namespace sluice::sim
