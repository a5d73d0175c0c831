// SPDX-License-Identifier: Apache-2.0
#include "device/port_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/own_threads.h"
#include "base/process_wide.h"
#include "device/adapter.h"
#include "device/interface_list.h"
#include "device/process.h"
#include "host/forget_thread.h"

namespace verbatim::device {
namespace {

// Notices come in groups. One look a moment later covers all of them.
constexpr int kRestMs = 10;

int open_notices() noexcept {
  const int notices = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  sockaddr_nl wanted{};
  wanted.nl_family = AF_NETLINK;
  wanted.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (notices >= 0 && ::bind(notices, reinterpret_cast<sockaddr*>(&wanted), sizeof wanted) == 0) {
    return notices;
  }
  if (notices >= 0) ::close(notices);
  return -1;
}

/// The contents are ignored: the state is read from the system again.
void throw_away(int descriptor) noexcept {
  std::array<std::byte, 8192> octets;
  // An overflow (ENOBUFS) is reported once, and means that something has changed as well.
  while (::read(descriptor, octets.data(), octets.size()) > 0) {
  }
}

const TakesPartInForks kInForks({.rank = ForkRank::kPortWatch,
                                 .prepare = [] { PortWatch::of_process().mutex().lock_for_fork(); },
                                 .parent =
                                     [] { PortWatch::of_process().mutex().unlock_after_fork(); },
                                 .child = [] { PortWatch::of_process().abandon_in_child(); },
                                 .forget = [] { renew(PortWatch::of_process()); }});

}  // namespace

PortWatch& PortWatch::of_process() {
  return process_wide([] { return new PortWatch; });
}

void PortWatch::abandon_in_child() noexcept {
  host::forget_thread(thread_);
  if (life_ != nullptr) {
    life_->notices.close();
    life_->bell.close();
    life_.reset();
  }
  adapters_.clear();
  observer_ = nullptr;
  renew(telling_);
  mutex_.unlock_after_fork();
}

void PortWatch::add(Adapter& adapter) {
  const LockGuard lock(mutex_);
  adapters_.push_back(&adapter);
  if (life_ != nullptr && life_->has_ended) bury();
  if (life_ == nullptr && !start()) return;
  life_->bell.ring();
}

/// For a thread that has ended by itself, which takes no lock any more.
void PortWatch::bury() noexcept {
  thread_.join();
  life_.reset();
}

Status PortWatch::start() {
  auto life = std::make_shared<Life>();
  life->notices = host::OwnDescriptor(open_notices());
  if (!life->notices.is_open()) return Errc::kNoMemory;
  if (auto opened = life->bell.open(); !opened) return opened;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  OwnThread::announce();
  thread_ = std::thread([this, life] { run(*life); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "verbatim-watch");
  life_ = std::move(life);
  return Ok{};
}

void PortWatch::remove(Adapter& adapter) noexcept {
  bool is_the_thread = false;
  {
    const LockGuard lock(mutex_);
    if (std::erase(adapters_, &adapter) == 0) return;
    is_the_thread = thread_.get_id() == std::this_thread::get_id();
  }
  if (is_the_thread) return;
  { const LockGuard told(telling_); }  // waits until an adapter that is being told has been told
  std::thread ended;
  {
    const LockGuard lock(mutex_);
    if (!adapters_.empty() || life_ == nullptr) return;
    life_->is_ending = true;
    life_->bell.ring();
    life_.reset();
    ended = std::move(thread_);
  }
  ended.join();
}

void PortWatch::set_observer(void (*observer)()) noexcept {
  const LockGuard lock(mutex_);
  observer_ = observer;
}

void PortWatch::run(Life& life) noexcept {
  const OwnThread mine;
  for (;;) {
    std::array<pollfd, 2> polled = {
        {{.fd = life.notices.number(), .events = POLLIN, .revents = 0}, life.bell.polled()}};
    (void)::poll(polled.data(), polled.size(), -1);
    const bool is_intact = life.bell.take(polled[1]) && life.notices.is_still_own();
    if (!is_intact) life.has_ended = true;
    if (!is_intact || life.is_ending) return;
    throw_away(life.notices.number());
    look();
    (void)::poll(&polled[1], 1, kRestMs);
  }
}

void PortWatch::look() {
  const auto interfaces = read_interfaces();
  {
    const LockGuard told(telling_);
    std::vector<Adapter*> adapters;
    {
      const LockGuard lock(mutex_);
      adapters = adapters_;
    }
    for (Adapter* adapter : adapters) adapter->handle_interfaces(interfaces);
  }
  void (*observer)() = nullptr;
  {
    const LockGuard lock(mutex_);
    observer = observer_;
  }
  if (observer != nullptr) observer();
}

}  // namespace verbatim::device
