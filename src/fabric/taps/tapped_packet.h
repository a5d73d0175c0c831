// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "fabric/management_packet.h"
#include "fabric/topology/topology.h"
#include "wire/headers/lrh.h"

namespace verbatim::fabric {

/// A packet that has passed a port that is tapped, in the moment in which it left the port or
/// arrived at it. The octets of a packet of a program stay with the owner of the fabric.
struct TappedPacket {
  enum class Direction : std::uint8_t { kOut, kIn };
  Instant at{};
  PortEnd port{};
  Direction direction{};
  wire::VirtualLane lane{};
  bool is_damaged = false;                     // the VCRC of the packet is wrong
  std::uint32_t handle = 0;                    // of a packet of a program
  std::optional<ManagementPacket> datagram{};  // empty: a packet of a program
};

}  // namespace verbatim::fabric
