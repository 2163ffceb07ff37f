// SPDX-License-Identifier: Apache-2.0
#pragma once
// A task is an instruction with all of its expressions evaluated, from its issue to its retirement.
#include <memory>
#include <string>
#include <vector>

#include "isa/program.hpp"
#include "sim/core/critical_path.hpp"
#include "sim/core/ledger.hpp"
#include "sim/core/sram_banks.hpp"
#include "sim/core/transfer.hpp"
#include "sim/engine/dma_walk.hpp"
#include "sim/engine/semaphore_file.hpp"

namespace sluice::sim {

/// A DMA's packets know it as a Transfer.
struct Task : Transfer {
    static constexpr std::size_t kMaxUses = 8;  ///< the highest control.max_waits and control.max_signals

    const isa::Instruction* text = nullptr;
    const std::string* where = nullptr;  ///< its label, for messages
    std::uint8_t wait_count = 0, signal_count = 0;
    std::array<SemTake, kMaxUses> waits;
    std::array<SemGive, kMaxUses> signals;
    Cause issued;  ///< by the control processor
    Cycle start = 0;

    // Compute: all known at issue.
    Cycle cycles = 1;
    std::int64_t rows = 0;  ///< block rows that signal, 0 if none do
    Cycle first_row = 0, row_cycles = 0;
    SemGive row_signal;
    Resource resource = Resource::fence;
    EnergyList energy;
    TsramTraffic tsram;
    std::vector<LineStream> streams;  ///< what it asks of the banks

    // DMA.
    DmaWalk walk;
    bool outward = false;  ///< uses the engine's outbound data path
    bool wire_is_dst = false;
    bool launched = false;
    std::uint64_t in_flight = 0;
    Cycle landed = 0;

    Task* next = nullptr;
};

/// First in, first out, through Task::next.
class TaskQueue {
public:
    void push(Task* task) {
        task->next = nullptr;
        (last_ != nullptr ? last_->next : first_) = task;
        last_ = task;
        ++size_;
    }
    Task* pop() {
        Task* task = first_;
        first_ = task->next;
        if (first_ == nullptr) {
            last_ = nullptr;
        }
        --size_;
        return task;
    }
    [[nodiscard]] Task* front() const { return first_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }

private:
    Task* first_ = nullptr;
    Task* last_ = nullptr;
    std::size_t size_ = 0;
};

class TaskPool {
public:
    Task* take() {
        if (free_.empty()) {
            tasks_.push_back(std::make_unique<Task>());
            free_.push_back(tasks_.back().get());
        }
        Task* task = free_.back();
        free_.pop_back();
        *task = Task{};
        ++in_use_;
        return task;
    }
    void give_back(Task* task) {
        free_.push_back(task);
        --in_use_;
        ++retired_;
    }
    [[nodiscard]] std::size_t in_use() const { return in_use_; }
    [[nodiscard]] std::uint64_t retired() const { return retired_; }

private:
    std::vector<std::unique_ptr<Task>> tasks_;
    std::vector<Task*> free_;
    std::size_t in_use_ = 0;
    std::uint64_t retired_ = 0;
};

}  // namespace sluice::sim
