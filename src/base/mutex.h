// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.h"
#include "base/thread_safety.h"

namespace verbatim {

/// A lock for threads of one process, which may lie on a page that moves (base/futex.h). Not
/// recursive, not fair. It is Lockable.
class VB_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex() = default;

  void lock() noexcept VB_ACQUIRE() {
    if (try_lock()) [[likely]]
      return;
    // From here on the word says that a thread waits, also when none does any more.
    while (word_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      futex::wait(word_, kAwaited);
    }
  }
  [[nodiscard]] bool try_lock() noexcept VB_TRY_ACQUIRE(true) {
    std::uint32_t free = kFree;
    // The acquire pairs with the release in unlock().
    return word_.compare_exchange_strong(free, kTaken, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  /// Another thread that has the lock next may destroy it before this returns: to wake a thread
  /// does not touch the word.
  void unlock() noexcept VB_RELEASE() {
    if (word_.exchange(kFree, std::memory_order_release) == kAwaited) futex::wake_one(word_);
  }

 private:
  static constexpr std::uint32_t kFree = 0, kTaken = 1, kAwaited = 2;

  std::atomic<std::uint32_t> word_{kFree};
};

/// Lets threads that have a lock sleep until another thread has changed what the lock guards. It
/// may lie on a page that moves, too.
class Changes {
 public:
  constexpr Changes() noexcept = default;
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;
  ~Changes() = default;

  /// After the change was made with the lock held.
  void notify_all() noexcept {
    count_.fetch_add(1, std::memory_order_relaxed);
    futex::wake_all(count_);
  }
  /// For the thread that has `lock`: lets it go, and has it again, until the condition is true. The
  /// analysis of locks does not know that `lock` is the one that the condition requires.
  template <typename Lock, typename Condition>
  void wait(Lock& lock, Condition&& condition) VB_REQUIRES(lock) VB_UNCHECKED_LOCKING {
    while (!condition()) {
      // Counted before the lock is free: a later change has another count.
      const std::uint32_t before = count_.load(std::memory_order_relaxed);
      lock.unlock();
      futex::wait(count_, before);
      lock.lock();
    }
  }

 private:
  std::atomic<std::uint32_t> count_{0};
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
