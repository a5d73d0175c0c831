// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/deadlock_finder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace verbatim::fabric {
namespace {

using std::chrono::microseconds;

constexpr Instant at(int time) noexcept { return Instant{} + microseconds(time); }
constexpr LaneEnd lane(std::uint32_t node, std::uint8_t port, std::uint8_t number = 0) noexcept {
  return {.port = {.node = node, .port = port}, .lane = wire::VirtualLane{number}};
}

/// Switches in a ring: port 2 of each leads to port 1 of the next.
constexpr std::uint32_t kRing = 4;
LaneWait in_ring(std::uint32_t node, int since = 1) {
  return {.out = lane(node, 2),
          .since = at(since),
          .packets = 3,
          .buffer = lane((node + 1) % kRing, 1),
          .sources = {lane(node, 1)}};
}
std::vector<LaneWait> ring() {
  std::vector<LaneWait> waits;
  for (std::uint32_t node = 0; node < kRing; ++node) waits.push_back(in_ring(node));
  return waits;
}

TEST(DeadlockFinder, FindsNoneWhereNothingWaits) { EXPECT_TRUE(find_deadlocks({}).empty()); }

TEST(DeadlockFinder, FindsLanesThatWaitForEachOther) {
  auto waits = ring();
  waits[2].since = at(7);
  std::swap(waits[0], waits[3]);
  const auto found = find_deadlocks(waits);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cycle, (LaneCycle{lane(0, 2), lane(1, 2), lane(2, 2), lane(3, 2)}));
  EXPECT_EQ(found[0].since, at(7));
  EXPECT_EQ(found[0].lanes, 4U);
  EXPECT_EQ(found[0].packets, 12U);
}

TEST(DeadlockFinder, ALaneThatWaitsForItsTurnGoesOn) {
  auto waits = ring();
  waits[1].buffer.reset();
  EXPECT_TRUE(find_deadlocks(waits).empty());
}

TEST(DeadlockFinder, ABufferThatNoWaitingPacketFillsIsEmptiedByItsAdapter) {
  auto waits = ring();
  waits[1].buffer = lane(9, 1);
  EXPECT_TRUE(find_deadlocks(waits).empty());
}

TEST(DeadlockFinder, ABufferWithPacketsForAnotherLaneGetsRoomFromThere) {
  auto waits = ring();
  waits.push_back({.out = lane(2, 5), .sources = {lane(2, 1)}});
  EXPECT_TRUE(find_deadlocks(waits).empty());
}

TEST(DeadlockFinder, PacketsForAnotherLaneThatIsStuckDoNotHelp) {
  auto waits = ring();
  waits.push_back({.out = lane(2, 5), .packets = 1, .buffer = lane(0, 1), .sources = {lane(2, 1)}});
  const auto found = find_deadlocks(waits);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cycle.size(), 3U);  // 0, 1, 2 by port 5
  EXPECT_EQ(found[0].lanes, 5U);
  EXPECT_EQ(found[0].packets, 13U);
}

TEST(DeadlockFinder, LanesBehindADeadlockAreStuckButNotInTheCycle) {
  auto waits = ring();
  waits.push_back({.out = lane(8, 1), .packets = 9, .buffer = lane(0, 1)});
  const auto found = find_deadlocks(waits);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cycle.size(), 4U);
  EXPECT_EQ(found[0].lanes, 5U);
  EXPECT_EQ(found[0].packets, 21U);
}

TEST(DeadlockFinder, OtherLanesOfTheSameLinksDoNotWait) {
  auto waits = ring();
  waits[3].buffer = lane(0, 1, 1);
  EXPECT_TRUE(find_deadlocks(waits).empty());
}

}  // namespace
}  // namespace verbatim::fabric
