// SPDX-License-Identifier: Apache-2.0
// What UdpLink promises about the system around it: ports that others hold, processes that share
// one, what really stands in the IP header, and descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>

#include "base/prng.h"
#include "udp/test_network.h"
#include "udp/train_sender.h"
#include "udp/udp_link.h"
#include "wire/crc/icrc.h"
#include "wire/headers/roce_datagram.h"

namespace verbatim::link {
namespace {

using test::in_a_private_network;
using test::Octets;
using test::own_address;
using test::put;
using test::take;

/// A packet for a queue pair of a slot; nothing else in it means anything.
Octets packet_for_slot(std::uint8_t slot, std::uint8_t number) {
  Octets packet(24, std::byte{0});
  packet[5] = static_cast<std::byte>(slot);
  packet[6] = packet[7] = std::byte{0x11};
  packet[20] = static_cast<std::byte>(number);
  return packet;
}

/// A packet with the ICRC that belongs to IPv4 identification 0.
Octets sealed_packet(const Outgoing& to, std::size_t octets, std::uint64_t seed) {
  Prng prng(seed);
  Octets packet(octets);
  for (std::byte& octet : packet) octet = static_cast<std::byte>(prng.below(256));
  const auto icrc = wire::IcrcSeed::roce_v2(to.source, to.destination, to.source_port);
  const std::span<std::byte> all = packet;
  wire::store_icrc(all.last<4>(),
                   wire::icrc_over_headers(icrc.start(octets, 0), all.first(octets - 4)));
  return packet;
}

Outgoing path_between(const UdpLink& link, const wire::Gid& source, const wire::Gid& destination) {
  return {.source = source, .destination = destination, .source_port = link.source_port(source, 0)};
}

TEST(UdpLinkSystem, TwoProcessesOnOneAddressEachGetTheirOwnPackets) {
  if (!test::has_socket_options()) GTEST_SKIP() << "the system does not know the options of a link";
  constexpr std::uint8_t kEach = 100;
  const wire::Gid shared = own_address(0);
  const wire::Gid elsewhere = own_address(1);
  std::array<int, 2> opened{};
  ASSERT_EQ(::pipe(opened.data()), 0);
  UdpLink first;
  ASSERT_TRUE(test::open_on(first, {{.gid = shared}}, 0).ok());

  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    first.close();  // our copy; the parent's socket keeps its place
    UdpLink second;
    EXPECT_TRUE(test::open_on(second, {{.gid = shared}}, 1).ok());
    EXPECT_EQ(::write(opened[1], "x", 1), 1);
    const auto got = take(second, kEach);
    EXPECT_EQ(got.size(), kEach);
    for (const auto& kept : got) EXPECT_EQ(kept.octets[5], std::byte{1});
    EXPECT_TRUE(test::stays_silent(second));
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  char ready = 0;
  ASSERT_EQ(::read(opened[0], &ready, 1), 1);
  ::close(opened[0]);
  ::close(opened[1]);

  UdpLink sender;
  ASSERT_TRUE(test::open_on(sender, {{.gid = elsewhere}}, 2).ok());
  std::uint32_t received = 0;
  for (std::uint8_t i = 0; i < kEach; ++i) {
    Outgoing to = path_between(sender, elsewhere, shared);
    to.source_port = sender.source_port(elsewhere, i);  // the kernel's own choice would mix them
    put(sender, to, packet_for_slot(0, i));
    put(sender, to, packet_for_slot(1, i));
    sender.flush(test::now());
    for (const auto& kept : take(first, 1)) {
      EXPECT_EQ(kept.octets, packet_for_slot(0, i));
      ++received;
    }
  }
  EXPECT_EQ(received, kEach);
  EXPECT_TRUE(test::stays_silent(first));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(UdpLinkSystem, TheOnlyProcessGetsPacketsOfEverySlot) {
  const wire::Gid address = own_address(0);
  UdpLink only;
  ASSERT_TRUE(test::open_on(only, {{.gid = address}}, 7).ok());
  for (const std::uint8_t slot : std::array<std::uint8_t, 3>{0, 7, 255}) {
    put(only, path_between(only, address, address), packet_for_slot(slot, 0));
  }
  put(only, path_between(only, address, address), Octets(2));
  only.flush(test::now());
  EXPECT_EQ(take(only, 4).size(), 4U);
}

TEST(UdpLinkSystem, SaysThatSomethingElseHoldsThePort) {
  const wire::Gid address = own_address(0);
  SocketAddress name;
  const socklen_t octets = store_address(name, address, kRocePort, 0);
  const int other = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(other, &name.base, octets), 0);
  UdpLink link;
  EXPECT_EQ(test::open_on(link, {{.gid = address}}).error(), Errc::kAddressInUse);
  EXPECT_TRUE(link.descriptors().empty());
  ::close(other);
  EXPECT_TRUE(test::open_on(link, {{.gid = address}}).ok());
}

TEST(UdpLinkSystem, AnotherUserCannotShareThePort) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const wire::Gid address = own_address(0);
  UdpLink link;
  ASSERT_TRUE(test::open_on(link, {{.gid = address}}).ok());
  const int ended = test::in_a_child([&] {
    ASSERT_EQ(::setuid(65534), 0);
    UdpLink strangers;
    const Status opened = test::open_on(strangers, {{.gid = address}}, 1);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error(), Errc::kAddressInUse);
  });
  EXPECT_EQ(ended, 0);
}

TEST(UdpLinkSystem, LeavesOutAnAddressThatTheHostDoesNotHave) {
  const wire::Gid foreign = test::ipv4(203, 0, 113, 77);
  const wire::Gid made_up = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x74, 0x62, 1, 2, 3, 4, 5, 6}};
  UdpLink link;
  EXPECT_EQ(test::open_on(link, {}).error(), Errc::kNoDevice);
  EXPECT_EQ(test::open_on(link, {{.gid = foreign}}).error(), Errc::kNoDevice);
  ASSERT_TRUE(test::open_on(link, {{.gid = made_up, .scope = test::kLoopbackIndex},
                                   {.gid = own_address(0)},
                                   {.gid = foreign}})
                  .ok());
  EXPECT_EQ(link.descriptors().size(), 1U);
  EXPECT_EQ(link.source_port(foreign, 0), 0);
  EXPECT_EQ(link.source_port(made_up, 0), 0);
  EXPECT_NE(link.source_port(own_address(0), 0), 0);
}

TEST(UdpLinkSystem, CarriesIpv6) {
  in_a_private_network([] {
    UdpLink link;
    const wire::Gid address = test::ipv6_loopback();
    ASSERT_TRUE(test::open_on(link, {{.gid = address}}).ok());
    link.tell_headers();
    Outgoing to = path_between(link, address, address);
    for (std::uint64_t i = 0; i < Burst::kTrains; ++i) {
      to.traffic_class = static_cast<std::uint8_t>(i);
      to.hop_limit = static_cast<std::uint8_t>(i + 50);
      put(link, to, sealed_packet(to, 60, i));
    }
    const auto got = take(link, Burst::kTrains);
    ASSERT_EQ(got.size(), Burst::kTrains);
    for (std::uint64_t i = 0; i < Burst::kTrains; ++i) {
      EXPECT_EQ(got[i].octets, sealed_packet(to, 60, i));
      EXPECT_EQ(got[i].packet.source, address);
      EXPECT_EQ(got[i].packet.destination, address);
      EXPECT_EQ(got[i].packet.source_port, to.source_port);
      EXPECT_EQ(got[i].packet.traffic_class, i);
      EXPECT_EQ(got[i].packet.hop_limit, i + 50);
    }
  });
}

TEST(UdpLinkSystem, TakesIpv6PacketsWithoutAUdpChecksum) {
  in_a_private_network([] {
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = test::ipv6_loopback()}}).ok());
    const int peer = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    constexpr int kUdpNoCheck6Tx = 101;
    const int on = 1;
    ASSERT_EQ(::setsockopt(peer, IPPROTO_UDP, kUdpNoCheck6Tx, &on, sizeof on), 0);
    SocketAddress to;
    const socklen_t octets = store_address(to, test::ipv6_loopback(), kRocePort, 0);
    ASSERT_EQ(::sendto(peer, "no checksum here", 16, 0, &to.base, octets), 16);
    EXPECT_EQ(take(link, 1).size(), 1U);
    ::close(peer);
  });
}

TEST(UdpLinkSystem, CarriesLinkLocalAddresses) {
  in_a_private_network([] {
    const wire::Gid left = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11}};
    const wire::Gid right = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x22}};
    ASSERT_TRUE(test::add_ipv6_to_loopback(left));
    ASSERT_TRUE(test::add_ipv6_to_loopback(right));
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = left, .scope = test::kLoopbackIndex},
                                     {.gid = right, .scope = test::kLoopbackIndex}})
                    .ok());
    ASSERT_EQ(link.descriptors().size(), 2U);
    put(link, path_between(link, left, right), packet_for_slot(0, 1));
    link.flush(test::now());
    const auto got = take(link, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].packet.source, left);
    EXPECT_EQ(got[0].packet.destination, right);
  });
}

TEST(UdpLinkSystem, Ipv4HeadersAreWhatTheIcrcWasComputedOver) {
  in_a_private_network([] {
    const wire::Gid from = test::ipv4(127, 0, 0, 1);
    const wire::Gid to = test::ipv4(127, 0, 0, 2);
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = from}, {.gid = to}}).ok());
    const int raw = ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
    if (raw < 0) ::_exit(test::kSkipped);
    constexpr std::uint64_t kPackets = 2 * Burst::kTrains + 5;
    Outgoing path = path_between(link, from, to);
    const auto sealed = [&](std::uint64_t i) { return sealed_packet(path, 64 + i, i); };
    for (std::uint64_t i = 0; i < kPackets; ++i) put(link, path, sealed(i));
    link.flush(test::now());
    const auto seed = wire::IcrcSeed::roce_v2(from, to, path.source_port);
    const auto got = take(link, kPackets);
    ASSERT_EQ(got.size(), kPackets);
    for (std::uint64_t i = 0; i < kPackets; ++i) {
      EXPECT_EQ(wire::verify_icrc(seed, got[i].octets), std::optional<std::uint16_t>(0));
      std::array<std::byte, 2048> datagram{};
      const ssize_t octets = ::recv(raw, datagram.data(), datagram.size(), MSG_DONTWAIT);
      ASSERT_GT(octets, 0);
      const auto parsed =
          wire::RoceDatagram::parse(std::span(datagram).first(static_cast<std::size_t>(octets)));
      ASSERT_TRUE(parsed.ok());
      EXPECT_EQ(parsed->envelope.ipv4_identification, 0);
      EXPECT_TRUE(parsed->dont_fragment);
      EXPECT_EQ(parsed->envelope.source, from);
      EXPECT_EQ(parsed->envelope.destination, to);
      EXPECT_EQ(parsed->envelope.source_port, path.source_port);
      EXPECT_EQ(parsed->transport.size(), got[i].octets.size());
    }
    ::close(raw);
  });
}

TEST(UdpLinkSystem, CountsPacketsThatAreTooLargeForTheInterface) {
  in_a_private_network([] {
    ASSERT_TRUE(test::set_loopback_mtu(1500));
    const wire::Gid address = test::ipv4(127, 0, 0, 1);
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = address}}).ok());
    const Outgoing to = path_between(link, address, address);
    put(link, to, Octets(1472));
    put(link, to, Octets(1473));
    put(link, to, Octets(4000));
    put(link, to, Octets(100));
    link.flush(test::now());
    const auto got = take(link, 2);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(got[0].octets.size(), 1472U);
    EXPECT_EQ(got[1].octets.size(), 100U);
    EXPECT_EQ(link.counters().packets_sent, 2U);
    EXPECT_EQ(link.counters().too_large, 2U);
    EXPECT_EQ(link.counters().send_failures, 0U);
  });
}

TEST(UdpLinkSystem, NothingArrivesAtASendingSocket) {
  const wire::Gid address = own_address(0);
  auto sender = UdpSocket::open_sender({.gid = address}, 0);
  ASSERT_TRUE(sender.ok());
  SocketAddress name;
  socklen_t octets = sizeof name;
  ASSERT_EQ(::getsockname(sender->descriptor(), &name.base, &octets), 0);
  const int peer = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::sendto(peer, "hello", 5, 0, &name.base, octets), 5);
  ::close(peer);
  pollfd readable{.fd = sender->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, test::kDoubtMs), 0);
}

TEST(UdpLinkSystem, DescriptorsDoNotBlockAndAreNotInheritedByAnotherProgram) {
  UdpLink link;
  ASSERT_TRUE(test::open_on(link, {{.gid = own_address(0)}}).ok());
  auto sender = UdpSocket::open_sender({.gid = own_address(0)}, 0);
  ASSERT_TRUE(sender.ok());
  for (const int descriptor : {link.descriptors()[0], sender->descriptor()}) {
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST(UdpLinkSystem, LeavesNoDescriptorBehind) {
  const std::size_t before = test::open_descriptor_count();
  for (int i = 0; i < 20; ++i) {
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = own_address(0)}, {.gid = own_address(1)}}).ok());
    EXPECT_EQ(test::open_descriptor_count(), before + 2 * (1 + UdpLink::kSourcePorts));
    UdpLink refused;
    EXPECT_FALSE(test::open_on(refused, {{.gid = test::ipv4(203, 0, 113, 77)}}).ok());
    if (i % 2 == 0) link.close();
  }
  EXPECT_EQ(test::open_descriptor_count(), before);
}

}  // namespace
}  // namespace verbatim::link
