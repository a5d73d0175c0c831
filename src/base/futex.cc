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

void call(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) noexcept {
  const int before = errno;
  (void)::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
  errno = before;
}

}  // namespace

void wait(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  call(word, FUTEX_WAIT_PRIVATE, value);
}

void wake_one(std::atomic<std::uint32_t>& word) noexcept { call(word, FUTEX_WAKE_PRIVATE, 1); }

void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  call(word, FUTEX_WAKE_PRIVATE, std::numeric_limits<std::int32_t>::max());
}

}  // namespace verbatim::futex
