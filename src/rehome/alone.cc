// SPDX-License-Identifier: Apache-2.0
#include "rehome/alone.h"

#include <time.h>

#include <atomic>

#include "base/own_threads.h"
#include "rehome/tasks.h"

namespace verbatim::rehome {

/// A thread of the library that ends between the two readings is counted in the first one only. If
/// the program has another thread, the numbers agree by mistake then.
bool looks_alone() noexcept {
  const unsigned changes = OwnThread::changes();
  const auto own = static_cast<std::size_t>(own_thread_count());
  return count_tasks() == own + 1 && OwnThread::changes() == changes;
}

/// The kernel lists a thread of the library that is starting or ending, but OwnThread does not
/// count it. This waits for such a thread, once after each change: so a program with threads of its
/// own does not wait every time.
bool is_alone() noexcept {
  static constinit std::atomic<unsigned> waited_for{0};
  if (OwnThread::is_mine()) return false;
  if (looks_alone()) return true;
  const unsigned changes = OwnThread::changes();
  if (waited_for.exchange(changes) == changes) return false;
  constexpr int kLooks = 100;
  for (int looks = 0; looks < kLooks; ++looks) {
    const timespec nap{.tv_sec = 0, .tv_nsec = 100'000};
    (void)::nanosleep(&nap, nullptr);
    if (looks_alone()) return true;
  }
  return false;
}

}  // namespace verbatim::rehome
