// SPDX-License-Identifier: Apache-2.0
#include "host/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace verbatim::host {
namespace {

/// The argument of sched_setattr(2), which the C library does not declare.
struct SchedulingWish {
  std::uint32_t size = sizeof(SchedulingWish);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // nanoseconds: the time slice
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

}  // namespace

void limit_time_slice(Duration slice) noexcept {
  const int before = errno;
  SchedulingWish wish;
  const auto wanted = static_cast<std::uint64_t>(slice.count());
  if (::syscall(SYS_sched_getattr, 0, &wish, sizeof wish, 0U) == 0 && wish.policy == SCHED_OTHER &&
      (wish.runtime == 0 || wish.runtime > wanted)) {
    wish.runtime = wanted;
    (void)::syscall(SYS_sched_setattr, 0, &wish, 0U);
  }
  errno = before;
}

}  // namespace verbatim::host
