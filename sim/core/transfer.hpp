// SPDX-License-Identifier: Apache-2.0
#pragma once
// What DMA engines, networks and memories hand to each other: packets, and the narrow interfaces through which a packet
// moves on. Packets live in a pool; a handle is an index.
#include <array>
#include <cstdint>
#include <vector>

#include "isa/program.hpp"
#include "isa/units.hpp"
#include "sim/core/critical_path.hpp"
#include "sim/core/ledger.hpp"

namespace sluice::sim {

/// A place in HBM: one granule or part of it.
struct HbmPlace {
    std::uint32_t row = 0;
    std::uint16_t pseudo_channel = 0;  ///< number on the chip
    std::uint8_t stack = 0;
    std::uint8_t set = 0;         ///< the banks of equal number in all bank groups of one rank
    std::uint8_t base_group = 0;  ///< first of the bank groups that the granule visits in turn
    std::uint8_t first_beat = 0;
    std::uint8_t beats = 0;
};

/// One end of a transfer: an SRAM by unit, or HBM.
struct TransferEnd {
    isa::Space space = isa::Space::hbm;
    std::uint32_t unit = 0;
    std::uint64_t mask = 0;  ///< of a destination: copies to unit + i for each bit i; 0: to `unit` alone
};

/// A running DMA instruction as networks and memories see it: where from and to, and what it has cost so far.
struct Transfer {
    TransferEnd src, dst;
    NodeId node = 0;              ///< plan node that it serves
    RecordId record = kNoRecord;  ///< on the critical path's log
    std::uint32_t issuer = 0;     ///< endpoint number of the engine, for the way of its requests
    Bytes wire_bytes = 0, src_bytes = 0, dst_bytes = 0;
    std::uint64_t cnoc_bytes = 0, gnoc_link_bytes = 0, gnoc_router_bytes = 0;
    std::uint64_t read_beats = 0, written_beats = 0, activates = 0;
    Cycle hbm_cycles = 0, csram_cycles = 0, total_cycles = 0;  ///< sums over packets
};

/// Bytes through the ports of a TSRAM.
struct TsramTraffic {
    Bytes operand_read = 0;  ///< wide TTU ports
    Bytes read = 0, written = 0;

    TsramTraffic& operator+=(const TsramTraffic& other) {
        operand_read += other.operand_read;
        read += other.read;
        written += other.written;
        return *this;
    }
};

struct Packet;

/// The engine that sent a packet. `on_landing` is called as soon as the landing is certain, which may be before
/// `cycle`; in `cycle` itself, in its arrive phase.
class PacketOwner {
public:
    virtual void on_landing(Packet& packet, Cycle cycle) = 0;

protected:
    ~PacketOwner() = default;
};

struct alignas(64) Packet {
    // What every hop and the landing touch, in one cache line.
    Transfer* transfer = nullptr;
    PacketOwner* owner = nullptr;
    Cycle launched = 0, landed = 0;
    std::uint32_t src_bytes = 0, dst_bytes = 0, wire_bytes = 0;
    std::uint32_t copies = 0;  ///< still to land
    std::uint32_t tag = 0;     ///< the owner's
    std::uint32_t root = 0;    ///< of its route
    std::uint64_t src_offset = 0, dst_offset = 0;
    HbmPlace src_place, dst_place;
    std::uint32_t next_free = 0;
};

using PacketId = std::uint32_t;

class PacketPool {
public:
    [[nodiscard]] Packet& operator[](PacketId id) { return chunks_[id >> kChunkBits][id & (kChunk - 1)]; }
    PacketId take() {
        if (free_ == kNone) {
            grow();
        }
        const PacketId id = free_;
        free_ = (*this)[id].next_free;
        ++in_use_;
        return id;
    }
    void give_back(PacketId id) {
        (*this)[id].next_free = free_;
        free_ = id;
        --in_use_;
    }
    [[nodiscard]] std::size_t in_use() const { return in_use_; }

private:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    static constexpr std::uint32_t kChunkBits = 12;
    static constexpr std::uint32_t kChunk = 1 << kChunkBits;

    void grow() {
        const auto base = static_cast<std::uint32_t>(chunks_.size()) << kChunkBits;
        chunks_.emplace_back(kChunk);
        for (std::uint32_t i = kChunk; i-- > 0;) {
            chunks_.back()[i].next_free = free_;
            free_ = base + i;
        }
    }
    std::vector<std::vector<Packet>> chunks_;
    std::uint32_t free_ = kNone;
    std::size_t in_use_ = 0;
};

/// The HBM as the network sees it.
class MemoryPort {
public:
    [[nodiscard]] virtual HbmPlace decode(std::uint64_t address, std::uint32_t bytes) const = 0;
    virtual void read(PacketId packet) = 0;
    virtual void write(PacketId packet) = 0;

protected:
    ~MemoryPort() = default;
};

/// The network as the HBM sees it. Called ahead of time: `cycle` lies in the future.
class DataPort {
public:
    virtual void read_done(PacketId packet, Cycle cycle) = 0;
    virtual void write_done(PacketId packet, Cycle cycle) = 0;

protected:
    ~DataPort() = default;
};

/// Who is told that a posted write has reached the DRAM, which may be after its instruction is over.
class PostedWrites {
public:
    virtual void written(NodeId node, RecordId record, std::uint64_t activates, Cycle cycle) = 0;

protected:
    ~PostedWrites() = default;
};

/// The network as an engine sees it. The packet is owned by the network until its last copy has landed.
class PacketNetwork {
public:
    virtual Packet& prepare(PacketId& id) = 0;
    virtual void launch(PacketId id) = 0;

protected:
    ~PacketNetwork() = default;
};

}  // namespace sluice::sim
