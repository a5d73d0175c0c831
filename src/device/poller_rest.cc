// SPDX-License-Identifier: Apache-2.0
#include "device/poller_rest.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "host/ring.h"

namespace verbatim::device {
namespace {

#ifdef SYS_epoll_pwait2
constexpr long kWaitCall = SYS_epoll_pwait2;
#else
constexpr long kWaitCall = 441;
#endif

pid_t own_thread() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

bool add(const host::OwnDescriptor& epoll, int descriptor, std::uint32_t events) noexcept {
  epoll_event wanted{.events = events, .data = {}};
  return ::epoll_ctl(epoll.number(), EPOLL_CTL_ADD, descriptor, &wanted) == 0;
}

}  // namespace

void PollerRest::open() noexcept {
  epoll_ = host::OwnDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  bell_ = host::OwnDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.is_open() || !bell_.is_open()) return close();
  // Edge-triggered: each ring is reported once, and the counter is never read.
  const bool is_ready =
      add(epoll_, bell_.number(), EPOLLIN | EPOLLET) && add(epoll_, sockets_.descriptor(), EPOLLIN);
  if (!is_ready) return close();
  is_usable_.store(true);
}

void PollerRest::close() noexcept {
  forget_in_child();
  epoll_.close();
  bell_.close();
}

void PollerRest::forget_in_child() noexcept {
  is_usable_.store(false);
  rester_.store(0);
}

bool PollerRest::begin(Instant at) noexcept {
  if (!is_usable_.load(std::memory_order_relaxed)) return false;
  if (!epoll_.is_still_own()) {
    is_usable_.store(false);
    return false;
  }
  pid_t none = 0;
  if (!rester_.compare_exchange_strong(none, own_thread())) return false;
  began_.store(at, std::memory_order_relaxed);
  sockets_.begin_rest();
  return true;
}

bool PollerRest::wait(Duration limit) noexcept {
  epoll_event event;
  const auto nanoseconds = std::chrono::nanoseconds(limit).count();
  const timespec time{.tv_sec = nanoseconds / 1'000'000'000,
                      .tv_nsec = nanoseconds % 1'000'000'000};
  const int before = errno;
  const long count = ::syscall(kWaitCall, epoll_.number(), &event, 1, &time, nullptr, 0L);
  // Kernels before 5.11 have no wait in nanoseconds, and some sandboxes forbid it.
  if (count < 0 && errno != EINTR) is_usable_.store(false);
  errno = before;
  return count != 0;
}

void PollerRest::end(Instant at) noexcept {
  last_.store(at, std::memory_order_relaxed);
  sockets_.end_rest();
  rester_.store(0);
}

void PollerRest::wake() const noexcept { host::ring(bell_); }

}  // namespace verbatim::device
