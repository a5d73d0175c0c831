// SPDX-License-Identifier: Apache-2.0
#include "transport/ud_responder.h"

namespace verbatim::transport {

void UdResponder::handle_request(const wire::PacketView& packet,
                                 std::span<const std::byte, kGrhOctets> network_header) noexcept {
  if (state_->failed) return;
  const wire::Deth deth = packet.deth();
  if (deth.qkey != state_->qkey) {
    ++counters_.wrong_qkey;
    return;
  }
  if (!landing_.take_receive()) {
    ++counters_.no_receive;
    return;
  }
  const std::size_t octets = kGrhOctets + packet.payload().size();
  if (packet.payload().size() > state_->path_mtu || octets > landing_.receive_octets()) {
    ++counters_.too_long;  // the receive waits for a shorter one
    return;
  }
  state_->scatter = {};
  const bool is_ipv6 = (std::to_integer<unsigned>(network_header[0]) >> 4) == 6;
  Completion completion{.opcode = WcOpcode::kReceive,
                        .flags = is_ipv6 ? WcFlags::kGrh : WcFlags::kGrh | WcFlags::kIpv4,
                        .solicited = packet.bth().solicited(),
                        .octets = static_cast<std::uint32_t>(octets),
                        .source_qp = deth.source_qp};
  if (packet.info().has(wire::OpcodeInfo::kImmDt)) {
    completion.flags = completion.flags | WcFlags::kWithImm;
    completion.imm_or_key = static_cast<std::uint32_t>(packet.imm_dt().immediate);
  }
  auto placed = landing_.scatter(network_header);
  if (placed) placed = landing_.scatter(packet.payload());
  if (!placed) {
    state_->failed = true;
    state_->reason = reason_of(placed.error());
    completion = {.status = WcStatus::kLocalProtection,
                  .opcode = WcOpcode::kReceive,
                  .vendor_error = static_cast<std::uint32_t>(state_->reason)};
  }
  if (!landing_.complete_receive(completion)) {
    state_->failed = true;
    state_->event = QpEvent::kFatal;
    state_->event_due = true;
    state_->reason = Reason::kCompletionOverrun;
    return;
  }
  if (state_->failed) return;
  ++counters_.requests;
  counters_.octets += packet.payload().size();
}

}  // namespace verbatim::transport
