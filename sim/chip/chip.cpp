// SPDX-License-Identifier: Apache-2.0
#include "sim/chip/chip.hpp"

#include "sim/core/conservation.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"
#include "sim/chip/deadlock.hpp"

namespace sluice::sim {

Chip::Chip(const sc_core::sc_module_name& name, const isa::ChipSpec& spec, const isa::Program& program,
           Scheduler& scheduler, Ledger& ledger, const RunOptions& options)
    : sc_module(name),
      spec_(spec),
      ledger_(ledger),
      control_plane_("control_plane", spec, scheduler),
      transport_(scheduler, packets_, spec, control_plane_),
      context_(spec, program, scheduler, transport_, control_plane_, ledger),
      gnoc_("gnoc", spec),
      waking_port_(transport_, scheduler),
      control_("control", context_, {isa::Level::chip, 0}, {}) {
    context_.tsram.resize(static_cast<std::size_t>(isa::tile_count(spec)));
    context_.banks.resize(context_.tsram.size());
    const bool reverse = options.reverse_construction;
    if (reverse) {
        build_ports();
        build_clusters(reverse);
    }
    build_memory(scheduler, options);
    if (!reverse) {
        build_clusters(reverse);
        build_ports();
    }
    std::vector<ClusterNoc*> cluster_nocs;
    std::vector<Link*> csram_ports;
    for (const auto& cluster : clusters_) {
        cluster_nocs.push_back(&cluster->noc());
        csram_ports.push_back(&cluster->csram().port());
    }
    std::vector<SramBanks*> banks;
    for (SramBanks* each : context_.banks) {
        banks.push_back(each);
    }
    for (const auto& cluster : clusters_) {
        banks.push_back(&cluster->csram().banks());
    }
    routes_ =
        std::make_unique<RouteTable>(spec, gnoc_, std::move(cluster_nocs), std::move(csram_ports), std::move(banks));
    MemoryPort& memory = hbm_ ? static_cast<MemoryPort&>(*hbm_) : *initiator_;
    transport_.connect(*routes_, memory);
    context_.semaphores.initialise(program);
}

void Chip::build_memory(Scheduler& scheduler, const RunOptions& options) {
    const CycleWindow& window = options.hbm_commands;
    if (!options.bind_hbm) {
        hbm_ = std::make_unique<Hbm>(spec_, scheduler, packets_, transport_, *this, options.reverse_construction);
        if (window.to > window.from) {
            hbm_->record_commands(window.from, window.to);
        }
        return;
    }
    if (window.to > window.from) {
        throw InputError("hbm_commands", "the commands of a memory in the HBM's place are not known here");
    }
    initiator_ = std::make_unique<HbmInitiator>("hbm", spec_, packets_, waking_port_, *this);
    other_memory_ = options.bind_hbm(*initiator_);
}

void Chip::build_clusters(bool reverse) {
    const auto count = static_cast<std::size_t>(spec_.soc.clusters);
    clusters_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t c = reverse ? count - 1 - i : i;
        clusters_[c] = std::make_unique<Cluster>(fmt::format("cluster{}", c).c_str(), context_,
                                                 static_cast<std::uint32_t>(c), reverse);
    }
}

void Chip::build_ports() {
    for (std::int64_t i = 0; i < spec_.network.anc_count; ++i) {
        ports_.push_back(std::make_unique<IdlePort>(fmt::format("anc{}", i).c_str()));
    }
    ports_.push_back(std::make_unique<IdlePort>("pcie"));
}

std::vector<ControlProcessor*> Chip::processors() const {
    std::vector<ControlProcessor*> all{const_cast<ControlProcessor*>(&control_)};
    for (const auto& cluster : clusters_) {
        all.push_back(&cluster->control());
        for (std::size_t i = 0; i < cluster->tiles(); ++i) {
            all.push_back(&cluster->tile(i).control());
        }
    }
    return all;
}

std::vector<Lane*> Chip::lanes() const {
    std::vector<Lane*> all;
    const auto add = [&all](const std::vector<Lane*>& some) { all.insert(all.end(), some.begin(), some.end()); };
    for (const auto& cluster : clusters_) {
        add(cluster->lanes());
        for (std::size_t i = 0; i < cluster->tiles(); ++i) {
            add(cluster->tile(i).lanes());
        }
    }
    return all;
}

void Chip::start() {
    const std::int64_t tiles_per_cluster = spec_.soc.tiles_per_cluster;
    for (const isa::ControlProgram& program : context_.program.controls) {
        std::int64_t units = 1;
        if (program.level != isa::Level::chip) {
            units = program.level == isa::Level::tile ? isa::tile_count(spec_) : spec_.soc.clusters;
        }
        if (program.first < 0 || program.count < 0 || program.first + program.count > units) {
            throw InputError("control program " + program.name,
                             fmt::format("runs on {} {} to {}; the chip has {}", isa::name(program.level),
                                         program.first, program.first + program.count - 1, units));
        }
        for (std::int64_t unit = program.first; unit < program.first + program.count; ++unit) {
            if (program.level == isa::Level::chip) {
                control_.load(program);
            } else if (program.level == isa::Level::cluster) {
                clusters_[static_cast<std::size_t>(unit)]->control().load(program);
            } else {
                Cluster& cluster = *clusters_[static_cast<std::size_t>(unit / tiles_per_cluster)];
                cluster.tile(static_cast<std::size_t>(unit % tiles_per_cluster)).control().load(program);
            }
        }
    }
    for (ControlProcessor* processor : processors()) {
        processor->start();
    }
}

void Chip::check_finished() const {
    bool finished = context_.tasks.in_use() == 0 && packets_.in_use() == 0;
    const std::vector<ControlProcessor*> all = processors();
    for (const ControlProcessor* processor : all) {
        finished = finished && processor->finished();
    }
    if (!finished) {
        throw DeadlockError(describe_deadlock(all, lanes(), context_));
    }
}

void Chip::written(NodeId node, RecordId record, std::uint64_t activates, Cycle cycle) {
    EnergyList energy;
    energy.add(EnergyEvent::hbm_activate, activates);
    const Cycle moment = cycle > 0 ? cycle - 1 : 0;
    ledger_.book(node, energy, moment, moment);
    ledger_.written(node, cycle);
    context_.ended(record, cycle);
}

void Chip::finish(Cycle end) {
    if (!hbm_) {
        ledger_.close(end);
        return;
    }
    hbm_->finish(end);
    EnergyList energy;
    const bool all_banks = spec_.hbm.refresh == "all_bank";
    energy.add(all_banks ? EnergyEvent::hbm_refresh_all : EnergyEvent::hbm_refresh_bank, hbm_->refreshes());
    energy.add(EnergyEvent::hbm_standby_cycle, hbm_->pseudo_channels() * end);
    ledger_.book(kNoNode, energy, 0, end);
    ledger_.close(end);
}

void Chip::check_conserved(Cycle end) const {
    const Transport::Carried& carried = transport_.carried();
    require_conserved("networks", "bytes", carried.bytes, carried.landed_bytes);
    require_conserved("chip.gnoc", "bytes over links", carried.gnoc_link_bytes, gnoc_.link_bytes());
    routes_->check_conserved();
    require_conserved("chip.control_plane", "messages", control_plane_.under_way(), 0);
    for (const auto& cluster : clusters_) {
        cluster->check_conserved(end);
    }
    if (!hbm_) {
        return;
    }
    hbm_->check_conserved();
    Bytes read = 0;
    Bytes written = 0;
    for (const NodeAccount& node : ledger_.nodes()) {
        read += node.hbm_read;
        written += node.hbm_written;
    }
    require_conserved("chip.hbm.reads", "bytes", hbm_->read_bytes(), read);
    require_conserved("chip.hbm.writes", "bytes", hbm_->written_bytes(), written);
}

std::vector<EngineAccount> Chip::accounts(Cycle end) {
    std::vector<EngineAccount> accounts;
    for (Lane* lane : lanes()) {
        accounts.push_back(lane->finish(end));
    }
    for (ControlProcessor* processor : processors()) {
        accounts.push_back(processor->finish(end));
    }
    for (const auto& port : ports_) {
        accounts.push_back(port->finish(end));
    }
    return accounts;
}

void Chip::report(StatSheet& sheet) const {
    if (hbm_) {
        hbm_->report(sheet);
    }
    control_plane_.report(sheet);
    gnoc_.report(sheet);
    for (const auto& cluster : clusters_) {
        cluster->report(sheet);
    }
}

}  // namespace sluice::sim
