// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

/// DMAs of one channel that may be under way at once: any number is legal; a few show what overlaps.
constexpr std::size_t kOverlappingDmas = 4;
constexpr unsigned kSpeeds = 4;  ///< random engines are up to 2^3 times slower than the fastest
constexpr std::size_t kMostReported = 10;
constexpr std::uint64_t kProgressStep = 64;

Level owner(Engine engine) {
    return engine == Engine::cdma ? Level::cluster : Level::tile;
}

bool is_dma(Engine engine) {
    return engine == Engine::tdma || engine == Engine::cdma;
}

}  // namespace

Machine::Machine(const Program& program, const ChipSpec& chip, Memories& memories, MachineOptions options)
    : program_(program),
      chip_(chip),
      memories_(memories),
      options_(std::move(options)),
      numbers_(chip),
      resolver_(program, chip, numbers_),
      values_(numbers_.count(), 0),
      waiters_(numbers_.count()),
      last_signaller_(numbers_.count()),
      random_(options_.seed) {
    for (const IndexTable& table : program.tables) {
        tables_.emplace(table.name, &table);
    }
    for (const SemInit& init : program.semaphores) {
        for (std::int64_t i = 0; i < init.units; ++i) {
            values_[numbers_.number(init.sem.level, init.sem.unit + i, init.sem.index, "init")] = init.value;
        }
    }
    initial_ = values_;
    trace_.initial = values_;
    add_threads();
}

void Machine::add_threads() {
    for (const ControlProgram& control : program_.controls) {
        for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
            Agent agent;
            agent.thread.place = {control.level, unit};
            agent.processor.program = &control;
            agent.processor.walker.emplace(control, processor_ids(control.level, unit, chip_.soc.tiles_per_cluster));
            agents_.push_back(std::move(agent));
        }
    }
    for (std::uint32_t i = 0; i < agents_.size(); ++i) {
        agents_[i].speed = options_.seed == 0 ? 0 : static_cast<unsigned>(random_() % kSpeeds);
        trace_.threads.push_back(agents_[i].thread);
        make_ready(i);
    }
}

std::uint32_t Machine::queue_of(std::uint32_t processor, const Instruction& instruction) {
    const Place place = agents_[processor].thread.place;
    const QueueId id = instruction.queue;
    SLUICE_CHECK(place.level == owner(id.engine), "a verified program issues to its own engines");
    const auto [found, added] =
        queues_.try_emplace({place.level, place.unit, id.engine, id.lane}, static_cast<std::uint32_t>(agents_.size()));
    if (added) {
        Agent agent;
        agent.thread = {place, true, id, is_dma(id.engine)};
        agent.speed = options_.seed == 0 ? 0 : static_cast<unsigned>(random_() % kSpeeds);
        trace_.threads.push_back(agent.thread);
        agents_.push_back(std::move(agent));
    }
    return found->second;
}

void Machine::make_ready(std::uint32_t agent) {
    if (!agents_[agent].ready) {
        agents_[agent].ready = true;
        ready_.push_back(agent);
    }
}

std::uint32_t Machine::pick() {
    if (options_.seed == 0) {
        return ready_.front();
    }
    while (true) {
        const std::uint64_t draw = random_();
        const std::size_t at = draw % ready_.size();
        if ((draw >> 40 & ((1U << agents_[ready_[at]].speed) - 1)) == 0) {
            std::swap(ready_.front(), ready_[at]);
            return ready_.front();
        }
    }
}

void Machine::run() {
    while (!ready_.empty()) {
        const std::uint32_t agent = pick();
        if (!step(agent)) {
            agents_[agent].ready = false;
            ready_.pop_front();
        }
    }
    const bool finished = std::all_of(agents_.begin(), agents_.end(), [](const Agent& agent) {
        return agent.thread.is_queue ? agent.queue.pending.empty() && agent.queue.running.empty()
                                     : agent.processor.done;
    });
    if (!finished) {
        throw DeadlockError(deadlock());
    }
}

bool Machine::step(std::uint32_t agent) {
    return agents_[agent].thread.is_queue ? step_queue(agent) : step_processor(agent);
}

// ---- control processors ---------------------------------------------------------------------------------------------

bool Machine::step_processor(std::uint32_t agent) {
    Processor& processor = agents_[agent].processor;
    if (processor.done || processor.short_of) {
        return false;
    }
    const Statement* statement = processor.held != nullptr ? processor.held : processor.walker->next();
    processor.held = nullptr;
    if (statement == nullptr) {
        processor.done = true;
        return false;
    }
    const std::string where = "control program " + processor.program->name;
    if (++processor.statements > options_.max_statements && options_.max_statements != 0) {
        throw InputError(where, fmt::format("executes more than {} statements, which take at least a cycle each (the "
                                            "limit of --max-cycles)",
                                            options_.max_statements));
    }
    if (const auto* instruction = std::get_if<Instruction>(&statement->body)) {
        if (!issue(agent, *instruction)) {
            agents_[agent].processor.held = statement;
            return false;
        }
    } else if (const auto* wait = std::get_if<WaitStatement>(&statement->body)) {
        const std::vector<SemCount> counts = resolver_.resolve(wait->use, processor.walker->environment(), where);
        if (!take(agent, counts, processor.short_of)) {
            processor.held = statement;
            return false;
        }
        record(EventKind::wait, agent, record(counts));
    } else if (const auto* signal = std::get_if<SignalStatement>(&statement->body)) {
        const std::vector<SemCount> counts = resolver_.resolve(signal->use, processor.walker->environment(), where);
        record(EventKind::signal, agent, record(counts));
        give(counts, where);
    } else if (const auto* load = std::get_if<LoadIndex>(&statement->body)) {
        look_up(processor, *load);
    }
    return true;
}

void Machine::look_up(Processor& processor, const LoadIndex& load) {
    const std::string where = "control program " + processor.program->name;
    const auto found = tables_.find(load.table);
    if (found == tables_.end()) {
        throw InputError(where, fmt::format("no index table \"{}\"", load.table));
    }
    const std::int64_t element = load.element.evaluate(processor.walker->environment());
    if (element < 0 || element >= found->second->count) {
        throw InputError(where, fmt::format("element {} of index table \"{}\", which has {}", element, load.table,
                                            found->second->count));
    }
    processor.walker->set_register(load.reg, index_value(*found->second, element));
}

bool Machine::issue(std::uint32_t agent, const Instruction& instruction) {
    const std::uint32_t target = queue_of(agent, instruction);
    Queue& queue = agents_[target].queue;
    if (queue.pending.size() >= static_cast<std::size_t>(chip_.control.queue_depth)) {
        queue.full_for = agent;
        return false;
    }
    Processor& processor = agents_[agent].processor;
    Running running;
    running.operation = resolver_.resolve(instruction, processor.walker->environment(), agents_[agent].thread.place);
    running.item = static_cast<std::uint32_t>(trace_.instructions.size());
    if (options_.record_trace) {
        trace_.instructions.push_back({running.operation, target, agent, processor.issued});
    }
    running.number = processor.issued++;
    ++instructions_;
    if (options_.on_progress && instructions_ % kProgressStep == 0) {
        options_.on_progress(instructions_);
    }
    if (options_.max_instructions != 0 && instructions_ > options_.max_instructions) {
        throw InputError("program " + program_.name,
                         fmt::format("issues more than {} instructions{}", options_.max_instructions,
                                     options_.record_trace ? ", the most whose order can be checked: without "
                                                             "--check-races, or with smaller loops, it can run"
                                                           : ""));
    }
    record(EventKind::issue, agent, running.item);
    queue.pending.push_back(std::move(running));
    make_ready(target);
    return true;
}

// ---- queues ---------------------------------------------------------------------------------------------------------

bool Machine::step_queue(std::uint32_t agent) {
    Queue& queue = agents_[agent].queue;
    const std::size_t most = agents_[agent].thread.overlaps && options_.seed != 0 ? kOverlappingDmas : 1;
    const bool may_start = !queue.pending.empty() && !queue.short_of && queue.running.size() < most;
    // What can be done: start the next one, or move one of those that run a step on. One that has written waits for
    // those before it.
    std::array<std::size_t, kOverlappingDmas> movable{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < queue.running.size(); ++i) {
        if (i == 0 || !queue.running[i].has_written) {
            movable[count++] = i;
        }
    }
    const std::size_t choices = count + (may_start ? 1 : 0);
    if (choices == 0) {
        return false;
    }
    const std::size_t choice = options_.seed == 0 ? 0 : random_() % choices;
    if (choice == count) {
        return start(agent) || count > 0;
    }
    Running& running = queue.running[movable[choice]];
    if (movable[choice] == 0 && running.has_written) {
        complete(agent);
    } else {
        advance(agent, running);
    }
    return true;
}

bool Machine::start(std::uint32_t agent) {
    Queue& queue = agents_[agent].queue;
    if (!take(agent, queue.pending.front().operation.waits, queue.short_of)) {
        return false;
    }
    queue.running.push_back(std::move(queue.pending.front()));
    queue.pending.pop_front();
    record(EventKind::start, agent, queue.running.back().item);
    if (queue.full_for) {
        make_ready(*queue.full_for);
        queue.full_for.reset();
    }
    return true;
}

/// A DMA reads, then writes; another macro does its next part.
void Machine::advance(std::uint32_t agent, Running& running) {
    const Operation& operation = running.operation;
    if (const auto* dma = std::get_if<DmaOperation>(&operation.body)) {
        if (!running.has_read) {
            check_unwritten(running, 0);
            running.data = read_dma(*dma, memories_);
            running.has_read = true;
        } else {
            write_dma(*dma, running.data, memories_);
            running.has_written = true;
        }
        return;
    }
    check_unwritten(running, running.part);
    try {
        perform(operation, running.part, memories_);
    } catch (const InputError& error) {
        throw InputError(name_of(running), error.what());
    }
    ++running.part;
    running.has_written = running.part == operation.parts();
    if (const auto* tensor = std::get_if<TensorOperation>(&operation.body);
        tensor != nullptr && !tensor->row_signal.empty() && !running.has_written) {
        record(EventKind::part_done, agent, running.item, running.part - 1);
        give(tensor->row_signal, describe(*operation.text));
    }
}

void Machine::complete(std::uint32_t agent) {
    Queue& queue = agents_[agent].queue;
    const Running running = std::move(queue.running.front());
    queue.running.pop_front();
    const Operation& operation = running.operation;
    record(EventKind::part_done, agent, running.item, operation.parts() - 1);
    const std::string signaller = describe(*operation.text);
    if (const auto* tensor = std::get_if<TensorOperation>(&operation.body)) {
        give(tensor->row_signal, signaller);
    }
    give(operation.signals, signaller);
}

std::string Machine::name_of(const Running& running) const {
    const Operation& operation = running.operation;
    return describe(*operation.text) + " of " + describe(operation.place) +
           loop_indices(program_, chip_, operation.place, running.number);
}

void Machine::check_unwritten(const Running& running, std::int64_t part) {
    const Operation& operation = running.operation;
    if (std::holds_alternative<FenceOperation>(operation.body)) {
        return;
    }
    const std::optional<UnwrittenRead> found = find_unwritten(resolver_.accesses(operation, part), memories_);
    if (!found) {
        return;
    }
    const std::string where = name_of(running);
    const std::string what =
        fmt::format("reads byte {} of {}({}), which nobody wrote{}", found->offset, name(found->access.space),
                    found->access.unit, region_at(program_, found->access.space, found->access.unit, found->offset));
    if (options_.stop_at_unwritten) {
        throw InputError(where, what);
    }
    if (unwritten_.size() < kMostReported) {
        unwritten_.push_back(where + ": " + what);
    }
}

// ---- semaphores -----------------------------------------------------------------------------------------------------

bool Machine::take(std::uint32_t agent, const std::vector<SemCount>& waits, std::optional<std::uint32_t>& short_of) {
    for (const SemCount& wait : waits) {
        if (values_[wait.semaphore] < wait.count) {
            short_of = wait.semaphore;
            waiters_[wait.semaphore].push_back(agent);
            return false;
        }
    }
    for (const SemCount& wait : waits) {
        values_[wait.semaphore] -= wait.count;
    }
    return true;
}

void Machine::give(const std::vector<SemCount>& signals, const std::string& signaller) {
    const std::int64_t limit = (std::int64_t{1} << chip_.semaphores.width_bits) - 1;
    for (const SemCount& signal : signals) {
        values_[signal.semaphore] += signal.count;
        if (values_[signal.semaphore] > limit) {
            throw InputError(signaller,
                             fmt::format("semaphore {} overflows: {} exceeds {}", numbers_.describe(signal.semaphore),
                                         values_[signal.semaphore], limit));
        }
        last_signaller_[signal.semaphore] = signaller;
        for (const std::uint32_t waiter : waiters_[signal.semaphore]) {
            agents_[waiter].queue.short_of.reset();
            agents_[waiter].processor.short_of.reset();
            make_ready(waiter);
        }
        waiters_[signal.semaphore].clear();
    }
}

std::vector<Unbalanced> Machine::unbalanced() const {
    std::vector<Unbalanced> out;
    for (std::uint32_t i = 0; i < values_.size(); ++i) {
        if (values_[i] != initial_[i]) {
            out.push_back({numbers_.describe(i), initial_[i], values_[i]});
        }
    }
    return out;
}

// ---- records --------------------------------------------------------------------------------------------------------

void Machine::record(EventKind kind, std::uint32_t thread, std::size_t item, std::int64_t part) {
    if (options_.record_trace) {
        trace_.events.push_back({kind, thread, static_cast<std::uint32_t>(item), static_cast<std::uint32_t>(part)});
    }
}

std::size_t Machine::record(const std::vector<SemCount>& counts) {
    if (options_.record_trace) {
        trace_.sem_counts.push_back(counts);
    }
    return trace_.sem_counts.size() - 1;
}

std::string Machine::stall(const Agent& agent) const {
    const auto short_of = [this](std::uint32_t semaphore) {
        const std::string& last = last_signaller_[semaphore];
        return fmt::format("waits for {}, which is {}{}", numbers_.describe(semaphore), values_[semaphore],
                           last.empty() ? "; nothing has signalled it" : "; last signalled by " + last);
    };
    if (!agent.thread.is_queue) {
        if (agent.processor.short_of) {
            return short_of(*agent.processor.short_of);
        }
        return agent.processor.held != nullptr ? "waits for a place in a full queue" : "";
    }
    if (agent.queue.short_of) {
        return describe(*agent.queue.pending.front().operation.text) + " " + short_of(*agent.queue.short_of);
    }
    return {};
}

std::string Machine::deadlock() const {
    constexpr std::size_t kMost = 20;
    std::string out = "nothing can go on:";
    std::size_t stalled = 0;
    for (const Agent& agent : agents_) {
        const std::string why = stall(agent);
        if (why.empty()) {
            continue;
        }
        if (++stalled <= kMost) {
            out += fmt::format("\n  {}{}: {}", describe(agent.thread.place),
                               agent.thread.is_queue ? "" : " (control program " + agent.processor.program->name + ")",
                               why);
        }
    }
    if (stalled > kMost) {
        out += fmt::format("\n  ... and {} more", stalled - kMost);
    }
    return out;
}

}  // namespace sluice::isa
