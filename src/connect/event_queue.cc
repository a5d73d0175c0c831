// SPDX-License-Identifier: Apache-2.0
#include "connect/event_queue.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "base/uncancelled.h"
#include "connect/error.h"
#include "connect/lock.h"

namespace verbatim::connect {
namespace {

constinit thread_local char peeked = 0;

}  // namespace

EventQueue::EventQueue() noexcept { ::sem_init(&never_posted_, 0, 0); }

Outcome EventQueue::open() noexcept {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Error::kNoMemory;
  reader_ = device::OwnDescriptor::in_place(ends[0]);
  bell_ = device::OwnDescriptor(ends[1]);
  return Ok{};
}

/// The ids of requests remove their events from the queue when they end. The queue is emptied
/// first.
EventQueue::~EventQueue() {
  std::deque<std::unique_ptr<Event>> left;
  left.swap(waiting_);
}

void EventQueue::push(std::unique_ptr<Event> event) {
  waiting_.push_back(std::move(event));
  // One octet per event, so that edge-triggered readers are woken for each. If the socket is full,
  // it has octets enough. If the program has closed the descriptor, the number may be one of the
  // program's own sockets.
  if (!bell_.is_still_own()) return;
  if (::send(bell_.number(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++rung_;
}

std::unique_ptr<Event> EventQueue::pop() noexcept {
  if (waiting_.empty()) return nullptr;
  std::unique_ptr<Event> event = std::move(waiting_.front());
  waiting_.pop_front();
  update_readable();
  return event;
}

std::vector<std::unique_ptr<Event>> EventQueue::extract(const Id& counted) {
  std::deque<std::unique_ptr<Event>> kept;
  std::vector<std::unique_ptr<Event>> taken;
  for (std::unique_ptr<Event>& event : waiting_) {
    if (event->counted == &counted) {
      taken.push_back(std::move(event));
    } else {
      kept.push_back(std::move(event));
    }
  }
  waiting_.swap(kept);
  update_readable();
  return taken;
}

/// Removes octets from the socket until there are at most as many as events.
void EventQueue::update_readable() noexcept {
  std::array<std::byte, 64> octets;
  if (rung_ > waiting_.size() && !reader_.is_still_own()) return;
  while (rung_ > waiting_.size()) {
    const std::size_t excess = std::min(rung_ - waiting_.size(), octets.size());
    const ssize_t taken = ::recv(reader_.number(), octets.data(), excess, MSG_DONTWAIT);
    if (taken <= 0) return;
    rung_ -= static_cast<std::size_t>(taken);
  }
}

/// The number of the reading end; negative if the program has closed it or the queue is retired.
[[gnu::noinline]] int EventQueue::open_reader() const noexcept {
  const Uncancelled uncancelled;
  const LockGuard lock(connections_mutex());
  return reader_.is_still_own() ? reader_.number() : -1;
}

/// 0 or an errno value. A thread that is cancelled here leaves the function without a return. The
/// address sanitizer keeps the marks around variables of such a function and then reports errors of
/// its own, so the arguments of the system calls are not on the stack.
int EventQueue::await_octet() {
  int failure = EBADF;
  if (const int reader = open_reader(); reader >= 0) {
    const ssize_t octets = ::recv(reader, &peeked, 1, MSG_PEEK);
    if (octets == 1) return 0;
    if (octets < 0) failure = errno;
  }
  if (!waits_for_ever_ || failure == EINTR) return failure;
  ::sem_wait(&never_posted_);  // until a signal handler without SA_RESTART has run, as recv(2)
  return EINTR;
}

Outcome EventQueue::wait() {
  int failure = 0;
  pthread_cleanup_push([](void* calls) { --*static_cast<std::atomic<std::uint32_t>*>(calls); },
                       &calls_);
  failure = await_octet();
  pthread_cleanup_pop(0);
  return failure == 0 ? Outcome(Ok{}) : Outcome(error_of_system(failure));
}

void EventQueue::retire() noexcept {
  std::deque<std::unique_ptr<Event>> left;
  {
    const LockGuard lock(connections_mutex());
    // Set before the descriptors are closed, because closing them wakes a thread in wait().
    waits_for_ever_ =
        reader_.is_still_own() && (::fcntl(reader_.number(), F_GETFL) & O_NONBLOCK) == 0;
    bell_.close();
    reader_.close();
    rung_ = 0;
    left.swap(waiting_);
  }
}

}  // namespace verbatim::connect
