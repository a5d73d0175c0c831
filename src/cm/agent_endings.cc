// SPDX-License-Identifier: Apache-2.0
// How a communication ends: refused, disconnected, destroyed, or for want of an answer.
#include <algorithm>

#include "cm/agent.h"
#include "cm/compose.h"

namespace verbatim::cm {

Status Agent::destroy(Instant now, wire::CommId id) {
  Communication* communication = owned(id);
  if (communication == nullptr) return Errc::kNoSuchObject;
  settle(*communication);
  communication->is_owned = false;
  std::erase_if(events_, [&](const Event& event) { return event.id == id; });
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
      break;  // it is on its way out
  }
  return Ok{};
}

bool Agent::has_farewells() const noexcept {
  return table_.find_if([](const Communication& communication) {
    return communication.state == State::kDreqSent;
  }) != nullptr;
}

void Agent::repeat_farewells() {
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
      tell(communication, EventKind::kTimewaitExit);
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

/// Nobody answers.
void Agent::give_up(Instant now, Communication& communication) {
  switch (communication.state) {
    case State::kReqSent:
      tell(communication, EventKind::kUnreachable);
      refuse(now, communication, compose_timeout(communication, config_.ca_guid));
      break;
    case State::kRepSent:
      tell(communication, EventKind::kUnreachable);
      communication.end_is_told = true;
      abandon_reply(now, communication, compose_timeout(communication, config_.ca_guid));
      break;
    case State::kDreqSent:
      if (!communication.end_is_told) tell(communication, EventKind::kDisconnected);
      enter_timewait(now, communication);
      break;
    case State::kSidrSent:
      tell(communication, EventKind::kServiceUnreachable);
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
      break;  // waits for nobody
  }
}

/// Says no, and says it again to whoever repeats the question.
void Agent::refuse(Instant now, Communication& communication, const wire::CmRej& rej) {
  settle(communication);
  keep(communication, rej);
  repeat(communication);
  rest(now, communication, State::kRefused);
}

/// Long enough for two copies of the question to come after the answer; a later one is a new one.
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

/// A message names the peer's queue pair as if the peer knew nothing of this connection. Any
/// process that can send from the peer's address can say so. So the peer is asked, and the
/// connection ends only if no answer comes.
void Agent::question(Instant now, Communication& communication) {
  if (communication.state != State::kEstablished || communication.is_questioned) return;
  communication.is_questioned = true;
  communication.copies_left = communication.retries_max;
  send_question(communication);
  set_deadline(communication, now + communication.patience);
}

/// A message that a peer answers if it knows the connection, and that changes nothing there: a copy
/// of our REP, which the active side answers with its RTU; or a LAP, which the passive side answers
/// with an APR.
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

/// We accepted, and take it back. The peer may hold the connection for made, so a refusal, which
/// nobody acknowledges, does not do: it is disconnected as well, until the peer agrees.
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
