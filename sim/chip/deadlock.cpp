// SPDX-License-Identifier: Apache-2.0
#include "sim/chip/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::sim {

namespace {

constexpr std::size_t kMaxLines = 20;

/// Looks for who would signal a semaphore: instructions that stand in queues, then statements of control programs.
class Suspects {
public:
    Suspects(const std::vector<ControlProcessor*>& processors, const std::vector<Lane*>& lanes,
             const EngineContext& context)
        : processors_(processors), lanes_(lanes), context_(context) {}

    [[nodiscard]] std::string of(SemIndex semaphore) const {
        for (const Lane* lane : lanes_) {
            std::size_t behind = 0;
            for (const Task* task = lane->queue().front(); task != nullptr; task = task->next, ++behind) {
                if (signals(*task, semaphore)) {
                    return fmt::format("it would be signalled by \"{}\", number {} in the queue {}", *task->where,
                                       behind + 1, lane->path());
                }
            }
        }
        for (const ControlProcessor* processor : processors_) {
            if (processor->program() == nullptr) {
                continue;
            }
            const std::string statement = find(processor->program()->body, *processor, semaphore);
            if (!statement.empty()) {
                return fmt::format("it is signalled by {} of control program {} on {}, which {}", statement,
                                   processor->program()->name, processor->path(),
                                   processor->finished() ? "has ended" : "does not get there");
            }
        }
        return "nothing in the program signals it";
    }

private:
    [[nodiscard]] bool signals(const Task& task, SemIndex semaphore) const {
        for (std::size_t i = 0; i < task.signal_count; ++i) {
            if (context_.semaphores.gives(task.signals[i], semaphore)) {
                return true;
            }
        }
        return task.rows > 0 && context_.semaphores.gives(task.row_signal, semaphore);
    }

    /// Whether a use could mean the semaphore: expressions in loop indices may take any value, the processor's own ids
    /// are known.
    [[nodiscard]] bool may_mean(const isa::SemUse& use, const ControlProcessor& processor, SemIndex semaphore) const {
        const auto only_ids = [](const isa::Affine& affine) {
            return std::all_of(affine.terms.begin(), affine.terms.end(),
                               [](const isa::Term& term) { return term.var >= isa::Var::tile; });
        };
        const isa::SemRef& sem = use.sem;
        if (!only_ids(sem.unit) || !only_ids(sem.index)) {
            return sem.level == isa::Level::tile && context_.semaphores.describe(semaphore).starts_with("tile");
        }
        SemGive give{sem.level, static_cast<std::uint32_t>(sem.unit.evaluate(processor.ids())), sem.mask,
                     static_cast<std::uint32_t>(sem.index.evaluate(processor.ids())), 1};
        return context_.semaphores.gives(give, semaphore);
    }

    [[nodiscard]] std::string find(const isa::Block& block, const ControlProcessor& processor,
                                   SemIndex semaphore) const {
        for (const isa::Statement& statement : block) {
            std::string found;
            if (const auto* loop = std::get_if<isa::Loop>(&statement.body)) {
                found = loop->body ? find(*loop->body, processor, semaphore) : "";
            } else if (const auto* branch = std::get_if<isa::If>(&statement.body)) {
                found = branch->then_body ? find(*branch->then_body, processor, semaphore) : "";
                if (found.empty() && branch->else_body) {
                    found = find(*branch->else_body, processor, semaphore);
                }
            } else if (const auto* signal = std::get_if<isa::SignalStatement>(&statement.body)) {
                found = may_mean(signal->use, processor, semaphore) ? "a signal statement" : "";
            } else if (const auto* instruction = std::get_if<isa::Instruction>(&statement.body)) {
                found = in_instruction(*instruction, processor, semaphore);
            }
            if (!found.empty()) {
                return found;
            }
        }
        return {};
    }

    [[nodiscard]] std::string in_instruction(const isa::Instruction& instruction, const ControlProcessor& processor,
                                             SemIndex semaphore) const {
        bool meant = std::any_of(instruction.signals.begin(), instruction.signals.end(),
                                 [&](const isa::SemUse& use) { return may_mean(use, processor, semaphore); });
        if (const auto* tensor = std::get_if<isa::TensorMacro>(&instruction.macro); tensor && tensor->row_signal) {
            meant = meant || may_mean(*tensor->row_signal, processor, semaphore);
        }
        return meant ? fmt::format("instruction \"{}\"", instruction.label) : "";
    }

    const std::vector<ControlProcessor*>& processors_;
    const std::vector<Lane*>& lanes_;
    const EngineContext& context_;
};

}  // namespace

std::string describe_deadlock(const std::vector<ControlProcessor*>& processors, const std::vector<Lane*>& lanes,
                              const EngineContext& context) {
    const Suspects suspects(processors, lanes, context);
    std::vector<std::string> lines;
    for (const Lane* lane : lanes) {
        const Task* head = lane->queue().front();
        if (head == nullptr) {
            continue;
        }
        for (std::size_t i = 0; i < head->wait_count; ++i) {
            const SemTake& take = head->waits[i];
            const std::int64_t value = context.semaphores.value(take.semaphore);
            if (value < take.count) {
                lines.push_back(fmt::format("{}: \"{}\" waits until {} >= {} (is {}); {}", lane->path(), *head->where,
                                            context.semaphores.describe(take.semaphore), take.count, value,
                                            suspects.of(take.semaphore)));
            }
        }
    }
    for (const ControlProcessor* processor : processors) {
        if (processor->finished()) {
            continue;
        }
        std::string line = processor->path() + ": " + processor->stall();
        if (processor->awaited() != nullptr) {
            line += "; " + suspects.of(processor->awaited()->semaphore);
        }
        lines.push_back(line);
    }
    std::string text =
        fmt::format("no progress is possible after cycle {}; {} wait:", context.scheduler.now(), lines.size());
    for (std::size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) {
        text += "\n  " + lines[i];
    }
    if (lines.size() > kMaxLines) {
        text += fmt::format("\n  and {} more", lines.size() - kMaxLines);
    }
    return text;
}

}  // namespace sluice::sim
