// SPDX-License-Identifier: Apache-2.0
#include "host/spinner_turns.h"

#include <algorithm>

namespace verbatim::host {

bool SpinnerTurns::wants_yield(Instant at) noexcept {
  found_.store(1, std::memory_order_relaxed);
  const Instant before = asked_.exchange(at, std::memory_order_relaxed);
  if (before == Instant{}) return false;  // nothing to compare with
  const Duration since_last = at - before;
  if (due_.load(std::memory_order_relaxed) == kDueAlone) {
    if (since_last <= kQuick * kDueAlone) return false;
    // It may have been without a processor once, or its peer always is.
    due_.store(kDueInTurns, std::memory_order_relaxed);
    is_trying_.store(true, std::memory_order_relaxed);
    quick_.store(0, std::memory_order_relaxed);
    return false;
  }
  return wants_yield_in_turns(since_last) && at >= next_yield_.load(std::memory_order_relaxed);
}

bool SpinnerTurns::wants_yield_in_turns(Duration since_last) noexcept {
  if (!is_trying_.load(std::memory_order_relaxed)) {
    const std::uint32_t yields = yields_.load(std::memory_order_relaxed) + 1;
    yields_.store(yields, std::memory_order_relaxed);
    if (yields <= yields_before_try_.load(std::memory_order_relaxed)) return true;
    is_trying_.store(true, std::memory_order_relaxed);
    quick_.store(0, std::memory_order_relaxed);
    return false;
  }
  const std::uint32_t quick = quick_.load(std::memory_order_relaxed) + 1;
  quick_.store(quick, std::memory_order_relaxed);
  if (since_last <= kQuick) {
    if (quick < kDueAlone) return false;
    due_.store(kDueAlone, std::memory_order_relaxed);
    yields_before_try_.store(1, std::memory_order_relaxed);
    return false;
  }
  is_trying_.store(false, std::memory_order_relaxed);
  yields_.store(1, std::memory_order_relaxed);
  yields_before_try_.store(
      std::min(2 * yields_before_try_.load(std::memory_order_relaxed), kYieldsMax),
      std::memory_order_relaxed);
  return true;
}

}  // namespace verbatim::host
