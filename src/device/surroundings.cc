// SPDX-License-Identifier: Apache-2.0
#include "device/surroundings.h"

#include "device/forwarded_packet.h"

namespace verbatim::device {

Surroundings::Surroundings(const Parts& parts)
    : parts_(parts), forwarded_(sizeof(ForwardHeader) + link::kFrameOctets) {}

void Surroundings::forward(std::uint32_t slot, const link::Incoming& incoming) noexcept {
  const std::size_t octets = pack_forwarded(incoming, forwarded_);
  ++counters().forwarded;
  (void)parts_.slot.forward(slot, std::span(forwarded_).first(octets));
}

bool Surroundings::is_own_address(const wire::Gid& gid) const noexcept {
  return parts_.network.has_address(gid);
}

void Surroundings::handle_management(const link::Incoming& incoming, const wire::PacketView& packet,
                                     const wire::IcrcSeed& seed,
                                     loop::ArrivedBy arrived_by) noexcept {
  parts_.management.handle({.incoming = incoming,
                            .packet = packet,
                            .seed = seed,
                            .was_forwarded = arrived_by == loop::ArrivedBy::kForwarding});
}

void Surroundings::handle_first_data(wire::CommId communication) noexcept {
  parts_.management.handle_first_data(communication);
}

void Surroundings::handle_key_violation(transport::KeyViolation violation,
                                        const transport::Arrival& arrival) noexcept {
  parts_.network.report(violation, arrival);
}

std::optional<Surroundings::Forwarded> Surroundings::take_forwarded() noexcept {
  const auto message = std::span(forwarded_).first(parts_.slot.take_forwarded(forwarded_));
  const auto incoming = unpack_forwarded(message);
  if (!incoming) return std::nullopt;
  return Forwarded{.incoming = *incoming, .octets = message.subspan(sizeof(ForwardHeader))};
}

}  // namespace verbatim::device
