// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fabric/routing/plan_routes.h"
#include "fabric/routing/wiring.h"
#include "fabric/topology/generate.h"
#include "fabric/topology/topology.h"

/// Topologies and plans for tests of routes. Nothing but tests includes this.
namespace verbatim::fabric::test {

/// "ring:6", "tree:4x2", "fat-tree:4x2/2", "torus:4x4".
inline Topology shaped(std::string_view shape) {
  const std::size_t colon = shape.find(':');
  const std::string_view kind = shape.substr(0, colon);
  const std::string_view rest = shape.substr(colon + 1);
  std::string message;
  auto topology = kind == "ring"       ? ring_topology(rest, LinkRate{}, message)
                  : kind == "tree"     ? tree_topology(rest, LinkRate{}, message)
                  : kind == "fat-tree" ? fat_tree_topology(rest, LinkRate{}, message)
                                       : torus_topology(rest, LinkRate{}, message);
  EXPECT_TRUE(topology) << message;
  return std::move(topology).value();
}

inline SubnetPlan planned(const Topology& topology, Routing routing) {
  std::string message;
  auto plan = plan_routes(topology, routing, message);
  EXPECT_TRUE(plan) << message;
  return std::move(plan).value();
}

inline std::uint32_t node_of(const Topology& topology, std::string_view id) {
  const auto found = std::ranges::find(topology.nodes, id, &TopologyNode::description);
  EXPECT_NE(found, topology.nodes.end()) << id;
  return static_cast<std::uint32_t>(found - topology.nodes.begin());
}

/// The links of the way from an adapter to a LID; 0: it does not arrive at the adapter `to`.
inline std::size_t hops_between(const Wiring& wiring, const SubnetPlan& plan, PortEnd from,
                                PortEnd to, wire::Lid lid) {
  std::optional<PortEnd> at = wiring.peer_of(from);
  for (std::size_t hops = 1; at && hops < 64; ++hops) {
    if (*at == to) return hops;
    if (!wiring.is_switch(at->node)) return 0;
    const std::uint8_t out = plan.port_for(at->node, lid);
    if (out == 0 || out > wiring.last_port(at->node)) return 0;
    at = wiring.peer_of({.node = at->node, .port = out});
  }
  return 0;
}

}  // namespace verbatim::fabric::test
