// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes the body of one control program: nested loops and conditionals, and instructions whose waits and signals may
// exceed the machine's limits: the rest goes into fences before and after in the same queue.
#include <functional>
#include <string>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::kernels {

class ControlBuilder {
public:
    ControlBuilder(const isa::ControlSpec& limits, std::string name, isa::Level level, std::int64_t first,
                   std::int64_t count);

    /// Opens a loop and returns its index; close with end(). A constant count of 0 still opens a (dead) body.
    isa::Affine begin_loop(const isa::Affine& count);
    void begin_if(const isa::Affine& value);
    void begin_else();
    void end();

    /// body(index) inside a loop; nothing at all for a constant count <= 0, no loop for a constant count of 1.
    void loop(const isa::Affine& count, const std::function<void(const isa::Affine&)>& body);
    /// `then_body` where value >= 0, else `else_body`; a constant value is decided here.
    void branch(const isa::Affine& value, const std::function<void()>& then_body,
                const std::function<void()>& else_body = {});

    /// Instructions that follow are accounted to this plan node.
    void set_node(const isa::Affine& node) { node_ = node; }
    void issue(isa::QueueId queue, std::vector<isa::SemUse> waits, isa::Macro macro, std::vector<isa::SemUse> signals,
               const std::string& label);
    void fence(isa::QueueId queue, std::vector<isa::SemUse> waits, std::vector<isa::SemUse> signals,
               const std::string& label);
    void set_register(int reg, const isa::Affine& value, std::int64_t lowest, std::int64_t highest);
    void add_register(int reg, const isa::Affine& value, std::int64_t lowest, std::int64_t highest);
    /// Of the control processor itself.
    void wait(const isa::SemUse& use);
    void signal(const isa::SemUse& use);
    void delay(std::int64_t cycles);
    void load_index(int reg, const std::string& table, const isa::Affine& element);

    /// How often a statement at this place runs. Only where all open loops have constant counts and no condition is
    /// open.
    [[nodiscard]] std::int64_t repeats() const;

    [[nodiscard]] isa::ControlProgram finish();

private:
    isa::Block& block() { return *stack_.back(); }
    void push_fence(isa::QueueId queue, std::vector<isa::SemUse> waits, std::vector<isa::SemUse> signals,
                    const std::string& label);

    struct Scope {
        bool is_loop = false;
        isa::Affine count = 0;  ///< of a loop
    };
    isa::ControlSpec limits_;
    isa::ControlProgram program_;
    std::vector<isa::Block*> stack_;
    std::vector<Scope> scopes_;
    int loop_depth_ = 0;
    isa::Affine node_;
};

}  // namespace sluice::kernels
