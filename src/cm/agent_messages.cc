// SPDX-License-Identifier: Apache-2.0
// The effect of each message on a communication, or why it has none (PROTOCOL.md, 6.5).
#include <algorithm>

#include "base/byte_order.h"
#include "cm/agent.h"
#include "cm/compose.h"

namespace verbatim::cm {

/// Visits one message. Each function makes the checks in their order, and then the step of the
/// message. Its result is counted.
struct Agent::MessageHandler {
  Agent& agent;
  Instant now;
  const Address& from;

  Verdict operator()(const wire::CmReq& req);
  Verdict operator()(const wire::CmMra& mra);
  Verdict operator()(const wire::CmRej& rej);
  Verdict operator()(const wire::CmRep& rep);
  Verdict operator()(const wire::CmRtu& rtu);
  Verdict operator()(const wire::CmDreq& dreq);
  Verdict operator()(const wire::CmDrep& drep);
  Verdict operator()(const wire::CmSidrReq& req);
  Verdict operator()(const wire::CmSidrRep& rep);
  Verdict operator()(const wire::CmLap& lap);
  Verdict operator()(const wire::CmApr& apr);

 private:
  using Found = Expected<Communication*, Verdict>;

  [[nodiscard]] Found find(wire::CommId ours, wire::CommId theirs) const;
  template <typename Message>
  [[nodiscard]] Found find(const Message& message) const {
    return find(message.remote_comm_id, message.local_comm_id);
  }
  [[nodiscard]] Found find_refused(const wire::CmRej& rej) const;
  [[nodiscard]] Communication* find_request(const wire::CmReq& req) const;
  [[nodiscard]] Communication* find_queue_pair(const Communication* except, wire::Guid guid,
                                               wire::QpNumber qpn) const;
  Verdict repeat_answer(Communication& communication, const wire::CmReq& req);
  Verdict accept_request(Listener& listener, const wire::CmReq& req);
  Verdict refuse_request(const wire::CmReq& req, wire::RejectReason reason, Verdict verdict);
  Verdict accept_reply(Communication& communication, const wire::CmRep& rep);
  Verdict refuse_reply(Communication& communication, const wire::CmRep& rep);
  void answer_dreq(const wire::CmDreq& dreq);
};

Verdict Agent::handle_mad(Instant now, const Address& from, std::span<const std::byte> octets) {
  const Verdict verdict = judge(now, from, octets);
  ++counters_.verdicts[static_cast<std::size_t>(verdict)];
  return verdict;
}

Verdict Agent::judge(Instant now, const Address& from, std::span<const std::byte> octets) {
  const auto mad = wire::MadView::parse(octets);
  if (!mad) return Verdict::kMalformed;
  const auto message = wire::parse_cm_message(*mad);
  if (!message) return Verdict::kNotCm;
  return std::visit(MessageHandler{.agent = *this, .now = now, .from = from}, *message);
}

Verdict Agent::MessageHandler::operator()(const wire::CmReq& req) {
  if (Communication* known = find_request(req)) return repeat_answer(*known, req);
  if (Communication* stale = find_queue_pair(nullptr, req.local_ca_guid, req.local_qpn)) {
    refuse_request(req, wire::RejectReason::kStaleConnection, Verdict::kStaleConnection);
    agent.question(now, *stale);
    return Verdict::kStaleConnection;
  }
  Listener* listener = agent.listeners_.match(req.service_id, from.local);
  if (listener == nullptr) {
    return refuse_request(req, wire::RejectReason::kInvalidServiceId, Verdict::kNoListener);
  }
  if (const auto objection = objection_to(req, from, agent.config_.path_mtu_max)) {
    agent.send(from, *objection);
    return Verdict::kInvalidRequest;
  }
  return accept_request(*listener, req);
}

Verdict Agent::MessageHandler::repeat_answer(Communication& communication, const wire::CmReq& req) {
  switch (communication.state) {
    case State::kReqReceived:
      agent.send(from, compose_mra(communication, kMraServiceTimeout));
      return Verdict::kDuplicate;
    case State::kRepSent:
    case State::kRefused:
      agent.repeat(communication);
      return Verdict::kDuplicate;
    case State::kTimewait:
      return refuse_request(req, wire::RejectReason::kStaleConnection, Verdict::kStaleConnection);
    case State::kIdle:
    case State::kReqSent:
    case State::kRepReceived:
    case State::kEstablished:
    case State::kDreqSent:
    case State::kSidrSent:
    case State::kSidrReceived:
    case State::kSidrAnswered:
      return Verdict::kDuplicate;  // the peer has the answer already
  }
  return Verdict::kDuplicate;
}

Verdict Agent::MessageHandler::accept_request(Listener& listener, const wire::CmReq& req) {
  if (listener.waiting_count >= listener.request.backlog) return Verdict::kBacklogFull;
  Communication* communication = agent.add_communication();
  if (communication == nullptr) return Verdict::kNoRoom;
  communication->state = State::kReqReceived;
  communication->listener = listener.id;
  communication->is_waiting = true;
  ++listener.waiting_count;
  communication->service_id = req.service_id;
  communication->address = from;
  if (from.route.exists()) communication->address.remote = req.primary.local_gid;
  communication->transaction = req.transaction;
  communication->remote_id = req.local_comm_id;
  communication->remote_guid = req.local_ca_guid;
  communication->has_alternate = req.alternate.exists();
  communication->settings = settings_from(req);
  if (!from.route.exists()) communication->settings.address.route = {};
  communication->retries_max = req.max_cm_retries;
  communication->patience =
      std::clamp(duration_of(TimeCode{req.local_cm_response_timeout}), kPatienceMin, kPatienceMax);
  communication->peer_patience =
      answer_time(TimeCode{req.remote_cm_response_timeout}, communication->settings.ack_timeout);
  agent.table_.index_by_peer_id(*communication);
  agent.table_.index_by_peer_qp(*communication);
  agent.tell(*communication, AgentEventKind::kConnectRequest, req);
  return Verdict::kHandled;
}

Verdict Agent::MessageHandler::refuse_request(const wire::CmReq& req, wire::RejectReason reason,
                                              Verdict verdict) {
  agent.send(from, refusal_of(req, reason));
  return verdict;
}

Verdict Agent::MessageHandler::operator()(const wire::CmMra& mra) {
  const Found found = find(mra);
  if (!found) return found.error();
  Communication& communication = **found;
  using Received = wire::CmMra::Received;
  const bool is_awaited =
      (communication.state == State::kReqSent && mra.received == Received::kReq) ||
      (communication.state == State::kRepSent && mra.received == Received::kRep);
  if (!is_awaited) return Verdict::kWrongState;
  // One for each copy of the message; otherwise a peer could delay this side for ever.
  if (communication.delay_taken) return Verdict::kDuplicate;
  communication.delay_taken = true;
  const Duration delay = std::min(duration_of(TimeCode{mra.service_timeout}), kPatienceMax);
  agent.set_deadline(communication, now + delay + communication.patience);
  agent.tell(communication, AgentEventKind::kDelayed, mra);
  return Verdict::kHandled;
}

Verdict Agent::MessageHandler::operator()(const wire::CmRep& rep) {
  const Found found = find(rep);
  if (!found) return found.error();
  Communication& communication = **found;
  if (!communication.is_active) return Verdict::kWrongState;
  switch (communication.state) {
    case State::kReqSent:
      return accept_reply(communication, rep);
    case State::kRepReceived:
      agent.send(from, compose_mra(communication, kMraServiceTimeout));
      return Verdict::kDuplicate;
    case State::kEstablished:
      agent.repeat(communication);
      return Verdict::kDuplicate;
    case State::kRefused:
      return refuse_reply(communication, rep);
    case State::kIdle:
    case State::kReqReceived:
    case State::kRepSent:
    case State::kDreqSent:
    case State::kTimewait:
    case State::kSidrSent:
    case State::kSidrReceived:
    case State::kSidrAnswered:
      return Verdict::kWrongState;
  }
  return Verdict::kWrongState;
}

Verdict Agent::MessageHandler::accept_reply(Communication& communication, const wire::CmRep& rep) {
  QpSettings settings = communication.settings;
  apply(rep, settings);
  communication.remote_id = rep.local_comm_id;
  communication.remote_guid = rep.local_ca_guid;
  if (Communication* stale =
          find_queue_pair(&communication, rep.local_ca_guid, settings.remote_qpn)) {
    const wire::CmRej rej = compose_rej(communication, wire::CmRej::Rejected::kRep,
                                        {.reason = wire::RejectReason::kStaleConnection});
    agent.tell(communication, AgentEventKind::kRejected, rej);
    agent.refuse(now, communication, rej);
    agent.question(now, *stale);
    return Verdict::kStaleConnection;
  }
  communication.settings = settings;
  agent.table_.index_by_peer_qp(communication);
  communication.state = State::kRepReceived;
  communication.has_message = false;
  agent.set_deadline(communication, Instant::never());
  agent.tell(communication, AgentEventKind::kReply, rep);
  return Verdict::kHandled;
}

/// This side has given up before it knew the peer's ID, or has refused its reply before.
Verdict Agent::MessageHandler::refuse_reply(Communication& communication, const wire::CmRep& rep) {
  if (!communication.has_message) return Verdict::kDuplicate;
  const auto mad = wire::MadView::parse(communication.message);
  auto rej = wire::CmRej::parse(*mad);
  if (!rej) return Verdict::kDuplicate;
  rej->remote_comm_id = rep.local_comm_id;
  rej->rejected = wire::CmRej::Rejected::kRep;
  agent.send(from, *rej);
  return Verdict::kDuplicate;
}

Verdict Agent::MessageHandler::operator()(const wire::CmRtu& rtu) {
  const Found found = find(rtu);
  if (!found) return found.error();
  Communication& communication = **found;
  if (communication.is_active) return Verdict::kWrongState;
  if (communication.state == State::kEstablished) {
    agent.handle_answer(communication);
    return Verdict::kDuplicate;
  }
  if (communication.state != State::kRepSent) return Verdict::kWrongState;
  communication.state = State::kEstablished;
  communication.has_message = false;
  agent.set_deadline(communication, Instant::never());
  agent.tell(communication, AgentEventKind::kEstablished, rtu);
  return Verdict::kHandled;
}

Verdict Agent::MessageHandler::operator()(const wire::CmRej& rej) {
  const Found found = find_refused(rej);
  if (!found) return found.error();
  Communication& communication = **found;
  switch (communication.state) {
    case State::kReqSent:
      agent.tell(communication, AgentEventKind::kRejected, rej);
      if (rej.reason == wire::RejectReason::kStaleConnection) {
        agent.enter_timewait(now, communication);
      } else {
        agent.finish(communication);
      }
      return Verdict::kHandled;
    case State::kReqReceived:
    case State::kRepSent:
      agent.leave_backlog(communication);
      agent.tell(communication, AgentEventKind::kRejected, rej);
      communication.has_message = false;
      agent.rest(now, communication, State::kRefused);
      return Verdict::kHandled;
    case State::kRepReceived:
    case State::kEstablished:
      agent.tell(communication, AgentEventKind::kRejected, rej);
      agent.enter_timewait(now, communication);
      return Verdict::kHandled;
    case State::kDreqSent:
      if (!communication.end_is_told) agent.tell(communication, AgentEventKind::kDisconnected, rej);
      agent.enter_timewait(now, communication);
      return Verdict::kHandled;
    case State::kIdle:
    case State::kTimewait:
    case State::kRefused:
    case State::kSidrSent:
    case State::kSidrReceived:
    case State::kSidrAnswered:
      return Verdict::kWrongState;
  }
  return Verdict::kWrongState;
}

Verdict Agent::MessageHandler::operator()(const wire::CmDreq& dreq) {
  const Found found = find(dreq);
  if (!found) {
    if (found.error() == Verdict::kWrongPeer) return Verdict::kWrongPeer;
    answer_dreq(dreq);  // there is nothing left to end, and the answer stops the peer's repetitions
    return Verdict::kAnswered;
  }
  Communication& communication = **found;
  if (!communication.remote_id || communication.state == State::kReqReceived) {
    return Verdict::kWrongState;
  }
  if (dreq.remote_qpn != communication.local_qpn) return Verdict::kWrongQpn;
  answer_dreq(dreq);
  switch (communication.state) {
    case State::kRepSent:
    case State::kRepReceived:
    case State::kEstablished:
    case State::kDreqSent:
      if (!communication.end_is_told)
        agent.tell(communication, AgentEventKind::kDisconnected, dreq);
      agent.enter_timewait(now, communication);
      return Verdict::kHandled;
    case State::kIdle:
    case State::kReqSent:
    case State::kReqReceived:
    case State::kTimewait:
    case State::kRefused:
    case State::kSidrSent:
    case State::kSidrReceived:
    case State::kSidrAnswered:
      return Verdict::kDuplicate;
  }
  return Verdict::kDuplicate;
}

void Agent::MessageHandler::answer_dreq(const wire::CmDreq& dreq) {
  agent.send(from, wire::CmDrep{.transaction = dreq.transaction,
                                .local_comm_id = dreq.remote_comm_id,
                                .remote_comm_id = dreq.local_comm_id});
}

Verdict Agent::MessageHandler::operator()(const wire::CmDrep& drep) {
  const Found found = find(drep);
  if (!found) return found.error();
  Communication& communication = **found;
  if (communication.state == State::kTimewait) return Verdict::kDuplicate;
  if (communication.state != State::kDreqSent) return Verdict::kWrongState;
  if (!communication.end_is_told) agent.tell(communication, AgentEventKind::kDisconnected, drep);
  agent.enter_timewait(now, communication);
  return Verdict::kHandled;
}

Verdict Agent::MessageHandler::operator()(const wire::CmSidrReq& req) {
  Communication* known =
      agent.table_.find_by_peer_id(req.request_id, [&](const Communication& other) {
        const bool is_service =
            other.state == State::kSidrReceived || other.state == State::kSidrAnswered;
        return is_service && other.address == from;
      });
  if (known != nullptr) {
    agent.repeat(*known);
    return Verdict::kDuplicate;
  }
  Listener* listener = agent.listeners_.match(req.service_id, from.local);
  if (listener == nullptr) {
    agent.send(from, wire::CmSidrRep{.transaction = req.transaction,
                                     .request_id = req.request_id,
                                     .status = wire::SidrStatus::kServiceNotSupported,
                                     .service_id = req.service_id});
    return Verdict::kNoListener;
  }
  if (listener->waiting_count >= listener->request.backlog) return Verdict::kBacklogFull;
  Communication* communication = agent.add_communication();
  if (communication == nullptr) return Verdict::kNoRoom;
  communication->state = State::kSidrReceived;
  communication->listener = listener->id;
  communication->is_waiting = true;
  ++listener->waiting_count;
  communication->service_id = req.service_id;
  communication->address = from;
  communication->transaction = req.transaction;
  communication->remote_id = req.request_id;
  communication->peer_patience = duration_of(kResponseTimeout);  // a CmSidrReq does not contain it
  agent.table_.index_by_peer_id(*communication);
  agent.tell(*communication, AgentEventKind::kServiceRequest, req);
  return Verdict::kHandled;
}

Verdict Agent::MessageHandler::operator()(const wire::CmSidrRep& rep) {
  Communication* communication = agent.table_.find(rep.request_id);
  if (communication == nullptr) return Verdict::kUnknownId;
  if (communication->address != from) return Verdict::kWrongPeer;
  if (communication->state != State::kSidrSent) return Verdict::kWrongState;
  agent.tell(*communication, AgentEventKind::kServiceReply, rep);
  agent.finish(*communication);
  return Verdict::kHandled;
}

/// Alternate paths are refused: there is one path to each peer.
Verdict Agent::MessageHandler::operator()(const wire::CmLap& lap) {
  const Found found = find(lap);
  if (!found) return found.error();
  if ((*found)->state != State::kEstablished) return Verdict::kWrongState;
  agent.send(from, wire::CmApr{.transaction = lap.transaction,
                               .local_comm_id = lap.remote_comm_id,
                               .remote_comm_id = lap.local_comm_id,
                               .status = wire::AprStatus::kNotSupported});
  return Verdict::kHandled;
}

/// The agent never offers an alternate path. It sends a LAP only to learn whether the peer knows
/// the connection.
Verdict Agent::MessageHandler::operator()(const wire::CmApr& apr) {
  const Found found = find(apr);
  if (!found) return found.error();
  Communication& communication = **found;
  const bool is_asked = communication.state == State::kEstablished && communication.is_questioned;
  if (!is_asked) return Verdict::kWrongState;
  agent.handle_answer(communication);
  return Verdict::kHandled;
}

/// The communication that both IDs name, if the message comes from its peer. While the peer's ID is
/// not known, any ID matches.
Agent::MessageHandler::Found Agent::MessageHandler::find(wire::CommId ours,
                                                         wire::CommId theirs) const {
  Communication* communication = agent.table_.find(ours);
  if (communication == nullptr) return Verdict::kUnknownId;
  if (communication->address != from) return Verdict::kWrongPeer;
  if (communication->remote_id && *communication->remote_id != theirs) {
    return Verdict::kWrongRemoteId;
  }
  return communication;
}

/// A peer that gave up its request does not know this side's ID. Its adapter's GUID and its own ID
/// identify the communication.
Agent::MessageHandler::Found Agent::MessageHandler::find_refused(const wire::CmRej& rej) const {
  if (rej.remote_comm_id != wire::CommId{}) return find(rej);
  if (rej.reason != wire::RejectReason::kTimeout || rej.info().size() < sizeof(wire::Guid)) {
    return Verdict::kUnknownId;
  }
  const wire::Guid guid{load_be<std::uint64_t, 0>(rej.info().first<sizeof(wire::Guid)>())};
  Communication* communication =
      find_request({.local_comm_id = rej.local_comm_id, .local_ca_guid = guid});
  if (communication == nullptr) return Verdict::kUnknownId;
  return communication;
}

/// The communication that an earlier copy of this request has begun.
Communication* Agent::MessageHandler::find_request(const wire::CmReq& req) const {
  return agent.table_.find_by_peer_id(req.local_comm_id, [&](const Communication& other) {
    return other.state != State::kIdle && other.address == from &&
           other.remote_guid == req.local_ca_guid && other.state != State::kSidrReceived &&
           other.state != State::kSidrAnswered;
  });
}

/// The communication that has the peer's queue pair.
Communication* Agent::MessageHandler::find_queue_pair(const Communication* except, wire::Guid guid,
                                                      wire::QpNumber qpn) const {
  return agent.table_.find_by_peer_qp(qpn, [&](const Communication& other) {
    return &other != except && other.holds_remote_qp() && other.address == from &&
           other.remote_guid == guid;
  });
}

}  // namespace verbatim::cm
