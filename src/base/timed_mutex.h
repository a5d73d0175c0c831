// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>

#include "base/thread_safety.h"

namespace verbatim {

/// std::timed_mutex as clang's analysis knows it.
class VB_CAPABILITY("mutex") TimedMutex {
 public:
  TimedMutex() = default;
  TimedMutex(const TimedMutex&) = delete;
  TimedMutex& operator=(const TimedMutex&) = delete;
  ~TimedMutex() = default;

  void lock() VB_ACQUIRE() { mutex_.lock(); }
  template <typename Rep, typename Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& patience)
      VB_TRY_ACQUIRE(true) {
    return mutex_.try_lock_for(patience);
  }
  void unlock() VB_RELEASE() { mutex_.unlock(); }

 private:
  std::timed_mutex mutex_;
};

}  // namespace verbatim
