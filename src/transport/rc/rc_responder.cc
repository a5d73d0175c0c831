// SPDX-License-Identifier: Apache-2.0
// How a responder checks and executes requests; its answers are in rc_responder_answers.cc.
#include "transport/rc/rc_responder.h"

#include "transport/rules/message_end.h"
#include "transport/rules/packet_rules.h"
#include "transport/rules/request_rules.h"
#include "transport/segmentation.h"

namespace verbatim::transport {

using wire::PacketView;
using wire::Psn;

[[gnu::flatten]] void RcResponder::handle_request(const PacketView& packet,
                                                  SharedReceiveRing named) noexcept {
  if (state_->failed) return;
  const std::int32_t ahead = packet.psn().distance_from(state_->expected_psn);
  if (ahead < 0) {
    ++counters_.duplicates;
    answer_duplicate(packet);
    return;
  }
  if (ahead > 0) {
    ++counters_.out_of_sequence;
    if (!state_->nak_sent) {
      owe(wire::Syndrome::nak(wire::Syndrome::Nak::kSequence), state_->expected_psn);
      state_->nak_sent = true;
    }
    return;
  }
  const Request request = request_of(packet);
  Judgement judgement{Verdict::kInvalidRequest, Reason::kOutOfOrderOpcode};
  if (transport_ != wire::Transport::kXrc || use_named(packet, named)) {
    judgement = judge(packet, request);
  }
  if (judgement.accepted()) judgement = execute(packet, request);
  if (!judgement.accepted()) {
    refuse(packet, judgement);
    return;
  }
  count(packet, request);
  note_accepted();
  // A request that is remembered has a response of its own.
  const bool wants_ack = packet.bth().ack_request() && !is_remembered(request.kind);
  if (wants_ack) owe(wire::Syndrome::ack(), packet.psn());
}

void RcResponder::count(const PacketView& packet, const Request& request) noexcept {
  ++counters_.requests;
  if (packet.info().ends_message) ++counters_.messages;
  const bool asks = request.kind == RequestKind::kRead;
  counters_.octets += asks ? request.octets : packet.payload().size();
}

void RcResponder::note_accepted() noexcept {
  forget_ancient();
  const bool owes_nak = state_->answer_owed && state_->answer.kind() != wire::Syndrome::Kind::kAck;
  if (owes_nak) state_->answer_owed = false;  // the missing packet has arrived
  state_->nak_sent = false;
}

/// XRC: a message stays with the shared receive queue that its first packet names (annex A14).
bool RcResponder::use_named(const PacketView& packet, SharedReceiveRing named) noexcept {
  const wire::SrqNumber number = packet.xrceth().srq;
  const bool continues = state_->inbound != Inbound::kNone;
  if (continues && number != state_->shared_number) return false;
  // If the queue was destroyed since the message began, its receive no longer exists.
  if (continues && !named.exists()) state_->receive_taken = false;
  state_->shared_number = number;
  landing_.use_shared(named);
  return true;
}

// ---- The checks ----

Judgement RcResponder::judge(const PacketView& packet, const Request& request) noexcept {
  const auto sequence = check_sequence(state_->inbound, packet.info(), request.kind);
  if (!sequence.accepted()) return sequence;
  if (const auto no = check_allowed(*state_, request.kind); !no.accepted()) return no;
  if (const auto no = check_resources(request); !no.accepted()) return no;
  if (const auto no = check_lengths(packet, request); !no.accepted()) return no;
  return check_memory(packet, request);
}

/// A receive for a request that takes one, a place in the replay for one that is remembered
/// (9.7.4.1.5).
Judgement RcResponder::check_resources(const Request& request) noexcept {
  if (takes_receive(request)) {
    if (transport_ == wire::Transport::kXrc && !landing_.has_shared()) {
      return {Verdict::kInvalidRequest, Reason::kUnknownSharedQueue};
    }
    if (!landing_.take_receive()) return {Verdict::kNotReady, Reason::kNoReceive};
  }
  if (!is_remembered(request.kind)) return {};
  if (state_->replay_count < state_->replay_limit) return {};
  // A peer that keeps the limit has received the oldest answer when it sends one more request.
  if (replay_at(0).answered) return {};
  return {Verdict::kInvalidRequest, Reason::kTooManyReads};
}

Judgement RcResponder::check_lengths(const PacketView& packet,
                                     const Request& request) const noexcept {
  const std::size_t octets = packet.payload().size();
  const auto payload = check_payload(packet.info().payload, octets, state_->path_mtu);
  if (!payload.accepted()) return payload;
  if (const auto no = check_form(request); !no.accepted()) return no;
  if (request.kind == RequestKind::kSend) {
    return check_room(landing_, std::uint64_t{state_->arrived} + octets);
  }
  if (request.kind == RequestKind::kWrite) {
    const bool starts = packet.info().starts_message;
    const std::uint64_t announced = starts ? request.octets : state_->write_octets;
    return check_announced(packet.info(), announced, starts ? 0 : state_->arrived, octets);
  }
  return {};
}

/// The key is checked with the first packet of a request that names memory.
Judgement RcResponder::check_memory(const PacketView& packet, const Request& request) noexcept {
  if (request.kind == RequestKind::kSend || request.kind == RequestKind::kNone) return {};
  if (!packet.info().starts_message) return {};
  const auto answer = ask_key(landing_.keys(), *state_, request);
  if (const auto no = check_grant(request, answer); !no.accepted()) return no;
  if (request.kind == RequestKind::kWrite) landing_.begin_write(request);
  return {};
}

// ---- Executing ----

Judgement RcResponder::execute(const PacketView& packet, const Request& request) noexcept {
  Judgement judgement;
  std::uint32_t sequence_numbers = 1;
  switch (request.kind) {
    case RequestKind::kSend:
      judgement = execute_send(packet, request);
      break;
    case RequestKind::kWrite:
      judgement = execute_write(packet, request);
      break;
    case RequestKind::kRead:
      sequence_numbers = packet_count(static_cast<std::uint32_t>(request.octets), state_->path_mtu);
      execute_read(request, packet.psn());
      break;
    case RequestKind::kCompareSwap:
    case RequestKind::kFetchAdd:
    case RequestKind::kAtomicWrite:
      judgement = execute_eight(request, packet.psn());
      break;
    case RequestKind::kFlush:
      execute_flush(*state_);
      (void)remember(request.kind, packet.psn());
      break;
    case RequestKind::kNone:
      break;
  }
  if (judgement.accepted()) state_->expected_psn = state_->expected_psn + sequence_numbers;
  return judgement;
}

Judgement RcResponder::execute_send(const PacketView& packet, const Request& request) noexcept {
  state_->inbound = Inbound::kSend;
  if (auto placed = landing_.scatter(packet.payload()); !placed) {
    return {Verdict::kPlacementFailed, reason_of(placed.error())};
  }
  state_->arrived += static_cast<std::uint32_t>(packet.payload().size());
  return packet.info().ends_message ? finish_receive(request) : Judgement{};
}

Judgement RcResponder::execute_write(const PacketView& packet, const Request& request) noexcept {
  state_->inbound = Inbound::kWrite;
  if (auto written = landing_.write(packet.payload()); !written) {
    return refused_by_key(written.error());
  }
  state_->arrived += static_cast<std::uint32_t>(packet.payload().size());
  if (!packet.info().ends_message) return {};
  if (takes_receive(request)) return finish_receive(request);
  ++state_->msn;
  landing_.abandon_message();
  return {};
}

Judgement RcResponder::finish_receive(const Request& request) noexcept {
  return transport::finish_receive(
      request, state_->arrived, *state_, landing_,
      [this](const Completion& completion) { return landing_.complete_receive(completion); });
}

void RcResponder::execute_read(const Request& request, Psn psn) noexcept {
  const auto octets = static_cast<std::uint32_t>(request.octets);
  ++state_->msn;
  ReplayEntry& entry = remember(request.kind, psn);
  entry.packets = packet_count(octets, state_->path_mtu);
  entry.address = request.address;
  entry.rkey = request.key;
  entry.octets = octets;
}

/// The key is checked again: another thread may have invalidated it since judge(). The memory is
/// accessed first: if that faults, no answer is owed.
Judgement RcResponder::execute_eight(const Request& request, Psn psn) noexcept {
  const auto place = ask_key(landing_.keys(), *state_, request);
  if (const auto no = check_grant(request, place); !no.accepted()) return no;
  const std::uint64_t original = transport::execute_eight(request, place->local());
  ++state_->msn;
  remember(request.kind, psn).original = original;
  return {};
}

}  // namespace verbatim::transport
