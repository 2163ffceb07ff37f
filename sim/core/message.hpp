// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small messages, semaphore signals and read requests, as those see them who send and receive them.
#include "isa/units.hpp"
#include "sim/core/endpoint.hpp"

namespace sluice::sim {

class MessageReceiver {
public:
    virtual void on_message(std::uint64_t payload) = 0;

protected:
    ~MessageReceiver() = default;
};

class MessageNetwork {
public:
    /// `latency`: from sender to receiver if nothing is in the way.
    virtual void send(Endpoint from, Endpoint to, Cycle latency, MessageReceiver& receiver, std::uint64_t payload) = 0;

protected:
    ~MessageNetwork() = default;
};

}  // namespace sluice::sim
