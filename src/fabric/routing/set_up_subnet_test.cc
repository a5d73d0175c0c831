// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/set_up_subnet.h"

#include <gtest/gtest.h>

#include "fabric/routing/test_routing.h"
#include "wire/management/port_info.h"

namespace verbatim::fabric::test {
namespace {

/// A fabric that is set up by a plan.
struct SubnetOf {
  explicit SubnetOf(const Topology& topology, SubnetPlan wanted,
                    const SubnetSettings& settings = {})
      : plan(std::move(wanted)), fabric(topology) {
    std::string message;
    EXPECT_TRUE(set_up_subnet(fabric, Instant{}, plan, settings, message)) << message;
  }
  [[nodiscard]] wire::PortInfo port_info(PortEnd at, std::uint8_t port) {
    const auto answer = fabric.administer(Instant{}, at,
                                          {.route = wire::SmpRoute::kLid,
                                           .attribute = wire::SmpAttribute::kPortInfo,
                                           .attribute_modifier = port});
    EXPECT_TRUE(answer);
    return wire::PortInfo::from(answer->data);
  }
  SubnetPlan plan;
  Fabric fabric;
};

TEST(SubnetSetUp, MakesAllPortsActive) {
  const Topology topology = shaped("fat-tree:4x4/2");
  const SubnetOf set_up(topology, planned(topology, Routing::kMinHop));
  const PortCensus census = set_up.fabric.census();
  EXPECT_EQ(census.active, census.cabled);
  EXPECT_EQ(census.cabled, 2 * topology.links.size());
}

TEST(SubnetSetUp, WritesThePlanThatTheFabricThenHas) {
  for (const char* shape : {"ring:6", "tree:4x2", "torus:4x4"}) {
    const Topology topology = shaped(shape);
    const SubnetOf set_up(topology, planned(topology, Routing::kUpDown));
    const SubnetPlan has = plan_of(set_up.fabric);
    EXPECT_EQ(has.lids, set_up.plan.lids);
    EXPECT_EQ(has.tables, set_up.plan.tables);
  }
}

TEST(SubnetSetUp, PacketsArrive) {
  const Topology topology = shaped("tree:4x2");
  SubnetOf set_up(topology, planned(topology, Routing::kMinHop));
  const PortEnd from{.node = node_of(topology, "h0"), .port = 1};
  const PortEnd to{.node = node_of(topology, "h7"), .port = 1};
  set_up.fabric.post_data(Instant{}, from,
                          {.handle = 7,
                           .source = set_up.plan.lids_of(from).base,
                           .destination = set_up.plan.lids_of(to).base,
                           .words = 100});
  const auto outcome = set_up.fabric.poll_data();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, DataOutcome::Kind::kArrived);
  EXPECT_EQ(outcome->port, to);
}

TEST(SubnetSetUp, WritesTheLivesOfPacketsAsOpensmDoes) {
  const Topology topology = shaped("tree:2x2");
  SubnetOf set_up(topology, planned(topology, Routing::kMinHop),
                  {.queue_life = 3, .queue_life_to_host = 2, .stall_count = 5});
  const PortEnd leaf{.node = node_of(topology, "leaf0")};
  EXPECT_EQ(set_up.port_info(leaf, 1).queue_life, 2);
  EXPECT_EQ(set_up.port_info(leaf, 3).queue_life, 3);
  EXPECT_EQ(set_up.port_info(leaf, 3).vl_stall_count, 5);
}

TEST(SubnetSetUp, WritesLanes) {
  const Topology topology = shaped("tree:2x2");
  SubnetPlan plan = planned(topology, Routing::kMinHop);
  SwitchPart::LaneMap map{};
  map.fill(std::byte{0x35});
  const PortEnd leaf{.node = node_of(topology, "leaf0")};
  const PortEnd host{.node = node_of(topology, "h0"), .port = 1};
  plan.lanes.push_back({.out = {.node = leaf.node, .port = 3}, .in = 1, .lanes = map});
  plan.lanes.push_back({.out = host, .lanes = map});
  SubnetOf set_up(topology, plan);
  const auto lanes_at = [&](PortEnd at, std::uint32_t modifier) {
    return set_up.fabric
        .administer(Instant{}, at,
                    {.route = wire::SmpRoute::kLid,
                     .attribute = wire::SmpAttribute::kSlToVlTable,
                     .attribute_modifier = modifier})
        ->data[0];
  };
  EXPECT_EQ(lanes_at(leaf, 0x0103), std::byte{0x35});
  EXPECT_EQ(lanes_at(leaf, 0x0203), std::byte{0x01});
  EXPECT_EQ(lanes_at(host, 0), std::byte{0x35});
}

TEST(SubnetSetUp, NamesWhatANodeRefuses) {
  const Topology topology = shaped("tree:1x2");
  SubnetPlan plan = planned(topology, Routing::kMinHop);
  plan.lids_of({.node = node_of(topology, "h1"), .port = 1}).base = wire::Lid{0xc001};
  Fabric fabric(topology);
  std::string message;
  EXPECT_FALSE(set_up_subnet(fabric, Instant{}, plan, {}, message));
  EXPECT_NE(message.find("port 1 refuses attribute 21"), std::string::npos) << message;
}

}  // namespace
}  // namespace verbatim::fabric::test
