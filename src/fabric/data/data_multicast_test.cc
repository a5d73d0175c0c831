// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fabric/data/test_subnet.h"

namespace verbatim::fabric {
namespace {

using test::star;
using test::TestSubnet;
using test::tree;
using wire::PortCounter;

using Ports = std::vector<PortEnd>;

TEST(DataMulticast, ThePortsOfTheTableAndTheSenderGetThePacket) {
  TestSubnet test(star("4"));
  test.set_group("leaf0", {1, 2, 3, 4});
  EXPECT_EQ(test.deliver("h1", TestSubnet::kGroup),
            (Ports{test.host("h1"), test.host("h0"), test.host("h2"), test.host("h3")}));
  test.set_group("leaf0", {1, 2});
  EXPECT_EQ(test.deliver("h1", TestSubnet::kGroup), (Ports{test.host("h1"), test.host("h0")}));
  EXPECT_EQ(test.deliver("h3", TestSubnet::kGroup),
            (Ports{test.host("h3"), test.host("h0"), test.host("h1")}))
      << "a sender need not be in the table";
  EXPECT_EQ(test.drops(), 0U);
}

TEST(DataMulticast, TheOnlyPortOfAGroupGetsItsPacketsItself) {
  TestSubnet test(star("2"));
  test.set_group("leaf0", {2});
  EXPECT_EQ(test.deliver("h1", TestSubnet::kGroup), Ports{test.host("h1")});
  EXPECT_EQ(test.drops(), 0U);
}

TEST(DataMulticast, WithoutAPortInTheTableThePacketIsDiscarded) {
  TestSubnet test(star("2"));
  EXPECT_EQ(test.deliver("h1", TestSubnet::kGroup), Ports{test.host("h1")});
  EXPECT_EQ(test.fabric.drop_count(DropReason::kNoRoute), 1U);
  EXPECT_EQ(test.counted(test.leaf(2), PortCounter::kSwitchRelayErrors), 1U);
}

TEST(DataMulticast, APortThatIsNotActiveGetsNothing) {
  TestSubnet test(star("3"));
  test.set_group("leaf0", {1, 2, 3});
  test.fabric.set_cable(test.now, test.leaf(2), false);
  EXPECT_EQ(test.deliver("h0", TestSubnet::kGroup), (Ports{test.host("h0"), test.host("h2")}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kPortDown), 1U);
  EXPECT_EQ(test.discarded("h1", TestSubnet::kGroup).reason, DropReason::kPortDown);
}

TEST(DataMulticast, PortZeroOfASwitchTakesNoData) {
  TestSubnet test(star("2"));
  test.set_group("leaf0", {0, 1});
  EXPECT_EQ(test.deliver("h1", TestSubnet::kGroup), (Ports{test.host("h1"), test.host("h0")}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kUnclaimed), 1U);
}

TEST(DataMulticast, ItHasCountersOfItsOwn) {
  TestSubnet test(star("3"));
  test.set_group("leaf0", {1, 2, 3});
  (void)test.deliver("h1", TestSubnet::kGroup);
  EXPECT_EQ(test.counted(test.host("h1"), PortCounter::kMulticastTransmitPackets), 1U);
  EXPECT_EQ(test.counted(test.leaf(2), PortCounter::kMulticastReceivePackets), 1U);
  EXPECT_EQ(test.counted(test.leaf(2), PortCounter::kMulticastTransmitPackets), 0U);
  EXPECT_EQ(test.counted(test.leaf(3), PortCounter::kMulticastTransmitPackets), 1U);
  EXPECT_EQ(test.counted(test.host("h2"), PortCounter::kMulticastReceivePackets), 1U);
}

TEST(DataMulticast, CopiesGoOverSeveralSwitches) {
  TestSubnet test(tree("3x2"));
  for (const std::string_view leaf : {"leaf0", "leaf1", "leaf2"}) {
    test.set_group(leaf, {1, 2, test.port_to(leaf, "spine0").port});
  }
  test.set_group("spine0",
                 {test.port_to("spine0", "leaf0").port, test.port_to("spine0", "leaf1").port,
                  test.port_to("spine0", "leaf2").port});
  Ports ports = test.deliver("h3", TestSubnet::kGroup);
  ASSERT_EQ(ports.size(), 6U);
  for (const std::string_view host : {"h0", "h1", "h2", "h3", "h4", "h5"}) {
    EXPECT_EQ(std::ranges::count(ports, test.host(host)), 1) << host;
  }
  EXPECT_EQ(test.drops(), 0U);
}

TEST(DataMulticast, TablesThatLoopEndAPacketThoughItsCopiesBecomeMore) {
  TestSubnet test(tree("3x2"));
  for (const std::string_view node : {"leaf0", "leaf1", "leaf2", "spine0"}) {
    test.set_group(node, {1, 2, 3, 4, 5, 6, 7});
  }
  EXPECT_LE(test.deliver("h0", TestSubnet::kGroup).size(), test.fabric.topology().links.size() + 1);
  EXPECT_GT(test.fabric.drop_count(DropReason::kHopLimit), 0U);
}

TEST(DataMulticast, LidsAboveTheTableHaveADefaultPort) {
  TestSubnet test(star("3"));
  constexpr wire::Lid kAbove{0xd000};
  test.set(wire::SmpAttribute::kSwitchInfo, 0,
           wire::SwitchInfo{.linear_top = 63,
                            .default_multicast_primary_port = 2,
                            .default_multicast_not_primary_port = 3},
           test.path("leaf0"));
  EXPECT_EQ(test.deliver("h0", kAbove), (Ports{test.host("h0"), test.host("h1")}));
  EXPECT_EQ(test.deliver("h1", kAbove), (Ports{test.host("h1"), test.host("h2")}));
}

}  // namespace
}  // namespace verbatim::fabric
