// SPDX-License-Identifier: Apache-2.0
// The user's commands, and below them the functions that the other parts of the agent use as well.
#include "cm/agent.h"

#include <algorithm>

#include "cm/compose.h"

namespace verbatim::cm {

Agent::Agent(const Config& config)
    : config_(config),
      prng_(config.seed),
      last_transaction_(prng_.next()),
      table_({.slot = config.slot,
              .capacity = std::min(config.communications_max, kCommunicationsMax),
              .seed = prng_.next()}),
      listeners_(config.listeners_max) {}

Expected<ListenerId> Agent::listen(const ListenRequest& request) { return listeners_.add(request); }

Status Agent::unlisten(Instant now, ListenerId listener) {
  if (listeners_.find(listener) == nullptr) return Errc::kNoSuchObject;
  table_.for_each([&](Communication& communication) {
    if (communication.is_waiting && communication.listener == listener) {
      (void)destroy(now, communication.id);  // cannot fail: the user owns it
    }
  });
  listeners_.remove(listener);
  return Ok{};
}

bool Agent::listens_for(wire::ServiceId service_id, const wire::Gid& local) const noexcept {
  return listeners_.match(service_id, local) != nullptr;
}

Expected<wire::CommId> Agent::connect(Instant now, const ConnectRequest& request) {
  if (!is_valid(request, config_.path_mtu_max)) return Errc::kInvalidArgument;
  Communication* communication = add_communication();
  if (communication == nullptr) return Errc::kNoMemory;
  communication->is_active = true;
  communication->service_id = request.service_id;
  communication->address = request.address;
  communication->transaction = next_transaction();
  communication->local_qpn = request.qpn;
  communication->settings = {.address = request.address,
                             .travel = request.travel,
                             .transport = request.transport,
                             .path_mtu = request.path_mtu,
                             .receive_psn = request.starting_psn,
                             .retry_count = request.retry_count,
                             .ack_timeout = ack_timeout_of(request.ack_delay, request.life_time)};
  communication->retries_max = request.max_cm_retries;
  communication->patience = std::clamp(answer_time(request.remote_response, request.life_time),
                                       kPatienceMin, kPatienceMax);
  communication->peer_patience = duration_of(request.local_response);
  communication->state = State::kReqSent;
  send_and_await(now, *communication, compose_req(*communication, request, config_.ca_guid));
  return communication->id;
}

Status Agent::take(wire::CommId id) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  leave_backlog(*communication);
  return Ok{};
}

Status Agent::accept(Instant now, wire::CommId id, const AcceptRequest& request) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  if (communication->state != State::kReqReceived || !is_valid(request)) {
    return Errc::kInvalidArgument;
  }
  leave_backlog(*communication);
  communication->local_qpn = request.qpn;
  communication->settings.receive_psn = request.starting_psn;
  communication->settings.responder_resources = request.responder_resources;
  communication->settings.initiator_depth = request.initiator_depth;
  communication->state = State::kRepSent;
  send_and_await(now, *communication, compose_rep(*communication, request, config_.ca_guid));
  return Ok{};
}

Status Agent::reject(Instant now, wire::CommId id, const RejectRequest& request) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  const bool is_request = communication->state == State::kReqReceived;
  if (!is_request && communication->state != State::kRepReceived) return Errc::kInvalidArgument;
  if (request.info.size() > RejectRequest::kInfoOctetsMax ||
      request.private_data.size() > RejectRequest::kPrivateOctetsMax) {
    return Errc::kInvalidArgument;
  }
  using Rejected = wire::CmRej::Rejected;
  refuse(now, *communication,
         compose_rej(*communication, is_request ? Rejected::kReq : Rejected::kRep, request));
  return Ok{};
}

Status Agent::delay_answer(Instant, wire::CommId id, TimeCode service_timeout) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  const bool is_request = communication->state == State::kReqReceived;
  if (!is_request && communication->state != State::kRepReceived) return Errc::kInvalidArgument;
  leave_backlog(*communication);
  send(communication->address, compose_mra(*communication, service_timeout));
  return Ok{};
}

Status Agent::establish(Instant, wire::CommId id, std::span<const std::byte> private_data) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  if (communication->state != State::kRepReceived ||
      private_data.size() > wire::CmRtu::kPrivateOctets) {
    return Errc::kInvalidArgument;
  }
  wire::CmRtu rtu{.transaction = communication->transaction,
                  .local_comm_id = communication->id,
                  .remote_comm_id = *communication->remote_id};
  fill(rtu.private_data, private_data);
  communication->state = State::kEstablished;
  keep(*communication, rtu);
  repeat(*communication);
  return Ok{};
}

Status Agent::handle_first_data(Instant, wire::CommId id) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  if (communication->state != State::kRepSent) return Ok{};
  communication->state = State::kEstablished;
  communication->has_message = false;
  set_deadline(*communication, Instant::never());
  tell(*communication, AgentEventKind::kEstablished);
  return Ok{};
}

Status Agent::disconnect(Instant now, wire::CommId id, std::span<const std::byte> private_data) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  if (private_data.size() > wire::CmDreq::kPrivateOctets) return Errc::kInvalidArgument;
  switch (communication->state) {
    case State::kEstablished:
      start_disconnect(now, *communication, private_data);
      return Ok{};
    case State::kRepSent:
      abandon_reply(now, *communication,
                    compose_rej(*communication, wire::CmRej::Rejected::kOther, {}));
      return Ok{};
    case State::kDreqSent:
    case State::kTimewait:
    case State::kRefused:
    case State::kIdle:
      return Ok{};
    case State::kReqSent:
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kSidrSent:
    case State::kSidrReceived:
    case State::kSidrAnswered:
      return Errc::kInvalidArgument;
  }
  return Errc::kInvalidArgument;
}

Expected<wire::CommId> Agent::resolve_service(Instant now, const ServiceRequest& request) {
  if (request.private_data.size() > ServiceRequest::kPrivateOctetsMax ||
      request.max_cm_retries > kCmRetriesMax) {
    return Errc::kInvalidArgument;
  }
  Communication* communication = add_communication();
  if (communication == nullptr) return Errc::kNoMemory;
  communication->is_active = true;
  communication->service_id = request.service_id;
  communication->address = request.address;
  communication->transaction = next_transaction();
  communication->retries_max = request.max_cm_retries;
  communication->patience = std::clamp(duration_of(request.response), kPatienceMin, kPatienceMax);
  communication->state = State::kSidrSent;
  wire::CmSidrReq req{.transaction = communication->transaction,
                      .request_id = communication->id,
                      .pkey = request.pkey,
                      .service_id = request.service_id};
  fill(req.private_data, request.private_data);
  send_and_await(now, *communication, req);
  return communication->id;
}

Status Agent::answer_service(Instant now, wire::CommId id, const ServiceAnswer& answer) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  if (communication->state != State::kSidrReceived ||
      answer.info.size() > ServiceAnswer::kInfoOctetsMax ||
      answer.private_data.size() > ServiceAnswer::kPrivateOctetsMax) {
    return Errc::kInvalidArgument;
  }
  leave_backlog(*communication);
  keep(*communication, compose_sidr_rep(*communication, answer));
  repeat(*communication);
  rest(now, *communication, State::kSidrAnswered);
  return Ok{};
}

bool Agent::has_connection(wire::ServiceId service_id, const Address& between) const {
  constexpr std::uint64_t kPort = 0xffff;  // the bits of the port in a service ID of rdma_cm
  const Address other_way{.local = between.remote, .remote = between.local};
  return table_.find_if([&](const Communication& communication) {
    const auto difference = static_cast<std::uint64_t>(communication.service_id) ^
                            static_cast<std::uint64_t>(service_id);
    return communication.state == State::kEstablished && (difference & kPort) == 0 &&
           (communication.address == between || communication.address == other_way);
  }) != nullptr;
}

Expected<QpSettings> Agent::qp_settings(wire::CommId id) const {
  const Communication* communication = table_.find(id);
  if (communication == nullptr || !communication->is_owned) return Errc::kNoSuchObject;
  if (!communication->holds_remote_qp()) return Errc::kInvalidArgument;
  return communication->settings;
}

std::optional<Datagram> Agent::poll_transmit() {
  if (outbox_.empty()) return std::nullopt;
  const Datagram datagram = outbox_.front();
  outbox_.pop_front();
  return datagram;
}

std::optional<AgentEvent> Agent::poll_event() {
  if (events_.empty()) return std::nullopt;
  std::optional<AgentEvent> event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<Instant> Agent::next_timeout() const noexcept {
  if (earliest_ == Instant::never()) return std::nullopt;
  return earliest_;
}

Communication* Agent::owned(wire::CommId id) noexcept {
  Communication* communication = table_.find(id);
  return communication != nullptr && communication->is_owned ? communication : nullptr;
}

/// When the table is full, a communication that only repeats a refusal is removed: its peer asks
/// again and is refused again.
Communication* Agent::add_communication() {
  if (Communication* added = table_.add()) return added;
  const Communication* resting = table_.find_if([](const Communication& communication) {
    return !communication.is_owned &&
           (communication.state == State::kRefused || communication.state == State::kSidrAnswered);
  });
  if (resting == nullptr) return nullptr;
  table_.remove(resting->id);
  return table_.add();
}

wire::TransactionId Agent::next_transaction() noexcept {
  return wire::TransactionId{++last_transaction_};
}

void Agent::tell(Communication& communication, AgentEventKind kind,
                 const std::optional<wire::CmMessage>& message) {
  if (!communication.is_owned) return;
  AgentEvent event{.kind = kind,
                   .id = communication.id,
                   .listener = communication.listener,
                   .address = communication.address,
                   .service_id = communication.service_id,
                   .message = message};
  if (const auto* rej = event.as<wire::CmRej>()) event.reason = rej->reason;
  events_.push_back(std::move(event));
}

void Agent::send(const Address& address, const wire::CmMessage& message) {
  std::array<std::byte, wire::Mad::kSize> octets;
  wire::emit(message, octets);
  send_octets(address, octets);
}

void Agent::send_octets(const Address& address,
                        const std::array<std::byte, wire::Mad::kSize>& octets) {
  if (outbox_.size() >= kWaitingDatagramsMax) {
    ++counters_.not_sent;
    return;
  }
  ++counters_.sent;
  outbox_.push_back({.address = address, .octets = octets});
}

void Agent::keep(Communication& communication, const wire::CmMessage& message) noexcept {
  wire::emit(message, communication.message);
  communication.has_message = true;
}

void Agent::repeat(const Communication& communication) {
  if (communication.has_message) send_octets(communication.address, communication.message);
}

void Agent::send_and_await(Instant now, Communication& communication,
                           const wire::CmMessage& message) {
  keep(communication, message);
  repeat(communication);
  communication.copies_left = communication.retries_max;
  communication.delay_taken = false;
  set_deadline(communication, now + communication.patience);
}

void Agent::set_deadline(Communication& communication, Instant deadline) noexcept {
  communication.deadline = deadline;
  earliest_ = std::min(earliest_, deadline);
}

void Agent::leave_backlog(Communication& communication) noexcept {
  if (!communication.is_waiting) return;
  communication.is_waiting = false;
  if (Listener* listener = listeners_.find(communication.listener)) --listener->waiting_count;
}

}  // namespace verbatim::cm
