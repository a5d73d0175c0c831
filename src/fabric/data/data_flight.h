// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "fabric/data/journeys.h"
#include "fabric/lanes/parcel.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// A copy of a packet of a program on its way over a link.
struct DataFlight {
  Instant due{};
  PortEnd to{};
  JourneyId journey{};
  std::uint8_t hops = 0;  // links that it has passed, this one among them
  Hold hold{};            // in the receive buffer at `to`
};

}  // namespace verbatim::fabric
