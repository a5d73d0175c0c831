// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::rehome {

/// Tells whether the threads of this process have made progress.
///
/// A thread that waits for its event to be read is woken by every reading, of other events too.
/// Until it has a processor again it is listed as running, like a thread that computes, and its
/// call cannot be seen. It needs a few instructions to wait again. So a thread that has run for
/// longer since then, and does not wait, had no event.
///
/// One thread uses it. It allocates nothing.
class ThreadClocks {
 public:
  /// Remembers how long each thread has run.
  void note() noexcept;
  /// Whether each of those threads has run for some time since, or sleeps, or has ended.
  [[nodiscard]] bool have_all_gone_on() const noexcept;

 private:
  /// Threads beyond that are not remembered.
  static constexpr std::size_t kThreadsMax = 1024;
  struct Clock {
    pid_t thread = 0;
    std::int64_t nanoseconds = 0;  // of processor time
  };

  std::array<Clock, kThreadsMax> clocks_{};
  std::size_t count_ = 0;
};

}  // namespace verbatim::rehome
