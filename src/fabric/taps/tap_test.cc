// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "fabric/data/test_subnet.h"

namespace verbatim::fabric {
namespace {

using test::star;
using test::TestSubnet;
using Direction = TappedPacket::Direction;

std::vector<TappedPacket> tapped_of(Fabric& fabric) {
  std::vector<TappedPacket> all;
  while (auto tapped = fabric.poll_tapped()) all.push_back(*tapped);
  return all;
}

TEST(Tap, APortThatIsNotTappedGivesNothing) {
  TestSubnet test(star("2"));
  (void)test.deliver("h0", "h1");
  EXPECT_FALSE(test.fabric.poll_tapped());
}

TEST(Tap, APacketOfAProgramIsSeenWhereItLeavesAndWhereItArrives) {
  TestSubnet test(star("2"));
  test.fabric.set_tap(test.host("h0"), true);
  test.fabric.set_tap(test.leaf(2), true);
  test.now = Instant::at(std::chrono::seconds(3));
  const DataPacket packet = test.packet("h0", "h1");
  (void)test.deliver(test.host("h0"), packet);
  const auto tapped = tapped_of(test.fabric);
  ASSERT_EQ(tapped.size(), 2U);
  EXPECT_EQ(tapped[0].port, test.host("h0"));
  EXPECT_EQ(tapped[1].port, test.leaf(2));
  for (const TappedPacket& each : tapped) {
    EXPECT_EQ(each.direction, Direction::kOut);
    EXPECT_EQ(each.at, Instant::at(std::chrono::seconds(3)));
    EXPECT_EQ(each.handle, packet.handle);
    EXPECT_EQ(each.lane, wire::VirtualLane{0});
    EXPECT_FALSE(each.datagram);
    EXPECT_FALSE(each.is_damaged);
  }
  (void)test.deliver("h1", "h0");
  const auto back = tapped_of(test.fabric);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].port, test.leaf(2));
  EXPECT_EQ(back[0].direction, Direction::kIn);
  EXPECT_EQ(back[1].port, test.host("h0"));
  EXPECT_EQ(back[1].direction, Direction::kIn);
}

TEST(Tap, ManagementDatagramsPassOnTheLaneOfSubnetManagement) {
  TestSubnet test(star("2"));
  test.fabric.set_tap(test.leaf(2), true);
  (void)test.port_info(1, test.path("h1"));
  const auto tapped = tapped_of(test.fabric);
  ASSERT_EQ(tapped.size(), 2U) << "the request and the answer";
  EXPECT_EQ(tapped[0].direction, Direction::kOut);
  EXPECT_EQ(tapped[1].direction, Direction::kIn);
  for (const TappedPacket& each : tapped) {
    EXPECT_EQ(each.lane, wire::VirtualLane::kManagement);
    ASSERT_TRUE(each.datagram);
    EXPECT_EQ(each.datagram->dest_qp, wire::QpNumber::kSmi);
  }
  const auto method = [](const TappedPacket& each) { return each.datagram->view()->method(); };
  EXPECT_EQ(method(tapped[0]), wire::MadMethod::kGet);
  EXPECT_EQ(method(tapped[1]), wire::MadMethod::kGetResp);
}

TEST(Tap, WhatTheLinkLosesHasLeftButDoesNotArrive) {
  TestSubnet test(star("2"));
  for (const PortEnd end : {test.host("h0"), test.leaf(1)}) test.fabric.set_tap(end, true);
  ASSERT_TRUE(test.fabric.set_link_loss(test.leaf(1), 1000));
  EXPECT_EQ(test.discarded("h0", "h1").reason, DropReason::kLossOnPurpose);
  const auto tapped = tapped_of(test.fabric);
  ASSERT_EQ(tapped.size(), 1U);
  EXPECT_EQ(tapped[0].port, test.host("h0"));
}

TEST(Tap, WhatStaysInTheNodeIsOnNoLink) {
  TestSubnet test(star("2"));
  test.fabric.set_tap(test.host("h1"), true);
  (void)test.deliver("h1", "h1");
  EXPECT_FALSE(test.fabric.poll_tapped());
}

TEST(Tap, ItEndsWhenTheOwnerSaysSo) {
  TestSubnet test(star("2"));
  test.fabric.set_tap(test.host("h0"), true);
  (void)test.deliver("h0", "h1");
  test.fabric.set_tap(test.host("h0"), false);
  (void)test.deliver("h0", "h1");
  EXPECT_EQ(tapped_of(test.fabric).size(), 1U);
}

}  // namespace
}  // namespace verbatim::fabric
