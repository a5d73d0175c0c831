// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/headers/ids.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/ipv6_layout.h"

namespace verbatim::wire {

/// IPv6 header (RFC 8200); RoCEv2 allows no extension headers behind it. An address is a GID.
///
///     0..3 Version:4 traffic class:8 flow label:20 | 4..5 payload length | 6 next header
///     7 hop limit | 8..23 source | 24..39 destination
struct Ipv6 {
  static constexpr std::size_t kSize = ipv6_layout::kSize;
  static constexpr std::uint32_t kFlowLabelMask = ipv6_layout::kFlowLabelMask;
  std::uint8_t traffic_class = 0;    // DSCP in the upper six bits, ECN in the lower two
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_octets = 0;  // all that follows this header
  IpProtocol next_header = IpProtocol::kUdp;
  std::uint8_t hop_limit = 64;
  Gid source{};
  Gid destination{};

  void emit(std::span<std::byte, kSize> to) const noexcept { ipv6_layout::emit(*this, to); }
};

/// An IPv6 header that arrived.
using Ipv6View = ipv6_layout::View<Ipv6>;

}  // namespace verbatim::wire
