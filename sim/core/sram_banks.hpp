// SPDX-License-Identifier: Apache-2.0
#pragma once
// The banks of an SRAM: single-ported, each serves one line a cycle, whichever direction. Line n, bytes n * line_bytes
// to (n + 1) * line_bytes - 1, lies in bank n mod banks.
//
// Network ports come first. A port passes the lines of a packet in order, each from the cycle on in which its first
// byte crosses; a line whose bank another packet has taken for that cycle holds up the port. Banks are taken when the
// packet is granted its port, ahead of time: first come, first served.
//
// Compute engines take what is left. A macro has a clock of its own, which runs from 0 to `cycles`, its time without
// conflicts. In each of its cycles some lines of its streams are due. A stream has a slot before every bank: due lines
// enter their slots in order, and while one finds its slot still taken, the macro's clock stands: a stall, put down to
// whoever had that bank in the cycle before. Slots are served as banks get free. Order in a cycle: macros that have
// stalled for `age_bound` cycles in a row (longest first), then TTU, TVP, reshaper; streams as the macro lists them.
// So a macro takes `cycles` + its stalls, and a stream that sweeps over the banks yields to another one without loss
// as long as no bank is asked for more than once a cycle on average.
//
// In detail: slots are filled before they are served, so a line whose slot is served in this cycle enters in the next.
// A slot that was filled in the same cycle is put down to the engine itself; of several streams that find their slot
// taken, to the first one. When its clock has run out, a macro stalls while a line waits: for the lowest bank of its
// first stream that does. Lines of one packet can hold up each other. Of equally long stalls, TTU goes first.
//
// Nothing ticks: cycles are worked out when somebody asks, and only those in which a macro runs. Equal, cycle for
// cycle, to tests/sim/bank_reference.hpp.
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "isa/units.hpp"

namespace sluice::sim {

constexpr std::size_t kMaxBanks = 64;

struct BankSpec {
    std::uint32_t banks = 32;        ///< 1..64
    std::uint32_t line_bytes = 128;  ///< of a bank, per cycle; at least 1
    Cycle age_bound = 64;            ///< at least 1
};

/// Who takes banks. The first two are networks' ports.
enum class BankClient : std::uint8_t { written, read, ttu, tvp, reshaper };
constexpr std::size_t kBankClients = static_cast<std::size_t>(BankClient::reshaper) + 1;
constexpr std::size_t kBankEngines = 3;
[[nodiscard]] std::string_view name(BankClient client);

/// Lines that a macro reads or writes: nested runs, the first count outermost, evenly over cycles
/// [start, start + duration) of the macro's clock: by the end of the u-th of them, floor(u * lines / duration).
struct LineStream {
    std::int64_t offset = 0;
    std::int64_t run = 0;  ///< bytes; a run's lines are all that it touches
    std::array<std::int64_t, 3> counts{1, 1, 1};
    std::array<std::int64_t, 3> strides{0, 0, 0};
    Cycle start = 0, duration = 1;
};
struct BankCounts {
    std::array<std::uint64_t, kBankClients> lines{};
    /// stalled[x][y]: cycles in which x stood because y had the bank. Of ports: cycles for which a port was held up.
    std::array<std::array<Cycle, kBankClients>, kBankClients> stalled{};
};

/// What the networks' ports have taken, by cycle.
class BankCalendar {
public:
    explicit BankCalendar(const BankSpec& spec);

    /// As SramBanks::reserve; what was taken from cycle `keep` on is kept.
    Cycle reserve(BankClient port, std::uint64_t offset, std::uint64_t bytes, Cycle from, std::uint64_t width,
                  Cycle keep);

    struct Taken {
        std::uint64_t written = 0, read = 0;
        [[nodiscard]] std::uint64_t all() const { return written | read; }
    };
    [[nodiscard]] Taken taken(Cycle cycle) const {
        const Day& day = days_[cycle & (days_.size() - 1)];
        return day.cycle == cycle ? day.taken : Taken{};
    }
    [[nodiscard]] const BankCounts& counts() const { return counts_; }

private:
    static constexpr Cycle kNever = ~Cycle{0};
    struct Day {
        Cycle cycle = kNever;
        Taken taken;
    };
    Taken& at(Cycle cycle, Cycle keep);
    void grow();

    std::uint64_t banks_, line_bytes_;
    std::vector<Day> days_;  ///< a ring; a power of two
    BankCounts counts_;
};

/// The lines of a stream in order.
class LineWalk {
public:
    LineWalk(const LineStream& stream, std::uint64_t banks, std::uint64_t line_bytes);
    /// Of the next line.
    [[nodiscard]] std::uint64_t bank() const { return bank_; }
    /// Of the present run; 0 at the end.
    [[nodiscard]] std::uint64_t left() const { return left_; }
    /// At most as many lines as there are banks.
    void advance(std::uint64_t lines);
    /// Of the whole stream.
    [[nodiscard]] static std::uint64_t total(const LineStream& stream, std::uint64_t line_bytes);

private:
    void begin_run();
    void next_run();

    LineStream stream_;
    std::uint64_t banks_, line_bytes_;
    std::array<std::int64_t, 3> at_{0, 0, 0};
    std::uint64_t bank_ = 0, left_ = 0;
};

class SramBanks {
public:
    explicit SramBanks(const BankSpec& spec);

    /// Bytes [offset, offset + bytes), at least one, cross a port of `width` bytes a cycle from cycle `from` on.
    /// Returns the cycles for which the port is held up. `now` never falls and is at most `from`.
    Cycle reserve(BankClient port, std::uint64_t offset, std::uint64_t bytes, Cycle from, std::uint64_t width,
                  Cycle now);

    /// The engine's macro before has ended. Its first cycle is `now`.
    void start(BankClient engine, const std::vector<LineStream>& streams, Cycle cycles, Cycle now);
    /// All cycles before `to` have happened. `to` never falls.
    void advance(Cycle to);
    [[nodiscard]] Cycle now() const { return now_; }
    /// The clock of the engine's macro: how many of its cycles have happened.
    [[nodiscard]] Cycle clock(BankClient engine) const { return macro(engine).clock; }
    [[nodiscard]] Cycle stalls(BankClient engine) const { return macro(engine).stalls; }
    /// Its clock has run out and every line has crossed.
    [[nodiscard]] bool finished(BankClient engine) const;
    /// Tells the banks that the engine has seen the end of its macro.
    void end(BankClient engine);

    [[nodiscard]] BankCounts counts() const;

private:
    /// Ports take banks ahead of the present; while a macro runs, cycles are worked out no later than this.
    static constexpr Cycle kLongestLag = 1024;

    struct Stream {
        LineWalk walk;
        Cycle start = 0, end = 0;
        std::uint64_t every = 0, rest = 0, duration = 1;  ///< lines a cycle: every + rest / duration
        std::uint64_t carried = 0;
        std::uint64_t due = 0;      ///< lines that have not entered their slots
        std::uint64_t waiting = 0;  ///< slots that are taken
    };
    struct Macro {
        std::vector<Stream> streams;
        Cycle cycles = 0, clock = 0, stalls = 0, stalled_in_a_row = 0;
        bool running = false;
        bool standing = false;           ///< lines of the present cycle are still due
        std::uint64_t had = 0, has = 0;  ///< banks: in the cycle before, in this one
    };
    static constexpr std::size_t index(BankClient engine) {
        return static_cast<std::size_t>(engine) - (kBankClients - kBankEngines);
    }
    [[nodiscard]] Macro& macro(BankClient engine) { return macros_[index(engine)]; }
    [[nodiscard]] const Macro& macro(BankClient engine) const { return macros_[index(engine)]; }

    [[nodiscard]] Cycle quiet_cycles(Cycle most) const;
    void step();
    void step(std::size_t engine, std::uint64_t& taken);
    void become_due(Macro& macro);
    bool enter(Stream& stream, std::uint64_t& blocked) const;
    [[nodiscard]] std::uint64_t spread(std::uint64_t lines, std::uint64_t first) const;
    [[nodiscard]] std::size_t holder(std::size_t engine, std::uint64_t bank) const;

    std::uint64_t banks_, line_bytes_, all_;
    Cycle age_bound_;
    BankCalendar calendar_;
    Cycle now_ = 0;
    std::array<Macro, kBankEngines> macros_;
    bool active_ = true;  ///< in the cycle before, a line was due or waited
    BankCounts counts_;
};

}  // namespace sluice::sim
