// SPDX-License-Identifier: Apache-2.0
#include "device/socket_watch.h"

#include <sys/epoll.h>

#include <algorithm>

#include "device/process.h"

namespace verbatim::device {

Status SocketWatch::open(const host::OwnDescriptor& engine) noexcept {
  sockets_epoll_ = host::OwnDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!sockets_epoll_.is_open()) return Errc::kNoMemory;
  engine_ = &engine;
  const LockGuard lock(mutex_);
  wanted_ = is_on_ = true;
  epoll_event readable{.events = EPOLLIN, .data = {.fd = sockets_epoll_.number()}};
  const int added = ::epoll_ctl(engine.number(), EPOLL_CTL_ADD, sockets_epoll_.number(), &readable);
  return added == 0 ? Status(Ok{}) : Status(Errc::kNoMemory);
}

void SocketWatch::close() noexcept { sockets_epoll_.close(); }

void SocketWatch::forget_in_child() noexcept { renew(mutex_); }

void SocketWatch::use(std::span<const int> sockets) {
  const LockGuard lock(mutex_);
  for (const int socket : sockets) {
    if (std::find(sockets_.begin(), sockets_.end(), socket) != sockets_.end()) continue;
    epoll_event readable{.events = EPOLLIN, .data = {.fd = socket}};
    ::epoll_ctl(sockets_epoll_.number(), EPOLL_CTL_ADD, socket, &readable);
  }
  sockets_.assign(sockets.begin(), sockets.end());
}

void SocketWatch::wake_engine(bool wanted) noexcept {
  if (wanted == wanted_.load(std::memory_order_relaxed)) return;
  const LockGuard lock(mutex_);
  wanted_.store(wanted, std::memory_order_relaxed);
  update();
}

void SocketWatch::begin_rest() noexcept {
  const LockGuard lock(mutex_);
  is_left_to_rest_ = true;
  update();
}

void SocketWatch::end_rest() noexcept {
  const LockGuard lock(mutex_);
  is_left_to_rest_ = false;
  update();
}

void SocketWatch::update() noexcept {
  const bool is_on = wanted_.load(std::memory_order_relaxed) && !is_left_to_rest_;
  if (is_on == is_on_ || engine_ == nullptr) return;
  is_on_ = is_on;
  epoll_event readable{.events = is_on ? std::uint32_t{EPOLLIN} : 0U,
                       .data = {.fd = sockets_epoll_.number()}};
  ::epoll_ctl(engine_->number(), EPOLL_CTL_MOD, sockets_epoll_.number(), &readable);
}

}  // namespace verbatim::device
