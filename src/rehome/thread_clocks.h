// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::rehome {

/// Tells whether the threads of this process have made progress.
///
/// A thread that waits until its event is read is woken whenever any event is read. Until it runs
/// again, the kernel lists it as running, like a thread that computes, and its system call is not
/// visible. It needs only a few instructions to wait again. So a thread that has run for longer
/// than that and does not wait had no event.
///
/// Thread: one at a time. It allocates nothing.
class ThreadClocks {
 public:
  /// Records how long each thread has run.
  void note() noexcept;
  /// Whether each of the recorded threads has run for some time since, or sleeps, or has ended.
  [[nodiscard]] bool have_all_gone_on() const noexcept;

 private:
  /// More threads than this are not recorded.
  static constexpr std::size_t kThreadsMax = 1024;
  struct Clock {
    pid_t thread = 0;
    std::int64_t nanoseconds = 0;  // of processor time
  };

  std::array<Clock, kThreadsMax> clocks_{};
  std::size_t count_ = 0;
};

}  // namespace verbatim::rehome
