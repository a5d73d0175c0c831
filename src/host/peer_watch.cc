// SPDX-License-Identifier: Apache-2.0
#include "host/peer_watch.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "host/slot.h"
#include "host/unix_name.h"

namespace verbatim::host {

namespace {

constexpr int kBacklog = 256;  // as many as there are slots

int open_socket() noexcept {
  return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

}  // namespace

Status PeerWatch::open(std::uint32_t slot, int epoll) {
  slot_ = slot;
  epoll_ = epoll;
  return listener_.open(UnixName::of_alive(slot), kBacklog, epoll);
}

void PeerWatch::close() noexcept {
  connections_.clear();
  listener_.close();
}

void PeerWatch::add(int descriptor) const noexcept {
  epoll_event readable{.events = EPOLLIN, .data = {.fd = descriptor}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &readable);
}

void PeerWatch::watch(std::uint32_t slot) {
  if (!listener_.is_open() || slot == slot_) return;
  const bool is_watched = std::any_of(
      connections_.begin(), connections_.end(),
      [&](const Connection& connection) { return connection.is_named && connection.slot == slot; });
  if (is_watched) return;
  OwnDescriptor own(open_socket());
  if (!own.is_open()) return;
  const int descriptor = own.number();
  const bool is_there = UnixName::of_alive(slot).connect(descriptor) == 0 &&
                        ::send(descriptor, &slot_, sizeof slot_, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                            static_cast<ssize_t>(sizeof slot_);
  if (!is_there) return;
  connections_.push_back({.descriptor = std::move(own), .slot = slot, .is_named = true});
  add(descriptor);
}

void PeerWatch::accept_all() {
  for (int descriptor = listener_.accept(); descriptor >= 0; descriptor = listener_.accept()) {
    OwnDescriptor own(descriptor);
    if (connections_.size() >= 2 * kSlotCount) continue;
    add(own.number());
    connections_.push_back({.descriptor = std::move(own)});
  }
}

std::vector<std::uint32_t> PeerWatch::living() const {
  std::vector<std::uint32_t> slots;
  for (const Connection& connection : connections_) {
    if (connection.is_named) slots.push_back(connection.slot);
  }
  return slots;
}

std::vector<std::uint32_t> PeerWatch::take_deaths() {
  std::vector<std::uint32_t> deaths;
  if (!listener_.is_open()) return deaths;
  accept_all();
  std::erase_if(connections_, [&](Connection& connection) {
    std::uint32_t slot = 0;
    for (;;) {
      const ssize_t got = ::recv(connection.descriptor.number(), &slot, sizeof slot, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
      if (got == static_cast<ssize_t>(sizeof slot) && !connection.is_named && slot < kSlotCount) {
        connection.slot = slot;
        connection.is_named = true;
        continue;
      }
      // The end of the connection, or data, which no process sends.
      if (connection.is_named) deaths.push_back(connection.slot);
      return true;
    }
  });
  return deaths;
}

}  // namespace verbatim::host
