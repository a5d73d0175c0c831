// SPDX-License-Identifier: Apache-2.0
#include "transport/unreliable/ud_responder.h"

#include "transport/rules/message_end.h"

namespace verbatim::transport {
namespace {

WcFlags header_flags(std::span<const std::byte, kGrhOctets> header, bool is_native) noexcept {
  if ((std::to_integer<unsigned>(header[0]) >> 4) == 6) return WcFlags::kGrh;
  return is_native ? WcFlags::kNone : WcFlags::kGrh | WcFlags::kIpv4;
}

}  // namespace

void UdResponder::handle_request(const wire::PacketView& packet,
                                 std::span<const std::byte, kGrhOctets> network_header,
                                 const wire::LocalRoute& local) noexcept {
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
    ++counters_.too_long;  // the receive stays for the next datagram
    return;
  }
  state_->scatter = {};
  auto placed = landing_.scatter(network_header);
  if (placed) placed = landing_.scatter(packet.payload());
  if (!placed) {
    end_half(*state_, landing_, {Verdict::kPlacementFailed, reason_of(placed.error())});
    return;
  }
  Completion completion =
      receive_completion(request_of(packet), static_cast<std::uint32_t>(octets));
  completion.flags = completion.flags | header_flags(network_header, local.exists());
  completion.detail = DatagramOrigin::of(local).pack();
  completion.source_qp = deth.source_qp;
  if (!landing_.complete_receive(completion)) {
    end_half(*state_, landing_, {Verdict::kOverrun, Reason::kCompletionOverrun});
    return;
  }
  ++counters_.requests;
  counters_.octets += packet.payload().size();
}

}  // namespace verbatim::transport
