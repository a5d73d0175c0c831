// SPDX-License-Identifier: Apache-2.0
#include "device/poller_rest.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>

#include "host/ring.h"

namespace verbatim::device {

void PollerRest::open() noexcept {
  bell_ = host::OwnDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  is_usable_.store(bell_.is_open());
}

void PollerRest::close() noexcept {
  forget_in_child();
  bell_.close();
}

void PollerRest::forget_in_child() noexcept {
  is_usable_.store(false);
  has_rester_.store(false);
}

bool PollerRest::begin(Instant at) noexcept {
  if (!is_usable_.load(std::memory_order_relaxed)) return false;
  if (has_rester_.load(std::memory_order_relaxed) || has_rester_.exchange(true)) return false;
  began_.store(at, std::memory_order_relaxed);
  is_called_off_.store(false, std::memory_order_relaxed);
  return true;
}

bool PollerRest::wait(Duration limit) noexcept {
  std::array<pollfd, kSockets + 1> polled;
  const std::size_t sockets = sockets_.list(std::span(polled).first(kSockets));
  pollfd& bell = polled[sockets];
  bell = {.fd = bell_.number(), .events = POLLIN, .revents = 0};
  const auto nanoseconds = std::chrono::nanoseconds(limit).count();
  timespec time{.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  const int before = errno;
  // The system calls themselves: a thread can be cancelled in ppoll(3) and read(3).
  const long count = ::syscall(SYS_ppoll, polled.data(), sockets + 1, &time, nullptr, 0L);
  if (count > 0 && bell.revents != 0) {
    std::uint64_t rung = 0;
    if (bell_.is_still_own()) (void)::syscall(SYS_read, bell_.number(), &rung, sizeof rung);
  }
  if (count < 0 && errno != EINTR) is_usable_.store(false);  // some sandboxes may forbid it
  errno = before;
  if (count <= 0) return count < 0;
  bool has_packets = false;
  for (const pollfd& socket : std::span(polled).first(sockets)) {
    if ((socket.revents & POLLNVAL) != 0) return false;  // it was closed
    has_packets = has_packets || socket.revents != 0;
  }
  return has_packets || !is_called_off_.load();
}

void PollerRest::end(Instant at) noexcept {
  last_.store(at, std::memory_order_relaxed);
  has_rester_.store(false);
}

void PollerRest::call_off() noexcept {
  is_called_off_.store(true);
  wake();
}

void PollerRest::wake() const noexcept { host::ring(bell_); }

}  // namespace verbatim::device
