// SPDX-License-Identifier: Apache-2.0
#include "device/host_peers.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>

#include "device/process.h"

namespace verbatim::device {

namespace {
// A process that does not answer within this time counts as stopped: packets are used.
constexpr Duration kAttachPatience = std::chrono::milliseconds(100);
}  // namespace

Status HostPeers::open(std::uint32_t slot, int epoll, const host::Door::Offer& offer) noexcept {
  slot_ = slot;
  epoll_ = epoll;
  own_ = host::Credentials::current();
  return door_.open(slot, epoll, offer);
}

void HostPeers::close() noexcept {
  door_.close();
  const LockGuard lock(mutex_);
  peers_.clear();
}

void HostPeers::abandon_in_child() noexcept {
  renew(mutex_);
  close();
}

std::shared_ptr<host::Peer> HostPeers::attach(std::uint32_t slot) {
  const auto find = [&]() VB_REQUIRES(mutex_) -> std::shared_ptr<host::Peer> {
    for (const auto& peer : peers_) {
      if (peer->header().slot != slot || peer->look()) continue;
      if (!peer->has_lost_connection()) return peer;
    }
    return nullptr;
  };
  {
    const LockGuard lock(mutex_);
    if (auto peer = find()) return peer;
  }
  if (!own_.admit_others()) return nullptr;
  auto attached = host::Peer::attach(slot_, slot, kAttachPatience);
  if (!attached) return nullptr;
  const LockGuard lock(mutex_);
  if (auto peer = find()) return peer;  // another thread was faster
  peers_.push_back(*attached);
  epoll_event ends{.events = EPOLLIN | EPOLLRDHUP, .data = {.fd = (*attached)->descriptor()}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, (*attached)->descriptor(), &ends);
  return *attached;
}

void HostPeers::set_handler(const host::Door::Handler& handler) {
  handler_ = handler;
  door_.set_handler(handler);
}

HostPeers::News HostPeers::serve() {
  const LockGuard serving(serving_);
  News news;
  news.attached_gone = door_.serve();
  std::vector<std::shared_ptr<host::Peer>> peers;
  {
    const LockGuard lock(mutex_);
    peers = peers_;
  }
  message_.resize(host::kMessageOctetsMax);
  for (const auto& peer : peers) {
    while (const std::size_t octets = peer->take(message_)) {
      if (handler_) handler_(std::span(message_).first(octets), peer->descriptor());
    }
  }
  const LockGuard lock(mutex_);
  std::erase_if(peers_, [&](const std::shared_ptr<host::Peer>& peer) {
    if (!peer->look()) return false;
    news.has_deaths = true;
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, peer->descriptor(), nullptr);
    return true;
  });
  return news;
}

}  // namespace verbatim::device
