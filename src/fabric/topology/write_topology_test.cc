// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/write_topology.h"

#include <gtest/gtest.h>

#include "fabric/topology/read_topology.h"
#include "fabric/topology/test_topology.h"

namespace verbatim::fabric {
namespace {

constexpr const char* kText = R"(# Topology file, written by verbatim

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x10
switchguid=0x11(12)
Switch	36 "S-0000000000000011"		# "leaf0" enhanced port 0 lid 3 lmc 0
[1]	"H-0000000000000020"[1](21) 		# "h0" lid 7 4xHDR
[36]	"H-0000000000000020"[2](22) 		# "h0" lid 0 1xSDR

vendid=0x25642
devid=0x1
sysimgguid=0x20
caguid=0x20
Ca	2 "H-0000000000000020"		# "h0"
[1](21) 	"S-0000000000000011"[1]		# lid 7 lmc 0 "leaf0" lid 3 4xHDR
[2](22) 	"S-0000000000000011"[36]		# lid 0 lmc 0 "leaf0" lid 3 1xSDR
)";

TEST(WriteTopology, TheFormIsThatOfIbnetdiscover) {
  TopologyError error;
  const auto topology = read_topology(kText, error);
  ASSERT_TRUE(topology.ok()) << error.line << ": " << error.message;
  EXPECT_EQ(write_topology(*topology), kText);
}

TEST(WriteTopology, SwitchesComeFirst) {
  TopologyError error;
  const auto topology = read_topology("Ca 1 \"h\"\n\nSwitch 254 \"s\"\n[254] \"h\"[1]\n", error);
  ASSERT_TRUE(topology.ok()) << error.message;
  const std::string text = write_topology(*topology);
  EXPECT_LT(text.find("Switch"), text.find("Ca\t"));
  const auto again = read_topology(text, error);
  ASSERT_TRUE(again.ok()) << error.message;
  expect_same(*topology, *again);
}

}  // namespace
}  // namespace verbatim::fabric
