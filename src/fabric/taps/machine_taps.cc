// SPDX-License-Identifier: Apache-2.0
#include "fabric/machine.h"

namespace verbatim::fabric {

std::optional<TappedPacket> Fabric::Machine::poll_tapped() {
  if (tapped_.empty()) return std::nullopt;
  return tapped_.pop();
}

void Fabric::Machine::tap(Instant now, PortEnd end, TappedPacket::Direction direction,
                          const OnLink& on_link) {
  const PacketHeader& packet = on_link.packet;
  TappedPacket& tapped = tapped_.add();
  tapped.at = now;
  tapped.port = end;
  tapped.direction = direction;
  tapped.lane = on_link.lane == LinkLayer::kManagement ? wire::VirtualLane::kManagement
                                                       : wire::VirtualLane{on_link.lane};
  tapped.is_damaged = on_link.is_damaged;
  tapped.handle = packet.handle;
  tapped.datagram.reset();
  if (packet.datagram != nullptr) tapped.datagram = *packet.datagram;
}

}  // namespace verbatim::fabric
