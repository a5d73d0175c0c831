// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/channel.h"

#include <fcntl.h>
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

/// A thread needs some microseconds from one call of rdma_get_cm_event to the next.
constexpr std::size_t kRetiredLimit = 64;

/// With events_mutex() held.
std::deque<CmChannel*>& retired_channels() noexcept {
  return process_wide([] { return new std::deque<CmChannel*>; });
}

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

CmChannel::~CmChannel() { drop_events(); }

void CmChannel::drop_events() noexcept {
  for (EventHandle* event : waiting_) delete event;
  waiting_.clear();
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
  const CmEntry::Waiting waiting;
  char octet;
  bool has_event = false;
  pthread_cleanup_push([](void* inside) { --*static_cast<std::atomic<std::uint32_t>*>(inside); },
                       &inside_);
  if (reader_.is_still_own()) {
    has_event = ::recv(reader_.number(), &octet, 1, MSG_PEEK) == 1;
  } else {
    errno = EBADF;  // the program has closed it
  }
  while (waits_for_ever_) ::pause();
  pthread_cleanup_pop(0);
  return has_event;
}

void CmChannel::retire(CmChannel* channel) {
  const std::lock_guard lock(events_mutex());
  // Before the descriptors are closed: that wakes a thread that waits.
  channel->waits_for_ever_ = channel->reader_.is_still_own() &&
                             (::fcntl(channel->reader_.number(), F_GETFL) & O_NONBLOCK) == 0;
  channel->drop_events();
  channel->bell_.close();
  channel->reader_.close();
  std::deque<CmChannel*>& retired = retired_channels();
  retired.push_back(channel);
  if (retired.size() <= kRetiredLimit) return;
  CmChannel* const oldest = retired.front();
  retired.pop_front();
  // A thread that waits in it keeps it.
  if (oldest->inside_ == 0) delete oldest;
}

}  // namespace verbatim::abi
