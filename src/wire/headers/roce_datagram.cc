// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/roce_datagram.h"

namespace verbatim::wire {
namespace {

/// Parses the UDP header. `segment` is everything that the length of the IP header includes.
Expected<RoceDatagram, WireError> with_udp(RoceDatagram found,
                                           std::span<const std::byte> segment) noexcept {
  const auto udp = UdpView::parse(segment);
  if (!udp) return udp.error();
  if (udp->destination_port() != kRoceUdpPort) return WireError::kNotRoce;
  // The ICRC covers both lengths, and a sender derives both from one, so they must agree.
  if (udp->octets() != segment.size()) return WireError::kBadLength;
  found.envelope.source_port = udp->source_port();
  found.transport = segment.subspan(Udp::kSize);
  return found;
}

Expected<RoceDatagram, WireError> parse_ipv4(std::span<const std::byte> datagram) noexcept {
  const auto ip = Ipv4View::parse(datagram);
  if (!ip) return ip.error();
  if (ip->has_options() || ip->is_fragment()) return WireError::kNotRoce;
  if (ip->protocol() != IpProtocol::kUdp) return WireError::kNotRoce;
  if (!ip->checksum_holds()) return WireError::kBadChecksum;
  if (ip->total_octets() < Ipv4::kSize) return WireError::kBadLength;
  if (ip->total_octets() > datagram.size()) return WireError::kTruncated;
  return with_udp({.envelope = {.source = gid_of(ip->source()),
                                .destination = gid_of(ip->destination()),
                                .ipv4_identification = ip->identification(),
                                .traffic_class = ip->traffic_class(),
                                .hop_limit = ip->time_to_live()},
                   .dont_fragment = ip->dont_fragment(),
                   .transport = {}},
                  datagram.first(ip->total_octets()).subspan(Ipv4::kSize));
}

Expected<RoceDatagram, WireError> parse_ipv6(std::span<const std::byte> datagram) noexcept {
  const auto ip = Ipv6View::parse(datagram);
  if (!ip) return ip.error();
  if (ip->next_header() != IpProtocol::kUdp) return WireError::kNotRoce;
  if (Ipv6::kSize + ip->payload_octets() > datagram.size()) return WireError::kTruncated;
  RoceDatagram found{.envelope = {.source = ip->source(),
                                  .destination = ip->destination(),
                                  .traffic_class = ip->traffic_class(),
                                  .hop_limit = ip->hop_limit(),
                                  .flow_label = ip->flow_label()},
                     .dont_fragment = true,
                     .transport = {}};
  // Mapped addresses belong in an IPv4 header (RFC 4291, 2.5.5.2); as GIDs they would mean one.
  if (found.envelope.is_ipv4()) return WireError::kNotRoce;
  return with_udp(found, datagram.subspan(Ipv6::kSize, ip->payload_octets()));
}

}  // namespace

std::size_t RoceEnvelope::emit(std::span<std::byte> to,
                               std::size_t transport_octets) const noexcept {
  const std::size_t udp_octets = Udp::kSize + transport_octets;
  VB_ASSERT(to.size() >= octet_count() && Ipv4::kSize + udp_octets <= 0xffff);
  std::size_t at = 0;
  if (is_ipv4()) {
    Ipv4{.traffic_class = traffic_class,
         .total_octets = static_cast<std::uint16_t>(Ipv4::kSize + udp_octets),
         .identification = ipv4_identification,
         .time_to_live = hop_limit,
         .source = ipv4_of(source),
         .destination = ipv4_of(destination)}
        .emit(to.first<Ipv4::kSize>());
    at = Ipv4::kSize;
  } else {
    Ipv6{.traffic_class = traffic_class,
         .flow_label = flow_label,
         .payload_octets = static_cast<std::uint16_t>(udp_octets),
         .hop_limit = hop_limit,
         .source = source,
         .destination = destination}
        .emit(to.first<Ipv6::kSize>());
    at = Ipv6::kSize;
  }
  Udp{.source_port = source_port, .octets = static_cast<std::uint16_t>(udp_octets)}.emit(
      to.subspan(at).first<Udp::kSize>());
  return at + Udp::kSize;
}

Expected<RoceDatagram, WireError> RoceDatagram::parse(
    std::span<const std::byte> datagram) noexcept {
  if (datagram.empty()) return WireError::kTruncated;
  switch (std::to_integer<unsigned>(datagram[0]) >> 4) {
    case 4:
      return parse_ipv4(datagram);
    case 6:
      return parse_ipv6(datagram);
    default:
      return WireError::kBadVersion;
  }
}

}  // namespace verbatim::wire
