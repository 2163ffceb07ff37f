// SPDX-License-Identifier: Apache-2.0
#pragma once
// A banked SRAM: `banks` single-ported banks, each serving one access per cycle, whichever direction.
//
// The rule. Byte x lies in bank floor(x / bank_bytes) mod banks. A client sends an *access train*; beat i of it touches
// bytes start + i * stride .. start + i * stride + bytes - 1 and takes all banks that these lie in. In every cycle c:
//   1. A train is *ready* if it has beats left, has joined at or before c, and its last beat was at or before
//      c - interval.
//   2. Ready trains are served one after the other. Those that have stalled in at least `age_bound` cycles in a row
//      come first, the longest stall first; then the others; ties go by client (0 first), then in the order of joining.
//   3. A train whose banks are all still free in c takes them: its beat crosses. Otherwise it takes none of them and
//      stalls in c; the cycle is put down to the first train in the order of c that holds one of them.
//   4. A train ends in the cycle after that of its last beat.
// So every cycle of a train is a beat, a rest (interval) or a stall: end - join = solo_cycles(train) + its stalls.
//
// Nothing ticks. What a lone train does, and trains of one stride that keep clear of each other, has closed forms;
// otherwise the joint state (places, rests and stalls of all trains) decides all that follows, so that it is stepped
// until it repeats, and then multiplied. Starts and strides that are multiples of 32 bytes repeat soon; three trains
// of odd strides may not do so in 10^9, and cost what stepping costs. How the run is divided into calls of `advance`
// changes no result. Equal, cycle for cycle, to tests/sim/bank_reference.hpp.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/units.hpp"

namespace sluice::sim {

constexpr std::size_t kMaxBanks = 64;
constexpr std::size_t kMaxBankClients = 8;
constexpr std::size_t kMaxBankTrains = 64;

struct BankGroupSpec {
    std::uint32_t banks = 32;        ///< 1..64
    std::uint32_t bank_bytes = 128;  ///< per bank and cycle; 1..2^24
    Cycle age_bound = 64;            ///< at least 1
};

struct AccessTrain {
    std::uint32_t client = 0;  ///< 0..7; 0 is served first
    Bytes start = 0;           ///< first byte of the first beat
    std::int64_t stride = 0;   ///< bytes from one beat to the next; may be negative or 0
    Bytes bytes = 0;           ///< of a beat; at least 1; no bank twice, wherever the stride leads
    std::uint64_t beats = 0;   ///< at least 1
    Cycle interval = 1;        ///< at best one beat in so many cycles; at least 1. beats * interval < 2^62
};

/// Trains are numbered in the order in which they join, from 0.
using TrainId = std::uint64_t;

struct TrainEnd {
    TrainId id = 0;
    Cycle at = 0;  ///< the cycle after that of its last beat
};

struct BankCounts {
    std::array<std::uint64_t, kMaxBankClients> beats{};  ///< by client
    /// stalled[x][y]: cycles in which a train of client x stalled because a train of client y held a bank
    std::array<std::array<Cycle, kMaxBankClients>, kMaxBankClients> stalled{};
    Cycle cycles = 0;  ///< in which there was a train
};

/// Throws InvariantError for values out of their ranges and for time that runs backwards.
class BankGroup {
public:
    explicit BankGroup(const BankGroupSpec& spec);

    /// Cycles from joining to the end of a train that is alone.
    [[nodiscard]] static Cycle solo_cycles(const AccessTrain& train) { return (train.beats - 1) * train.interval + 1; }

    /// Advances to `now`; the train may have its first beat in that cycle.
    TrainId join(const AccessTrain& train, Cycle now);
    /// Everything up to the end of cycle `to` - 1 has happened. `to` never falls.
    void advance(Cycle to);
    [[nodiscard]] Cycle now() const { return schedule_.now; }

    /// Trains that have ended, each once: in the order of their ends, then by client, then as they joined.
    [[nodiscard]] std::optional<TrainEnd> take_ended();
    /// Beats that have crossed; nothing for a train that has ended.
    [[nodiscard]] std::optional<std::uint64_t> beats_done(TrainId id) const;
    [[nodiscard]] BankCounts counts() const;

    /// The end of the train that ends first if nothing else joins. Exact, and foresees up to a whole joint period.
    [[nodiscard]] std::optional<Cycle> next_end();
    /// No train ends before this cycle (it is later than now): the first end if nobody stalled any more. A caller that
    /// wakes, advances and asks again finds every end in its cycle; where trains join often, that is far cheaper than
    /// foreseeing what the next one will change anyway.
    [[nodiscard]] std::optional<Cycle> next_wake() const;

private:
    /// A train on its way.
    struct Active {
        std::uint64_t mask = 0;          // banks of the next beat
        std::uint32_t bank = 0;          // its first one
        std::uint32_t offset = 0;        // of its first byte, in that bank
        std::uint32_t stride_banks = 0;  // the stride, modulo the size of all banks
        std::uint32_t stride_offset = 0;
        std::uint32_t tail = 0;  // (bytes - 1) mod bank_bytes
        std::uint32_t client = 0;
        std::uint64_t narrow = 0;     // banks of a beat that starts in bank 0 at offset 0; one more may be touched
        std::uint64_t remaining = 0;  // beats
        Cycle due = 0;                // no beat before
        Cycle interval = 1;
        Cycle stalled = 0;  // cycles in a row
        Bytes bytes = 0;
        std::uint64_t beats = 0;
        TrainId id = 0;
    };
    /// Which banks there are, and how trains go over them.
    struct Places {
        std::uint32_t banks = 0, bank_bytes = 0;
        std::uint64_t all_banks = 0;

        [[nodiscard]] Bytes size() const { return Bytes{banks} * bank_bytes; }
        [[nodiscard]] Bytes of(const Active& train) const { return Bytes{train.bank} * bank_bytes + train.offset; }
        [[nodiscard]] std::uint64_t mask(const Active& train) const;
        void put(Active& train, Bytes place) const;
        void move(Active& train) const;
        void move(Active& train, std::uint64_t beats) const;
    };
    using Stalls = std::array<std::array<Cycle, kMaxBankClients>, kMaxBankClients>;

    /// The trains that are ready in a cycle, in the order in which they are served.
    struct Ready {
        std::array<Active*, kMaxBankTrains> trains;
        std::size_t count = 0;
        Cycle next_due = 0;  // of the trains that rest
        Cycle longest_stall = 0;
    };

    /// All that changes with time. A copy can be run ahead.
    struct Schedule {
        Places places;
        Cycle age_bound = 0;
        std::uint32_t granule = 0;  // divides all starts, strides and sizes of beats
        Cycle now = 0;
        std::vector<Active> trains;  // by client, then in the order of joining
        Stalls stalls{};
        Cycle cycles = 0;
        // Search for a repetition (R. P. Brent): the state of one time is held against all later ones, for twice as
        // long each time.
        std::vector<Active> seen_trains;
        Stalls seen_stalls{};
        Cycle seen_at = 0;
        std::uint64_t steps = 0, renew_at = 0;
        Cycle look_for_clear_at = 0;

        void changed();
        bool run(Cycle until);
        bool run_some(Cycle until);
        void collect_ready(Ready& ready);
        [[nodiscard]] Cycle cycles_in_this_order(const Ready& ready, Cycle until) const;
        bool serve(const Ready& ready, Cycle cycles);
        bool run_alone(Active& train, Cycle until);
        bool run_clear(Cycle until);
        [[nodiscard]] bool clear_of_each_other() const;
        bool skip_repetitions(Cycle until);
        [[nodiscard]] std::uint64_t repetitions(Cycle until) const;
        void remember();
    };

    [[nodiscard]] Bytes reduced_stride(const AccessTrain& train) const;
    void check(const AccessTrain& train) const;
    void remove_ended();

    Schedule schedule_;
    Schedule ahead_;  // schedule_ run to the next end, if `foreseen_`
    bool foreseen_ = false;
    TrainId next_id_ = 0;
    std::array<std::uint64_t, kMaxBankClients> joined_beats_{};
    std::vector<TrainEnd> ended_;
    std::size_t taken_ = 0;
};

}  // namespace sluice::sim
