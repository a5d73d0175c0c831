// SPDX-License-Identifier: Apache-2.0
#include "rehome/thread_clocks.h"

#include <time.h>

#include <cstdlib>

#include "rehome/tasks.h"

namespace verbatim::rehome {

namespace {

/// Nanoseconds; far more than a thread needs to wait again.
constexpr std::int64_t kEnough = 50'000;
constexpr std::int64_t kEnded = -1;

/// The processor time of a thread of this process, in nanoseconds.
std::int64_t read_clock(pid_t thread) noexcept {
  // The kernel's encoding of the clock of one thread, in scheduler time.
  constexpr clockid_t kSchedulerTimeOfThread = 6;
  const auto clock =
      static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3U) | kSchedulerTimeOfThread;
  timespec time{};
  if (kernel::call(SYS_clock_gettime, clock, &time) != 0) return kEnded;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool is_running(pid_t thread) noexcept {
  std::array<char, 16> name{};
  char* at = name.data() + name.size() - 1;
  for (pid_t rest = thread; rest > 0; rest /= 10) *--at = static_cast<char>('0' + rest % 10);
  TaskFile text;
  return read_task_file(at, "/syscall", text).starts_with("running");
}

}  // namespace

void ThreadClocks::note() noexcept {
  count_ = 0;
  const auto self = static_cast<pid_t>(kernel::call(SYS_gettid));
  for_each_task([&](const char* task) {
    const auto thread = static_cast<pid_t>(std::strtol(task, nullptr, 10));
    if (thread == self || count_ == clocks_.size()) return;
    clocks_[count_++] = {.thread = thread, .nanoseconds = read_clock(thread)};
  });
}

bool ThreadClocks::have_all_gone_on() const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const Clock& clock = clocks_[i];
    const std::int64_t now = read_clock(clock.thread);
    if (now == kEnded || now - clock.nanoseconds >= kEnough) continue;
    if (is_running(clock.thread)) return false;
  }
  return true;
}

}  // namespace verbatim::rehome
