// SPDX-License-Identifier: Apache-2.0
#include "loop/network_header.h"

#include <algorithm>

#include "wire/headers/grh.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/ipv6.h"
#include "wire/headers/udp.h"

namespace verbatim::loop {

namespace {

void fill_native(const link::Incoming& incoming, std::span<std::byte, 40> to) noexcept {
  std::ranges::fill(to, std::byte{0});
  if (incoming.destination == wire::Gid{}) return;
  wire::Grh header;
  header.traffic_class = incoming.traffic_class;
  header.flow_label = incoming.flow_label;
  header.payload_octets = static_cast<std::uint16_t>(incoming.octets.size());
  header.hop_limit = incoming.hop_limit;
  header.source = incoming.source;
  header.destination = incoming.destination;
  header.emit(to);
}

}  // namespace

void fill_network_header(const link::Incoming& incoming, std::span<std::byte, 40> to) noexcept {
  if (incoming.local.exists()) return fill_native(incoming, to);
  const auto udp_octets = static_cast<std::uint16_t>(incoming.octets.size() + wire::Udp::kSize);
  if (!incoming.source.is_ipv4_mapped()) {
    wire::Ipv6 header;
    header.traffic_class = incoming.traffic_class;
    header.payload_octets = udp_octets;
    header.hop_limit = incoming.hop_limit;
    header.source = incoming.source;
    header.destination = incoming.destination;
    header.emit(to);
    return;
  }
  wire::Ipv4 header;
  header.traffic_class = incoming.traffic_class;
  header.total_octets = static_cast<std::uint16_t>(udp_octets + wire::Ipv4::kSize);
  header.time_to_live = incoming.hop_limit;
  header.source = wire::ipv4_of(incoming.source);
  header.destination = wire::ipv4_of(incoming.destination);
  std::ranges::fill(to.first<20>(), std::byte{0});
  header.emit(to.last<wire::Ipv4::kSize>());
}

}  // namespace verbatim::loop
