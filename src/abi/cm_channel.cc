// SPDX-License-Identifier: Apache-2.0
#include "abi/cm_channel.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "abi/cm_entry.h"
#include "device/process.h"

namespace verbatim::abi {

std::mutex& events_mutex() noexcept {
  static auto* const mutex = new std::mutex;  // outlives every thread
  return *mutex;
}

std::condition_variable& events_acknowledged() noexcept {
  static auto* const condition = new std::condition_variable;
  return *condition;
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
                                             }});

}  // namespace

Status CmChannel::open() noexcept {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Errc::kNoMemory;
  public_.channel.fd = ends[0];
  bell_ = ends[1];
  return Ok{};
}

CmChannel::~CmChannel() {
  for (EventHandle* event : waiting_) delete event;
  if (public_.channel.fd >= 0) ::close(public_.channel.fd);
  if (bell_ >= 0) ::close(bell_);
}

void CmChannel::push(EventHandle* event) {
  waiting_.push_back(event);
  // One octet per event, so that edge-triggered readers hear of each; a full socket has plenty.
  if (::send(bell_, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++rung_;
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
  while (rung_ > waiting_.size()) {
    const std::size_t excess = std::min(rung_ - waiting_.size(), octets.size());
    const ssize_t taken = ::recv(public_.channel.fd, octets.data(), excess, MSG_DONTWAIT);
    if (taken <= 0) return;
    rung_ -= static_cast<std::size_t>(taken);
  }
}

bool CmChannel::wait() {
  const CmEntry::Waiting waiting;
  char octet;
  bool has_event = false;
  ++waiters_;
  // A thread that is cancelled waits no longer.
  pthread_cleanup_push([](void* waiters) { --*static_cast<std::atomic<std::uint32_t>*>(waiters); },
                       &waiters_);
  has_event = ::recv(public_.channel.fd, &octet, 1, MSG_PEEK) == 1;
  pthread_cleanup_pop(1);
  return has_event;
}

void CmChannel::discard(CmChannel* channel) noexcept {
  if (channel->waiters_ == 0) {
    delete channel;
  } else {
    ::close(channel->public_.channel.fd);
  }
}

}  // namespace verbatim::abi
