// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "host/own_descriptor.h"

namespace verbatim::host {

/// Wakes a thread that waits for an eventfd. If the counter is full, the thread is being woken
/// already. When the program has closed the eventfd, nothing is written: its number may refer to
/// another file. It is the system call itself, not write(3), at which a thread can be cancelled:
/// callers hold locks. errno stays.
inline void ring(const OwnDescriptor& eventfd) noexcept {
  if (!eventfd.is_still_own()) return;
  const int before = errno;
  const std::uint64_t one = 1;
  (void)::syscall(SYS_write, eventfd.number(), &one, sizeof one);
  errno = before;
}

}  // namespace verbatim::host
