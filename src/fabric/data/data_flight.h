// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "fabric/data/journeys.h"
#include "fabric/lanes/parcel.h"

namespace verbatim::fabric {

/// A copy of a packet of a program on its way over a link. It has its room in the receive buffer at
/// the other end already.
struct DataFlight {
  Instant due{};
  LinkIndex to = kNoLink;
  JourneyId journey{};
  std::uint16_t blocks = 0;
  std::uint8_t lane = 0;
  std::uint8_t hops = 0;    // links that it has passed, this one among them
  bool is_damaged = false;  // on the link
};

}  // namespace verbatim::fabric
