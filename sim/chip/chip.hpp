// SPDX-License-Identifier: Apache-2.0
#pragma once
// A chip: clusters, HBM, the global network and what stands on its ports. Built from the spec; wires the parts, hands
// control programs to their processors, and collects accounts and stats when all has come to rest.
#include <memory>
#include <systemc>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/engine/idle_port.hpp"
#include "sim/mem/hbm.hpp"
#include "sim/mem/hbm_initiator.hpp"
#include "sim/noc/control_plane.hpp"
#include "sim/noc/gnoc.hpp"
#include "sim/noc/transport.hpp"
#include "sim/run.hpp"

namespace sluice::sim {

/// Hands on what a memory from elsewhere says from its own process.
class WakingPort final : public DataPort {
public:
    WakingPort(DataPort& network, Scheduler& scheduler) : network_(network), scheduler_(scheduler) {}
    void read_done(PacketId packet, Cycle cycle) override {
        network_.read_done(packet, cycle);
        scheduler_.wake();
    }
    void write_done(PacketId packet, Cycle cycle) override {
        network_.write_done(packet, cycle);
        scheduler_.wake();
    }

private:
    DataPort& network_;
    Scheduler& scheduler_;
};

class Chip final : public sc_core::sc_module, public PostedWrites {
public:
    Chip(const sc_core::sc_module_name& name, const isa::ChipSpec& spec, const isa::Program& program,
         Scheduler& scheduler, Ledger& ledger, const RunOptions& options);

    /// Gives every control processor its program and starts those that have one.
    void start();

    /// DeadlockError if anything has not come to an end.
    void check_finished() const;

    /// Brings all parts to the end of the run and books what belongs to no instruction.
    void finish(Cycle end);

    /// After `finish`: InvariantError unless every resource has let go of all that it took.
    void check_conserved(Cycle end) const;

    void written(NodeId node, RecordId record, std::uint64_t activates, Cycle cycle) override;

    [[nodiscard]] EngineContext& context() { return context_; }
    /// Nothing if another memory stands in its place.
    [[nodiscard]] Hbm* hbm() { return hbm_.get(); }
    [[nodiscard]] std::vector<EngineAccount> accounts(Cycle end);
    void report(StatSheet& sheet) const;

private:
    [[nodiscard]] std::vector<ControlProcessor*> processors() const;
    [[nodiscard]] std::vector<Lane*> lanes() const;
    void build_memory(Scheduler& scheduler, const RunOptions& options);
    void build_clusters(bool reverse);
    void build_ports();

    const isa::ChipSpec& spec_;
    Ledger& ledger_;
    PacketPool packets_;
    ControlPlane control_plane_;
    Transport transport_;
    EngineContext context_;
    Gnoc gnoc_;
    // One of the two; the second with a memory from elsewhere behind it.
    std::unique_ptr<Hbm> hbm_;
    std::unique_ptr<HbmInitiator> initiator_;
    std::shared_ptr<void> other_memory_;
    WakingPort waking_port_;
    std::vector<std::unique_ptr<Cluster>> clusters_;
    ControlProcessor control_;
    std::vector<std::unique_ptr<IdlePort>> ports_;
    std::unique_ptr<RouteTable> routes_;
};

}  // namespace sluice::sim
