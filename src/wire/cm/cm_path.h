// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"

namespace verbatim::wire {

/// A path between two ports as a CM message describes it (IBA Vol 1, 12.6.5.5 and 12.8.1). "Local"
/// is the sender of the message. LIDs of zero mean that there is no such path. RoCE has no LIDs;
/// there a path has Lid::kPermissive.
struct CmPath {
  Lid local_lid{};
  Lid remote_lid{};
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t packet_rate = 0;  // 6 bits; 0 is the present rate of the port
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  ServiceLevel level{};                // 4 bits
  bool subnet_local = false;           // no router on the way
  std::uint8_t local_ack_timeout = 0;  // 5 bits: 4.096 us << code
  friend bool operator==(const CmPath&, const CmPath&) noexcept = default;

  [[nodiscard]] bool exists() const noexcept { return local_lid != Lid::kReserved; }
};

}  // namespace verbatim::wire
