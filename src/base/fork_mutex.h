// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace verbatim {

/// A mutex that fork(2) takes as well. A handler of a signal may fork, and the thread that it
/// interrupts may hold the mutex: a fork that waited for it would wait for ever. So each thread
/// counts those that it holds, or is about to hold, and a fork asks before it takes any.
///
/// It is Lockable. The count is per thread and costs two plain stores.
class ForkMutex {
 public:
  constexpr ForkMutex() noexcept = default;
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  ~ForkMutex() = default;

  void lock() noexcept {
    count(1);
    mutex_.lock();
  }
  [[nodiscard]] bool try_lock() noexcept {
    count(1);
    const bool is_locked = mutex_.try_lock();
    if (!is_locked) count(-1);
    return is_locked;
  }
  void unlock() noexcept {
    mutex_.unlock();
    count(-1);
  }

  /// For the thread that has it: lets it go, and has it again, until the condition is true.
  template <typename Condition>
  void wait(std::condition_variable& changed, Condition&& condition) {
    std::unique_lock lock(mutex_, std::adopt_lock);
    changed.wait(lock, condition);
    lock.release();
  }

  /// Whether the calling thread holds any, or was interrupted while it was about to.
  [[nodiscard]] static bool is_any_held_by_me() noexcept { return held_ != 0; }

 private:
  /// What a handler of a signal reads in the same thread: the compiler keeps the order.
  static void count(int change) noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    held_ = held_ + change;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  std::mutex mutex_;
  static inline constinit thread_local int held_ = 0;
};

}  // namespace verbatim
