// SPDX-License-Identifier: Apache-2.0
#pragma once
// Walks a control program statement by statement, without recursion or threads: an explicit stack of blocks and loop
// counters. Loops, conditionals and registers are handled here; what costs time is handed out.
#include <cstdint>
#include <vector>

#include "isa/program.hpp"

namespace sluice::isa {

/// The variables of a processor before its program starts: its ids, and zeros. A chip's processor and those of clusters
/// have tile 0; self is the tile number, or that of the cluster's first tile.
[[nodiscard]] Environment processor_ids(Level level, std::int64_t unit, std::int64_t tiles_per_cluster);

class ControlWalker {
public:
    ControlWalker(const ControlProgram& program, const Environment& ids);

    /// The next instruction, wait, signal, load_index or delay of at least a cycle in the order of execution; null at
    /// the end. Throws InputError if a million statements in a row are none of these: they take no time, so no limit of
    /// cycles would end them.
    const Statement* next();
    [[nodiscard]] const Environment& environment() const { return env_; }
    /// Statements that it has walked past, and ends of blocks: what the walk itself costs.
    [[nodiscard]] std::uint64_t steps() const { return steps_; }
    /// Loops that are open.
    [[nodiscard]] int depth() const { return depth_; }
    void set_register(std::uint8_t reg, std::int64_t value);
    [[nodiscard]] const ControlProgram& program() const { return program_; }

private:
    struct Frame {
        const Block* block;
        std::size_t at;
        std::int64_t iteration, count;
        bool loop;
    };

    void enter(const Loop& loop);
    void enter(const If& branch);
    void assign(const SetRegister& assignment);
    [[nodiscard]] std::int64_t cycles(const DelayStatement& delay) const;
    void leave_frame();

    const ControlProgram& program_;
    Environment env_;
    std::vector<Frame> stack_;
    int depth_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace sluice::isa
