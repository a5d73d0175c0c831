// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/credit_loops.h"

#include <gtest/gtest.h>

#include "fabric/routing/test_routing.h"

namespace verbatim::fabric::test {
namespace {

constexpr wire::ServiceLevel kLevel0{};
constexpr wire::ServiceLevel kLevel1{1};

CreditLoops loops_of(const Topology& topology, const SubnetPlan& plan,
                     wire::ServiceLevel level = kLevel0) {
  return find_credit_loops(Wiring(topology), plan, level);
}

TEST(CreditLoops, OfShortestWaysInARingGoAroundItBothWays) {
  const Topology topology = shaped("ring:6");
  const CreditLoops found = loops_of(topology, planned(topology, Routing::kMinHop));
  EXPECT_EQ(found.ways, 30U);
  EXPECT_EQ(found.broken_ways, 0U);
  ASSERT_EQ(found.loops.size(), 2U);
  const Wiring wiring(topology);
  for (const LaneCycle& loop : found.loops) {
    ASSERT_EQ(loop.size(), 6U);
    for (std::size_t at = 0; at < loop.size(); ++at) {
      EXPECT_EQ(wiring.peer_of(loop[at].port)->node, loop[(at + 1) % loop.size()].port.node);
      EXPECT_EQ(loop[at].lane, wire::VirtualLane{});
    }
  }
}

TEST(CreditLoops, DoNotExistWithUpAndDown) {
  for (const char* shape : {"ring:6", "torus:4x4", "torus:3x3x3", "fat-tree:4x2/2"}) {
    const Topology topology = shaped(shape);
    const CreditLoops found = loops_of(topology, planned(topology, Routing::kUpDown));
    EXPECT_TRUE(found.loops.empty()) << shape;
    EXPECT_EQ(found.broken_ways, 0U) << shape;
  }
}

TEST(CreditLoops, DoNotExistInTreesWithAnyRouting) {
  for (const char* shape : {"tree:2x2", "tree:4x2", "fat-tree:8x8/4"}) {
    const Topology topology = shaped(shape);
    EXPECT_TRUE(loops_of(topology, planned(topology, Routing::kMinHop)).loops.empty()) << shape;
  }
}

/// All that goes around the ring in one direction has this octet of lanes there.
SubnetPlan ring_with_lanes(const Topology& topology, std::byte lanes) {
  SubnetPlan plan = planned(topology, Routing::kMinHop);
  const LaneCycle loop = loops_of(topology, plan).loops.front();
  const Wiring wiring(topology);
  SwitchPart::LaneMap map{};
  map.fill(lanes);
  for (const LaneEnd& lane : loop) {
    for (std::uint8_t in = 0; in <= wiring.last_port(lane.port.node); ++in) {
      plan.lanes.push_back({.out = lane.port, .in = in, .lanes = map});
    }
  }
  return plan;
}

TEST(CreditLoops, AreOnTheLanesOfTheirLevel) {
  const Topology topology = shaped("ring:6");
  const CreditLoops first = loops_of(topology, planned(topology, Routing::kMinHop), kLevel1);
  ASSERT_EQ(first.loops.size(), 2U);
  EXPECT_EQ(first.loops[0].front().lane, wire::VirtualLane{1});
  const CreditLoops second =
      loops_of(topology, ring_with_lanes(topology, std::byte{0x02}), kLevel1);
  ASSERT_EQ(second.loops.size(), 2U);
  for (const LaneEnd& lane : second.loops[0]) EXPECT_EQ(lane.lane, wire::VirtualLane{2});
  for (const LaneEnd& lane : second.loops[1]) EXPECT_EQ(lane.lane, wire::VirtualLane{1});
}

TEST(CreditLoops, DoNotExistWhereNoPacketOfTheLevelGoesOn) {
  const Topology topology = shaped("ring:6");
  const SubnetPlan plan = ring_with_lanes(topology, std::byte{0x0f});
  EXPECT_EQ(loops_of(topology, plan, kLevel1).loops.size(), 1U);
  EXPECT_GT(loops_of(topology, plan, kLevel1).broken_ways, 0U);
  EXPECT_EQ(loops_of(topology, plan, kLevel0).loops.size(), 2U);
  EXPECT_EQ(loops_of(topology, plan, kLevel0).broken_ways, 0U);
}

TEST(CreditLoops, WaysOfALevelThatHasNoLaneDoNotArrive) {
  const Topology topology = shaped("tree:1x2");
  SubnetPlan plan = planned(topology, Routing::kMinHop);
  SwitchPart::LaneMap map{};
  map.fill(std::byte{0xff});
  plan.lanes.push_back({.out = {.node = node_of(topology, "h0"), .port = 1}, .lanes = map});
  const CreditLoops found = loops_of(topology, plan);
  EXPECT_EQ(found.ways, 2U);
  EXPECT_EQ(found.broken_ways, 1U);
}

TEST(CreditLoops, WaysThatGoInACircleAreBroken) {
  const Topology topology = shaped("ring:6");
  SubnetPlan plan = planned(topology, Routing::kMinHop);
  const wire::Lid lid = plan.lids_of({.node = node_of(topology, "h3"), .port = 1}).base;
  const Wiring wiring(topology);
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (!wiring.is_switch(node)) continue;
    for (std::uint8_t port = 1; port <= wiring.last_port(node); ++port) {
      const auto peer = wiring.peer_of({.node = node, .port = port});
      const std::uint32_t first = node_of(topology, "sw0");
      if (peer && peer->node == (node - first + 1) % 6 + first) plan.set_port(node, lid, port);
    }
  }
  EXPECT_EQ(loops_of(topology, plan).broken_ways, 5U);
}

}  // namespace
}  // namespace verbatim::fabric::test
