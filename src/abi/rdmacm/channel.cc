// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/channel.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "abi/rdmacm/entry.h"
#include "base/process_wide.h"
#include "device/process.h"

namespace verbatim::abi {

ForkMutex& events_mutex() noexcept {
  return process_wide([] { return new ForkMutex; });
}

std::condition_variable& events_acknowledged() noexcept {
  return process_wide([] { return new std::condition_variable; });
}

namespace {

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kEvents,
                                         .prepare =
                                             [] {
                                               (void)events_acknowledged();
                                               events_mutex().lock();
                                             },
                                         .parent = [] { events_mutex().unlock(); },
                                         .child =
                                             [] {
                                               device::renew(events_acknowledged());
                                               events_mutex().unlock();
                                             },
                                         .forget =
                                             [] {
                                               device::renew(events_acknowledged());
                                               device::renew(events_mutex());
                                             }});

}  // namespace

Status CmChannel::open() noexcept {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Errc::kNoMemory;
  reader_ = device::OwnDescriptor::in_place(ends[0]);
  bell_ = device::OwnDescriptor(ends[1]);
  public_.channel.fd = reader_.number();
  return Ok{};
}

CmChannel::~CmChannel() {
  for (EventHandle* event : waiting_) delete event;
}

void CmChannel::push(EventHandle* event) {
  waiting_.push_back(event);
  // One octet per event, so that edge-triggered readers hear of each; a full socket has plenty.
  // Where the program has closed it, the number may be that of a socket of its own.
  if (!bell_.is_still_own()) return;
  if (::send(bell_.number(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++rung_;
}

EventHandle* CmChannel::pop() noexcept {
  if (waiting_.empty()) return nullptr;
  EventHandle* event = waiting_.front();
  waiting_.pop_front();
  settle();
  return event;
}

/// Never more octets in the socket than events in the queue.
void CmChannel::settle() noexcept {
  std::array<std::byte, 64> octets;
  if (rung_ > waiting_.size() && !reader_.is_still_own()) return;
  while (rung_ > waiting_.size()) {
    const std::size_t excess = std::min(rung_ - waiting_.size(), octets.size());
    const ssize_t taken = ::recv(reader_.number(), octets.data(), excess, MSG_DONTWAIT);
    if (taken <= 0) return;
    rung_ -= static_cast<std::size_t>(taken);
  }
}

bool CmChannel::wait() {
  if (!reader_.is_still_own()) {  // the program has closed it
    errno = EBADF;
    return false;
  }
  const CmEntry::Waiting waiting;
  char octet;
  bool has_event = false;
  ++waiters_;
  // A thread that is cancelled waits no longer.
  pthread_cleanup_push([](void* waiters) { --*static_cast<std::atomic<std::uint32_t>*>(waiters); },
                       &waiters_);
  has_event = ::recv(reader_.number(), &octet, 1, MSG_PEEK) == 1;
  pthread_cleanup_pop(1);
  return has_event;
}

void CmChannel::discard(CmChannel* channel) noexcept {
  if (channel->waiters_ == 0) {
    delete channel;
  } else {
    channel->reader_.close();
  }
}

}  // namespace verbatim::abi
