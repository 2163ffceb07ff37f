// SPDX-License-Identifier: Apache-2.0
#pragma once
// A resource of the data plane (port, link): a FIFO server with a queue of packets that may not cross yet, and the
// credits for the buffers that it leads to.
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/core/fifo_server.hpp"
#include "sim/core/transfer.hpp"

namespace sluice::sim {

struct Link;

/// The buffer in front of a resource for packets that come over one other. Room is taken when a packet starts to cross
/// towards it and is known again when the credit is back: a wire's latency after the packet has left the buffer, which
/// packets do one after the other.
class Credits {
public:
    static constexpr Cycle kNever = ~Cycle{0};

    /// `from` is what packets cross to get here.
    Credits(Link& from, std::uint64_t bytes, Cycle return_latency)
        : link_(&from), capacity_(bytes), return_latency_(return_latency) {}

    [[nodiscard]] Link* link() const { return link_; }
    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
    [[nodiscard]] Cycle return_latency() const { return return_latency_; }

    /// Room for so many bytes at `cycle`, which never falls, as far as is known. A packet that is larger than the whole
    /// buffer (conversion can make it so) goes when there is no other.
    [[nodiscard]] bool room(std::uint64_t bytes, Cycle cycle) {
        while (!fits(taken_, bytes) && !back_.empty() && back_.front().cycle <= cycle) {
            taken_ -= back_.front().bytes;
            back_.pop_front();
        }
        return fits(taken_, bytes);
    }
    /// The first cycle for which room is known; kNever if none is.
    [[nodiscard]] Cycle room_from(std::uint64_t bytes) const {
        std::uint64_t taken = taken_;
        Cycle from = 0;
        for (auto it = back_.begin(); !fits(taken, bytes); ++it) {
            if (it == back_.end()) {
                return kNever;
            }
            taken -= it->bytes;
            from = it->cycle;
        }
        return from;
    }
    void take(std::uint64_t bytes) { taken_ += bytes; }
    /// The packet's last byte leaves in the cycle before `tail`.
    void give_back(std::uint64_t bytes, Cycle tail) { back_.push_back({tail + return_latency_, bytes}); }

    /// What has not come back and is not on its way back.
    [[nodiscard]] std::uint64_t missing() const {
        std::uint64_t missing = taken_;
        for (const Back& each : back_) {
            missing -= each.bytes;
        }
        return missing;
    }

private:
    struct Back {
        Cycle cycle;
        std::uint64_t bytes;
    };
    [[nodiscard]] bool fits(std::uint64_t taken, std::uint64_t bytes) const {
        return taken == 0 || taken + bytes <= capacity_;
    }

    Link* link_;
    std::uint64_t capacity_, taken_ = 0;
    Cycle return_latency_;
    std::deque<Back> back_;
};

/// Packets that wait for a link and go on to the same resource (a multicast's first one): they keep their order.
struct Flow {
    const Credits* next = nullptr;
    bool first = false;  ///< passes flows that are not
    struct Waiting {
        std::uint64_t order;  ///< of coming to the link
        PacketId packet;
        std::uint32_t node;  ///< of its route
        Cycle since;
    };
    std::deque<Waiting> packets{};
};

struct Link final : FifoServer {
    using FifoServer::FifoServer;

    std::uint32_t number = 0;         ///< among all of a chip's
    std::uint32_t expected = 0;       ///< packets whose coming is known and that have not been booked ahead
    std::uint32_t waiting = 0;        ///< packets, in all flows
    std::uint64_t came = 0;           ///< packets that have gone through the flows, which numbers them
    std::uint64_t kept_back = 0;      ///< those of them that did not leave in the cycle in which they came
    Cycle kept = 0;                   ///< cycles that packets have spent in the flows, all added up
    Cycle wake_at = Credits::kNever;  ///< when the flows are looked at again
    std::vector<Flow> flows{};
};

}  // namespace sluice::sim
