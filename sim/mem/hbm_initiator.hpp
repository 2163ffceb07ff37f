// SPDX-License-Identifier: Apache-2.0
#pragma once
// A TLM-2.0 target in the place of a chip's HBM: packets leave as generic payloads of the base protocol, without
// values, and are done at the first core cycle at or after their response. README.md, "TLM-2.0", says what is different
// from `hbm`; tests/sim/hbm_initiator_test.cpp is an example.
#include <deque>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

#include <tlm_utils/simple_initiator_socket.h>

#include "isa/chip_spec.hpp"
#include "sim/core/clock.hpp"
#include "sim/core/transfer.hpp"
#include "sim/mem/address_map.hpp"

namespace sluice::sim {

class HbmInitiator final : public sc_core::sc_module, public MemoryPort, public tlm::tlm_mm_interface {
public:
    SC_HAS_PROCESS(HbmInitiator);
    HbmInitiator(const sc_core::sc_module_name& name, const isa::ChipSpec& chip, PacketPool& packets, DataPort& network,
                 PostedWrites& writes);

    tlm_utils::simple_initiator_socket<HbmInitiator> socket;

    [[nodiscard]] HbmPlace decode(std::uint64_t address, std::uint32_t bytes) const override {
        return map_.decode(address, bytes);
    }
    void read(PacketId packet) override;
    void write(PacketId packet) override;

private:
    struct Request final : tlm::tlm_generic_payload {
        PacketId packet = 0;
        Cycle asked = 0;
    };

    void ask(PacketId packet, tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes);
    void send();
    void begin(Request& request);
    tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);
    void end_request(const sc_core::sc_time& delay);
    void respond(Request& request, const sc_core::sc_time& delay);
    void free(tlm::tlm_generic_payload* payload) override;

    AddressMap map_;
    ClockDomain core_;
    PacketPool& packets_;
    DataPort& network_;
    PostedWrites& writes_;
    std::vector<unsigned char> values_;  ///< of no meaning, for targets that insist on copying some
    std::vector<std::unique_ptr<Request>> requests_;
    std::vector<Request*> free_;
    std::deque<Request*> waiting_;      ///< for the request phase
    const Request* sending_ = nullptr;  ///< BEGIN_REQ sent, END_REQ not seen
    sc_core::sc_time next_;             ///< the next BEGIN_REQ is not before
    sc_core::sc_event send_;
};

}  // namespace sluice::sim
