// SPDX-License-Identifier: Apache-2.0
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace verbatim::futex {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

namespace {

/// The timespec of 64-bit systems.
struct KernelTime {
  std::int64_t seconds;
  std::int64_t nanoseconds;
};

void call(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
          const KernelTime* limit = nullptr) noexcept {
  const int before = errno;
  (void)::syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
  errno = before;
}

}  // namespace

void wait(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  call(word, FUTEX_WAIT_PRIVATE, value);
}

void wait(std::atomic<std::uint32_t>& word, std::uint32_t value, Duration limit) noexcept {
  const KernelTime time{.seconds = limit.count() / 1'000'000'000,
                        .nanoseconds = limit.count() % 1'000'000'000};
  call(word, FUTEX_WAIT_PRIVATE, value, &time);
}

void wake_one(std::atomic<std::uint32_t>& word) noexcept { call(word, FUTEX_WAKE_PRIVATE, 1); }

void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  call(word, FUTEX_WAKE_PRIVATE, std::numeric_limits<std::int32_t>::max());
}

}  // namespace verbatim::futex
