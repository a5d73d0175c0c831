// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/thread_safety.h"

namespace verbatim {

/// std::mutex as clang's analysis knows it.
class VB_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex() = default;

  void lock() VB_ACQUIRE() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() VB_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() VB_RELEASE() { mutex_.unlock(); }

  /// For the thread that has it: lets it go, and has it again, until the condition is true.
  template <typename Condition>
  void wait(std::condition_variable& changed, Condition&& condition) VB_REQUIRES(this) {
    std::unique_lock lock(mutex_, std::adopt_lock);
    changed.wait(lock, condition);
    lock.release();
  }

 private:
  std::mutex mutex_;
};

/// Holds a lock while it exists.
template <typename Lock>
class VB_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) VB_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  ~LockGuard() VB_RELEASE() { lock_.unlock(); }

 private:
  Lock& lock_;
};

}  // namespace verbatim
