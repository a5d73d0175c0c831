// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace verbatim::testing {

/// Puts the process into a network of its own, with nothing but a loopback interface that is up and
/// is the only device. So tests run side by side, whatever else uses the RoCE port of the machine.
/// False when the system forbids it; call it before any thread starts.
inline bool enter_private_network() noexcept {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool is_up = ::ioctl(any, SIOCSIFFLAGS, &loopback) == 0;
  ::close(any);
  return is_up && ::setenv("VERBATIM_DEVICES", "lo", 1) == 0;
}

}  // namespace verbatim::testing
