// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs with one fault: a wait or a signal is gone, or an address is one burst off.
#include <cstdint>
#include <functional>
#include <string>

#include "isa/program.hpp"

namespace sluice::test {

enum class Fault : std::uint8_t { no_wait, no_signal, shifted };

/// Walks all places where a program can be given a fault, in the order of its text.
class FaultSites {
public:
    struct Site {
        Fault fault;
        std::string description;
        const isa::Instruction* instruction;  ///< null: a processor's own wait or signal
    };
    /// `apply` changes the program.
    using Body = std::function<void(const Site&, const std::function<void()>& apply)>;

    FaultSites(isa::Program& program, Body body) : body_(std::move(body)) {
        for (isa::ControlProgram& control : program.controls) {
            where_ = control.name;
            walk(control.body);
        }
    }

private:
    static constexpr std::int64_t kBurst = 32;

    void walk(isa::Block& block) {
        for (std::size_t i = 0; i < block.size(); ++i) {
            isa::Statement& statement = block[i];
            if (auto* loop = std::get_if<isa::Loop>(&statement.body)) {
                walk(*loop->body);
            } else if (auto* branch = std::get_if<isa::If>(&statement.body)) {
                walk(*branch->then_body);
                if (branch->else_body) {
                    walk(*branch->else_body);
                }
            } else if (auto* instruction = std::get_if<isa::Instruction>(&statement.body)) {
                take(*instruction);
            } else if (auto* wait = std::get_if<isa::WaitStatement>(&statement.body)) {
                body_({Fault::no_wait, where_ + ": its own wait", nullptr}, [wait] { wait->use.count = 0; });
            } else if (auto* signal = std::get_if<isa::SignalStatement>(&statement.body)) {
                body_({Fault::no_signal, where_ + ": its own signal", nullptr}, [signal] { signal->use.count = 0; });
            }
        }
    }

    void take(isa::Instruction& instruction) {
        const std::string label = where_ + ": " + instruction.label;
        uses(instruction, instruction.waits, Fault::no_wait, label);
        uses(instruction, instruction.signals, Fault::no_signal, label);
        const auto shift = [&](isa::Affine& offset, const std::string& what) {
            body_({Fault::shifted, label + ", " + what + " shifted", &instruction},
                  [&offset] { offset.base += kBurst; });
        };
        if (auto* dma = std::get_if<isa::DmaMacro>(&instruction.macro)) {
            shift(dma->src.offset, "source");
            shift(dma->dst.offset, "destination");
        } else if (auto* tensor = std::get_if<isa::TensorMacro>(&instruction.macro)) {
            shift(tensor->a_offset, "a");
            shift(tensor->b_offset, "b");
            shift(tensor->c_offset, "c");
            if (tensor->row_signal) {
                body_({Fault::no_signal, label + ", row signal removed", &instruction},
                      [tensor] { tensor->row_signal.reset(); });
            }
        } else if (auto* vector = std::get_if<isa::VectorMacro>(&instruction.macro)) {
            for (std::size_t k = 0; k < vector->operands.size(); ++k) {
                shift(vector->operands[k].offset, "operand " + std::to_string(k));
            }
        }
    }

    void uses(const isa::Instruction& instruction, std::vector<isa::SemUse>& list, Fault fault,
              const std::string& label) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            const std::string what = fault == Fault::no_wait ? ", wait " : ", signal ";
            body_({fault, label + what + std::to_string(i) + " removed", &instruction},
                  [&list, i] { list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); });
        }
    }

    Body body_;
    std::string where_;
};

inline void for_fault_sites(isa::Program& program, const FaultSites::Body& body) {
    const FaultSites sites(program, body);
}

}  // namespace sluice::test
