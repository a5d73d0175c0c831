// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "host/test_process.h"
#include "udp/socket_address.h"
#include "udp/udp_link.h"

/// What the tests of this layer share. Nothing but tests includes this.
namespace verbatim::link::test {

using Octets = std::vector<std::byte>;

/// The clock that the owner of a link has.
inline Instant now() {
  return Instant::at(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

inline constexpr std::uint32_t kLoopbackIndex = 1;  // the first interface of every namespace

inline wire::Gid ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
}

/// Loopback addresses that no test in another process uses at the same time.
inline wire::Gid own_address(std::uint32_t which) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return ipv4(127, static_cast<std::uint8_t>(1 + which * 64 + (pid >> 16) % 63),
              static_cast<std::uint8_t>(pid >> 8), static_cast<std::uint8_t>(pid));
}

inline wire::Gid ipv6_loopback() { return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}; }

using host::test::in_a_child;
using host::test::kSkipped;
using host::test::open_descriptor_count;

inline bool change_loopback(unsigned long request, ifreq& change) {
  std::strcpy(change.ifr_name, "lo");
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool changed = ::ioctl(socket, request, &change) == 0;
  ::close(socket);
  return changed;
}

inline bool set_loopback_mtu(int mtu) {
  ifreq change{};
  change.ifr_mtu = mtu;
  return change_loopback(SIOCSIFMTU, change);
}

/// How long to wait for what must happen, and for what must not.
inline constexpr int kPatienceMs = 5000;
inline constexpr int kDoubtMs = 50;

/// Adds a link-local address, and waits until the kernel has made sure that it is not a duplicate.
inline bool add_ipv6_to_loopback(const wire::Gid& gid) {
  in6_ifreq change{};
  std::memcpy(&change.ifr6_addr, gid.octets.data(), gid.octets.size());
  change.ifr6_prefixlen = 64;
  change.ifr6_ifindex = kLoopbackIndex;
  SocketAddress name;
  const socklen_t octets = store_address(name, gid, 0, kLoopbackIndex);
  const int socket = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool usable = false;
  if (::ioctl(socket, SIOCSIFADDR, &change) == 0) {
    for (int waited_ms = 0; waited_ms < kPatienceMs && !usable; ++waited_ms) {
      usable = ::bind(socket, &name.base, octets) == 0;
      if (!usable) (void)::poll(nullptr, 0, 1);
    }
  }
  ::close(socket);
  return usable;
}

/// Emulators of other processors pass on only the socket options that they know. This option stands
/// for those that a link needs.
inline bool has_socket_options() {
  const int socket = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int any = 0;
  const bool is_unknown =
      ::setsockopt(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, &any, sizeof any) != 0 &&
      errno == ENOPROTOOPT;
  ::close(socket);
  return !is_unknown;
}

/// Runs `body` alone in a network namespace whose loopback interface is up, with all rights there.
template <typename Body>
void in_a_private_network(Body&& body) {
  if (!has_socket_options()) GTEST_SKIP() << "the system does not know the options of a link";
  const int ended = in_a_child([&] {
    ifreq up{};
    up.ifr_flags = IFF_UP;
    const bool alone = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!alone || !change_loopback(SIOCSIFFLAGS, up)) ::_exit(kSkipped);
    body();
  });
  if (ended == kSkipped) GTEST_SKIP() << "the system allows no network namespace";
  EXPECT_EQ(ended, 0);
}

/// Without trains, unless a test wants them: what these tests send has no ICRC.
inline Status open_on(UdpLink& link, std::vector<LocalAddress> addresses, std::uint32_t slot = 0,
                      UdpLink::Trains trains = UdpLink::Trains::kNo) {
  return link.open(addresses, slot, trains);
}

/// Puts a packet into the link's burst.
inline void put(Link& link, const Outgoing& to, const Octets& octets) {
  const auto frame = link.next_frame().octets;
  ASSERT_GE(frame.size(), octets.size());
  std::copy(octets.begin(), octets.end(), frame.begin());
  link.commit(now(), to, octets.size());
}

/// A packet as the test keeps it: the link's buffers are reused.
struct Kept {
  Incoming packet{};
  Octets octets;
};

inline bool wait_readable(const Link& link, int patience_ms) {
  std::vector<pollfd> polled;
  for (const int descriptor : link.descriptors()) {
    polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  return ::poll(polled.data(), polled.size(), patience_ms) > 0;
}

/// Takes `count` packets, or as many as come before patience ends.
inline std::vector<Kept> take(Link& link, std::size_t count, int patience_ms = kPatienceMs) {
  std::vector<Kept> kept;
  while (kept.size() < count && wait_readable(link, patience_ms)) {
    for (const Incoming& packet : link.receive(now())) {
      packet.for_each_packet([&](std::span<const std::byte> octets) {
        kept.push_back({.packet = packet, .octets = {octets.begin(), octets.end()}});
      });
    }
  }
  return kept;
}

inline bool stays_silent(Link& link) { return take(link, 1, kDoubtMs).empty(); }

}  // namespace verbatim::link::test
