// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "device/adapter.h"
#include "device/clock.h"

namespace verbatim::device {
namespace {

// A caller that looked at the sockets within this time is still there: who polls, polls every few
// hundred nanoseconds. Longer would be wrong for programs that poll for their own completion and
// then spin on memory that only the engine can fill.
constexpr Duration kCallerPresence = std::chrono::microseconds(3);
// While a caller is there, the engine naps, ever longer, and looks whether it has gone.
constexpr Duration kShortNap = std::chrono::microseconds(20);
constexpr Duration kLongNap = std::chrono::microseconds(160);

/// Kernels before 5.11 have no wait in nanoseconds, and some sandboxes forbid it: then it is in
/// milliseconds, the next longer one.
int wait_for_events(int epoll, std::span<epoll_event> events, const timespec* limit) noexcept {
  static std::atomic<bool> is_fine{true};
  const auto room = static_cast<int>(events.size());
  if (is_fine.load(std::memory_order_relaxed)) {
    const int count = ::epoll_pwait2(epoll, events.data(), room, limit, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    is_fine.store(false, std::memory_order_relaxed);
  }
  constexpr std::int64_t kLongest = 1 << 30;
  const std::int64_t milliseconds =
      limit == nullptr ? -1
                       : std::min(kLongest, limit->tv_sec * std::int64_t{1000} +
                                                (limit->tv_nsec + 999'999) / 1'000'000);
  return ::epoll_wait(epoll, events.data(), room, static_cast<int>(milliseconds));
}

}  // namespace

Status Engine::start() noexcept {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || bell_ < 0) return Errc::kNoMemory;
  epoll_event bell{.events = EPOLLIN, .data = {.fd = bell_}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, bell_, &bell);
  watching_ = true;
  watch_link();
  // Requests for connections come in whoever polls: never unwatched.
  epoll_event requests{.events = EPOLLIN, .data = {.fd = adapter_.gsi_->descriptor()}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, adapter_.gsi_->descriptor(), &requests);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  // Faults inside guarded() must reach the thread that causes them.
  for (const int fault : {SIGSEGV, SIGBUS}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "verbatim-engine");
  return Ok{};
}

void Engine::watch_link() {
  const auto of_link = adapter_.link_.descriptors();
  std::vector<int> sockets(of_link.begin(), of_link.end());
  sockets.push_back(adapter_.slot_.descriptor());
  for (const int socket : sockets) {
    if (std::find(sockets_.begin(), sockets_.end(), socket) != sockets_.end()) continue;
    epoll_event readable{.events = watching_ ? std::uint32_t{EPOLLIN} : 0U, .data = {.fd = socket}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &readable);
  }
  sockets_ = std::move(sockets);
}

void Engine::stop() noexcept {
  if (!thread_.joinable()) return;
  stop_.store(true);
  const std::uint64_t one = 1;
  (void)!::write(bell_, &one, sizeof one);
  thread_.join();
}

Engine::~Engine() {
  stop();
  if (epoll_ >= 0) ::close(epoll_);
  if (bell_ >= 0) ::close(bell_);
}

void Engine::abandon_in_child() noexcept {
  if (thread_.joinable()) thread_.detach();  // it only exists in the parent
  for (int* descriptor : {&epoll_, &bell_}) {
    if (*descriptor >= 0) ::close(*descriptor);
    *descriptor = -1;
  }
}

void Engine::note_deadline(Instant deadline) noexcept {
  // The engine publishes how long it sleeps before it looks at the timers for the last time, and
  // the caller holds the adapter's lock as the engine did; so a deadline is either seen or rung
  // for.
  const std::int64_t sleeps_until = sleeps_until_.load(std::memory_order_relaxed);
  if (sleeps_until == 0 || deadline.since_start().count() >= sleeps_until) return;
  sleeps_until_.store(deadline.since_start().count(), std::memory_order_relaxed);
  const std::uint64_t one = 1;
  (void)!::write(bell_, &one, sizeof one);  // full means that it is ringing already
}

bool Engine::caller_is_here(Instant now) const noexcept {
  return now.since_start().count() - caller_seen_.load(std::memory_order_relaxed) <
         kCallerPresence.count();
}

void Engine::watch_sockets(bool watch) noexcept {
  if (watch == watching_) return;
  watching_ = watch;
  for (const int socket : sockets_) {
    epoll_event readable{.events = watch ? std::uint32_t{EPOLLIN} : 0U, .data = {.fd = socket}};
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &readable);
  }
}

void Engine::run() noexcept {
  Duration nap = kShortNap / 2;
  while (!stop_.load(std::memory_order_relaxed)) {
    Instant deadline;
    {
      const std::lock_guard lock(adapter_.mutex_);
      sleeps_until_.store(0, std::memory_order_relaxed);
      const bool yields = caller_is_here(now());
      watch_sockets(!yields);
      if (yields) {
        adapter_.run_timers();
        adapter_.link_.flush();
      } else {
        // Bounded turns: a flood must not keep callers from the lock.
        for (int turn = 0; turn < 8 && adapter_.progress(); ++turn) {
        }
      }
      if (has_requests_) adapter_.gsi_->take_forwarded();
      adapter_.gsi_->run_timer(now());
      deadline = adapter_.next_deadline();
      nap = yields ? std::min(nap * 2, kLongNap) : kShortNap / 2;
      if (yields) deadline = std::min(deadline, now() + nap);
      sleeps_until_.store(deadline.since_start().count(), std::memory_order_relaxed);
    }
    sleep_until(deadline);
  }
}

void Engine::sleep_until(Instant deadline) noexcept {
  timespec left{};
  timespec* limit = nullptr;
  if (deadline != Instant::never()) {
    const auto nanoseconds = std::max<std::int64_t>(0, (deadline - now()).count());
    left.tv_sec = nanoseconds / 1'000'000'000;
    left.tv_nsec = nanoseconds % 1'000'000'000;
    limit = &left;
  }
  epoll_event events[8];
  const int count = wait_for_events(epoll_, events, limit);
  has_requests_ = false;
  for (int i = 0; i < count; ++i) {
    std::uint64_t rung;
    if (events[i].data.fd == bell_) (void)!::read(bell_, &rung, sizeof rung);
    if (events[i].data.fd == adapter_.gsi_->descriptor()) has_requests_ = true;
  }
}

}  // namespace verbatim::device
