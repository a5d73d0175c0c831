// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/headers/ids.h"
#include "wire/headers/ipv6_layout.h"

namespace verbatim::wire {

/// Global Route Header (IBA Vol 1, 8.3): routes a native packet between subnets, is the first
/// header of a RoCEv1 packet, and has the layout of an IPv6 header.
///
///     0..3 IPVer:4 TClass:8 FlowLabel:20 | 4..5 PayLen | 6 NxtHdr | 7 HopLmt
///     8..23 source GID | 24..39 destination GID
struct Grh {
  static constexpr std::size_t kSize = ipv6_layout::kSize;
  static constexpr std::uint8_t kIbaTransport = 0x1b;  // NxtHdr: a BTH follows
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_octets = 0;  // after this header, to the end of the ICRC
  std::uint8_t next_header = kIbaTransport;
  std::uint8_t hop_limit = 64;
  Gid source{};
  Gid destination{};

  void emit(std::span<std::byte, kSize> to) const noexcept { ipv6_layout::emit(*this, to); }
};

/// A global route header that arrived.
using GrhView = ipv6_layout::View<Grh>;

}  // namespace verbatim::wire
