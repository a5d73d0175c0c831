// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/node.h"

#include <gtest/gtest.h>

#include <array>

#include "fabric/node/test_node.h"

namespace verbatim::fabric {
namespace {

constexpr wire::Lid kGroup{0xc021};

/// A switch with 20 ports that sends kGroup to its ports 0, 3 and 20, and to one that it lacks.
Node switch_with_a_group() {
  Node node = test::switch_of(20);
  std::array<std::byte, 64> low{};
  std::array<std::byte, 64> high{};
  low[3] = std::byte{0x09};
  high[3] = std::byte{0x30};
  EXPECT_TRUE(node.switch_part().tables.write_multicast(1, low));
  EXPECT_TRUE(node.switch_part().tables.write_multicast(0x1000'0001, high));
  return node;
}

TEST(Node, ASwitchSendsAGroupToThePortsOfItsTable) {
  const Node node = switch_with_a_group();
  PortSet ports = node.ports_of(kGroup, 3);
  for (const int port : {0, 3, 20}) EXPECT_EQ(ports.take_first(), port);
  EXPECT_FALSE(ports.take_first());
  EXPECT_TRUE(node.ports_of(wire::Lid{0xc020}, 3).empty());
}

TEST(Node, TheDefaultPortsAreForGroupsAboveTheTable) {
  Node node = switch_with_a_group();
  constexpr wire::Lid kAbove{0xd000};
  EXPECT_TRUE(node.ports_of(kAbove, 1).empty()) << "no default ports";
  wire::SwitchInfo& info = node.switch_part().info;
  info.default_multicast_primary_port = 5;
  info.default_multicast_not_primary_port = 6;
  EXPECT_EQ(node.ports_of(kAbove, 1).take_first(), 5);
  EXPECT_EQ(node.ports_of(kAbove, 5).take_first(), 6);
  EXPECT_EQ(node.ports_of(kGroup, 1).take_first(), 0) << "of the table";
  info.multicast_top = 0xc020;
  EXPECT_EQ(node.ports_of(kGroup, 1).take_first(), 5);
  info.default_multicast_primary_port = 255;
  EXPECT_TRUE(node.ports_of(kGroup, 1).empty()) << "there is no such port";
}

}  // namespace
}  // namespace verbatim::fabric
