// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a program for its values: control programs, queues and semaphores as DISA defines them, without time. Which of
// the things that could happen next does happen is decided by a seed; a program without races gives the same bytes
// whatever the seed.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "isa/control_walker.hpp"
#include "isa/execute/perform.hpp"
#include "isa/execute/trace.hpp"

namespace sluice::isa {

struct MachineOptions {
    /// 0: one instruction at a time, in the order in which they can start. Else: engines of random speed, and DMAs of a
    /// channel that overlap.
    std::uint64_t seed = 0;
    bool record_trace = false;
    /// Throw InputError at the first read of a byte that nobody wrote.
    bool stop_at_unwritten = true;
    std::uint64_t max_instructions = 0;              ///< 0: no limit; InputError beyond
    std::uint64_t max_statements = 0;                ///< the same of what a single control program executes
    std::function<void(std::uint64_t)> on_progress;  ///< told after every 64 instructions how many there were
};

/// A semaphore that ends at another value than it began with: a program leaves its semaphores as it found them.
struct Unbalanced {
    std::string semaphore;
    std::int64_t initial = 0, final_value = 0;
};

class Machine {
public:
    /// `memories` holds the inputs and afterwards the outputs. The program must be verified.
    Machine(const Program& program, const ChipSpec& chip, Memories& memories, MachineOptions options = {});

    /// To the end. Throws DeadlockError (who waits for what), InputError (overflow of a semaphore, unwritten bytes, a
    /// value outside its range).
    void run();

    [[nodiscard]] const Trace& trace() const { return trace_; }
    [[nodiscard]] std::uint64_t instructions() const { return instructions_; }
    [[nodiscard]] std::vector<Unbalanced> unbalanced() const;
    /// Reads of unwritten bytes, if the run does not stop at them: one message each, at most ten.
    [[nodiscard]] const std::vector<std::string>& unwritten() const { return unwritten_; }

private:
    struct Running {
        Operation operation;
        std::uint32_t item = 0;
        std::uint32_t number = 0;  ///< among those that its processor issued
        std::int64_t part = 0;
        bool has_read = false, has_written = false;
        std::vector<std::byte> data;
    };
    struct Queue {
        std::deque<Running> pending;
        std::deque<Running> running;
        std::optional<std::uint32_t> short_of;  ///< the semaphore it stands in line for
        std::optional<std::uint32_t> full_for;  ///< the processor that waits for a place
    };
    struct Processor {
        std::optional<ControlWalker> walker;
        const ControlProgram* program = nullptr;
        const Statement* held = nullptr;  ///< a statement that could not be executed yet
        std::optional<std::uint32_t> short_of;
        std::uint32_t issued = 0;
        std::uint64_t statements = 0;
        bool done = false;
    };
    struct Agent {
        Thread thread;
        Queue queue;
        Processor processor;
        unsigned speed = 0;  ///< takes its turn once in 2^speed, if the seed is not 0
        bool ready = false;
    };

    void add_threads();
    std::uint32_t queue_of(std::uint32_t processor, const Instruction& instruction);
    void make_ready(std::uint32_t agent);
    [[nodiscard]] std::uint32_t pick();
    /// Does one thing; false if there is nothing to do.
    bool step(std::uint32_t agent);
    bool step_processor(std::uint32_t agent);
    bool step_queue(std::uint32_t agent);
    bool issue(std::uint32_t agent, const Instruction& instruction);
    bool start(std::uint32_t agent);
    void advance(std::uint32_t agent, Running& running);
    void complete(std::uint32_t agent);
    void check_unwritten(const Running& running, std::int64_t part);
    [[nodiscard]] std::string name_of(const Running& running) const;
    bool take(std::uint32_t agent, const std::vector<SemCount>& waits, std::optional<std::uint32_t>& short_of);
    void give(const std::vector<SemCount>& signals, const std::string& signaller);
    void record(EventKind kind, std::uint32_t thread, std::size_t item, std::int64_t part = 0);
    std::size_t record(const std::vector<SemCount>& counts);
    [[nodiscard]] std::string deadlock() const;
    [[nodiscard]] std::string stall(const Agent& agent) const;
    void look_up(Processor& processor, const LoadIndex& load);

    const Program& program_;
    const ChipSpec& chip_;
    Memories& memories_;
    MachineOptions options_;
    SemaphoreNumbers numbers_;
    Resolver resolver_;
    std::map<std::string, const IndexTable*> tables_;
    std::vector<Agent> agents_;
    std::map<std::tuple<Level, std::int64_t, Engine, int>, std::uint32_t> queues_;
    std::deque<std::uint32_t> ready_;
    std::vector<std::int64_t> values_, initial_;
    std::vector<std::vector<std::uint32_t>> waiters_;
    std::vector<std::string> last_signaller_;
    std::mt19937_64 random_;
    std::uint64_t instructions_ = 0;
    Trace trace_;
    std::vector<std::string> unwritten_;
};

}  // namespace sluice::isa
