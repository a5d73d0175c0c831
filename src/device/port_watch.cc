// SPDX-License-Identifier: Apache-2.0
#include "device/port_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/process_wide.h"
#include "device/adapter.h"
#include "device/interface_list.h"
#include "device/process.h"

namespace verbatim::device {
namespace {

// Notices come in groups. One look a moment later covers all of them.
constexpr int kRestMs = 10;
// When no descriptor was left to look at the interfaces, until the next look.
constexpr int kAgainMs = 500;
constexpr int kForEver = -1;

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
  thread_.forget_in_child();
  if (thread_state_ != nullptr) {
    thread_state_->notices.close();
    thread_state_->bell.close();
    thread_state_.reset();
  }
  adapters_.clear();
  observer_ = nullptr;
  renew(telling_);
  mutex_.unlock_after_fork();
}

void PortWatch::add(Adapter& adapter) {
  const LockGuard lock(mutex_);
  adapters_.push_back(&adapter);
  if (thread_state_ != nullptr && thread_state_->has_ended) bury();
  if (thread_state_ == nullptr && !start()) return;
  thread_state_->bell.ring();
}

/// For a thread that has ended by itself, which takes no lock any more.
void PortWatch::bury() noexcept {
  thread_.join();
  thread_state_.reset();
}

Status PortWatch::start() {
  auto state = std::make_shared<ThreadState>();
  state->notices = host::OwnDescriptor(open_notices());
  if (!state->notices.is_open()) return Errc::kNoMemory;
  if (auto opened = state->bell.open(); !opened) return opened;
  auto started = thread_.start("verbatim-watch", [this, state] { run(*state); });
  if (!started) return started;
  thread_state_ = std::move(state);
  return Ok{};
}

void PortWatch::remove(Adapter& adapter) noexcept {
  bool is_the_thread = false;
  {
    const LockGuard lock(mutex_);
    if (std::erase(adapters_, &adapter) == 0) return;
    is_the_thread = thread_.is_this_thread();
  }
  if (is_the_thread) return;
  { const LockGuard told(telling_); }  // waits until an adapter that is being told has been told
  host::LibraryThread ended;
  {
    const LockGuard lock(mutex_);
    if (!adapters_.empty() || thread_state_ == nullptr) return;
    thread_state_->is_ending = true;
    thread_state_->bell.ring();
    thread_state_.reset();
    ended = std::move(thread_);
  }
  ended.join();
}

void PortWatch::set_observer(void (*observer)()) noexcept {
  const LockGuard lock(mutex_);
  observer_ = observer;
}

void PortWatch::run(ThreadState& state) noexcept {
  for (int patience_ms = kForEver;;) {
    std::array<pollfd, 2> polled = {
        {{.fd = state.notices.number(), .events = POLLIN, .revents = 0}, state.bell.polled()}};
    (void)::poll(polled.data(), polled.size(), patience_ms);
    const bool is_intact = state.bell.take(polled[1]) && state.notices.is_still_own();
    if (!is_intact) state.has_ended = true;
    if (!is_intact || state.is_ending) return;
    throw_away(state.notices.number());
    patience_ms = look() ? kForEver : kAgainMs;
    (void)::poll(&polled[1], 1, kRestMs);
  }
}

bool PortWatch::look() {
  const auto interfaces = read_interfaces();
  if (interfaces.empty()) return false;  // not read: the adapters keep what they know
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
  return true;
}

}  // namespace verbatim::device
