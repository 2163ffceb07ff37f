// SPDX-License-Identifier: Apache-2.0
#pragma once
// Walks a control program statement by statement, without recursion or threads: an explicit stack of blocks and loop
// counters. Loops, conditionals and registers are handled here; what costs time is handed out.
#include <cstdint>
#include <vector>

#include "isa/program.hpp"

namespace sluice::sim {

class ControlWalker {
public:
    ControlWalker(const isa::ControlProgram& program, const isa::Environment& ids);

    /// The next instruction, wait, signal or load_index in the order of execution; null at the end. Throws InputError
    /// if a million statements in a row are none of these: they take no time, so no limit of cycles would end them.
    const isa::Statement* next();
    [[nodiscard]] const isa::Environment& environment() const { return env_; }
    /// Statements that it has walked past, and ends of blocks: what the walk itself costs.
    [[nodiscard]] std::uint64_t steps() const { return steps_; }
    void set_register(std::uint8_t reg, std::int64_t value);
    [[nodiscard]] const isa::ControlProgram& program() const { return program_; }

private:
    struct Frame {
        const isa::Block* block;
        std::size_t at;
        std::int64_t iteration, count;
        bool loop;
    };

    void enter(const isa::Loop& loop);
    void enter(const isa::If& branch);
    void assign(const isa::SetRegister& assignment);
    void leave_frame();

    const isa::ControlProgram& program_;
    isa::Environment env_;
    std::vector<Frame> stack_;
    int depth_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace sluice::sim
