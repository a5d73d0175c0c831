// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "fabric/lanes/parcel.h"
#include "fabric/management_packet.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// A management datagram on its way to a port.
struct Flight {
  Instant due{};
  PortEnd to{};
  std::uint8_t hops = 0;         // links that it has passed
  bool has_passed_link = false;  // else the node itself sends it to its own management
  bool is_damaged = false;       // on the link
  Hold hold{};                   // in the receive buffer at `to`, but for lane 15
  ManagementPacket packet{};
};

}  // namespace verbatim::fabric
