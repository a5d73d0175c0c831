// SPDX-License-Identifier: Apache-2.0
#include "transport/uc_responder.h"

namespace verbatim::transport {

using wire::OpcodeInfo;
using wire::PacketView;

namespace {

bool is_write(const PacketView& packet) noexcept {
  return packet.operation() >= wire::Operation::kWriteFirst;  // UC has nothing above the WRITEs
}

}  // namespace

void UcResponder::handle_request(const PacketView& packet) noexcept {
  if (state_->failed) return;
  const bool in_order = packet.psn() == state_->expected_psn;
  state_->expected_psn = packet.psn() + 1;
  if (!in_order || packet.info().starts_message) lose_message();
  if (accept(packet)) {
    ++counters_.requests;
    if (packet.info().ends_message) ++counters_.messages;
    counters_.octets += packet.payload().size();
    return;
  }
  if (state_->failed) return;
  const bool was_refused_at_once =
      packet.info().starts_message && state_->inbound == Inbound::kNone;
  if (was_refused_at_once) ++counters_.messages_lost;
  lose_message();
}

/// A message that had begun is given up; without one this does nothing.
void UcResponder::lose_message() noexcept {
  if (state_->inbound != Inbound::kNone) ++counters_.messages_lost;
  landing_.abandon_message();
}

bool UcResponder::accept(const PacketView& packet) noexcept {
  if (!continues_message(packet) || !has_right_length(packet)) return false;
  return is_write(packet) ? accept_write(packet) : accept_send(packet);
}

bool UcResponder::continues_message(const PacketView& packet) const noexcept {
  if (packet.info().starts_message) return true;
  return state_->inbound == (is_write(packet) ? Inbound::kWrite : Inbound::kSend);
}

bool UcResponder::has_right_length(const PacketView& packet) const noexcept {
  const std::size_t octets = packet.payload().size();
  switch (packet.info().payload) {
    case wire::PayloadRule::kExactlyMtu:
      return octets == state_->path_mtu;
    case wire::PayloadRule::kOneToMtu:
      return octets > 0 && octets <= state_->path_mtu;
    case wire::PayloadRule::kUpToMtu:
      return octets <= state_->path_mtu;
    case wire::PayloadRule::kNone:
    case wire::PayloadRule::kEight:
      return false;
  }
  return false;
}

bool UcResponder::accept_send(const PacketView& packet) noexcept {
  if (!landing_.take_receive()) return false;
  const std::uint64_t total = std::uint64_t{state_->arrived} + packet.payload().size();
  if (total > kMaxMessageOctets || total > landing_.receive_octets()) return false;
  state_->inbound = Inbound::kSend;
  if (auto placed = landing_.scatter(packet.payload()); !placed) {
    landing_.fail(reason_of(placed.error()));
    return false;
  }
  state_->arrived += static_cast<std::uint32_t>(packet.payload().size());
  if (packet.info().ends_message) finish_receive(packet, WcOpcode::kReceive);
  return !state_->failed;
}

bool UcResponder::accept_write(const PacketView& packet) noexcept {
  if (!allows(state_->access, memory::Access::kRemoteWrite)) return false;
  if (packet.info().starts_message) {
    if (packet.reth().dma_octets > kMaxMessageOctets) return false;
    if (!landing_.begin_write(packet.reth())) return false;
  }
  const std::uint64_t total = std::uint64_t{state_->arrived} + packet.payload().size();
  const bool ends = packet.info().ends_message;
  if (ends ? total != state_->write_octets : total >= state_->write_octets) return false;
  const bool has_immediate = packet.info().has(OpcodeInfo::kImmDt);
  if (has_immediate && !landing_.take_receive()) return false;
  state_->inbound = Inbound::kWrite;
  if (!landing_.write(packet.payload())) return false;
  state_->arrived += static_cast<std::uint32_t>(packet.payload().size());
  if (!ends) return true;
  if (has_immediate) {
    finish_receive(packet, WcOpcode::kReceiveWithImm);
  } else {
    landing_.abandon_message();
  }
  return !state_->failed;
}

void UcResponder::finish_receive(const PacketView& packet, WcOpcode opcode) noexcept {
  Completion completion{
      .opcode = opcode, .solicited = packet.bth().solicited(), .octets = state_->arrived};
  if (packet.info().has(OpcodeInfo::kImmDt)) {
    completion.flags = completion.flags | WcFlags::kWithImm;
    completion.imm_or_key = static_cast<std::uint32_t>(packet.imm_dt().immediate);
  }
  if (!landing_.complete_receive(completion)) {
    state_->failed = true;
    state_->event = QpEvent::kFatal;
    state_->event_due = true;
    state_->reason = Reason::kCompletionOverrun;
  }
  landing_.abandon_message();
}

}  // namespace verbatim::transport
