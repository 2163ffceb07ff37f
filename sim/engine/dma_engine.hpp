// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DMA engine: channels that share an address generator and two data paths, one each way.
//
// A channel prepares its head descriptor (waits taken, then `setup_cycles`, at least one) while the one before it is
// still sending, and starts to send as soon as that one has sent its last packet, so a channel streams without gaps. A
// descriptor is complete when its last packet has landed and all descriptors before it in the channel are complete;
// then it signals. A fence takes one cycle to prepare and sends nothing; a descriptor without bytes sends nothing
// either.
//
// No packet crosses a granule of HBM, or of the source if neither side is in HBM; a byte of the other side goes with
// the byte that makes it whole. A converting packet takes the larger of its two sides of a path; against the bound it
// counts its source bytes; on the wire it is its destination bytes if it leaves the engine's own SRAM, else its source
// bytes.
//
// Each data path sends one packet after the other at `bytes_per_cycle`, taking the channels that have one in turn. A
// descriptor uses the outbound path if its source is the engine's own SRAM and its destination is not that alone, else
// the inbound. Packets that have been sent and have not landed are bounded by `max_inflight_bytes` over both paths; one
// that is larger goes when no bytes are under way. A path that is held up waits for the packet whose turn it is, unless
// a channel whose turn is earlier gets one. In a cycle, what has landed by then is given back first, then the outbound
// path sends what it can, then the inbound one, and again while either can.
//
// A channel's account: busy while it prepares or has packets to send; `memory` while its path is held up by the bound,
// or while it only waits for packets to land; else as its queue says.
#include <array>
#include <deque>
#include <systemc>
#include <vector>

#include "sim/core/fifo_server.hpp"
#include "sim/core/stats.hpp"
#include "sim/engine/lane.hpp"

namespace sluice::sim {

class DmaEngine final : public sc_core::sc_module, public EventTarget, public LaneOwner, public PacketOwner {
public:
    DmaEngine(const sc_core::sc_module_name& name, EngineContext& context, Location location, const isa::DmaSpec& spec);

    [[nodiscard]] std::deque<Lane>& lanes() { return lanes_; }
    void report(StatSheet& sheet) const;
    /// At the end of a run every byte under way has landed, so that the bound would be whole again.
    void check_conserved(Cycle end) const;

    void on_lane(std::size_t lane) override;
    void on_event(std::uint32_t kind, std::uint64_t payload) override;
    void on_landing(Packet& packet, Cycle cycle) override;

private:
    enum Kind : std::uint32_t { kPrepared, kArbitrate, kRetire };
    static constexpr Cycle kNever = ~Cycle{0};

    struct Channel {
        Task* preparing = nullptr;
        bool prepared = false;
        Task* sending = nullptr;
        RecordId last_record = kNoRecord;  // of the descriptor that sent before
        TaskQueue draining;                // sent or sending, oldest first
        TaskQueue retiring;                // their completion is scheduled
        Cycle retire_at = 0;
        std::uint64_t pending = 0;  // tasks in the two queues
    };
    struct Path {
        FifoServer pipe;
        std::size_t turn = 0;
        Cycle grant_at = kNever;  // when it next tries to send
        bool blocked = false;     // by max_inflight_bytes
    };
    struct Landing {
        Cycle cycle;
        std::uint32_t bytes;

        /// In a heap the earliest is on top.
        static bool below(const Landing& a, const Landing& b) { return a.cycle > b.cycle; }
    };

    void prepare(std::size_t channel);
    void promote(std::size_t channel);
    void finish_sending(std::size_t channel);
    void request_grant(std::size_t path);
    void arbitrate();
    void grant(std::size_t path);
    void send(std::size_t path, std::size_t channel);
    [[nodiscard]] std::size_t next_channel(std::size_t path);
    void block(std::size_t path);
    void release_landed();
    void schedule_wake();
    void unblock(std::size_t path);
    void check_retirement(std::size_t channel);
    void retire(std::size_t channel);
    void book(Task& task, Cycle now);
    void update(std::size_t channel);

    EngineContext& context_;
    Location location_;
    std::uint64_t max_in_flight_;
    Cycle setup_;
    std::deque<Lane> lanes_;
    std::vector<Channel> channels_;
    std::array<Path, 2> paths_;
    std::uint64_t in_flight_ = 0;
    std::vector<Landing> landings_;  // heap, earliest first
    Cycle wake_at_ = kNever;
    std::uint64_t descriptors_ = 0, packets_ = 0;
};

}  // namespace sluice::sim
