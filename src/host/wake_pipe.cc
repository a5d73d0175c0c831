// SPDX-License-Identifier: Apache-2.0
#include "host/wake_pipe.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace verbatim::host {

Status WakePipe::open() noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Errc::kNoMemory;
  reader_ = OwnDescriptor(ends[0]);
  writer_ = OwnDescriptor(ends[1]);
  return Ok{};
}

void WakePipe::ring() const noexcept {
  const int before = errno;
  // If the pipe is full, the thread is being woken already. The system call itself, unlike
  // write(3), is no cancellation point.
  if (writer_.is_still_own()) (void)::syscall(SYS_write, writer_.number(), "", 1);
  errno = before;
}

bool WakePipe::take(const pollfd& polled) const noexcept {
  if ((polled.revents & ~POLLIN) != 0) return false;
  if ((polled.revents & POLLIN) == 0) return true;
  if (!reader_.is_still_own()) return false;
  std::array<std::byte, 64> octets;
  while (::syscall(SYS_read, reader_.number(), octets.data(), octets.size()) ==
         static_cast<long>(octets.size())) {
  }
  return true;
}

}  // namespace verbatim::host
