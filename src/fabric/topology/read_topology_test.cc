// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/read_topology.h"

#include <gtest/gtest.h>

#include <string>

#include "fabric/topology/made_guid.h"

namespace verbatim::fabric {
namespace {

// In the form of ibnetdiscover; the numbers are made up.
constexpr const char* kDump = R"(#
# Topology file: generated on Thu Nov 19 01:16:40 2026
#
# Initiated from node 0256421000000100 port 0256421000000101

vendid=0x25642
devid=0xd2f0
sysimgguid=0x256421000000900
switchguid=0x256421000000901(256421000000902)
Switch	36 "S-0256421000000901"		# "MF0;leaf0:QM8700/U1" enhanced port 0 lid 3 lmc 0
[2]	"H-0256421000000200"[1](256421000000201) 		# "h1 HCA-1" lid 9 4xHDR
[1]	"H-0256421000000100"[2](256421000000102) 		# "h0 "one" #1" lid 7 4xHDR

vendid=0x25642
devid=0x101b
sysimgguid=0x256421000000200
caguid=0x256421000000200
Ca	1 "H-0256421000000200"		# "h1 HCA-1"
[1](256421000000201) 	"S-0256421000000901"[2]		# lid 9 lmc 0 "MF0;leaf0:QM8700/U1" lid 3 4xHDR

vendid=0x25642
devid=0x101b
sysimgguid=0x256421000000100
caguid=0x256421000000100
Ca	2 "H-0256421000000100"		# "h0 "one" #1"
[2](256421000000102) 	"S-0256421000000901"[1]		# lid 7 lmc 0 "MF0;leaf0:QM8700/U1" lid 3 4xHDR
)";

Topology read(std::string_view text) {
  TopologyError error;
  auto topology = read_topology(text, error);
  EXPECT_TRUE(topology.ok()) << error.line << ": " << error.message;
  return topology.ok() ? std::move(*topology) : Topology{};
}

/// "line: message" of a text that must be refused.
std::string refusal_of(std::string_view text) {
  TopologyError error;
  if (read_topology(text, error).ok()) return "accepted";
  return std::to_string(error.line) + ": " + error.message;
}

TEST(ReadTopology, TheOutputOfIbnetdiscoverIsReadWhole) {
  const Topology topology = read(kDump);
  ASSERT_EQ(topology.nodes.size(), 3U);
  const TopologyNode& leaf = topology.nodes[0];
  EXPECT_EQ(leaf.kind, NodeKind::kSwitch);
  EXPECT_EQ(leaf.port_count, 36);
  EXPECT_EQ(leaf.id, "S-0256421000000901");
  EXPECT_EQ(leaf.description, "MF0;leaf0:QM8700/U1");
  EXPECT_EQ(leaf.node_guid, wire::Guid{0x256421000000901});
  EXPECT_EQ(leaf.system_guid, wire::Guid{0x256421000000900});
  EXPECT_EQ(leaf.port_guids, std::vector{wire::Guid{0x256421000000902}});
  EXPECT_EQ(leaf.vendor_id, 0x25642U);
  EXPECT_EQ(leaf.device_id, 0xd2f0);
  EXPECT_TRUE(leaf.has_enhanced_port0);
  EXPECT_EQ(leaf.lid_hint, 3);

  const TopologyNode& h1 = topology.nodes[1];
  EXPECT_EQ(h1.kind, NodeKind::kHost);
  EXPECT_EQ(h1.lid_hint, 9);
  EXPECT_EQ(h1.port_guids, std::vector{wire::Guid{0x256421000000201}});

  ASSERT_EQ(topology.links.size(), 2U);
  EXPECT_EQ(topology.links[0].a, (PortEnd{0, 2}));
  EXPECT_EQ(topology.links[0].b, (PortEnd{1, 1}));
  EXPECT_EQ(topology.links[0].rate, (LinkRate{LinkWidth::k4x, LinkSpeed::kHdr}));
}

TEST(ReadTopology, DescriptionsMayContainQuotesAndHashes) {
  EXPECT_EQ(read(kDump).nodes[2].description, "h0 \"one\" #1");
}

TEST(ReadTopology, PortsWithoutALinkGetGuidsBehindTheNode) {
  const TopologyNode h0 = read(kDump).nodes[2];
  ASSERT_EQ(h0.port_guids.size(), 2U);
  EXPECT_EQ(h0.port_guids[0], wire::Guid{0x256421000000101});
  EXPECT_EQ(h0.port_guids[1], wire::Guid{0x256421000000102});
}

TEST(ReadTopology, LineEndsOfOtherSystemsAreRead) {
  std::string text;
  for (const char c : std::string(kDump)) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(read(text).nodes[0].description, "MF0;leaf0:QM8700/U1");
}

TEST(ReadTopology, GroupingAndFullOutputAreRead) {
  const Topology topology = read(R"(Chassis 1 (guid 0x256421000000900)
Hostname: cabinet

vendid=0x25642
switchguid=0x256421000000901(256421000000901)
Switch	24 "S-0256421000000901"		# "leaf" base port 0 lid 3 lmc 0		# Chassis 1 spine 1
[22][ext 7]	"H-0256421000000200"[1](256421000000201) 		# "h1" lid 9 4xQDR s=4 w=2 v=8
Non-Chassis Nodes

Ca	1 "H-0256421000000200"		# "h1"
[1](256421000000201) 	"S-0256421000000901"[22][ext 7]		# lid 9 lmc 0 "leaf" lid 3 4xQDR s=4
)");
  ASSERT_EQ(topology.links.size(), 1U);
  EXPECT_EQ(topology.links[0].a, (PortEnd{0, 22}));
  EXPECT_EQ(topology.links[0].rate.speed, LinkSpeed::kQdr);
}

TEST(ReadTopology, FilesOfIbsimNeedNamesAndLinksOnly) {
  const Topology topology = read(R"(# a comment
Switch	8 "Switch1"
[1]	"Hca1"[1]
# a comment between ports
[4]	"Hca2"[2] w=12

Hca 1 "Hca1"
[1]	"Switch1"[1]

Hca	2 "Hca2"
[2]	"Switch1"[4] s=2
)");
  ASSERT_EQ(topology.nodes.size(), 3U);
  EXPECT_EQ(topology.nodes[0].description, "Switch1");
  EXPECT_EQ(topology.nodes[0].node_guid, made_guid(NodeKind::kSwitch, 0));
  EXPECT_EQ(topology.nodes[0].system_guid, topology.nodes[0].node_guid);
  EXPECT_EQ(topology.nodes[0].port_guids[0], topology.nodes[0].node_guid);
  EXPECT_NE(topology.nodes[1].node_guid, topology.nodes[2].node_guid);
  EXPECT_EQ(topology.nodes[1].vendor_id, kMadeVendorId);
  ASSERT_EQ(topology.links.size(), 2U);
  EXPECT_EQ(topology.links[0].rate, LinkRate{});
}

TEST(ReadTopology, OneEndOfALinkIsEnough) {
  const Topology topology = read("Switch 2 \"s\"\n[1] \"h\"[1]\n\nCa 1 \"h\"\n");
  ASSERT_EQ(topology.links.size(), 1U);
  EXPECT_EQ(topology.links[0].b, (PortEnd{1, 1}));
}

TEST(ReadTopology, OfTwoRatesTheSlowerIsTaken) {
  const char* const text =
      "Switch 2 \"s\"\n[1] \"h\"[1] # \"h\" lid 1 %s\n\n"
      "Ca 1 \"h\"\n[1] \"s\"[1] # lid 1 lmc 0 \"s\" lid 2 %s\n";
  const auto rate_of = [&](const std::string& first, const std::string& second) {
    std::string both = text;
    both.replace(both.find("%s"), 2, first);
    both.replace(both.find("%s"), 2, second);
    return text_of(read(both).links.at(0).rate);
  };
  EXPECT_EQ(rate_of("4xHDR", "4xSDR"), "4xSDR");
  EXPECT_EQ(rate_of("1xSDR", "4xHDR"), "1xSDR");
  EXPECT_EQ(rate_of("", "4xHDR"), "4xHDR");
  EXPECT_EQ(rate_of("", ""), "4xEDR");
}

TEST(ReadTopology, MadeGuidsAvoidThoseInTheText) {
  const std::string taken = "0x0256420100000000";
  const Topology topology = read("Ca 1 \"a\"\n\ncaguid=" + taken + "\nCa 1 \"b\"\n");
  EXPECT_EQ(topology.nodes[1].node_guid, made_guid(NodeKind::kHost, 0));
  EXPECT_EQ(topology.nodes[0].node_guid, made_guid(NodeKind::kHost, 1));
}

TEST(ReadTopology, AnAdapterMayGiveItsGuidToItsPort) {
  const Topology topology = read("caguid=0x10\nCa 1 \"a\"\n[1](10) \"s\"[1]\n\nSwitch 1 \"s\"\n");
  EXPECT_EQ(topology.nodes[0].port_guids[0], wire::Guid{0x10});
}

TEST(ReadTopology, AMistakeIsRefusedWithItsLine) {
  EXPECT_EQ(refusal_of("Switch 8 \"s\"\n[9] \"h\"[1]\n"),
            "2: '9' is not a port of 's', which has ports 1 to 8");
  EXPECT_EQ(refusal_of("Switch 8 \"s\"\n\n[1] \"h\"[1]\n").substr(0, 32),
            "3: this port belongs to no node;");
  EXPECT_EQ(refusal_of("Switch 8 \"s\"\n[1] \"h\"[1]\n"),
            "2: no node of this text has the name 'h'");
  EXPECT_EQ(refusal_of("Switch 8 \"s\"\n[1] \"h\"[2]\n\nCa 1 \"h\"\n"),
            "2: 'h' has no port 2, but ports 1 to 1");
  EXPECT_EQ(refusal_of("Switch 8 \"s\"\n\nCa 1 \"s\"\n"),
            "3: 's' is the name of the node in line 1, too");
  EXPECT_EQ(refusal_of("Switch 300 \"s\"\n"), "1: '300' is not a number of ports: 1 to 254");
  EXPECT_EQ(refusal_of("Switch 8\n").substr(0, 30), "1: a name in quotes is missing");
  EXPECT_EQ(refusal_of("Switch 8 \"s\"\n[1] \"s\"[1]\n"), "2: this port is connected to itself");
  EXPECT_EQ(refusal_of("vendid=0x1000000\n"),
            "1: '0x1000000' is not a hexadecimal number for 'vendid'");
  EXPECT_EQ(refusal_of("caguid=xyz\n").substr(0, 50),
            "1: 'xyz' is not a hexadecimal number for 'caguid',");
  EXPECT_EQ(refusal_of("{\n").substr(0, 36), "1: '{' begins no line of a topology;");
  EXPECT_EQ(refusal_of("# nothing\n").substr(0, 30), "0: no node is in this text; a ");
  EXPECT_EQ(refusal_of("Ca 1 \"h\"\n[1] \"s\"[1] w=3\n"),
            "2: 'w=3' is no width: w=1, 2, 4, 8 or 12");
}

TEST(ReadTopology, LinesThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refusal_of("Switch 2 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\nCa 1 \"a\"\n\nCa 1 \"b\"\n"
                       "[1] \"s\"[1]\n"),
            "8: port 1 of 'b' is connected to port 2 of 's' in line 3");
  EXPECT_EQ(refusal_of("Switch 2 \"s\"\n[1] \"a\"[1](11)\n\ncaguid=0x10\nCa 1 \"a\"\n"
                       "[1](12) \"s\"[1]\n"),
            "2: the port has the GUID 0x0000000000000011 here, and 0x0000000000000012 where 'a' is "
            "described");
  EXPECT_EQ(refusal_of("caguid=0x10\nCa 1 \"a\"\n\ncaguid=0x10\nCa 1 \"b\"\n"),
            "5: the node GUID 0x0000000000000010 of 'b' is that of 'a' in line 2, too");
}

TEST(ReadTopology, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(refusal_of("Rt 2 \"R-1\"\n").substr(0, 28), "1: routers are not supported");
  EXPECT_EQ(refusal_of("include other\n").substr(0, 38), "1: 'include' of ibsim is not supported");
  EXPECT_EQ(refusal_of("do Link \"a\"[1]\n").substr(0, 33), "1: 'do' of ibsim is not supported");
}

TEST(ReadTopology, LongDescriptionsAreRefused) {
  const std::string words(Topology::kDescriptionMax, 'x');
  EXPECT_EQ(read("Ca 1 \"h\" # \"" + words + "\"\n").nodes[0].description, words);
  EXPECT_EQ(refusal_of("Ca 1 \"h\" # \"" + words + "x\"\n"),
            "1: the description has 65 octets; NodeDescription has room for 64");
}

}  // namespace
}  // namespace verbatim::fabric
