// SPDX-License-Identifier: Apache-2.0
#include "device/event_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace verbatim::device {

Status EventPipe::open() noexcept {
  if (::pipe2(ends_, O_CLOEXEC) != 0) return Errc::kNoMemory;
  // Only our end: whether the reader waits is the program's choice.
  ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
  owner_ = ::getpid();
  return Ok{};
}

EventPipe::~EventPipe() {
  for (const int end : ends_) {
    if (end >= 0) ::close(end);
  }
}

bool EventPipe::write(const Event& event) noexcept {
  return ::write(ends_[1], &event, sizeof event) == sizeof event;
}

std::optional<Event> EventPipe::take() noexcept {
  pollfd readable{.fd = ends_[0], .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, 0) != 1) return std::nullopt;
  Event event;
  if (::read(ends_[0], &event, sizeof event) != sizeof event) return std::nullopt;
  return event;
}

namespace {

/// Signals that a thread causes itself: their handlers do not end its waiting, whoever installed
/// them, we or a runtime or a sanitizer.
bool is_fault(int signal) noexcept {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
      return true;
    default:
      return false;
  }
}

/// Programs wait for events as if in read(2), which a signal ends unless its handler was installed
/// with SA_RESTART; poll(2) it always ends, and does not say which signal it was.
bool signals_end_calls() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    const bool has_handler = (action.sa_flags & SA_SIGINFO) != 0 ||
                             (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (has_handler && !is_fault(signal) && (action.sa_flags & SA_RESTART) == 0) return true;
  }
  return false;
}

}  // namespace

Status EventPipe::wait() noexcept {
  const int flags = ::fcntl(ends_[0], F_GETFL);
  if (flags < 0) return Errc::kNoDevice;
  if ((flags & O_NONBLOCK) != 0) return Errc::kTryAgain;
  pollfd readable{.fd = ends_[0], .events = POLLIN, .revents = 0};
  const int ready = ::poll(&readable, 1, -1);
  if (ready < 0 && errno != EINTR) return Errc::kNoDevice;
  if (ready < 0 && signals_end_calls()) return Errc::kInterrupted;
  return Ok{};
}

void EventPipe::forget(std::uint64_t subject) noexcept {
  if (::getpid() != owner_) return;
  const std::lock_guard lock(reading_);
  std::vector<Event> others;
  while (auto event = take()) {
    if (event->subject != subject) others.push_back(*event);
  }
  for (const Event& event : others) write(event);
}

}  // namespace verbatim::device
