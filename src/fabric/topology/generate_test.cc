// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/generate.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>

#include "fabric/topology/read_topology.h"
#include "fabric/topology/test_topology.h"
#include "fabric/topology/write_topology.h"

namespace verbatim::fabric {
namespace {

using Generator = Expected<Topology> (*)(std::string_view, LinkRate, std::string&);

Topology make(Generator generator, std::string_view shape, LinkRate rate = {}) {
  std::string message;
  auto topology = generator(shape, rate, message);
  EXPECT_TRUE(topology.ok()) << message;
  return topology.ok() ? std::move(*topology) : Topology{};
}

std::string refusal_of(Generator generator, std::string_view shape) {
  std::string message;
  return generator(shape, {}, message).ok() ? "accepted" : message;
}

std::size_t count(const Topology& topology, NodeKind kind) {
  std::size_t count = 0;
  for (const TopologyNode& node : topology.nodes) count += node.kind == kind ? 1 : 0;
  return count;
}

/// What Topology promises about names, GUIDs and ports.
void expect_complete(const Topology& topology) {
  std::set<std::string> names;
  std::set<wire::Guid> nodes;
  std::set<wire::Guid> ports;
  std::set<std::pair<std::uint32_t, std::uint8_t>> ends;
  for (const TopologyNode& node : topology.nodes) {
    EXPECT_TRUE(names.insert(node.id).second) << node.id;
    EXPECT_TRUE(nodes.insert(node.node_guid).second) << node.id;
    for (const wire::Guid guid : node.port_guids) EXPECT_TRUE(ports.insert(guid).second);
  }
  for (const TopologyLink& link : topology.links) {
    for (const PortEnd end : {link.a, link.b}) {
      EXPECT_TRUE(ends.insert({end.node, end.port}).second);
      ASSERT_LT(end.node, topology.nodes.size());
      EXPECT_GE(end.port, 1);
      EXPECT_LE(end.port, topology.nodes[end.node].port_count);
    }
  }
}

TEST(Generate, ATreeOfTwoSwitchesHasTwoParallelLinks) {
  const Topology topology = make(tree_topology, "2x2");
  ASSERT_EQ(topology.nodes.size(), 6U);
  EXPECT_EQ(topology.nodes[0].description, "leaf0");
  EXPECT_EQ(topology.nodes[1].description, "leaf1");
  EXPECT_EQ(topology.nodes[2].description, "h0");
  EXPECT_EQ(topology.nodes[5].description, "h3");
  EXPECT_EQ(peer_of(topology, {2, 1}), (PortEnd{0, 1}));
  EXPECT_EQ(peer_of(topology, {5, 1}), (PortEnd{1, 2}));
  EXPECT_EQ(peer_of(topology, {0, 3}), (PortEnd{1, 3}));
  EXPECT_EQ(peer_of(topology, {0, 4}), (PortEnd{1, 4}));
  EXPECT_EQ(topology.links.size(), 6U);
  EXPECT_EQ(text_of(topology.links[0].rate), "4xEDR");
}

TEST(Generate, LargerTreesHaveASpine) {
  const Topology topology = make(tree_topology, "3x4");
  EXPECT_EQ(count(topology, NodeKind::kHost), 12U);
  EXPECT_EQ(count(topology, NodeKind::kSwitch), 4U);
  EXPECT_EQ(topology.links.size(), 12U + 6U);
}

TEST(Generate, OneSwitchNeedsNoLinksToOthers) {
  const Topology topology = make(tree_topology, "1x3");
  EXPECT_EQ(topology.nodes[0].port_count, 3);
  EXPECT_EQ(topology.links.size(), 3U);
}

TEST(Generate, ARingIsClosed) {
  const Topology topology = make(ring_topology, "6");
  EXPECT_EQ(count(topology, NodeKind::kHost), 6U);
  EXPECT_EQ(topology.links.size(), 12U);
  EXPECT_EQ(peer_of(topology, {5, 2}), (PortEnd{0, 3}));
}

TEST(Generate, AFatTreeConnectsEachLeafToEachSpine) {
  const Topology topology = make(fat_tree_topology, "32x32/16");
  EXPECT_EQ(count(topology, NodeKind::kHost), 1024U);
  EXPECT_EQ(count(topology, NodeKind::kSwitch), 48U);
  EXPECT_EQ(topology.links.size(), 1024U + 512U);
  EXPECT_EQ(peer_of(topology, {31, 33}), (PortEnd{32, 32}));
}

TEST(Generate, ATorusHasTwoNeighboursInEachDimension) {
  const Topology topology = make(torus_topology, "3x4x5");
  EXPECT_EQ(count(topology, NodeKind::kSwitch), 60U);
  EXPECT_EQ(topology.nodes[59].description, "sw2.3.4");
  EXPECT_EQ(topology.links.size(), 60U + 180U);
  EXPECT_EQ(peer_of(topology, {59, 6}), (PortEnd{55, 7})) << "the last extent, around the end";
  EXPECT_EQ(peer_of(topology, {59, 2}), (PortEnd{19, 3})) << "the first extent, around the end";
}

TEST(Generate, EachTopologyIsCompleteAndReadAsItIsWritten) {
  const LinkRate rate{LinkWidth::k4x, LinkSpeed::kHdr};
  for (const auto& [generator, shape] : {std::pair<Generator, const char*>{tree_topology, "2x2"},
                                         {tree_topology, "5x3"},
                                         {ring_topology, "7"},
                                         {fat_tree_topology, "4x8/4"},
                                         {torus_topology, "3x3"}}) {
    const Topology topology = make(generator, shape, rate);
    expect_complete(topology);
    TopologyError error;
    const auto again = read_topology(write_topology(topology), error);
    ASSERT_TRUE(again.ok()) << shape << " " << error.line << ": " << error.message;
    expect_same(topology, *again);
    EXPECT_EQ(again->links[0].rate, rate);
  }
}

TEST(Generate, OtherShapesAreRefused) {
  EXPECT_EQ(refusal_of(tree_topology, "2"),
            "'2' is not a tree: SWITCHESxHOSTS, as 2x2 (hosts of each switch)");
  for (const char* shape : {"", "x", "0x2", "2x0", "2x2x2", "-1x2", "2x", "2y2"}) {
    EXPECT_NE(refusal_of(tree_topology, shape), "accepted") << shape;
  }
  EXPECT_NE(refusal_of(ring_topology, "2"), "accepted");
  EXPECT_NE(refusal_of(fat_tree_topology, "32x32"), "accepted");
  EXPECT_NE(refusal_of(torus_topology, "2x3"), "accepted");
  EXPECT_EQ(refusal_of(fat_tree_topology, "2x250/16"),
            "a switch would have 266 ports; 254 is the limit");
  EXPECT_EQ(refusal_of(fat_tree_topology, "254x200/2"),
            "these are 51056 nodes; 16384 is the limit");
}

}  // namespace
}  // namespace verbatim::fabric
