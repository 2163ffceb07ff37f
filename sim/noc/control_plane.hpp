// SPDX-License-Identifier: Apache-2.0
#pragma once
// The control plane: a network of its own for small messages, so that they never wait for data. Every endpoint has a
// port out and a port in of `noc.control_port_bytes_per_cycle`; a message is `noc.control_message_bytes`.
//
// The rule: a message crosses the sender's port, first in, first out; the cycle in which it starts plus the latency of
// its way is the cycle in which it is at the receiver's port, where messages cross in the order of arrival, those of
// one cycle in the order in which they were sent. It is delivered in the cycle in which it starts to cross. Between the
// ports the plane is wide enough for all that they let through, so that nothing waits there, nothing can block in a
// circle, and no credits are needed. Within an endpoint no port is crossed. Multicast signals are one message to each
// receiver.
#include <systemc>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/fifo_server.hpp"
#include "sim/core/message.hpp"
#include "sim/core/scheduler.hpp"
#include "sim/core/stats.hpp"

namespace sluice::sim {

class ControlPlane final : public sc_core::sc_module, public EventTarget, public MessageNetwork {
public:
    ControlPlane(const sc_core::sc_module_name& name, const isa::ChipSpec& chip, Scheduler& scheduler);

    void send(Endpoint from, Endpoint to, Cycle latency, MessageReceiver& receiver, std::uint64_t payload) override;
    void on_event(std::uint32_t kind, std::uint64_t payload) override;
    void report(StatSheet& sheet) const;

    /// Messages sent and not yet delivered.
    [[nodiscard]] std::size_t under_way() const { return under_way_; }

private:
    enum Kind : std::uint32_t { kArrive, kDeliver };
    struct Message {
        MessageReceiver* receiver;
        std::uint64_t payload;
        Endpoint to;
        std::uint32_t next_free;
    };
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    std::uint32_t take();
    void deliver(std::uint32_t slot);

    Scheduler& scheduler_;
    std::uint64_t message_bytes_;
    std::vector<FifoServer> out_, in_;
    std::vector<Message> messages_;
    std::uint32_t free_ = kNone;
    std::size_t under_way_ = 0;
    std::uint64_t waited_out_ = 0, waited_in_ = 0;  ///< cycles, over all messages
};

}  // namespace sluice::sim
