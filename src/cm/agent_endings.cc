// SPDX-License-Identifier: Apache-2.0
// How a communication ends: refused, disconnected, destroyed, or because no answer comes.
#include <algorithm>

#include "cm/agent.h"
#include "cm/compose.h"

namespace verbatim::cm {

Status Agent::destroy(Instant now, wire::CommId id) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  leave_backlog(*communication);
  communication->is_owned = false;
  std::erase_if(events_, [&](const AgentEvent& event) { return event.id == id; });
  using Rejected = wire::CmRej::Rejected;
  switch (communication->state) {
    case State::kReqSent:
      refuse(now, *communication, compose_timeout(*communication, config_.ca_guid));
      break;
    case State::kReqReceived:
      refuse(now, *communication, compose_rej(*communication, Rejected::kReq, {}));
      break;
    case State::kRepReceived:
      refuse(now, *communication, compose_rej(*communication, Rejected::kRep, {}));
      break;
    case State::kRepSent:
      abandon_reply(now, *communication, compose_rej(*communication, Rejected::kOther, {}));
      break;
    case State::kEstablished:
      start_disconnect(now, *communication);
      break;
    case State::kSidrReceived:
      keep(*communication,
           compose_sidr_rep(*communication, {.status = wire::SidrStatus::kRejected}));
      repeat(*communication);
      rest(now, *communication, State::kSidrAnswered);
      break;
    case State::kSidrSent:
    case State::kIdle:
      finish(*communication);
      break;
    case State::kDreqSent:
    case State::kTimewait:
    case State::kRefused:
    case State::kSidrAnswered:
      break;  // it is ending already
  }
  return Ok{};
}

bool Agent::has_open_disconnects() const noexcept {
  return table_.find_if([](const Communication& communication) {
    return communication.state == State::kDreqSent;
  }) != nullptr;
}

void Agent::repeat_disconnects() {
  table_.for_each([&](Communication& communication) {
    if (communication.state == State::kDreqSent) repeat(communication);
  });
}

void Agent::handle_timeout(Instant now) {
  if (now < earliest_) return;
  earliest_ = Instant::never();
  table_.for_each([&](Communication& communication) {
    if (communication.deadline <= now) {
      handle_deadline(now, communication);  // may remove it, and sets earliest_ for a new deadline
    } else {
      earliest_ = std::min(earliest_, communication.deadline);
    }
  });
}

void Agent::handle_deadline(Instant now, Communication& communication) {
  switch (communication.state) {
    case State::kReqSent:
    case State::kRepSent:
    case State::kDreqSent:
    case State::kSidrSent:
      if (communication.copies_left == 0) {
        ++counters_.timed_out;
        give_up(now, communication);
        break;
      }
      --communication.copies_left;
      communication.delay_taken = false;
      ++counters_.retransmitted;
      repeat(communication);
      set_deadline(communication, now + communication.patience);
      break;
    case State::kTimewait:
      tell(communication, AgentEventKind::kTimewaitExit);
      finish(communication);
      break;
    case State::kRefused:
    case State::kSidrAnswered:
      finish(communication);
      break;
    case State::kIdle:
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kSidrReceived:
      set_deadline(communication, Instant::never());
      break;
    case State::kEstablished:
      if (!communication.is_questioned) {
        set_deadline(communication, Instant::never());
      } else if (communication.copies_left == 0) {
        start_disconnect(now, communication);
      } else {
        --communication.copies_left;
        ++counters_.retransmitted;
        send_question(communication);
        set_deadline(communication, now + communication.patience);
      }
      break;
  }
}

/// The peer has not answered the last copy of a message.
void Agent::give_up(Instant now, Communication& communication) {
  switch (communication.state) {
    case State::kReqSent:
      tell(communication, AgentEventKind::kUnreachable);
      refuse(now, communication, compose_timeout(communication, config_.ca_guid));
      break;
    case State::kRepSent:
      tell(communication, AgentEventKind::kUnreachable);
      communication.end_is_told = true;
      abandon_reply(now, communication, compose_timeout(communication, config_.ca_guid));
      break;
    case State::kDreqSent:
      if (!communication.end_is_told) tell(communication, AgentEventKind::kDisconnected);
      enter_timewait(now, communication);
      break;
    case State::kSidrSent:
      tell(communication, AgentEventKind::kServiceUnreachable);
      finish(communication);
      break;
    case State::kIdle:
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kEstablished:
    case State::kTimewait:
    case State::kRefused:
    case State::kSidrReceived:
    case State::kSidrAnswered:
      break;  // no answer of the peer is due
  }
}

/// Sends a refusal, and repeats it for each copy of the refused message.
void Agent::refuse(Instant now, Communication& communication, const wire::CmRej& rej) {
  leave_backlog(communication);
  keep(communication, rej);
  repeat(communication);
  rest(now, communication, State::kRefused);
}

/// Keeps the communication long enough for two more copies of the peer's message; a later copy
/// counts as a new message.
void Agent::rest(Instant now, Communication& communication, State state) {
  communication.state = state;
  set_deadline(communication, now + std::min(3 * communication.peer_patience, kRestMax));
}

void Agent::start_disconnect(Instant now, Communication& communication,
                             std::span<const std::byte> private_data) {
  wire::CmDreq dreq{.transaction = next_transaction(),
                    .local_comm_id = communication.id,
                    .remote_comm_id = *communication.remote_id,
                    .remote_qpn = communication.settings.remote_qpn};
  fill(dreq.private_data, private_data);
  communication.state = State::kDreqSent;
  send_and_await(now, communication, dreq);
}

/// To be called when a message claims that the peer's queue pair does not have this connection. Any
/// process that can send from the peer's address can claim that. So the peer is asked, and the
/// connection ends only if no answer comes.
void Agent::question(Instant now, Communication& communication) {
  if (communication.state != State::kEstablished || communication.is_questioned) return;
  communication.is_questioned = true;
  communication.copies_left = communication.retries_max;
  send_question(communication);
  set_deadline(communication, now + communication.patience);
}

/// Sends a message that a peer answers if it knows the connection, and that changes nothing there:
/// on the passive side a copy of the REP, which the active side answers with its RTU; on the active
/// side a LAP, which the passive side answers with an APR.
void Agent::send_question(const Communication& communication) {
  if (!communication.is_active) return send_octets(communication.address, communication.message);
  send(communication.address, wire::CmLap{.transaction = next_transaction(),
                                          .local_comm_id = communication.id,
                                          .remote_comm_id = *communication.remote_id,
                                          .remote_qpn = communication.settings.remote_qpn});
}

void Agent::handle_answer(Communication& communication) noexcept {
  communication.is_questioned = false;
  set_deadline(communication, Instant::never());
}

/// Revokes an accepted request. The peer may already count the connection as made. A refusal is not
/// acknowledged, so it is not enough: the connection is disconnected as well, until the peer
/// agrees.
void Agent::abandon_reply(Instant now, Communication& communication, const wire::CmRej& rej) {
  send(communication.address, rej);
  start_disconnect(now, communication);
}

void Agent::enter_timewait(Instant now, Communication& communication) {
  communication.state = State::kTimewait;
  communication.has_message = false;
  const Duration wait = duration_of(communication.settings.ack_timeout);
  set_deadline(communication, now + std::min(wait, kRestMax));
}

Status Agent::handle_peer_end(Instant now, wire::CommId id) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  const bool is_connected =
      communication->state == State::kRepSent || communication->state == State::kRepReceived ||
      communication->state == State::kEstablished || communication->state == State::kDreqSent;
  if (!is_connected || !communication->remote_id) return Ok{};
  const wire::CmDreq dreq{.transaction = communication->transaction,
                          .local_comm_id = *communication->remote_id,
                          .remote_comm_id = communication->id,
                          .remote_qpn = communication->local_qpn};
  if (!communication->end_is_told) tell(*communication, AgentEventKind::kDisconnected, dreq);
  enter_timewait(now, *communication);
  return Ok{};
}

void Agent::finish(Communication& communication) {
  if (!communication.is_owned) {
    table_.remove(communication.id);
    return;
  }
  communication.state = State::kIdle;
  communication.has_message = false;
  set_deadline(communication, Instant::never());
}

}  // namespace verbatim::cm
