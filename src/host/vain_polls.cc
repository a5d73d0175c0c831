// SPDX-License-Identifier: Apache-2.0
#include "host/vain_polls.h"

#include <sched.h>

#include <chrono>

namespace verbatim::host {
namespace {

// A yield that takes longer has let another thread run: two switches take 2 us, and a yield for
// nothing 0.3 us.
constexpr auto kSwitched = std::chrono::nanoseconds(1'200);

}  // namespace

void VainPolls::give_way() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  ::sched_yield();
  const bool is_crowded = Clock::now() - start > kSwitched;
  limit_.store(is_crowded ? kWhileInACrowd : kWhileAlone, std::memory_order_relaxed);
  note_success();
}

}  // namespace verbatim::host
