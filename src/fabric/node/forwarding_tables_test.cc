// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/forwarding_tables.h"

#include <gtest/gtest.h>

#include <array>

namespace verbatim::fabric {
namespace {

using Block = std::array<std::byte, 64>;

TEST(ForwardingTables, ALidHasThePortThatItsBlockSays) {
  ForwardingTables tables(36);
  EXPECT_FALSE(tables.port_of(wire::Lid{70}));
  Block block;
  block.fill(std::byte{ForwardingTables::kNoPort});
  block[6] = std::byte{17};
  block[7] = std::byte{0};
  EXPECT_TRUE(tables.write_linear(1, block));
  EXPECT_EQ(tables.port_of(wire::Lid{70}), 17);
  EXPECT_EQ(tables.port_of(wire::Lid{71}), 0) << "the switch itself";
  EXPECT_FALSE(tables.port_of(wire::Lid{72}));
  EXPECT_FALSE(tables.port_of(wire::Lid{6})) << "a block before it";
  EXPECT_FALSE(tables.port_of(wire::Lid{0xbfff}));
  Block read{};
  EXPECT_TRUE(tables.read_linear(1, read));
  EXPECT_EQ(read, block);
  EXPECT_TRUE(tables.read_linear(0, read));
  EXPECT_EQ(read[0], std::byte{0xff});
}

TEST(ForwardingTables, ThereAreBlocksForAllUnicastLids) {
  ForwardingTables tables(36);
  Block block{};
  EXPECT_TRUE(tables.write_linear(0xc000 / 64 - 1, block));
  EXPECT_FALSE(tables.write_linear(0xc000 / 64, block));
  EXPECT_FALSE(tables.read_linear(0xffff'ffff, block));
}

TEST(ForwardingTables, AMulticastLidHasThePortsOfItsMasks) {
  ForwardingTables tables(36);
  Block block{};
  block[2] = std::byte{0x80};                               // the second LID: port 15 of the mask
  block[3] = std::byte{0x02};                               // and port 1
  EXPECT_TRUE(tables.write_multicast(0x1000'0003, block));  // mask 1, block 3
  const wire::Lid lid{0xc000 + 3 * 32 + 1};
  PortSet ports = tables.ports_of(lid);
  EXPECT_EQ(ports.take_first(), 16 + 1);
  EXPECT_EQ(ports.take_first(), 16 + 15);
  EXPECT_FALSE(ports.take_first());
  EXPECT_TRUE(tables.ports_of(wire::Lid{0xc000}).empty());
  EXPECT_TRUE(tables.ports_of(wire::Lid{0xfffe}).empty());
  Block read{};
  EXPECT_TRUE(tables.read_multicast(0x1000'0003, read));
  EXPECT_EQ(read, block);
}

TEST(ForwardingTables, ThereAreMasksForAllPorts) {
  ForwardingTables tables(36);
  Block block{};
  EXPECT_TRUE(tables.write_multicast(0x2000'0000, block)) << "ports 32 to 47";
  EXPECT_FALSE(tables.write_multicast(0x3000'0000, block));
  EXPECT_TRUE(tables.read_multicast(0x1000 / 32 - 1, block));
  EXPECT_FALSE(tables.read_multicast(0x1000 / 32, block));
}

}  // namespace
}  // namespace verbatim::fabric
