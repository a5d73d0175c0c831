// SPDX-License-Identifier: Apache-2.0
#include "device/event_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "device/process.h"
#include "host/ring.h"

namespace verbatim::device {

Status EventPipe::open() noexcept {
  descriptor_ = host::OwnDescriptor::in_place(::eventfd(0, EFD_CLOEXEC));
  bell_ = host::OwnDescriptor(::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0));
  if (!descriptor_.is_open() || !bell_.is_open()) return Errc::kNoMemory;
  owner_ = ::getpid();
  generation_ = fork_generation();
  return Ok{};
}

/// A child shares the descriptor with its parent, and a thread of the parent may have held the
/// lock.
bool EventPipe::is_own() const noexcept { return generation_ == fork_generation(); }

void EventPipe::update_readable() noexcept {
  if (!waiting_.empty()) return;
  if (!bell_.is_still_own()) return;
  pollfd readable{.fd = bell_.number(), .events = POLLIN, .revents = 0};
  std::uint64_t rung;
  // Another thread may have read the counter, and then a read would wait.
  if (::poll(&readable, 1, 0) == 1) (void)!::read(bell_.number(), &rung, sizeof rung);
}

void EventPipe::write(const PipeEvent& event, Unread* unread, Repeats repeats) noexcept {
  if (!is_own()) return;
  const LockGuard lock(mutex_);
  if (unread == nullptr || ++unread->count == 1) {
    if (repeats == Repeats::kByItself && waiting_.size() >= kManyUnread) {
      const auto older = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
        return other.event.kind == event.kind && other.event.subject == event.subject;
      });
      if (older != waiting_.end()) waiting_.erase(older);
    }
    waiting_.push_back({.event = event, .unread = unread});
  }
  host::ring(bell_);  // once for each event, so that edge-triggered readers are woken for each
}

std::optional<PipeEvent> EventPipe::take() noexcept {
  if (waiting_.empty()) {
    update_readable();  // a forked child may have made it readable
    return std::nullopt;
  }
  const Waiting next = waiting_.front();
  waiting_.pop_front();
  if (next.unread != nullptr && --next.unread->count > 0) waiting_.push_back(next);
  update_readable();
  return next.event;
}

namespace {

/// Signals that a thread causes itself. Their handlers, of this library, a runtime or a sanitizer,
/// do not end the wait.
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

/// Programs expect the behaviour of read(2): a signal ends the wait unless its handler was
/// installed with SA_RESTART. A signal always ends poll(2), which does not say which signal it was.
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

Status EventPipe::wait() {
  const int flags = ::fcntl(descriptor_.number(), F_GETFL);
  if (flags < 0 || !descriptor_.is_still_own()) return Errc::kNoDevice;
  if ((flags & O_NONBLOCK) != 0) return Errc::kTryAgain;
  pollfd readable{.fd = descriptor_.number(), .events = POLLIN, .revents = 0};
  const int ready = ::poll(&readable, 1, -1);
  if (ready < 0 && errno != EINTR) return Errc::kNoDevice;
  if (ready < 0 && signals_end_calls()) return Errc::kInterrupted;
  return Ok{};
}

void EventPipe::forget(std::uint64_t subject) noexcept {
  if (!is_own() || ::getpid() != owner_) return;
  const Uncancelled uncancelled;
  const LockGuard lock(mutex_);
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const bool is_of_it = waiting.event.subject == subject;
    if (is_of_it && waiting.unread != nullptr) waiting.unread->count = 0;
    return is_of_it;
  });
  update_readable();
}

}  // namespace verbatim::device
