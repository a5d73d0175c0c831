// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/expected.h"
#include "wire/headers/ids.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/ipv6.h"
#include "wire/headers/udp.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The headers before a RoCEv2 transport packet (IBA Vol 1, annex A17.3): an IP header without
/// options and a UDP header. A pair of IPv4-mapped GIDs uses IPv4, any other IPv6.
struct RoceEnvelope {
  static constexpr std::size_t kMaxOctets = Ipv6::kSize + Udp::kSize;
  Gid source{};
  Gid destination{};
  std::uint16_t source_port = 0;          // flow entropy (flow_entropy.h)
  std::uint16_t ipv4_identification = 0;  // covered by the ICRC; not used over IPv6
  std::uint8_t traffic_class = 0;         // DSCP and ECN
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;  // 20 bits; not used over IPv4
  friend bool operator==(const RoceEnvelope&, const RoceEnvelope&) noexcept = default;

  [[nodiscard]] bool is_ipv4() const noexcept {
    return source.is_ipv4_mapped() && destination.is_ipv4_mapped();
  }
  [[nodiscard]] std::size_t octet_count() const noexcept {
    return (is_ipv4() ? Ipv4::kSize : Ipv6::kSize) + Udp::kSize;
  }
  /// Writes the headers for a packet that has `transport_octets` from BTH to ICRC, and returns
  /// their octet_count(). "Don't fragment" is set and the UDP checksum zero, as RoCEv2 senders do.
  /// `to` must have room, and the datagram must not exceed 65,535 octets.
  std::size_t emit(std::span<std::byte> to, std::size_t transport_octets) const noexcept;
};

/// A RoCEv2 packet that arrived as an IP datagram. It borrows the octets.
struct RoceDatagram {
  RoceEnvelope envelope{};
  bool dont_fragment = true;             // IPv4's flag, covered by the ICRC; true over IPv6
  std::span<const std::byte> transport;  // BTH to ICRC: its end is given by the UDP length

  /// Finds the packet in `datagram`, which starts with the IP header and may end in the padding of
  /// a short Ethernet frame. Options, fragments, extension headers, other protocols and other ports
  /// are kNotRoce. The UDP checksum is not checked: the ICRC covers the same octets.
  static Expected<RoceDatagram, WireError> parse(std::span<const std::byte> datagram) noexcept;
};

}  // namespace verbatim::wire
