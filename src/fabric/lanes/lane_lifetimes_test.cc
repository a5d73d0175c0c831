// SPDX-License-Identifier: Apache-2.0
// Packets that wait too long in a switch, and subnet management, which waits for no credits.
#include <gtest/gtest.h>

#include <vector>

#include "fabric/lanes/test_lanes.h"

namespace verbatim::fabric {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::at_rate;
using test::kTwoGigabits;
using test::LanesSubnet;
using test::star;
using wire::PortCounter;

constexpr Duration kUnit{4096};
constexpr std::uint8_t kForEver = 31;

/// h1 takes nothing, so three packets lie in its buffer, and others wait in the switch.
class Lifetimes : public testing::Test {
 protected:
  Lifetimes() : test_(star("2"), {.holds_arrivals = true}) {}

  void set_queue_life(std::uint8_t code, std::uint8_t stall_count = 0) {
    test_.change_port(test_.leaf(2), [&](wire::PortInfo& info) {
      info.queue_life = code;
      info.vl_stall_count = stall_count;
    });
  }
  void set_switch_life(std::uint8_t code) {
    test_.set(wire::SmpAttribute::kSwitchInfo, 0,
              wire::SwitchInfo{.linear_top = 63, .life_time = code}, {1});
  }
  void post(int packets) {
    for (int i = 0; i < packets; ++i) {
      test_.fabric.post_data(test_.now, test_.host("h0"), test_.packet_of("h0", "h1", 0, 1030));
    }
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    return test_.fabric.drop_count(reason);
  }
  [[nodiscard]] std::uint64_t counted(PortCounter counter) const {
    return test_.counted(test_.leaf(2), counter);
  }
  LanesSubnet test_;
};

TEST_F(Lifetimes, TheFirstPacketOfALaneIsDiscardedAfterItsTime) {
  set_switch_life(kForEver);
  set_queue_life(4);
  post(5);
  test_.wait(16 * kUnit - Duration(1));
  EXPECT_EQ(counted(PortCounter::kQueueLifeDiscards), 0U);
  test_.wait(Duration(1));
  EXPECT_EQ(dropped(DropReason::kQueueLife), 1U);
  EXPECT_EQ(counted(PortCounter::kQueueLifeDiscards), 1U);
  EXPECT_EQ(counted(PortCounter::kTransmitDiscards), 1U);
  test_.wait(16 * kUnit);
  EXPECT_EQ(dropped(DropReason::kQueueLife), 2U) << "the next one had the same time as the first";
  EXPECT_EQ(test_.lane(test_.host("h0"), 0).credits, 256U);
}

TEST_F(Lifetimes, APacketIsDiscardedAfterItsTimeInTheSwitch) {
  set_switch_life(4);
  set_queue_life(kForEver);
  post(5);
  test_.wait(16 * kUnit);
  EXPECT_EQ(dropped(DropReason::kSwitchLife), 2U);
  EXPECT_EQ(counted(PortCounter::kLifetimeDiscards), 2U);
}

TEST_F(Lifetimes, AreNotThoseOfAdapters) {
  set_switch_life(kForEver);
  set_queue_life(kForEver);
  post(9);
  test_.wait(std::chrono::hours(1));
  EXPECT_EQ(test_.drops(), 0U);
  EXPECT_EQ(test_.lane(test_.host("h0"), 0).queued_packets, 3U);
}

TEST_F(Lifetimes, AreLongerWhereLinksAreSlower) {
  LanesSubnet slow(star("2"), {.slowdown = 10, .holds_arrivals = true});
  slow.change_port(slow.leaf(2), [](wire::PortInfo& info) { info.queue_life = 4; });
  for (int i = 0; i < 4; ++i) {
    slow.fabric.post_data(slow.now, slow.host("h0"), slow.packet_of("h0", "h1", 0, 1030));
  }
  slow.wait(155 * kUnit);
  EXPECT_EQ(slow.fabric.drop_count(DropReason::kQueueLife), 0U);
  slow.wait(15 * kUnit);
  EXPECT_EQ(slow.fabric.drop_count(DropReason::kQueueLife), 1U);
}

TEST_F(Lifetimes, SoManyDiscardsOneAfterTheOtherStallTheLane) {
  set_queue_life(4, 2);
  post(6);
  test_.wait(32 * kUnit);
  EXPECT_EQ(dropped(DropReason::kQueueLife), 2U);
  EXPECT_EQ(dropped(DropReason::kLaneStalled), 1U) << "what was in the lane";
  post(2);
  EXPECT_EQ(dropped(DropReason::kLaneStalled), 3U) << "and what comes";
  EXPECT_EQ(counted(PortCounter::kTransmitDiscards), 5U);
  test_.wait(8 * 16 * kUnit);
  post(1);
  EXPECT_EQ(dropped(DropReason::kLaneStalled), 3U);
  EXPECT_EQ(test_.lane(test_.leaf(2), 0).queued_packets, 1U);
}

TEST_F(Lifetimes, APacketThatLeavesEndsTheCount) {
  set_queue_life(4, 2);
  post(4);
  std::vector<DataOutcome> held;
  while (const auto outcome = test_.fabric.poll_data()) {
    if (outcome->kind == DataOutcome::Kind::kArrived) held.push_back(*outcome);
  }
  test_.wait(16 * kUnit);
  EXPECT_EQ(dropped(DropReason::kQueueLife), 1U);
  post(1);
  test_.fabric.take_arrival(test_.now, held.front());
  post(1);
  test_.wait(16 * kUnit);
  EXPECT_EQ(dropped(DropReason::kQueueLife), 2U);
  EXPECT_EQ(dropped(DropReason::kLaneStalled), 0U);
}

TEST_F(Lifetimes, SubnetManagementPassesALaneThatIsFull) {
  post(9);
  ASSERT_TRUE(test_.ask({.attribute = wire::SmpAttribute::kNodeInfo}, {1, 2}));
}

/// The switch gets datagrams for h1 ten times as fast as they can leave.
TEST(ManagementLane, DiscardsWhatItsBufferHasNoRoomFor) {
  Topology topology = at_rate(star("2"), {LinkWidth::k4x, LinkSpeed::kHdr});
  topology.links[1].rate = kTwoGigabits;
  LanesSubnet test(topology, {.slowdown = 1, .lane_blocks = 66});
  wire::Smp smp{.route = wire::SmpRoute::kLid, .attribute = wire::SmpAttribute::kNodeInfo};
  for (int i = 0; i < 20; ++i) test.send(smp, test.lid("h1"));
  test.wait(milliseconds(1));
  const std::uint64_t dropped = test.counted(test.leaf(1), PortCounter::kLane15Dropped);
  EXPECT_GE(dropped, 4U);
  EXPECT_LE(dropped, 8U) << "thirteen of five blocks fit";
  EXPECT_EQ(test.fabric.drop_count(DropReason::kLane15Full), dropped);
  EXPECT_EQ(test.lane(test.leaf(1), 15).buffered_blocks, 0U);
}

}  // namespace
}  // namespace verbatim::fabric
