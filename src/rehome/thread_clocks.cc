// SPDX-License-Identifier: Apache-2.0
#include "rehome/thread_clocks.h"

#include <time.h>

#include <cstdlib>
#include <optional>

#include "rehome/tasks.h"

namespace verbatim::rehome {

namespace {

/// The kernel's numbers of clocks of one thread. The timer advances both.
enum class ThreadClock : unsigned { kUserAndSystem = 4, kUser = 5 };

std::int64_t to_nanoseconds(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::optional<std::int64_t> read_clock(pid_t thread, ThreadClock which) noexcept {
  const auto clock =
      static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3U) | static_cast<unsigned>(which));
  timespec time{};
  if (kernel::call(SYS_clock_gettime, clock, &time) != 0) return std::nullopt;
  return to_nanoseconds(time);
}

/// Nothing when the thread has ended.
std::optional<ThreadTimes> times_of(pid_t thread) noexcept {
  const auto user = read_clock(thread, ThreadClock::kUser);
  const auto total = read_clock(thread, ThreadClock::kUserAndSystem);
  if (!user || !total) return std::nullopt;
  return ThreadTimes{.user = *user, .total = *total};
}

/// How often the timer looks at what a processor does.
std::int64_t timer_period() noexcept {
  timespec period{};
  (void)kernel::call(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, &period);
  return to_nanoseconds(period);
}

bool is_running(pid_t thread) noexcept {
  std::array<char, 16> name{};
  char* at = name.data() + name.size() - 1;
  for (pid_t rest = thread; rest > 0; rest /= 10) *--at = static_cast<char>('0' + rest % 10);
  TaskFile text;
  return read_task_file(at, "/syscall", text).starts_with("running");
}

}  // namespace

bool has_gone_on(const ThreadTimes& before, const ThreadTimes& now, std::int64_t period) noexcept {
  return now.user > before.user || now.total - before.total >= 3 * period;
}

void ThreadClocks::note() noexcept {
  count_ = 0;
  const auto self = static_cast<pid_t>(kernel::call(SYS_gettid));
  for_each_task([&](const char* task) {
    const auto thread = static_cast<pid_t>(std::strtol(task, nullptr, 10));
    if (thread == self || count_ == clocks_.size()) return;
    const auto times = times_of(thread);
    if (times) clocks_[count_++] = {.thread = thread, .times = *times};
  });
}

bool ThreadClocks::have_all_gone_on() const noexcept {
  const std::int64_t period = timer_period();
  for (std::size_t i = 0; i < count_; ++i) {
    const Clock& clock = clocks_[i];
    const auto now = times_of(clock.thread);
    if (!now || has_gone_on(clock.times, *now, period)) continue;
    if (is_running(clock.thread)) return false;
  }
  return true;
}

}  // namespace verbatim::rehome
