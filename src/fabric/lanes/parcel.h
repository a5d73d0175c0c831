// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbatim::fabric {

/// The number of a port among all ports of a fabric.
using LinkIndex = std::uint32_t;
inline constexpr LinkIndex kNoLink = ~LinkIndex{0};

/// The room that a packet occupies in a receive buffer. A packet that has passed no link has none.
struct Hold {
  LinkIndex at = kNoLink;    // the port that it has come in through
  std::uint16_t blocks = 0;  // of 64 octets; 0: none
  std::uint8_t lane = 0;
};

/// A copy of a packet that waits in an output lane.
struct Parcel {
  Instant entered{};          // into the node
  std::uint32_t content = 0;  // the number of a journey or of a datagram
  std::uint16_t words = 0;    // of four octets, from the LRH to the ICRC
  std::uint8_t hops = 0;      // links that it has passed
  bool is_datagram = false;
  bool shares_hold = false;  // with other copies of one packet: hold.at is the number of the share
  Hold hold{};
};

}  // namespace verbatim::fabric
