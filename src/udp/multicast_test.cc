// SPDX-License-Identifier: Apache-2.0
// Groups that a link joins: which sockets get the packets to a group.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include <cstdlib>

#include "udp/test_network.h"
#include "udp/udp_link.h"
#include "udp/udp_table.h"

namespace verbatim::link {
namespace {

using test::in_a_private_network;
using test::ipv4;
using test::Octets;
using test::put;
using test::take;

const wire::Gid kHome = ipv4(127, 0, 0, 1);
const LocalAddress kGroup{.gid = ipv4(239, 1, 2, 3), .scope = test::kLoopbackIndex};

void send_to(UdpLink& link, const wire::Gid& source, const wire::Gid& group, const Octets& octets) {
  put(link, {.source = source, .destination = group, .source_port = link.source_port(source, 0)},
      octets);
  link.flush(test::now());
}

TEST(Multicast, EveryLinkThatJoinedGetsACopyAlsoOfItsOwn) {
  in_a_private_network([] {
    UdpLink sender;
    UdpLink other;
    UdpLink outsider;
    ASSERT_TRUE(test::open_on(sender, {{.gid = kHome}}, 0).ok());
    ASSERT_TRUE(test::open_on(other, {{.gid = ipv4(127, 0, 0, 2)}}, 1).ok());
    ASSERT_TRUE(test::open_on(outsider, {{.gid = ipv4(127, 0, 0, 3)}}, 2).ok());
    ASSERT_TRUE(sender.join(kGroup).ok());
    ASSERT_TRUE(other.join(kGroup).ok());
    send_to(sender, kHome, kGroup.gid, Octets(50));
    for (UdpLink* link : {&sender, &other}) {
      const auto got = take(*link, 1);
      ASSERT_EQ(got.size(), 1U);
      EXPECT_EQ(got[0].packet.destination, kGroup.gid);
      EXPECT_EQ(got[0].packet.source, kHome);
      EXPECT_EQ(got[0].octets.size(), 50U);
      EXPECT_TRUE(test::stays_silent(*link));
    }
    EXPECT_TRUE(test::stays_silent(outsider));
  });
}

TEST(Multicast, ASocketThatHasLeftGetsNothing) {
  in_a_private_network([] {
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = kHome}}).ok());
    EXPECT_EQ(link.leave(kGroup).error(), Errc::kNoSuchObject);
    ASSERT_TRUE(link.join(kGroup).ok());
    EXPECT_EQ(link.join(kGroup).error(), Errc::kAlreadyExists);
    EXPECT_EQ(link.descriptors().size(), 2U);
    ASSERT_TRUE(link.leave(kGroup).ok());
    EXPECT_EQ(link.descriptors().size(), 1U);
    EXPECT_EQ(count_sockets(kGroup, kRocePort), 0U);
    send_to(link, kHome, kGroup.gid, Octets(50));
    EXPECT_TRUE(test::stays_silent(link));
    send_to(link, kHome, kHome, Octets(50));
    EXPECT_EQ(take(link, 1).size(), 1U) << "the rest goes on";
  });
}

TEST(Multicast, IsNeitherAPlaceToSendFromNorAnyAddress) {
  in_a_private_network([] {
    UdpLink link;
    EXPECT_EQ(link.join(kGroup).error(), Errc::kInvalidArgument) << "not open";
    ASSERT_TRUE(test::open_on(link, {{.gid = kHome}}).ok());
    EXPECT_EQ(link.join({.gid = kHome, .scope = 1}).error(), Errc::kInvalidArgument);
    EXPECT_EQ(link.leave({.gid = kHome, .scope = 1}).error(), Errc::kNoSuchObject);
    EXPECT_EQ(link.join({.gid = kGroup.gid, .scope = 77}).error(), Errc::kNoDevice);
    ASSERT_TRUE(link.join(kGroup).ok());
    put(link, {.source = kGroup.gid, .destination = kHome, .source_port = 0}, Octets(50));
    link.flush(test::now());
    EXPECT_EQ(link.counters().send_failures, 1U);
  });
}

TEST(Multicast, DifferentUsersMayJoinOneGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  in_a_private_network([] {
    UdpLink ours;
    ASSERT_TRUE(test::open_on(ours, {{.gid = kHome}}).ok());
    ASSERT_TRUE(ours.join(kGroup).ok());
    const int ended = test::in_a_child([] {
      ASSERT_EQ(::setuid(65534), 0);
      UdpLink theirs;
      ASSERT_TRUE(test::open_on(theirs, {{.gid = ipv4(127, 0, 0, 2)}}).ok());
      ASSERT_TRUE(theirs.join(kGroup).ok());
      send_to(theirs, ipv4(127, 0, 0, 2), kGroup.gid, Octets(50));
      EXPECT_EQ(take(theirs, 1).size(), 1U);
    });
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(take(ours, 1).size(), 1U);
  });
}

TEST(Multicast, WorksOverIpv6) {
  in_a_private_network([] {
    if (std::system("ip link add vbm0 type veth peer name vbm1 && ip link set vbm1 up && "
                    "ip link set vbm0 up && ip -6 addr add 2001:db8::1/64 dev vbm0 nodad") != 0) {
      ::_exit(test::kSkipped);
    }
    const std::uint32_t index = ::if_nametoindex("vbm0");
    wire::Gid source{};
    wire::Gid group{};
    ASSERT_EQ(::inet_pton(AF_INET6, "2001:db8::1", source.octets.data()), 1);
    ASSERT_EQ(::inet_pton(AF_INET6, "ff15::4791:1", group.octets.data()), 1);
    UdpLink link;
    ASSERT_TRUE(test::open_on(link, {{.gid = source, .scope = index}}).ok());
    ASSERT_TRUE(link.join({.gid = group, .scope = index}).ok());
    send_to(link, source, group, Octets(50));
    const auto got = take(link, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].packet.destination, group);
    EXPECT_EQ(got[0].packet.source, source);
  });
}

}  // namespace
}  // namespace verbatim::link
