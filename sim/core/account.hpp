// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time line of one engine lane: it is always in exactly one state, so the cycles of all states sum to the run.
#include <array>
#include <string>

#include "isa/errors.hpp"
#include "sim/core/report.hpp"

namespace sluice::sim {

class LaneAccount {
public:
    /// The kinds of waiting come first so that a WaitKind is a state.
    enum class State : std::uint8_t { busy = kWaitKindCount, idle };
    [[nodiscard]] static constexpr std::uint8_t code(State state) { return static_cast<std::uint8_t>(state); }
    [[nodiscard]] static constexpr std::uint8_t code(WaitKind kind) { return static_cast<std::uint8_t>(kind); }

    template <class S>
    void enter(S state, Cycle now) {
        const std::uint8_t next = code(state);
        if (next != state_) {
            cycles_[state_] += now - since_;
            since_ = now;
            state_ = next;
        }
    }

    /// Of the present spell of being busy, so many cycles were stalls for banks.
    void reassign(Cycle stalls, Cycle now) {
        SLUICE_CHECK(state_ == code(State::busy) && stalls <= now - since_, "more stalls than busy cycles");
        cycles_[code(WaitKind::bank_conflict)] += stalls;
        since_ += stalls;
    }

    [[nodiscard]] EngineAccount finish(const std::string& path, Cycle end) {
        SLUICE_CHECK(since_ <= end, path + " changed its state after the end of the run");
        cycles_[state_] += end - since_;
        since_ = end;
        EngineAccount account;
        account.path = path;
        account.busy = cycles_[code(State::busy)];
        account.idle = cycles_[code(State::idle)];
        account.total = end;
        for (std::size_t kind = 0; kind < kWaitKindCount; ++kind) {
            account.waiting[kind] = cycles_[kind];
        }
        return account;
    }

private:
    std::array<Cycle, kWaitKindCount + 2> cycles_{};
    Cycle since_ = 0;
    std::uint8_t state_ = code(State::idle);
};

}  // namespace sluice::sim
