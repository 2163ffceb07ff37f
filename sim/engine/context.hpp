// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every engine and control processor of a chip shares. Plain references; the chip owns the parts.
#include <string>
#include <unordered_map>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"
#include "sim/core/ledger.hpp"
#include "sim/core/scheduler.hpp"
#include "sim/core/sram_banks.hpp"
#include "sim/core/transfer.hpp"
#include "sim/engine/task.hpp"

namespace sluice::sim {

struct EngineContext {
    EngineContext(const isa::ChipSpec& chip_spec, const isa::Program& run_program, Scheduler& sched, PacketNetwork& net,
                  MessageNetwork& messages, Ledger& books)
        : chip(chip_spec),
          program(run_program),
          scheduler(sched),
          network(net),
          ledger(books),
          semaphores(chip_spec, sched, messages) {
        for (const isa::VectorProgram& entry : run_program.vector_programs) {
            vector_programs.emplace(entry.name, &entry);
        }
        for (const isa::IndexTable& table : run_program.tables) {
            tables.emplace(table.name, &table);
        }
    }

    /// The last thing that happened: the end of the run, and where its critical path ends.
    void ended(RecordId record, Cycle cycle) {
        if (cycle > end.at || (end.record == kNoRecord && cycle == end.at)) {
            end = {record, cycle};
        }
    }

    const isa::ChipSpec& chip;
    const isa::Program& program;
    Scheduler& scheduler;
    PacketNetwork& network;
    Ledger& ledger;
    SemaphoreFile semaphores;
    PathLog path;
    TaskPool tasks;
    std::vector<TsramTraffic*> tsram;  ///< by tile
    std::vector<SramBanks*> banks;     ///< of the TSRAMs, by tile
    std::unordered_map<std::string, const isa::VectorProgram*> vector_programs;
    std::unordered_map<std::string, const isa::IndexTable*> tables;
    Cause end;
};

}  // namespace sluice::sim
