// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace verbatim {

/// Held by each thread that this library has started: made as its first act, and the last object
/// that it destroys. So a thread is counted only while it is there: the count may be too low for a
/// moment, and is never too high.
class OwnThread {
 public:
  OwnThread() noexcept {
    is_mine_ = true;
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
  ~OwnThread() {
    announce();
    count_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// How many of the process's threads are the library's.
  [[nodiscard]] static int count() noexcept { return count_.load(std::memory_order_seq_cst); }
  /// Whether the calling thread is one of them.
  [[nodiscard]] static bool is_mine() noexcept { return is_mine_; }

  /// One is about to be started. The system lists it earlier than it counts itself, and an ended
  /// one a little longer; changes() tells that the two numbers may differ for that reason.
  static void announce() noexcept { changes_.fetch_add(1, std::memory_order_seq_cst); }
  [[nodiscard]] static unsigned changes() noexcept {
    return changes_.load(std::memory_order_seq_cst);
  }
  /// In a forked child, which has none of its parent's threads but the one that forked.
  static void reset_in_child() noexcept { count_.store(0, std::memory_order_seq_cst); }

 private:
  static inline constinit std::atomic<int> count_{0};
  static inline constinit std::atomic<unsigned> changes_{0};
  static inline constinit thread_local bool is_mine_ = false;
};

/// The threads of this process that the library has started.
[[nodiscard]] inline int own_thread_count() noexcept { return OwnThread::count(); }

}  // namespace verbatim
