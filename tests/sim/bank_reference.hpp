// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rule of sim/core/sram_banks.hpp, cycle by cycle, line by line and bank by bank. It shares the shapes of the
// interface, no code.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/core/sram_banks.hpp"

namespace sluice::test {

/// The lines that bytes [offset, offset + bytes) touch.
[[nodiscard]] inline std::vector<std::uint64_t> lines_of(std::uint64_t offset, std::uint64_t bytes,
                                                         std::uint64_t line_bytes) {
    std::vector<std::uint64_t> lines;
    for (std::uint64_t line = offset / line_bytes; line * line_bytes < offset + bytes; ++line) {
        lines.push_back(line);
    }
    return lines;
}

/// Those of a stream, in order.
[[nodiscard]] inline std::vector<std::uint64_t> lines_of(const sim::LineStream& stream, std::uint64_t line_bytes) {
    std::vector<std::uint64_t> lines;
    for (std::int64_t i = 0; i < stream.counts[0]; ++i) {
        for (std::int64_t j = 0; j < stream.counts[1]; ++j) {
            for (std::int64_t k = 0; k < stream.counts[2] && stream.run > 0; ++k) {
                const std::int64_t offset =
                    stream.offset + i * stream.strides[0] + j * stream.strides[1] + k * stream.strides[2];
                const std::vector<std::uint64_t> run =
                    lines_of(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(stream.run), line_bytes);
                lines.insert(lines.end(), run.begin(), run.end());
            }
        }
    }
    return lines;
}

class BankReference {
public:
    explicit BankReference(const sim::BankSpec& spec) : spec_(spec), had_(spec.banks), has_(spec.banks) {}

    /// Takes banks for a packet; returns the cycles for which its port is held up.
    Cycle reserve(sim::BankClient port, std::uint64_t offset, std::uint64_t bytes, Cycle from, std::uint64_t width) {
        Cycle held = 0;
        for (const std::uint64_t line : lines_of(offset, bytes, spec_.line_bytes)) {
            const std::uint64_t first_byte = std::max(line * spec_.line_bytes, offset) - offset;
            const std::uint64_t bank = line % spec_.banks;
            // Banks have one port: a line of the packet itself is in the way as one of another packet is.
            while (ports_[from + first_byte / width + held].count(bank) != 0) {
                ++stalled(port, ports_[from + first_byte / width + held][bank]);
                ++held;
            }
            ports_[from + first_byte / width + held][bank] = port;
            ++lines(port);
        }
        return held;
    }

    void start(sim::BankClient engine, const std::vector<sim::LineStream>& streams, Cycle cycles) {
        Macro& macro = of(engine);
        macro = Macro{};
        macro.running = true;
        macro.cycles = cycles;
        for (const sim::LineStream& stream : streams) {
            macro.streams.push_back(expand(stream));
            lines(engine) += macro.streams.back().lines.size();
        }
    }
    void end(sim::BankClient engine) { of(engine).running = false; }

    /// One cycle.
    void tick() {
        std::fill(has_.begin(), has_.end(), std::nullopt);
        for (const auto& [bank, port] : ports_[now_]) {
            has_[bank] = port;
        }
        for (const sim::BankClient engine : order()) {
            tick(engine);
        }
        had_ = has_;
        ports_.erase(now_);
        ++now_;
    }

    [[nodiscard]] Cycle now() const { return now_; }
    [[nodiscard]] Cycle clock(sim::BankClient engine) const { return of(engine).clock; }
    [[nodiscard]] Cycle stalls(sim::BankClient engine) const { return of(engine).stalls; }
    [[nodiscard]] bool finished(sim::BankClient engine) const {
        const Macro& macro = of(engine);
        return macro.clock == macro.cycles && !waits(macro);
    }
    [[nodiscard]] const sim::BankCounts& counts() const { return counts_; }

private:
    struct Line {
        std::uint64_t bank = 0;
        Cycle due_at = 0;  ///< by the macro's clock
    };
    struct Stream {
        std::vector<Line> lines;
        std::size_t entered = 0;        ///< how many of them have entered their slots
        std::size_t waiting = 0;        ///< how many of those have not been served
        std::vector<bool> slots;        ///< by bank: is there a line in it?
        std::vector<Cycle> entered_at;  ///< by bank: since when, in cycles of the SRAM
    };
    struct Macro {
        std::vector<Stream> streams;
        Cycle cycles = 0, clock = 0, stalls = 0, stalled_in_a_row = 0;
        bool running = false;
    };

    static std::size_t index(sim::BankClient engine) {
        return static_cast<std::size_t>(engine) - static_cast<std::size_t>(sim::BankClient::ttu);
    }
    Macro& of(sim::BankClient engine) { return macros_.at(index(engine)); }
    [[nodiscard]] const Macro& of(sim::BankClient engine) const { return macros_.at(index(engine)); }
    std::uint64_t& lines(sim::BankClient client) { return counts_.lines[static_cast<std::size_t>(client)]; }
    Cycle& stalled(sim::BankClient client, sim::BankClient by) {
        return counts_.stalled[static_cast<std::size_t>(client)][static_cast<std::size_t>(by)];
    }

    [[nodiscard]] Stream expand(const sim::LineStream& shape) const {
        Stream stream;
        stream.slots.resize(spec_.banks);
        stream.entered_at.resize(spec_.banks);
        const std::vector<std::uint64_t> lines = lines_of(shape, spec_.line_bytes);
        Cycle u = 1;  // the cycle of the stream by whose end the line is due
        for (std::size_t i = 0; i < lines.size(); ++i) {
            while (u * lines.size() / shape.duration < i + 1) {
                ++u;
            }
            stream.lines.push_back({lines[i] % spec_.banks, shape.start + u - 1});
        }
        return stream;
    }

    [[nodiscard]] static bool waits(const Macro& macro) {
        return std::any_of(macro.streams.begin(), macro.streams.end(), [](const Stream& s) { return s.waiting > 0; });
    }

    /// Of the macros that run.
    [[nodiscard]] std::vector<sim::BankClient> order() const {
        std::vector<sim::BankClient> order;
        for (const auto engine : {sim::BankClient::ttu, sim::BankClient::tvp, sim::BankClient::reshaper}) {
            if (of(engine).running) {
                order.push_back(engine);
            }
        }
        const auto goes_first = [this](sim::BankClient a, sim::BankClient b) {
            const Cycle age_a = of(a).stalled_in_a_row;
            const Cycle age_b = of(b).stalled_in_a_row;
            return age_a >= spec_.age_bound && (age_b < spec_.age_bound || age_a > age_b);
        };
        std::stable_sort(order.begin(), order.end(), goes_first);
        return order;
    }

    void tick(sim::BankClient engine) {
        Macro& macro = of(engine);
        const bool runs_out = macro.clock == macro.cycles;
        std::optional<sim::BankClient> blamed = runs_out ? first_waiting(macro) : std::nullopt;
        for (Stream& stream : macro.streams) {
            const std::optional<sim::BankClient> holder = runs_out ? std::nullopt : enter(engine, macro.clock, stream);
            blamed = blamed ? blamed : holder;
        }
        for (Stream& stream : macro.streams) {
            serve(engine, stream);
        }
        if (blamed) {
            ++macro.stalls;
            ++macro.stalled_in_a_row;
            ++stalled(engine, *blamed);
        } else {
            macro.stalled_in_a_row = 0;
            macro.clock += runs_out ? 0 : 1;
        }
    }

    /// After the end of its clock a macro stands for its first stream's first bank.
    [[nodiscard]] std::optional<sim::BankClient> first_waiting(const Macro& macro) const {
        for (const Stream& stream : macro.streams) {
            const auto slot = std::find(stream.slots.begin(), stream.slots.end(), true);
            if (slot != stream.slots.end()) {
                return had_[static_cast<std::size_t>(slot - stream.slots.begin())];
            }
        }
        return std::nullopt;
    }

    /// Lines that are due by `clock`. Returns who is to blame if one finds its slot taken.
    std::optional<sim::BankClient> enter(sim::BankClient engine, Cycle clock, Stream& stream) const {
        for (; stream.entered < stream.lines.size(); ++stream.entered) {
            const Line& line = stream.lines[stream.entered];
            if (line.due_at > clock) {
                break;
            }
            if (stream.slots[line.bank]) {
                // Nobody has kept a line from its bank that came to its slot just now: the stream is in its own way.
                return stream.entered_at[line.bank] == now_ ? engine : had_[line.bank];
            }
            stream.slots[line.bank] = true;
            stream.entered_at[line.bank] = now_;
            ++stream.waiting;
        }
        return std::nullopt;
    }

    void serve(sim::BankClient engine, Stream& stream) {
        for (std::size_t bank = 0; bank < spec_.banks && stream.waiting > 0; ++bank) {
            if (stream.slots[bank] && !has_[bank]) {
                has_[bank] = engine;
                stream.slots[bank] = false;
                --stream.waiting;
            }
        }
    }

    sim::BankSpec spec_;
    Cycle now_ = 0;
    std::map<Cycle, std::map<std::uint64_t, sim::BankClient>> ports_;  ///< what they take, from now on
    std::array<Macro, sim::kBankEngines> macros_;
    std::vector<std::optional<sim::BankClient>> had_, has_;  ///< who has which bank: a cycle ago, now
    sim::BankCounts counts_;
};

}  // namespace sluice::test
