// SPDX-License-Identifier: Apache-2.0
#include "host/yielding.h"

#include <sched.h>

#include <chrono>

namespace verbatim::host {

bool yield_processor(int calls) noexcept {
  using Clock = std::chrono::steady_clock;
  // A yield that takes longer has let another thread run: two switches take 2 us, and a yield for
  // nothing 0.3 us.
  constexpr auto kSwitched = std::chrono::nanoseconds(1'200);
  auto before = Clock::now();
  for (int i = 0; i < calls; ++i) {
    ::sched_yield();
    const auto after = Clock::now();
    if (after - before > kSwitched) return true;
    before = after;
  }
  return false;
}

}  // namespace verbatim::host
