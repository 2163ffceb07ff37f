// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/hbm_socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isa/errors.hpp"
#include "sim/mem/hbm_request.hpp"

namespace sluice::sim {

using sc_core::sc_time;
using sc_core::sc_time_stamp;

namespace {

// END_REQ of a request that had to wait is sent in the CK after it has entered its queue.
constexpr Ck kAfterEndRequest = 2;

}  // namespace

Cycle edge_at_or_after(const ClockDomain& clock, const sc_time& time) {
    return static_cast<Cycle>(ceil_div(Wide{time.value()} * clock.hertz(), Wide{kFemtosecondsPerSecond}));
}

HbmSocketContext::HbmSocketContext(const isa::ChipSpec& chip)
    : spec(chip.hbm),
      bytes(isa::hbm_bytes(chip)),
      map(chip.hbm),
      table(chip.hbm, map.interleave()),
      clock(ck_hertz(chip.hbm)),
      controller_ck(ck_of(spec.controller_picoseconds, spec)),
      latency_ck(ck_of(spec.controller_picoseconds + spec.phy_picoseconds, spec)) {}

sc_time HbmSocketContext::until(Ck ck) const {
    const Femtoseconds now = sc_time_stamp().value();
    return sc_time::from_value(std::max(clock.time_of(ck), now) - now);
}

// ---- a channel ------------------------------------------------------------------------------------------------------

HbmSocketChannel::HbmSocketChannel(const sc_core::sc_module_name& name, const HbmSocketContext& context,
                                   std::size_t number, PieceOwner& owner)
    : sc_module(name),
      context_(context),
      owner_(owner),
      controller_(context.spec, context.table, number * static_cast<std::uint64_t>(context.spec.pseudo_channels),
                  static_cast<std::uint64_t>(context.spec.stacks * context.spec.channels_per_stack *
                                             context.spec.pseudo_channels),
                  *this) {
    SC_METHOD(wake);
    sensitive << wake_;
    dont_initialize();
}

// With room it enters in the CK of its arrival. What has happened before is only looked at if it could matter.
bool HbmSocketChannel::has_room(const DramRequest& request) {
    const auto capacity =
        static_cast<std::size_t>(request.write ? context_.spec.write_queue : context_.spec.read_queue);
    const auto there = [&] { return controller_.queued(request.write) + controller_.waiting(request.write); };
    if (there() >= capacity) {
        controller_.run_until(request.arrival);
        note_entered();
    }
    return there() < capacity;
}

// At once, before a request that finds room comes to stand behind them: what waits at the port is told by its number.
void HbmSocketChannel::note_entered() {
    for (const bool write : {false, true}) {
        std::deque<std::uint64_t>& tags = at_port_[write ? 1 : 0];
        while (tags.size() > controller_.waiting(write)) {
            entered_.push_back(tags.front());
            tags.pop_front();
        }
    }
    // Told by the process of this channel, for an initiator may answer with its next request.
    if (!entered_.empty()) {
        wake_.notify(sc_core::SC_ZERO_TIME);
    }
}

bool HbmSocketChannel::push(const DramRequest& request) {
    const bool room = has_room(request);
    controller_.push(request);
    if (!room) {
        at_port_[request.write ? 1 : 0].push_back(request.tag);
    }
    // If END_REQs are owed every action counts, also those of which a later wake-up would have been early enough.
    wake_for(owes() ? controller_.next_action() : request.arrival);
    return room;
}

// An action at CK `action` is performed when all that arrives in it is known, and in time for what it leads to. An
// event keeps the earliest of its notifications.
void HbmSocketChannel::wake_for(Ck action) {
    Ck notice = controller_.notice() + context_.latency_ck;
    if (owes()) {
        notice = 1;
    } else if (controller_.write_waits()) {
        notice = std::max<Ck>(context_.controller_ck, 1);
    }
    wake_.notify(context_.until(action + notice));
}

void HbmSocketChannel::wake() {
    controller_.run_until(context_.at_or_after(sc_time_stamp()));
    note_entered();
    wake_.cancel();
    for (const std::uint64_t tag : std::exchange(entered_, {})) {
        owner_.entered(tag);
    }
    if (const Ck next = controller_.next_action(); next != kNever) {
        wake_for(next);
    }
}

// Should the controller take no time at all, not before END_REQ.
void HbmSocketChannel::accepted(std::uint64_t tag, Ck, Ck at) {
    owner_.answered(tag, at + std::max(context_.controller_ck, kAfterEndRequest));
}

// Writes have been answered when they were posted.
void HbmSocketChannel::served(const DramServed& served) {
    if (!served.write) {
        owner_.answered(served.tag, served.end + context_.latency_ck);
    }
}

// ---- the socket -----------------------------------------------------------------------------------------------------

HbmSocket::HbmSocket(const sc_core::sc_module_name& name, const isa::ChipSpec& chip)
    : sc_module(name), socket("socket"), context_(chip) {
    if (sc_core::sc_get_time_resolution() != sc_time(1, sc_core::SC_FS)) {
        throw InputError(this->name(), "CK edges need a time resolution of 1 fs: sc_set_time_resolution(1, SC_FS)");
    }
    const auto per_stack = static_cast<std::size_t>(chip.hbm.channels_per_stack);
    for (std::size_t i = 0; i < static_cast<std::size_t>(chip.hbm.stacks) * per_stack; ++i) {
        const std::string channel = fmt::format("hbm{}_ch{}", i / per_stack, i % per_stack);
        channels_.push_back(std::make_unique<HbmSocketChannel>(channel.c_str(), context_, i, *this));
    }
    socket.register_nb_transport_fw(this, &HbmSocket::forward);
    socket.register_b_transport(this, &HbmSocket::blocking);
    socket.register_get_direct_mem_ptr(this, &HbmSocket::direct_access);
    socket.register_transport_dbg(this, &HbmSocket::debug);
    SC_METHOD(arrive);
    sensitive << arrive_;
    dont_initialize();
    SC_METHOD(respond);
    sensitive << respond_;
    dont_initialize();
}

tlm::tlm_response_status HbmSocket::check(const Payload& payload) const {
    if (payload.get_command() != tlm::TLM_READ_COMMAND && payload.get_command() != tlm::TLM_WRITE_COMMAND) {
        return tlm::TLM_COMMAND_ERROR_RESPONSE;
    }
    if (payload.get_byte_enable_ptr() != nullptr) {
        return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
    }
    if (payload.get_data_length() == 0 || payload.get_streaming_width() < payload.get_data_length()) {
        return tlm::TLM_BURST_ERROR_RESPONSE;
    }
    if (payload.get_address() >= context_.bytes || context_.bytes - payload.get_address() < payload.get_data_length()) {
        return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    }
    return tlm::TLM_OK_RESPONSE;
}

HbmSocket::RequestId HbmSocket::take(Payload& payload) {
    if (free_ == kNone) {
        free_ = static_cast<RequestId>(requests_.size());
        requests_.emplace_back();
    }
    const RequestId id = free_;
    free_ = requests_[id].next_free;
    requests_[id] = {};
    requests_[id].payload = &payload;
    return id;
}

void HbmSocket::give_back(RequestId id) {
    requests_[id].next_free = free_;
    free_ = id;
}

// Cuts a request at granules. All pieces arrive now.
void HbmSocket::submit(RequestId id) {
    Request& request = requests_[id];
    const auto per_channel = static_cast<std::uint16_t>(context_.spec.pseudo_channels);
    const std::uint64_t granule = context_.map.granule_bytes();
    const std::uint64_t end = request.payload->get_address() + request.payload->get_data_length();
    const Ck arrival = context_.at_or_after(sc_time_stamp());
    for (std::uint64_t at = request.payload->get_address(); at < end; at = (at / granule + 1) * granule) {
        const std::uint64_t bytes = std::min(end, (at / granule + 1) * granule) - at;
        const HbmPlace place = context_.map.decode(at, static_cast<std::uint32_t>(bytes));
        DramRequest piece = request_at(place, context_.spec, context_.map.interleave());
        piece.arrival = arrival;
        piece.tag = id;
        piece.write = request.payload->is_write();
        ++request.to_answer;
        if (!channels_[place.pseudo_channel / per_channel]->push(piece)) {
            ++request.to_enter;
        }
    }
}

void HbmSocket::entered(std::uint64_t tag) {
    const auto id = static_cast<RequestId>(tag);
    if (--requests_[id].to_enter == 0 && requests_[id].done == nullptr) {
        end_request(id);
    }
}

void HbmSocket::end_request(RequestId id) {
    const Request& request = requests_[id];
    initiators_[request.initiator].requesting = false;
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_time delay = sc_core::SC_ZERO_TIME;
    socket[static_cast<int>(request.initiator)]->nb_transport_bw(*request.payload, phase, delay);
}

void HbmSocket::answered(std::uint64_t tag, Ck at) {
    const auto id = static_cast<RequestId>(tag);
    Request& request = requests_[id];
    request.answer = std::max(request.answer, at);
    if (--request.to_answer > 0) {
        return;
    }
    if (request.done != nullptr) {
        request.done->notify(context_.until(request.answer));
        return;
    }
    initiators_[request.initiator].responses.emplace(request.answer, id);
    respond_.notify(context_.until(request.answer));
}

// ---- loosely timed --------------------------------------------------------------------------------------------------

void HbmSocket::blocking(int, Payload& payload, sc_time& delay) {
    payload.set_dmi_allowed(false);
    payload.set_response_status(check(payload));
    if (payload.is_response_error()) {
        return;
    }
    sc_core::wait(delay);
    delay = sc_core::SC_ZERO_TIME;
    sc_core::sc_event done;
    const RequestId id = take(payload);
    requests_[id].done = &done;
    submit(id);
    sc_core::wait(done);
    give_back(id);
}

bool HbmSocket::direct_access(int, Payload& payload, tlm::tlm_dmi& region) {
    payload.set_dmi_allowed(false);
    region.init();
    region.allow_read_write();  // what is denied, over all addresses
    region.set_start_address(0);
    region.set_end_address(~sc_dt::uint64{0});
    return false;
}

// ---- approximately timed --------------------------------------------------------------------------------------------

tlm::tlm_sync_enum HbmSocket::forward(int number, Payload& payload, tlm::tlm_phase& phase, sc_time& delay) {
    const auto initiator = static_cast<std::size_t>(number);
    if (phase == tlm::BEGIN_REQ) {
        return begin_request(initiator, payload, phase, delay);
    }
    if (phase == tlm::END_RESP) {
        end_response(initiator, payload, delay);
        return tlm::TLM_COMPLETED;
    }
    if (phase == tlm::END_REQ || phase == tlm::BEGIN_RESP) {
        SC_REPORT_ERROR(name(), "END_REQ and BEGIN_RESP are a target's to send");
    }
    return tlm::TLM_ACCEPTED;  // extended phases may be ignored
}

tlm::tlm_sync_enum HbmSocket::begin_request(std::size_t initiator, Payload& payload, tlm::tlm_phase& phase,
                                            const sc_time& delay) {
    if (initiators_[initiator].requesting) {
        SC_REPORT_ERROR(name(), "BEGIN_REQ before the END_REQ of the last request");
        return tlm::TLM_ACCEPTED;
    }
    payload.set_dmi_allowed(false);
    if (const tlm::tlm_response_status status = check(payload); status != tlm::TLM_OK_RESPONSE) {
        payload.set_response_status(status);
        return tlm::TLM_COMPLETED;
    }
    payload.acquire();
    initiators_[initiator].requesting = true;
    if (delay > sc_core::SC_ZERO_TIME) {
        delayed_.emplace(sc_time_stamp() + delay, Arrival{&payload, initiator});
        arrive_.notify(delay);
        return tlm::TLM_ACCEPTED;
    }
    const RequestId id = take(payload);
    requests_[id].initiator = initiator;
    submit(id);
    if (requests_[id].to_enter > 0) {
        return tlm::TLM_ACCEPTED;
    }
    initiators_[initiator].requesting = false;
    phase = tlm::END_REQ;
    return tlm::TLM_UPDATED;
}

void HbmSocket::arrive() {
    while (!delayed_.empty() && delayed_.begin()->first <= sc_time_stamp()) {
        const Arrival arrival = delayed_.begin()->second;
        delayed_.erase(delayed_.begin());
        const RequestId id = take(*arrival.payload);
        requests_[id].initiator = arrival.initiator;
        submit(id);
        if (requests_[id].to_enter == 0) {
            end_request(id);
        }
    }
    if (!delayed_.empty()) {
        arrive_.notify(delayed_.begin()->first - sc_time_stamp());
    }
}

void HbmSocket::respond() {
    for (std::size_t i = 0; i < initiators_.size(); ++i) {
        respond(i);
    }
}

// Sends what is due, one response after the other, and asks to be called for the next.
void HbmSocket::respond(std::size_t number) {
    Initiator& initiator = initiators_[number];
    while (initiator.responding == kNone && !initiator.responses.empty()) {
        const auto [answer, id] = *initiator.responses.begin();
        const sc_time wait = context_.until(std::max(answer, initiator.free));
        if (wait > sc_core::SC_ZERO_TIME) {
            respond_.notify(wait);
            return;
        }
        initiator.responses.erase(initiator.responses.begin());
        initiator.responding = id;
        Payload& payload = *requests_[id].payload;
        payload.set_response_status(tlm::TLM_OK_RESPONSE);
        tlm::tlm_phase phase = tlm::BEGIN_RESP;
        sc_time delay = sc_core::SC_ZERO_TIME;
        const tlm::tlm_sync_enum status = socket[static_cast<int>(number)]->nb_transport_bw(payload, phase, delay);
        if (status == tlm::TLM_COMPLETED || (status == tlm::TLM_UPDATED && phase == tlm::END_RESP)) {
            end_response(number, payload, delay);
        }
    }
}

void HbmSocket::end_response(std::size_t number, const Payload& payload, const sc_time& delay) {
    Initiator& initiator = initiators_[number];
    const RequestId id = initiator.responding;
    if (id == kNone || requests_[id].payload != &payload) {
        SC_REPORT_ERROR(name(), "END_RESP without BEGIN_RESP");
        return;
    }
    initiator.responding = kNone;
    initiator.free = context_.at_or_after(sc_time_stamp() + delay);
    requests_[id].payload->release();
    give_back(id);
    if (!initiator.responses.empty()) {
        respond_.notify(context_.until(std::max(initiator.responses.begin()->first, initiator.free)));
    }
}

}  // namespace sluice::sim
