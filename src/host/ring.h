// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace verbatim::host {

/// Wakes a thread that waits for an eventfd; a full one is ringing already. It is the system call
/// itself, not write(3), at which a thread can be cancelled: bells are rung with locks held. errno
/// stays.
inline void ring(int eventfd) noexcept {
  const int before = errno;
  const std::uint64_t one = 1;
  (void)::syscall(SYS_write, eventfd, &one, sizeof one);
  errno = before;
}

}  // namespace verbatim::host
