// SPDX-License-Identifier: Apache-2.0
#include "fabric/data/data_flight.h"

#include <gtest/gtest.h>

#include <vector>

#include "fabric/data/test_subnet.h"

namespace verbatim::fabric {
namespace {

using std::chrono::milliseconds;
using test::star;
using test::TestSubnet;
using test::tree;
using Kind = DataOutcome::Kind;

constexpr FabricOptions kSlow{.hop_delay = milliseconds(1)};

std::vector<DataOutcome> outcomes(TestSubnet& test) {
  std::vector<DataOutcome> all;
  while (const auto outcome = test.fabric.poll_data()) all.push_back(*outcome);
  return all;
}

TEST(DataFlight, EachLinkTakesItsTime) {
  TestSubnet test(tree("2x1"), kSlow);
  const DataPacket packet = test.packet("h0", "h1");
  test.fabric.post_data(test.now, test.host("h0"), packet);
  test.wait(milliseconds(3) - Duration(1));
  EXPECT_FALSE(test.fabric.poll_data());
  ASSERT_TRUE(test.fabric.next_due());
  EXPECT_EQ(*test.fabric.next_due(), test.now + Duration(1));
  test.wait(Duration(1));
  EXPECT_EQ(
      outcomes(test),
      (std::vector<DataOutcome>{
          {.handle = packet.handle, .kind = Kind::kArrived, .blocks = 7, .port = test.host("h1")},
          {.handle = packet.handle, .kind = Kind::kDone}}));
  EXPECT_FALSE(test.fabric.next_due());
}

TEST(DataFlight, PacketsArriveInTheOrderInWhichTheyWereSent) {
  TestSubnet test(star("2"), kSlow);
  for (int i = 0; i < 50; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet("h0", "h1"));
    if (i % 3 == 0) test.wait(Duration(1000));
  }
  test.wait(milliseconds(10));
  const auto all = outcomes(test);
  ASSERT_EQ(all.size(), 100U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].handle, all[0].handle + i / 2);
}

TEST(DataFlight, ALinkThatGoesDownLosesWhatIsOnIt) {
  TestSubnet test(star("2"), kSlow);
  const DataPacket first = test.packet("h0", "h1");
  test.fabric.post_data(test.now, test.host("h0"), first);
  test.wait(milliseconds(1));  // on the second link now
  test.fabric.set_cable(test.now, test.leaf(2), false);
  test.wait(milliseconds(5));
  EXPECT_EQ(outcomes(test),
            (std::vector<DataOutcome>{{.handle = first.handle, .kind = Kind::kDone}}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kPortDown), 1U);
}

TEST(DataFlight, ANodeWithoutPowerLosesWhatIsForIt) {
  TestSubnet test(star("2"), kSlow);
  const DataPacket packet = test.packet("h0", "h1");
  test.fabric.post_data(test.now, test.host("h0"), packet);
  test.fabric.set_power(test.now, test.node("leaf0"), false);
  test.wait(milliseconds(5));
  EXPECT_EQ(outcomes(test),
            (std::vector<DataOutcome>{{.handle = packet.handle, .kind = Kind::kDone}}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kNodeOff), 1U);
}

TEST(DataFlight, AGroupIsDoneAfterItsLastArrival) {
  TestSubnet test(tree("2x2"), kSlow);
  const std::uint8_t trunk = test.port_to("leaf0", "leaf1").port;
  test.set_group("leaf0", {1, 2, trunk});
  test.set_group("leaf1", {1, 2, test.fabric.peer_of(test.leaf(trunk))->port});
  EXPECT_EQ(test.deliver("h0", TestSubnet::kGroup).size(), 4U);
}

TEST(DataFlight, NoMorePacketsAreOnALinkThanTheReceiverHasRoomFor) {
  TestSubnet test(star("2"), kSlow);
  for (int i = 0; i < 50; ++i) {
    test.fabric.post_data(test.now, test.host("h0"), test.packet("h0", "h1"));
  }
  EXPECT_EQ(test.fabric.lane_state(test.host("h0"), {}).queued_packets, 50U - 256 / 7);
  test.wait(milliseconds(2));
  EXPECT_EQ(outcomes(test).size(), 2U * (256 / 7));
  test.wait(milliseconds(1));
  EXPECT_EQ(outcomes(test).size(), 2U * (50 - 256 / 7));
}

}  // namespace
}  // namespace verbatim::fabric
