// SPDX-License-Identifier: Apache-2.0
#include "host/queue_lock.h"

#include <sched.h>
#include <time.h>

#include <cerrno>

#include "base/futex.h"
#include "host/membarrier.h"
#include "host/uncancellable.h"

namespace verbatim::host {

bool LockSystem::can_bias() noexcept { return Membarrier::own() == Fencing::kExpedited; }

void LockSystem::barrier() noexcept { Membarrier::own_threads(); }

void LockSystem::wait(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  futex::wait(word, value);
}

void LockSystem::wake_one(std::atomic<std::uint32_t>& word) noexcept { futex::wake_one(word); }

void LockSystem::relax(std::uint32_t attempt) noexcept {
  constexpr std::uint32_t kSpins = 100;   // the holder is running, and soon releases the lock
  constexpr std::uint32_t kYields = 200;  // the holder waits for this processor
  if (attempt < kSpins) {
#if defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");  // waits some tens of cycles, where yield waits none
#elif defined(__x86_64__)
    __asm__ __volatile__("pause" ::: "memory");
#endif
    return;
  }
  const int before = errno;
  if (attempt < kYields) {
    (void)::sched_yield();
  } else {
    const timespec a_little{.tv_sec = 0, .tv_nsec = 50'000};
    // Not nanosleep(3), at which a thread can be cancelled.
    uncancellable::nanosleep(a_little);
  }
  errno = before;
}

}  // namespace verbatim::host
