// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/topology/topology.h"

/// What tests of topologies share.
namespace verbatim::fabric {

/// The peer of a port; the port itself when it has no link.
inline PortEnd peer_of(const Topology& topology, PortEnd end) {
  for (const TopologyLink& link : topology.links) {
    if (link.a == end) return link.b;
    if (link.b == end) return link.a;
  }
  return end;
}

/// Whether the two have equal nodes, but for their ids, and equal links, in any order.
inline void expect_same(const Topology& a, const Topology& b) {
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  ASSERT_EQ(a.links.size(), b.links.size());
  std::vector<std::uint32_t> other(a.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const TopologyNode& node = a.nodes[i];
    std::size_t j = 0;
    while (j < b.nodes.size() && b.nodes[j].node_guid != node.node_guid) ++j;
    ASSERT_LT(j, b.nodes.size()) << node.id;
    other[i] = static_cast<std::uint32_t>(j);
    EXPECT_EQ(b.nodes[j].kind, node.kind);
    EXPECT_EQ(b.nodes[j].description, node.description);
    EXPECT_EQ(b.nodes[j].port_count, node.port_count);
    EXPECT_EQ(b.nodes[j].system_guid, node.system_guid);
    EXPECT_EQ(b.nodes[j].port_guids, node.port_guids);
    EXPECT_EQ(b.nodes[j].vendor_id, node.vendor_id);
    EXPECT_EQ(b.nodes[j].device_id, node.device_id);
    EXPECT_EQ(b.nodes[j].has_enhanced_port0, node.has_enhanced_port0);
  }
  for (const TopologyLink& link : a.links) {
    const PortEnd here{other[link.a.node], link.a.port};
    const PortEnd there{other[link.b.node], link.b.port};
    EXPECT_EQ(peer_of(b, here), there);
  }
}

}  // namespace verbatim::fabric
