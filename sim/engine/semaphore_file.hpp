// SPDX-License-Identifier: Apache-2.0
#pragma once
// All counting semaphores of the chip. A signal is a small message on the control plane: it is visible a latency after
// it was sent, by the level that the two ends share. A wait takes all of its counts at once or nothing.
#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"
#include "sim/core/critical_path.hpp"
#include "sim/core/message.hpp"
#include "sim/core/scheduler.hpp"

namespace sluice::sim {

using SemIndex = std::uint32_t;

/// Where an engine or control processor stands. `unit`: tile number on the chip, cluster, or 0.
struct Location {
    isa::Level level = isa::Level::chip;
    std::uint32_t unit = 0;
};

struct SemTake {
    SemIndex semaphore = 0;
    std::int64_t count = 0;
};
/// With a mask, unit + i for every bit i.
struct SemGive {
    isa::Level level = isa::Level::tile;
    std::uint32_t unit = 0;
    std::uint64_t mask = 0;
    std::uint32_t index = 0;
    std::int64_t count = 0;
};

/// Something that waits. It stands in the queue of one semaphore at a time, the first that was short.
class SemWaiter {
public:
    virtual void on_semaphore(Cause cause) = 0;

protected:
    ~SemWaiter() = default;

private:
    friend class SemaphoreFile;
    SemWaiter* next_waiter_ = nullptr;
};

class SemaphoreFile final : public MessageReceiver {
public:
    SemaphoreFile(const isa::ChipSpec& chip, Scheduler& scheduler, MessageNetwork& network);

    void initialise(const isa::Program& program);

    /// Throws InputError naming `where` if there is no such semaphore.
    [[nodiscard]] SemIndex index(isa::Level level, std::int64_t unit, std::int64_t number,
                                 const std::string& where) const;

    static constexpr std::size_t kTaken = ~std::size_t{0};
    /// Takes all counts and returns kTaken, or takes nothing and returns the first position that is short.
    std::size_t try_take(const SemTake* takes, std::size_t count);
    void enlist(SemIndex semaphore, SemWaiter& waiter);

    /// `where` names the signaller should the semaphore overflow.
    void signal(const Location& from, const SemGive& give, Cause cause, const std::string* where);
    void on_message(std::uint64_t payload) override;

    [[nodiscard]] std::int64_t value(SemIndex semaphore) const { return semaphores_[semaphore].value; }
    [[nodiscard]] std::string describe(SemIndex semaphore) const;
    [[nodiscard]] bool gives(const SemGive& give, SemIndex semaphore) const;

private:
    struct Semaphore {
        std::int64_t value = 0;
        SemWaiter* first = nullptr;
        SemWaiter* last = nullptr;
    };
    struct Message {
        SemIndex semaphore;
        std::int64_t count;
        Cause cause;
        const std::string* where;
        std::uint32_t next_free;
    };

    [[nodiscard]] Endpoint endpoint(isa::Level level, std::uint32_t unit) const;
    [[nodiscard]] Cycle latency(const Location& from, isa::Level level, std::uint32_t unit) const;
    void send(const Location& from, const SemGive& give, std::uint32_t unit, Cause cause, const std::string* where);

    const isa::ChipSpec& chip_;
    Scheduler& scheduler_;
    MessageNetwork& network_;
    Endpoints endpoints_;
    std::int64_t limit_;
    std::size_t cluster_base_, chip_base_;
    std::vector<Semaphore> semaphores_;
    std::vector<Message> messages_;
    std::uint32_t free_message_ = ~std::uint32_t{0};
};

}  // namespace sluice::sim
