// SPDX-License-Identifier: Apache-2.0
#pragma once
// The HBM of a chip as a TLM-2.0 target, for models from elsewhere: the controllers, tables and address map that `hbm`
// puts behind the chip's network, here behind a socket of the base protocol. README.md, "TLM-2.0", is its rule.
//
// A request is seen at the first CK at or after its time; its response comes at the CK edge at which `hbm` has the data
// (or, of a write, the posting). There are no values: data pointers are left alone. A channel is woken as seldom as one
// of `hbm`; while END_REQs are owed it is woken after every CK in which it acts. tests/sim/hbm_socket_test.cpp is an
// example.
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

#include <tlm_utils/multi_passthrough_target_socket.h>

#include "isa/chip_spec.hpp"
#include "sim/core/clock.hpp"
#include "sim/mem/address_map.hpp"
#include "sim/mem/dram_channel.hpp"

namespace sluice::sim {

/// The first edge of a clock at or after a time.
[[nodiscard]] Cycle edge_at_or_after(const ClockDomain& clock, const sc_core::sc_time& time);

/// What all channels behind a socket share.
struct HbmSocketContext {
    explicit HbmSocketContext(const isa::ChipSpec& chip);

    [[nodiscard]] Ck at_or_after(const sc_core::sc_time& time) const { return edge_at_or_after(clock, time); }
    /// From now to the beginning of a CK; zero if that is past.
    [[nodiscard]] sc_core::sc_time until(Ck ck) const;

    const isa::HbmSpec& spec;
    Bytes bytes;  ///< of all stacks
    AddressMap map;
    DramTable table;
    ClockDomain clock;
    Ck controller_ck, latency_ck;  ///< controller; controller and PHY
};

/// Whose pieces (requests to one channel) they are.
class PieceOwner {
public:
    /// A piece that had found no room has entered the queue of its channel.
    virtual void entered(std::uint64_t tag) = 0;
    /// A piece is read, or its write posted, at CK `at`, which is not past.
    virtual void answered(std::uint64_t tag, Ck at) = 0;

protected:
    ~PieceOwner() = default;
};

class HbmSocketChannel final : public sc_core::sc_module, public DramClient {
public:
    SC_HAS_PROCESS(HbmSocketChannel);
    /// `number` on the chip.
    HbmSocketChannel(const sc_core::sc_module_name& name, const HbmSocketContext& context, std::size_t number,
                     PieceOwner& owner);

    /// A piece arrives at CK `request.arrival`, the first at or after now. True if the queue has room for it.
    [[nodiscard]] bool push(const DramRequest& request);
    void accepted(std::uint64_t tag, Ck arrival, Ck at) override;
    void served(const DramServed& served) override;

    [[nodiscard]] const DramChannel& controller() const { return controller_; }

private:
    void wake();
    void wake_for(Ck action);
    [[nodiscard]] bool has_room(const DramRequest& request);
    void note_entered();
    [[nodiscard]] bool owes() const { return !at_port_[0].empty() || !at_port_[1].empty(); }

    const HbmSocketContext& context_;
    PieceOwner& owner_;
    DramChannel controller_;
    std::array<std::deque<std::uint64_t>, 2> at_port_;  ///< tags of reads, of writes that found no room
    std::vector<std::uint64_t> entered_;                ///< of those that have it now, to be told
    sc_core::sc_event wake_;
};

class HbmSocket final : public sc_core::sc_module, public PieceOwner {
public:
    SC_HAS_PROCESS(HbmSocket);
    /// The kernel's time resolution must be 1 fs (InputError).
    HbmSocket(const sc_core::sc_module_name& name, const isa::ChipSpec& chip);

    /// Each initiator that is bound has request and response phases of its own.
    tlm_utils::multi_passthrough_target_socket<HbmSocket> socket;

    [[nodiscard]] std::size_t channels() const { return channels_.size(); }
    [[nodiscard]] const DramChannel& controller(std::size_t channel) const { return channels_[channel]->controller(); }

private:
    using Payload = tlm::tlm_generic_payload;
    using RequestId = std::uint32_t;
    static constexpr RequestId kNone = ~RequestId{0};

    /// A transaction on its way: AT of an initiator, or LT, then `done` is whom it wakes.
    struct Request {
        Payload* payload = nullptr;
        sc_core::sc_event* done = nullptr;
        std::size_t initiator = 0;
        std::uint32_t to_enter = 0, to_answer = 0;  ///< pieces
        Ck answer = 0;                              ///< of the pieces answered, the last
        RequestId next_free = kNone;
    };
    /// The two exclusion rules of the base protocol: one request, and one response, at a time.
    struct Initiator {
        std::multimap<Ck, RequestId> responses;  ///< to be sent
        RequestId responding = kNone;            ///< BEGIN_RESP sent, END_RESP not seen
        bool requesting = false;                 ///< BEGIN_REQ seen, END_REQ not sent
        Ck free = 0;                             ///< the last END_RESP counts from here
    };
    struct Arrival {
        Payload* payload;
        std::size_t initiator;
    };

    tlm::tlm_sync_enum forward(int initiator, Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);
    tlm::tlm_sync_enum begin_request(std::size_t initiator, Payload& payload, tlm::tlm_phase& phase,
                                     const sc_core::sc_time& delay);
    void end_response(std::size_t initiator, const Payload& payload, const sc_core::sc_time& delay);
    void blocking(int, Payload& payload, sc_core::sc_time& delay);
    bool direct_access(int, Payload& payload, tlm::tlm_dmi& region);
    unsigned debug(int, Payload&) { return 0; }

    void start_of_simulation() override { initiators_.resize(socket.size()); }

    [[nodiscard]] tlm::tlm_response_status check(const Payload& payload) const;
    [[nodiscard]] RequestId take(Payload& payload);
    void give_back(RequestId id);
    void submit(RequestId id);
    void entered(std::uint64_t tag) override;
    void answered(std::uint64_t tag, Ck at) override;
    void end_request(RequestId id);
    void arrive();
    void respond();
    void respond(std::size_t initiator);

    HbmSocketContext context_;
    std::vector<std::unique_ptr<HbmSocketChannel>> channels_;
    std::deque<Request> requests_;
    RequestId free_ = kNone;
    std::vector<Initiator> initiators_;  ///< of a size that does not change: calls come back while one is in use
    std::multimap<sc_core::sc_time, Arrival> delayed_;  ///< requests with an annotated delay
    sc_core::sc_event arrive_, respond_;
};

}  // namespace sluice::sim
