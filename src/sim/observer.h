// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "sim/network_frame.h"

namespace verbatim::sim {

/// What the network does to a frame.
enum class Fate : std::uint8_t { kDelivered, kLost, kDuplicated, kCorrupted, kOverflowed, kCut };

/// Sees every frame on the network, as it was sent: a ladder diagram, a capture, a test.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;
  virtual void handle_frame(Instant now, const NetworkFrame& frame, Fate fate) = 0;
};

}  // namespace verbatim::sim
