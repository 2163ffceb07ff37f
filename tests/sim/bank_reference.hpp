// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rule of sim/core/sram_banks.hpp, cycle by cycle, line by line and bank by bank. It shares the shapes of the
// interface, no code.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "sim/core/sram_banks.hpp"

namespace sluice::test {

class BankReference {
public:
    explicit BankReference(const sim::BankSpec& spec) : spec_(spec), had_(spec.banks), has_(spec.banks) {}

    Cycle reserve(sim::BankClient port, std::uint64_t offset, std::uint64_t bytes, Cycle from, std::uint64_t width) {
        Cycle held = 0;
        for (std::uint64_t byte = 0; byte < bytes; ++byte) {
            if (byte > 0 && (offset + byte) % spec_.line_bytes != 0) {
                continue;  // not the first byte of a line
            }
            const std::uint64_t bank = bank_of(offset + byte);
            auto place = ports_.try_emplace({from + byte / width + held, bank}, port);
            while (!place.second) {
                ++stalled(port, place.first->second);
                ++held;
                place = ports_.try_emplace({from + byte / width + held, bank}, port);
            }
            ++lines(port);
        }
        return held;
    }

    void start(sim::BankClient engine, const std::vector<sim::LineStream>& streams, Cycle cycles) {
        Macro& macro = of(engine);
        macro = Macro{};
        macro.running = true;
        macro.cycles = cycles;
        for (const sim::LineStream& shape : streams) {
            macro.streams.push_back(expand(shape));
            lines(engine) += macro.streams.back().due_at.size();
        }
    }
    void end(sim::BankClient engine) { of(engine).running = false; }

    /// One cycle.
    void tick() {
        for (std::uint64_t bank = 0; bank < spec_.banks; ++bank) {
            const auto port = ports_.find({now_, bank});
            has_[bank] = port == ports_.end() ? std::nullopt : std::optional(port->second);
        }
        std::vector<sim::BankClient> order{sim::BankClient::ttu, sim::BankClient::tvp, sim::BankClient::reshaper};
        const auto age = [this](sim::BankClient engine) {
            const Cycle stalled = of(engine).running ? of(engine).stalled_in_a_row : 0;
            return stalled >= spec_.age_bound ? stalled : 0;
        };
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return age(a) > age(b); });
        for (const sim::BankClient engine : order) {
            if (of(engine).running) {
                tick(engine, of(engine));
            }
        }
        had_ = has_;
        ++now_;
    }

    [[nodiscard]] Cycle now() const { return now_; }
    [[nodiscard]] Cycle clock(sim::BankClient engine) { return of(engine).clock; }
    [[nodiscard]] Cycle stalls(sim::BankClient engine) { return of(engine).stalls; }
    [[nodiscard]] bool finished(sim::BankClient engine) {
        const Macro& macro = of(engine);
        return macro.clock == macro.cycles &&
               std::all_of(macro.streams.begin(), macro.streams.end(), [](const Stream& s) { return s.slots.empty(); });
    }
    [[nodiscard]] const sim::BankCounts& counts() const { return counts_; }

private:
    struct Stream {
        std::vector<std::uint64_t> banks;  ///< of its lines, in order
        std::vector<Cycle> due_at;         ///< by the macro's clock
        std::size_t entered = 0;
        std::map<std::uint64_t, Cycle> slots;  ///< those that are taken, by bank, and since when
    };
    struct Macro {
        std::vector<Stream> streams;
        Cycle cycles = 0, clock = 0, stalls = 0, stalled_in_a_row = 0;
        bool running = false;
    };

    [[nodiscard]] std::uint64_t bank_of(std::uint64_t byte) const { return byte / spec_.line_bytes % spec_.banks; }
    Macro& of(sim::BankClient engine) {
        return macros_[static_cast<std::size_t>(engine) - static_cast<std::size_t>(sim::BankClient::ttu)];
    }
    std::uint64_t& lines(sim::BankClient client) { return counts_.lines[static_cast<std::size_t>(client)]; }
    Cycle& stalled(sim::BankClient client, sim::BankClient by) {
        return counts_.stalled[static_cast<std::size_t>(client)][static_cast<std::size_t>(by)];
    }

    [[nodiscard]] Stream expand(const sim::LineStream& shape) const {
        Stream out;
        for (std::int64_t i = 0; i < shape.counts[0]; ++i) {
            for (std::int64_t j = 0; j < shape.counts[1]; ++j) {
                for (std::int64_t k = 0; k < shape.counts[2]; ++k) {
                    const auto first = static_cast<std::uint64_t>(shape.offset + i * shape.strides[0] +
                                                                  j * shape.strides[1] + k * shape.strides[2]);
                    const std::uint64_t last = first + static_cast<std::uint64_t>(shape.run) - 1;
                    for (std::uint64_t line = first / spec_.line_bytes;
                         shape.run > 0 && line <= last / spec_.line_bytes; ++line) {
                        out.banks.push_back(line % spec_.banks);
                    }
                }
            }
        }
        const std::uint64_t lines = out.banks.size();
        for (Cycle u = 1; u <= shape.duration; ++u) {
            while (out.due_at.size() < u * lines / shape.duration) {
                out.due_at.push_back(shape.start + u - 1);
            }
        }
        return out;
    }

    void tick(sim::BankClient engine, Macro& macro) {
        std::optional<sim::BankClient> holder;
        for (Stream& stream : macro.streams) {
            const std::optional<sim::BankClient> met = enter(engine, macro, stream);
            holder = holder ? holder : met;
            for (auto slot = stream.slots.begin(); slot != stream.slots.end();) {
                if (has_[slot->first]) {
                    ++slot;
                } else {
                    has_[slot->first] = engine;
                    slot = stream.slots.erase(slot);
                }
            }
        }
        if (holder) {
            ++macro.stalls;
            ++macro.stalled_in_a_row;
            ++stalled(engine, *holder);
        } else {
            macro.stalled_in_a_row = 0;
            macro.clock += macro.clock < macro.cycles ? 1 : 0;
        }
    }

    /// Whom the stream stands for, if it does.
    std::optional<sim::BankClient> enter(sim::BankClient engine, const Macro& macro, Stream& stream) {
        if (macro.clock == macro.cycles) {
            return stream.slots.empty() ? std::nullopt : had_[stream.slots.begin()->first];
        }
        while (stream.entered < stream.banks.size() && stream.due_at[stream.entered] <= macro.clock) {
            const std::uint64_t bank = stream.banks[stream.entered];
            const auto slot = stream.slots.find(bank);
            if (slot != stream.slots.end()) {
                return slot->second == now_ ? engine : had_[bank];
            }
            stream.slots.emplace(bank, now_);
            ++stream.entered;
        }
        return std::nullopt;
    }

    sim::BankSpec spec_;
    Cycle now_ = 0;
    std::map<std::pair<Cycle, std::uint64_t>, sim::BankClient> ports_;
    std::array<Macro, sim::kBankEngines> macros_;
    std::vector<std::optional<sim::BankClient>> had_, has_;  ///< who has which bank: a cycle ago, now
    sim::BankCounts counts_;
};

}  // namespace sluice::test
