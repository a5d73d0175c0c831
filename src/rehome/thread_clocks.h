// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::rehome {

/// How long a thread has run, as the kernel's timer has found it: in nanoseconds, each a multiple
/// of the timer's period, except where the kernel accounts for time exactly (nohz_full).
struct ThreadTimes {
  std::int64_t user = 0;
  std::int64_t total = 0;  // in user mode and in the kernel
};

/// Whether a thread with these times has certainly not been inside one short call all the while: it
/// was in user mode, or the timer has found it in the kernel in three of its periods of `period`
/// nanoseconds.
[[nodiscard]] bool has_gone_on(const ThreadTimes& before, const ThreadTimes& now,
                               std::int64_t period) noexcept;

/// Tells whether the threads of this process have made progress.
///
/// A thread that waits until its event is read is woken whenever any event is read. Until it waits
/// again, the kernel lists it as running, like a thread that computes, and its system call is not
/// visible. It does not enter user mode before its event is read. So a thread that has been in user
/// mode, and does not wait, had no event.
///
/// The scheduler's clock of a thread is no measure of progress: in a virtual machine it advances
/// while the host runs something else on the processor.
///
/// Thread: one at a time. It allocates nothing.
class ThreadClocks {
 public:
  /// Records how long each thread has run.
  void note() noexcept;
  /// Whether each of the recorded threads has gone on since (has_gone_on()), or sleeps, or has
  /// ended.
  [[nodiscard]] bool have_all_gone_on() const noexcept;

 private:
  /// More threads than this are not recorded.
  static constexpr std::size_t kThreadsMax = 4096;
  struct Clock {
    pid_t thread = 0;
    ThreadTimes times;
  };

  std::array<Clock, kThreadsMax> clocks_{};
  std::size_t count_ = 0;
};

}  // namespace verbatim::rehome
