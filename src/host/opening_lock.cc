// SPDX-License-Identifier: Apache-2.0
#include "host/opening_lock.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "host/unix_name.h"

namespace verbatim::host {

namespace {

constexpr int kWaitersMax = 4096;                                 // in the kernel's queue
constexpr Duration kLongestWait = std::chrono::milliseconds(50);  // before the name is tried again

int open_socket() noexcept {
  return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void nap(Duration time) noexcept {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  (void)::poll(nullptr, 0, std::max(1, static_cast<int>(milliseconds)));
}

/// The holder never accepts: a connection in its queue ends when the holder lets go, or dies.
void wait_for(const UnixName& name, Duration patience, OpeningLock::Holder& holder) noexcept {
  const int waiter = open_socket();
  if (waiter < 0 || name.connect(waiter) != 0) {  // between two holders, or a full queue
    nap(std::chrono::milliseconds(1));
  } else {
    const ucred peer = peer_of(waiter);
    holder = {.pid = peer.pid, .uid = peer.uid};
    pollfd gone{.fd = waiter, .events = POLLIN, .revents = 0};
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    (void)::poll(&gone, 1, std::max(1, static_cast<int>(limit)));
  }
  if (waiter >= 0) ::close(waiter);
}

}  // namespace

Expected<OpeningLock> OpeningLock::take(Duration patience, Holder& holder) noexcept {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + patience;
  const UnixName name = UnixName::of_opening();
  OpeningLock lock;
  lock.descriptor_ = open_socket();
  if (lock.descriptor_ < 0) return Errc::kNoMemory;
  for (;;) {
    if (name.bind(lock.descriptor_) == 0) {
      (void)::listen(lock.descriptor_, kWaitersMax);  // who cannot queue up naps instead
      return lock;
    }
    if (errno != EADDRINUSE) return errno == EACCES ? Errc::kAccessDenied : Errc::kNoMemory;
    const Duration left = end - Clock::now();
    if (left <= Duration::zero()) return Errc::kTimedOut;
    const pid_t before = holder.pid;
    wait_for(name, std::min(left, kLongestWait), holder);
    if (holder.pid != before) end = Clock::now() + patience;
  }
}

void OpeningLock::release() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

}  // namespace verbatim::host
