// SPDX-License-Identifier: Apache-2.0
#include "host/peer_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace verbatim::host {

bool may_lend_memory() noexcept {
  const int file = ::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;  // no Yama
  std::array<char, 8> text;
  const ssize_t octets = ::read(file, text.data(), text.size());
  ::close(file);
  return allows_lending({text.data(), octets > 0 ? static_cast<std::size_t>(octets) : 0});
}

}  // namespace verbatim::host
