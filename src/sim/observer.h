// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"
#include "sim/frame.h"
#include "sim/lossy_network.h"

namespace verbatim::sim {

/// Sees every frame on the network: a ladder diagram, a capture, a test.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;
  virtual void handle_frame(Instant now, const Frame& frame, Fate fate) = 0;
};

}  // namespace verbatim::sim
