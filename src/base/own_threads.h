// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace verbatim {

/// Counts the threads that this library has started. Each of them creates one of these first and
/// destroys it last. So the count may be too low for a moment, and is never too high.
class OwnThread {
 public:
  OwnThread() noexcept {
    is_mine_ = true;
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
  ~OwnThread() {
    count_.fetch_sub(1, std::memory_order_seq_cst);
    announce();  // before the kernel stops listing the thread
  }

  /// How many threads of the process the library has started.
  [[nodiscard]] static int count() noexcept { return count_.load(std::memory_order_seq_cst); }
  /// Whether the calling thread is one of them.
  [[nodiscard]] static bool is_mine() noexcept { return is_mine_; }

  /// Call before a thread of the library is started. The kernel lists a new thread before the
  /// thread counts itself, and an ended one a little longer than it counts itself. A caller that
  /// compares the two numbers reads changes() before and after: if it has changed, the numbers may
  /// differ for that reason.
  static void announce() noexcept { changes_.fetch_add(1, std::memory_order_seq_cst); }
  [[nodiscard]] static unsigned changes() noexcept {
    return changes_.load(std::memory_order_seq_cst);
  }
  /// In a forked child: none of the library's threads exists there.
  static void reset_in_child() noexcept { count_.store(0, std::memory_order_seq_cst); }

 private:
  static inline constinit std::atomic<int> count_{0};
  static inline constinit std::atomic<unsigned> changes_{0};
  static inline constinit thread_local bool is_mine_ = false;
};

/// How many threads of this process the library has started.
[[nodiscard]] inline int own_thread_count() noexcept { return OwnThread::count(); }

}  // namespace verbatim
