// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/read_lane_dump.h"

#include <gtest/gtest.h>

#include <string>

#include "fabric/routing/test_routing.h"

namespace verbatim::fabric::test {
namespace {

// As OpenSM 3.3.23 writes it with -Q.
constexpr const char* kDump =
    "Channel Adapter 0x0256420100000001, base LID 1, \"h0\"\n"
    "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n"
    "#--------------------------------------------------------\n"
    "0   0   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  15\n"
    "#--------------------------------------------------------\n"
    "\n"
    "Switch 0x0256420200000000, base LID 2, \"leaf0\"\n"
    "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n"
    "#--------------------------------------------------------\n"
    "2   1   : 7  6  5  4  3  2  1  0  7  6  5  4  3  2  1  0 \n";

std::string mistake_in(const std::string& text) {
  TopologyError error;
  EXPECT_FALSE(read_lane_dump(text, shaped("tree:1x2"), error));
  return std::to_string(error.line) + ": " + error.message;
}

TEST(LaneDump, HasARowForEachPairOfPorts) {
  const Topology topology = shaped("tree:1x2");
  TopologyError error;
  const auto rows = read_lane_dump(kDump, topology, error);
  ASSERT_TRUE(rows) << error.line << error.message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[0].out, (PortEnd{.node = node_of(topology, "h0"), .port = 1}));
  EXPECT_EQ((*rows)[0].in, 0);
  EXPECT_EQ((*rows)[0].lanes[0], std::byte{0x01});
  EXPECT_EQ((*rows)[0].lanes[7], std::byte{0x6f});
  EXPECT_EQ((*rows)[1].out, (PortEnd{.node = node_of(topology, "leaf0"), .port = 1}));
  EXPECT_EQ((*rows)[1].in, 2);
  EXPECT_EQ((*rows)[1].lanes[0], std::byte{0x76});
}

TEST(LaneDump, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(mistake_in(""),
            "0: no map of lanes is in this text; expected is opensm-sl2vl.dump, which OpenSM "
            "writes when it runs with -Q and -D 0x43");
  EXPECT_EQ(mistake_in("0 1 : 0\n").substr(0, 32), "1: this row belongs to no port; ");
  EXPECT_EQ(mistake_in("Switch 0x7, base LID 1\n"),
            "1: no port of the topology has the GUID 0x0000000000000007; the dump is of another "
            "fabric");
  EXPECT_EQ(mistake_in("Switch\tx\n").substr(0, 30), "1: 'Switch?x' begins no line o");
  EXPECT_EQ(mistake_in("Switch x\n").substr(0, 33), "1: the GUID of a port is missing,");
  const std::string start = "Switch 0x0256420200000000, base\n";
  EXPECT_NE(mistake_in(start + "0 9 : 0\n").find("2: '9' is not a port of"), std::string::npos);
  EXPECT_EQ(mistake_in(start + "0 1 0\n"), "2: a colon is missing between the ports and the lanes");
  EXPECT_EQ(mistake_in(start + "0 1 : 0 16\n"),
            "2: '16' is not the lane of service level 1: 0 to 15");
  EXPECT_EQ(mistake_in(start + "0 1 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"),
            "2: '16' is not expected here");
}

}  // namespace
}  // namespace verbatim::fabric::test
