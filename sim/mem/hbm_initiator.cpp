// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/hbm_initiator.hpp"

#include <algorithm>

#include "sim/mem/hbm_socket.hpp"

namespace sluice::sim {

using sc_core::sc_time;
using sc_core::sc_time_stamp;

HbmInitiator::HbmInitiator(const sc_core::sc_module_name& name, const isa::ChipSpec& chip, PacketPool& packets,
                           DataPort& network, PostedWrites& writes)
    : sc_module(name),
      socket("socket"),
      map_(chip.hbm),
      core_(static_cast<std::uint64_t>(chip.clock.core_hz)),
      packets_(packets),
      network_(network),
      writes_(writes),
      values_(map_.granule_bytes()) {
    socket.register_nb_transport_bw(this, &HbmInitiator::backward);
    SC_METHOD(send);
    sensitive << send_;
    dont_initialize();
}

void HbmInitiator::read(PacketId id) {
    const Packet& packet = packets_[id];
    ask(id, tlm::TLM_READ_COMMAND, packet.src_offset, packet.src_bytes);
}

void HbmInitiator::write(PacketId id) {
    const Packet& packet = packets_[id];
    ask(id, tlm::TLM_WRITE_COMMAND, packet.dst_offset, packet.dst_bytes);
}

void HbmInitiator::ask(PacketId packet, tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    if (free_.empty()) {
        requests_.push_back(std::make_unique<Request>());
        requests_.back()->set_mm(this);
        free_.push_back(requests_.back().get());
    }
    Request& request = *free_.back();
    free_.pop_back();
    request.acquire();
    request.packet = packet;
    request.asked = edge_at_or_after(core_, sc_time_stamp());
    request.set_command(command);
    request.set_address(address);
    request.set_data_ptr(values_.data());
    request.set_data_length(std::max(bytes, 1U));
    request.set_streaming_width(std::max(bytes, 1U));
    request.set_byte_enable_ptr(nullptr);
    request.set_dmi_allowed(false);
    request.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    waiting_.push_back(&request);
    send();
}

void HbmInitiator::free(tlm::tlm_generic_payload* payload) {
    payload->reset();
    free_.push_back(static_cast<Request*>(payload));
}

void HbmInitiator::send() {
    while (sending_ == nullptr && !waiting_.empty()) {
        if (sc_time_stamp() < next_) {
            send_.notify(next_ - sc_time_stamp());
            return;
        }
        Request& request = *waiting_.front();
        waiting_.pop_front();
        begin(request);
    }
}

void HbmInitiator::begin(Request& request) {
    sending_ = &request;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_time delay = sc_core::SC_ZERO_TIME;
    const tlm::tlm_sync_enum status = socket->nb_transport_fw(request, phase, delay);
    if (status == tlm::TLM_ACCEPTED) {
        return;
    }
    end_request(delay);
    if (status == tlm::TLM_UPDATED && phase == tlm::END_REQ) {
        return;
    }
    if (status == tlm::TLM_UPDATED) {  // BEGIN_RESP
        phase = tlm::END_RESP;
        sc_time after = delay;
        socket->nb_transport_fw(request, phase, after);
    }
    respond(request, delay);
}

// The next BEGIN_REQ is sent from a process: a target need not expect it during its own call.
void HbmInitiator::end_request(const sc_time& delay) {
    sending_ = nullptr;
    next_ = sc_time_stamp() + delay;
    send_.notify(delay);
}

tlm::tlm_sync_enum HbmInitiator::backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_time& delay) {
    auto& request = static_cast<Request&>(payload);
    if (phase != tlm::END_REQ && phase != tlm::BEGIN_RESP) {
        return tlm::TLM_ACCEPTED;  // extended phases may be ignored
    }
    if (sending_ == &request) {  // a response without END_REQ stands for both
        end_request(delay);
    }
    if (phase == tlm::END_REQ) {
        return tlm::TLM_ACCEPTED;
    }
    phase = tlm::END_RESP;
    respond(request, delay);
    return tlm::TLM_COMPLETED;
}

void HbmInitiator::respond(Request& request, const sc_time& delay) {
    if (request.is_response_error()) {
        SC_REPORT_ERROR(name(), request.get_response_string().c_str());
    }
    const PacketId id = request.packet;
    const Packet& packet = packets_[id];
    Transfer& transfer = *packet.transfer;
    const Cycle done = edge_at_or_after(core_, sc_time_stamp() + delay);
    transfer.hbm_cycles += done - request.asked;
    if (request.is_read()) {
        transfer.read_beats += packet.src_place.beats;
        network_.read_done(id, done);
    } else {
        transfer.written_beats += packet.dst_place.beats;
        // What a target does after its response is not known here.
        writes_.written(transfer.node, transfer.record, 0, done);
        network_.write_done(id, done);
    }
    request.release();
}

}  // namespace sluice::sim
