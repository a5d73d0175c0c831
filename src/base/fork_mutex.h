// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "base/thread_safety.h"
#include "base/thread_token.h"

namespace verbatim {

/// A mutex that fork(2) takes as well. A signal handler may fork, and the thread that it interrupts
/// may hold the mutex: a fork that waited for it would wait for ever. So each thread counts the
/// ForkMutexes that it holds or is about to hold, and a fork reads this count before it takes any.
///
/// It is Lockable. The count is per thread; it and the holder cost four plain stores.
class VB_CAPABILITY("mutex") ForkMutex {
 public:
  constexpr ForkMutex() noexcept = default;
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  ~ForkMutex() = default;

  void lock() noexcept VB_ACQUIRE() {
    count(1);
    mutex_.lock();
    holder_.store(thread_token(), std::memory_order_relaxed);
  }
  [[nodiscard]] bool try_lock() noexcept VB_TRY_ACQUIRE(true) {
    count(1);
    const bool is_locked = mutex_.try_lock();
    if (is_locked) {
      holder_.store(thread_token(), std::memory_order_relaxed);
    } else {
      count(-1);
    }
    return is_locked;
  }
  void unlock() noexcept VB_RELEASE() {
    holder_.store(0, std::memory_order_relaxed);
    mutex_.unlock();
    count(-1);
  }

  /// The same in the handlers of fork(2): one handler locks and another unlocks, in the parent or
  /// in the child, which the analysis of locks cannot follow.
  void lock_for_fork() noexcept VB_UNCHECKED_LOCKING { lock(); }
  void unlock_after_fork() noexcept VB_UNCHECKED_LOCKING { unlock(); }

  /// Whether the calling thread holds it and may be changing the data that it guards. In a signal
  /// handler that interrupts lock() or unlock() the answer may be either; the data is consistent
  /// then.
  [[nodiscard]] bool is_held_by_me() const noexcept {
    return holder_.load(std::memory_order_relaxed) == thread_token();
  }
  /// Whether the calling thread holds any ForkMutex, or was interrupted while it was about to.
  [[nodiscard]] static bool is_any_held_by_me() noexcept { return held_ != 0; }

 private:
  /// A signal handler of the same thread reads the count, so the compiler must keep the order.
  static void count(int change) noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    held_ = held_ + change;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  Mutex mutex_;
  std::atomic<std::uintptr_t> holder_{0};
  static inline constinit thread_local int held_ = 0;
};

}  // namespace verbatim
