// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/node_addresses.h"

#include <gtest/gtest.h>

#include <utility>

namespace verbatim::fabric {
namespace {

Topology with_hosts(std::size_t hosts) {
  Topology topology;
  topology.nodes.resize(hosts + 2);
  topology.nodes[0].kind = NodeKind::kSwitch;
  topology.nodes[2].kind = NodeKind::kSwitch;
  return topology;
}

TEST(NodeAddresses, HostsAreCountedFromOneAndSwitchesHaveNone) {
  const NodeAddresses addresses(with_hosts(4));
  EXPECT_EQ(address_text(addresses.address_of(0)), "");
  EXPECT_EQ(address_text(addresses.address_of(1)), "127.64.0.1");
  EXPECT_EQ(address_text(addresses.address_of(2)), "");
  EXPECT_EQ(address_text(addresses.address_of(3)), "127.64.0.2");
}

TEST(NodeAddresses, TheThirdOctetCounts256Hosts) {
  const NodeAddresses addresses(with_hosts(600));
  EXPECT_EQ(address_text(addresses.address_of(1 + 255)), "127.64.0.255");
  EXPECT_EQ(address_text(addresses.address_of(1 + 256)), "127.64.1.0");
  EXPECT_EQ(address_text(addresses.address_of(1 + 600)), "127.64.2.88");
}

TEST(NodeAddresses, EachAddressNamesItsNode) {
  NodeAddresses addresses(with_hosts(600));
  addresses.set_network(127);
  for (std::uint32_t node = 0; node < 602; ++node) {
    const std::uint32_t address = addresses.address_of(node);
    if (address == 0) continue;
    EXPECT_EQ(addresses.node_at(address), node);
  }
}

TEST(NodeAddresses, OtherAddressesNameNone) {
  NodeAddresses addresses(with_hosts(4));
  addresses.set_network(65);
  for (const std::uint32_t address :
       {0x7f410000U, 0x7f410005U, 0x7f400001U, 0x7f000001U, 0x0a410001U, 0U}) {
    EXPECT_EQ(addresses.node_at(address), std::nullopt) << address_text(address);
  }
  EXPECT_TRUE(addresses.node_at(0x7f410004U));
}

TEST(NodeAddresses, HostsBeyondTheNetworkHaveNone) {
  const NodeAddresses addresses(with_hosts(0x10001));
  EXPECT_EQ(address_text(addresses.address_of(0xffff + 1)), "127.64.255.255");
  EXPECT_EQ(addresses.address_of(0x10000 + 1), 0U);
}

}  // namespace
}  // namespace verbatim::fabric
