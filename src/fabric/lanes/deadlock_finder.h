// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/time.h"
#include "fabric/lanes/lane_cycle.h"
#include "fabric/lanes/lane_wait.h"

namespace verbatim::fabric {

/// Lanes that wait for each other. They wait for ever, unless packets are discarded for their age.
struct Deadlock {
  LaneCycle cycle{};        // a shortest one, from its first lane by node, port and number on
  Instant since{};          // when the last lane of the cycle began to wait
  std::size_t lanes = 0;    // in all that can never go on, also those that wait for the cycle
  std::size_t packets = 0;  // in these
  friend bool operator==(const Deadlock&, const Deadlock&) noexcept = default;
};

/// The deadlocks among the waiting lanes of a fabric, one for each group of lanes that all wait for
/// each other; empty: there is none. `waits` are all of one instant. `lanes` and `packets` are
/// those of all deadlocks together, in each.
///
/// A lane that waits for room in a buffer goes on as soon as any packet in the buffer leaves its
/// node. So it is part of a deadlock only if all lanes with packets from that buffer are.
[[nodiscard]] std::vector<Deadlock> find_deadlocks(std::span<const LaneWait> waits);

}  // namespace verbatim::fabric
