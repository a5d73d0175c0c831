// SPDX-License-Identifier: Apache-2.0
#include "link/faulty_link.h"

#include <algorithm>

#include "wire/crc/icrc.h"

namespace verbatim::link {

namespace {

constexpr std::size_t kShortestPacket = 16;  // BTH and ICRC

}  // namespace

void FaultyLink::send(Instant now, Burst& burst) noexcept {
  for (Burst::Train& train : burst.trains()) {
    for (std::size_t number = 0; number < train.packets; ++number) {
      const Frame packet{.octets = burst.packet(train, number),
                         .identification = train.identification(number)};
      if (faults_.handle_outgoing(now, train.to, packet)) {
        train.sent_bits |= std::uint64_t{1} << number;
        pass_on(now, train.to, packet.octets, packet.identification);
      }
      pass_on_released(now);
    }
  }
  pass_on_released(now);
  inner().flush(now);
}

/// Over IPv4 the ICRC depends on the place in a train. The packet gets a new place, so its ICRC
/// changes.
void FaultyLink::pass_on(Instant now, const Outgoing& to, std::span<const std::byte> octets,
                         std::uint16_t identification) noexcept {
  const Frame frame = inner().next_frame();
  if (frame.octets.size() < octets.size()) return;  // the link is closed
  const auto packet = frame.octets.first(octets.size());
  std::copy(octets.begin(), octets.end(), packet.begin());
  if (to.destination.is_ipv4_mapped() && packet.size() >= kShortestPacket) {
    wire::change_identification(packet, identification, frame.identification);
  }
  inner().commit(now, to,
                 {.octets = packet.size(), .packets = 1, .identification = frame.identification});
}

/// Packets that a fault has held back or copied.
void FaultyLink::pass_on_released(Instant now) noexcept {
  while (const auto released = faults_.poll_outgoing(now)) {
    pass_on(now, released->to, released->octets, released->identification);
  }
}

std::span<const Incoming> FaultyLink::receive(Instant now, Look look) noexcept {
  if (!is_open()) return {};
  return faults_.handle_incoming(now, inner().receive(now, look));
}

Instant FaultyLink::next_due() const noexcept {
  if (!is_open()) return Instant::never();
  return std::min(WrappingLink::next_due(), faults_.next_due());
}

bool FaultyLink::admit_forwarded(Instant now, const Incoming& incoming,
                                 std::span<std::byte> octets) noexcept {
  return inner().admit_forwarded(now, incoming, octets) &&
         faults_.handle_forwarded(now, incoming, octets);
}

}  // namespace verbatim::link
