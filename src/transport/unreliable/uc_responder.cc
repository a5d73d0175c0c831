// SPDX-License-Identifier: Apache-2.0
#include "transport/unreliable/uc_responder.h"

#include "transport/rules/message_end.h"
#include "transport/rules/packet_rules.h"
#include "transport/rules/request_rules.h"

namespace verbatim::transport {

using wire::PacketView;

void UcResponder::handle_request(const PacketView& packet) noexcept {
  if (state_->failed) return;
  const bool in_order = packet.psn() == state_->expected_psn;
  state_->expected_psn = packet.psn() + 1;
  if (!in_order || packet.info().starts_message) lose_message();
  if (const auto no = accept(packet); !no.accepted()) return refuse(packet, no);
  ++counters_.requests;
  if (packet.info().ends_message) ++counters_.messages;
  counters_.octets += packet.payload().size();
}

/// Drops a message that has begun; without one this does nothing.
void UcResponder::lose_message() noexcept {
  if (state_->inbound != Inbound::kNone) ++counters_.messages_lost;
  landing_.abandon_message();
}

void UcResponder::refuse(const PacketView& packet, const Judgement& judgement) noexcept {
  if (consequence_of(judgement.verdict).ends_unreliable) {
    end_half(*state_, landing_, judgement);
    return;
  }
  const bool was_refused_at_once =
      packet.info().starts_message && state_->inbound == Inbound::kNone;
  if (was_refused_at_once) ++counters_.messages_lost;
  lose_message();
}

Judgement UcResponder::accept(const PacketView& packet) noexcept {
  const Request request = request_of(packet);
  const auto sequence = check_sequence(state_->inbound, packet.info(), request.kind);
  if (!sequence.accepted()) return sequence;
  if (const auto no = check_allowed(*state_, request.kind); !no.accepted()) return no;
  const auto payload =
      check_payload(packet.info().payload, packet.payload().size(), state_->path_mtu);
  if (!payload.accepted()) return payload;
  if (request.kind == RequestKind::kSend) return accept_send(packet, request);
  if (request.kind == RequestKind::kWrite) return accept_write(packet, request);
  return {Verdict::kInvalidRequest, Reason::kNotOfThisService};
}

Judgement UcResponder::accept_send(const PacketView& packet, const Request& request) noexcept {
  const std::size_t octets = packet.payload().size();
  if (!landing_.take_receive()) return {Verdict::kNotReady, Reason::kNoReceive};
  if (const auto no = check_room(landing_, state_->arrived + octets); !no.accepted()) return no;
  state_->inbound = Inbound::kSend;
  if (auto placed = landing_.scatter(packet.payload()); !placed) {
    return {Verdict::kPlacementFailed, reason_of(placed.error())};
  }
  state_->arrived += static_cast<std::uint32_t>(octets);
  return packet.info().ends_message ? finish_receive(request) : Judgement{};
}

Judgement UcResponder::accept_write(const PacketView& packet, const Request& request) noexcept {
  const std::size_t octets = packet.payload().size();
  if (packet.info().starts_message) {
    if (const auto no = check_form(request); !no.accepted()) return no;
    const auto answer = ask_key(landing_.keys(), *state_, request);
    if (const auto no = check_grant(request, answer); !no.accepted()) return no;
    landing_.begin_write(request);
  }
  const auto announced =
      check_announced(packet.info(), state_->write_octets, state_->arrived, octets);
  if (!announced.accepted()) return announced;
  if (takes_receive(request) && !landing_.take_receive()) {
    return {Verdict::kNotReady, Reason::kNoReceive};
  }
  state_->inbound = Inbound::kWrite;
  if (auto written = landing_.write(packet.payload()); !written) {
    return refused_by_key(written.error());
  }
  state_->arrived += static_cast<std::uint32_t>(octets);
  if (!packet.info().ends_message) return {};
  if (takes_receive(request)) return finish_receive(request);
  ++state_->msn;
  landing_.abandon_message();
  return {};
}

Judgement UcResponder::finish_receive(const Request& request) noexcept {
  return transport::finish_receive(
      request, state_->arrived, *state_, landing_,
      [this](const Completion& completion) { return landing_.complete_receive(completion); });
}

}  // namespace verbatim::transport
