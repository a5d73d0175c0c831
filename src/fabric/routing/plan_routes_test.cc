// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/plan_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/prng.h"
#include "fabric/routing/credit_loops.h"
#include "fabric/routing/test_routing.h"

namespace verbatim::fabric::test {
namespace {

std::vector<PortEnd> adapter_ports(const Topology& topology) {
  std::vector<PortEnd> ports;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind == NodeKind::kHost) ports.push_back({.node = node, .port = 1});
  }
  return ports;
}

/// The longest way between two hosts; 0: one does not arrive.
std::size_t longest_way(const Topology& topology, const SubnetPlan& plan) {
  const Wiring wiring(topology);
  std::size_t longest = 0;
  for (const PortEnd from : adapter_ports(topology)) {
    for (const PortEnd to : adapter_ports(topology)) {
      if (from == to) continue;
      const std::size_t hops = hops_between(wiring, plan, from, to, plan.lids_of(to).base);
      if (hops == 0) return 0;
      longest = std::max(longest, hops);
    }
  }
  return longest;
}

/// Connected: each switch but the first has a link to an earlier one.
Topology random_switches(std::uint64_t seed) {
  Prng prng(seed);
  Topology topology;
  constexpr std::uint8_t kPorts = 40;
  const auto switches = static_cast<std::uint32_t>(2 + prng.below(9));
  for (std::uint32_t node = 0; node < 2 * switches; ++node) {
    const bool is_switch = node < switches;
    topology.nodes.push_back({.kind = is_switch ? NodeKind::kSwitch : NodeKind::kHost,
                              .port_count = is_switch ? kPorts : std::uint8_t{1},
                              .id = std::to_string(node),
                              .description = {}});
  }
  std::vector<std::uint8_t> used(switches);
  const auto link = [&](std::uint32_t a, PortEnd b) {
    topology.links.push_back({.a = {.node = a, .port = ++used[a]}, .b = b, .rate = {}});
  };
  for (std::uint32_t node = 1; node < switches; ++node) {
    const auto other = static_cast<std::uint32_t>(prng.below(node));
    link(node, {.node = other, .port = ++used[other]});
  }
  for (std::uint64_t count = prng.below(switches + 1); count > 0; --count) {
    const auto a = static_cast<std::uint32_t>(prng.below(switches));
    const auto b = static_cast<std::uint32_t>(prng.below(switches));
    if (a != b) link(a, {.node = b, .port = ++used[b]});
  }
  for (std::uint32_t node = switches; node < 2 * switches; ++node) {
    if (!prng.one_in(4)) link(node - switches, {.node = node, .port = 1});
  }
  return topology;
}

TEST(PlannedRoutes, GiveEachAdapterPortAndEachSwitchALid) {
  const Topology topology = shaped("tree:2x2");
  const SubnetPlan plan = planned(topology, Routing::kMinHop);
  EXPECT_EQ(plan.lids_of({.node = node_of(topology, "h0"), .port = 1}).base, wire::Lid{1});
  EXPECT_EQ(plan.lids_of({.node = node_of(topology, "h3"), .port = 1}).base, wire::Lid{4});
  EXPECT_EQ(plan.lids_of({.node = node_of(topology, "leaf0")}).base, wire::Lid{5});
  EXPECT_EQ(plan.port_for(node_of(topology, "leaf0"), wire::Lid{5}), 0);
}

TEST(PlannedRoutes, AreShortestWithMinHop) {
  EXPECT_EQ(longest_way(shaped("ring:6"), planned(shaped("ring:6"), Routing::kMinHop)), 5U);
  const Topology tree = shaped("fat-tree:4x4/2");
  EXPECT_EQ(longest_way(tree, planned(tree, Routing::kMinHop)), 4U);
}

TEST(PlannedRoutes, UseLinksThatAreEquallyGoodForEquallyManyHosts) {
  const Topology topology = shaped("fat-tree:4x4/2");
  const SubnetPlan plan = planned(topology, Routing::kMinHop);
  const Wiring wiring(topology);
  const std::uint32_t leaf = node_of(topology, "leaf0");
  std::vector<std::size_t> by_port(topology.nodes[leaf].port_count + std::size_t{1});
  for (const PortEnd to : adapter_ports(topology)) {
    ++by_port[plan.port_for(leaf, plan.lids_of(to).base)];
  }
  EXPECT_EQ(by_port, (std::vector<std::size_t>{0, 1, 1, 1, 1, 6, 6}));
}

TEST(PlannedRoutes, OfUpAndDownUseAllSpinesOfATree) {
  const Topology topology = shaped("fat-tree:4x4/2");
  const SubnetPlan plan = planned(topology, Routing::kUpDown);
  EXPECT_EQ(longest_way(topology, plan), 4U);
  const std::uint32_t leaf = node_of(topology, "leaf3");
  std::size_t over_last = 0;
  for (const PortEnd to : adapter_ports(topology)) {
    if (plan.port_for(leaf, plan.lids_of(to).base) == 6) ++over_last;
  }
  EXPECT_EQ(over_last, 6U);
}

TEST(PlannedRoutes, AreTheSameForEqualTopologies) {
  EXPECT_EQ(planned(shaped("torus:4x4"), Routing::kUpDown).tables,
            planned(shaped("torus:4x4"), Routing::kUpDown).tables);
}

TEST(PlannedRoutes, DoNotReachWhatHasNoCable) {
  Topology topology = shaped("tree:2x2");
  std::erase_if(topology.links, [&](const TopologyLink& link) {
    return topology.nodes[link.a.node].kind == NodeKind::kSwitch &&
           topology.nodes[link.b.node].kind == NodeKind::kSwitch;
  });
  const SubnetPlan plan = planned(topology, Routing::kMinHop);
  EXPECT_EQ(plan.port_for(node_of(topology, "leaf0"), wire::Lid{3}), ForwardingTables::kNoPort);
  EXPECT_EQ(plan.port_for(node_of(topology, "leaf0"), wire::Lid{2}), 2);
}

TEST(PlannedRoutes, RefuseMorePortsThanThereAreLids) {
  Topology topology;
  for (unsigned node = 0; node < 4000; ++node) {
    topology.nodes.push_back({.port_count = 16, .id = std::to_string(node), .description = {}});
  }
  std::string message;
  EXPECT_FALSE(plan_routes(topology, Routing::kMinHop, message));
  EXPECT_NE(message.find("49151"), std::string::npos) << message;
}

TEST(PlannedRoutes, ArriveEverywhereAndLoopNowhereWithUpAndDownOnAnySwitches) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Topology topology = random_switches(seed);
    const Wiring wiring(topology);
    for (const Routing routing : {Routing::kMinHop, Routing::kUpDown}) {
      const auto found =
          find_credit_loops(wiring, planned(topology, routing), wire::ServiceLevel{});
      std::size_t hosts = 0;
      for (const PortEnd port : adapter_ports(topology)) hosts += wiring.peer_of(port) ? 1U : 0U;
      const std::size_t unlinked = adapter_ports(topology).size() - hosts;
      EXPECT_EQ(found.ways, hosts * (hosts + unlinked) - hosts);
      EXPECT_EQ(found.broken_ways, hosts * unlinked);
      if (routing == Routing::kUpDown) {
        EXPECT_TRUE(found.loops.empty());
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::fabric::test
