// SPDX-License-Identifier: Apache-2.0
#pragma once
// A TLM-2.0 memory as another model would bring it, for the tests of the chip's side.
#include <systemc>
#include <tlm>

#include <tlm_utils/peq_with_get.h>
#include <tlm_utils/simple_target_socket.h>

#include "tests/sim/one_stack.hpp"

namespace sluice::test {

/// A memory from elsewhere: takes a request a nanosecond, answers each a fixed time after it began.
class FixedMemory final : public sc_core::sc_module {
public:
    SC_HAS_PROCESS(FixedMemory);
    FixedMemory(const sc_core::sc_module_name& name, const sc_core::sc_time& latency)
        : sc_module(name), socket("socket"), queue_("queue"), latency_(latency) {
        socket.register_nb_transport_fw(this, &FixedMemory::forward);
        SC_METHOD(respond);
        sensitive << queue_.get_event();
        dont_initialize();
    }

    tlm_utils::simple_target_socket<FixedMemory> socket;

private:
    tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
        payload.acquire();
        queue_.notify(payload, delay + latency_);
        delay += nanoseconds(1);
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
    }

    void respond() {
        while (tlm::tlm_generic_payload* payload = queue_.get_next_transaction()) {
            payload->set_response_status(tlm::TLM_OK_RESPONSE);
            tlm::tlm_phase phase = tlm::BEGIN_RESP;
            sc_core::sc_time delay;
            socket->nb_transport_bw(*payload, phase, delay);
            payload->release();
        }
    }

    tlm_utils::peq_with_get<tlm::tlm_generic_payload> queue_;
    sc_core::sc_time latency_;
};

}  // namespace sluice::test
