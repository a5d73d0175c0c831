// SPDX-License-Identifier: Apache-2.0
#include "device/event_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace verbatim::device {

Status EventPipe::open() noexcept {
  if (::pipe2(ends_, O_CLOEXEC) != 0) return Errc::kNoMemory;
  // Only our end: whether the reader waits is the program's choice.
  ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
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

Expected<Event> EventPipe::read() noexcept {
  Event event;
  for (;;) {
    const ssize_t octets = ::read(ends_[0], &event, sizeof event);
    if (octets == sizeof event) return event;
    if (octets < 0 && errno == EINTR) continue;
    return octets < 0 && errno == EAGAIN ? Errc::kTryAgain : Errc::kNoDevice;
  }
}

void EventPipe::forget(std::uint64_t subject) noexcept {
  std::vector<Event> others;
  for (;;) {
    pollfd readable{.fd = ends_[0], .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 0) != 1) break;
    auto event = read();
    if (!event) break;
    if (event->subject != subject) others.push_back(*event);
  }
  for (const Event& event : others) write(event);
}

}  // namespace verbatim::device
