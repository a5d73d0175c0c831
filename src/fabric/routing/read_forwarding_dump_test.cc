// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/read_forwarding_dump.h"

#include <gtest/gtest.h>

#include <string>

#include "fabric/routing/test_routing.h"

namespace verbatim::fabric::test {
namespace {

// What OpenSM 3.3.23 and dump_fts of infiniband-diags 44 write about `tree:2x2`, whose switches
// have the two links 3 and 4 to each other.
constexpr const char* kFdbs =
    "dump_ucast_routes: Switch 0x0256420200000000\n"
    "LID    : Port : Hops : Optimal\n"
    "0x0001 : 001  : 01   : yes\n"
    "0x0002 : 000  : 00   : yes\n"
    "0x0003 : 003  : 01   : yes\n"
    "0x0004 : 002  : 01   : yes\n"
    "0x0005 : 003  : 02   : yes\n"
    "0x0006 : 004  : 02   : No 1 hop path possible via port 3!\n"
    "0x0007 : UNREACHABLE\n"
    "dump_ucast_routes: Switch 0x0256420200000100\n"
    "LID    : Port : Hops : Optimal\n"
    "0x0001 : 003  : 02   : yes\n"
    "0x0002 : 003  : HOPS UNKNOWN\n"
    "0x0003 : 000  : 00   : yes\n"
    "0x0004 : 004  : 02   : yes\n"
    "0x0005 : 001  : 01   : yes\n"
    "0x0006 : 002  : 01   : yes\n";
constexpr const char* kLfts =
    "Unicast lids [0-6] of switch Lid 2 guid 0x0256420200000000 ('leaf0'):\n"
    "0x0001 001 # Channel Adapter portguid 0x0256420100000001: 'h0'\n"
    "0x0002 000 # Switch portguid 0x0256420200000000: 'leaf0'\n"
    "0x0003 003 # Switch portguid 0x0256420200000100: 'leaf1'\n"
    "0x0004 002 # Channel Adapter portguid 0x0256420100000101: 'h1'\n"
    "0x0005 003 # Channel Adapter portguid 0x0256420100000201: 'h2'\n"
    "0x0006 004 # Channel Adapter portguid 0x0256420100000301: 'h3'\n"
    "6 lids dumped\n"
    "Unicast lids [0-6] of switch Lid 3 guid 0x0256420200000100 ('leaf1'):\n"
    "0x0001 003 # Channel Adapter portguid 0x0256420100000001: 'h0'\n"
    "0x0002 003 # Switch portguid 0x0256420200000000: 'leaf0'\n"
    "0x0003 000 # Switch portguid 0x0256420200000100: 'leaf1'\n"
    "0x0004 004 # Channel Adapter portguid 0x0256420100000101: 'h1'\n"
    "0x0005 001 # Channel Adapter portguid 0x0256420100000201: 'h2'\n"
    "0x0006 002 # Channel Adapter portguid 0x0256420100000301: 'h3'\n"
    "6 lids dumped\n";
constexpr const char* kDumpFts =
    "Unicast lids [0x0-0x6] of switch DR path slid 0; dlid 0; 0,1 guid 0x0256420200000000 "
    "(leaf0):\n"
    "  Lid  Out   Destination\n"
    "       Port     Info \n"
    "0x0001 001 : (Channel Adapter portguid 0x0256420100000001: 'h0')\n"
    "0x0002 000 : (Switch portguid 0x0256420200000000: 'leaf0')\n"
    "0x0003 003 : (Switch portguid 0x0256420200000100: 'leaf1')\n"
    "0x0004 002 : (Channel Adapter portguid 0x0256420100000101: 'h1')\n"
    "0x0005 003 : (Channel Adapter portguid 0x0256420100000201: 'h2')\n"
    "0x0006 004 : (Channel Adapter portguid 0x0256420100000301: 'h3')\n"
    "6 valid lids dumped \n";

SubnetPlan read(const std::string& text) {
  TopologyError error;
  auto plan = read_forwarding_dump(text, shaped("tree:2x2"), error);
  EXPECT_TRUE(plan) << error.line << ": " << error.message;
  return plan ? std::move(*plan) : SubnetPlan(shaped("tree:2x2"));
}

std::string mistake_in(const std::string& text) {
  TopologyError error;
  EXPECT_FALSE(read_forwarding_dump(text, shaped("tree:2x2"), error));
  return std::to_string(error.line) + ": " + error.message;
}

TEST(ForwardingDump, OfOpensmHasTheTableOfEachSwitch) {
  const Topology topology = shaped("tree:2x2");
  const SubnetPlan plan = read(kFdbs);
  const std::uint32_t leaf = node_of(topology, "leaf0");
  EXPECT_EQ(plan.port_for(leaf, wire::Lid{2}), 0);
  EXPECT_EQ(plan.port_for(leaf, wire::Lid{6}), 4);
  EXPECT_EQ(plan.port_for(leaf, wire::Lid{7}), ForwardingTables::kNoPort);
  EXPECT_EQ(plan.port_for(node_of(topology, "leaf1"), wire::Lid{2}), 3);
}

TEST(ForwardingDump, SaysWhichLidIsThatOfWhichPort) {
  const Topology topology = shaped("tree:2x2");
  const SubnetPlan plan = read(kFdbs);
  const auto lid_of = [&](const char* node, std::uint8_t port) {
    return plan.lids_of({.node = node_of(topology, node), .port = port});
  };
  EXPECT_EQ(lid_of("leaf0", 0), (PortLids{.base = wire::Lid{2}}));
  EXPECT_EQ(lid_of("leaf1", 0), (PortLids{.base = wire::Lid{3}}));
  EXPECT_EQ(lid_of("h0", 1), (PortLids{.base = wire::Lid{1}}));
  EXPECT_EQ(lid_of("h1", 1), (PortLids{.base = wire::Lid{4}}));
  EXPECT_EQ(lid_of("h3", 1), (PortLids{.base = wire::Lid{6}}));
}

TEST(ForwardingDump, IsReadInAllItsForms) {
  EXPECT_EQ(read(kLfts).tables, read(kFdbs).tables);
  EXPECT_EQ(read(kLfts).lids, read(kFdbs).lids);
  const std::uint32_t leaf = node_of(shaped("tree:2x2"), "leaf0");
  EXPECT_EQ(read(kDumpFts).tables[leaf].at(4), 2);
  EXPECT_EQ(read(kDumpFts).tables[leaf].size(), 7U);
}

TEST(ForwardingDump, MayHaveSeveralLidsOfOnePort) {
  const SubnetPlan plan = read(
      "Unicast lids [0-8] of switch Lid 2 guid 0x0256420200000000 ('leaf0'):\n"
      "0x0002 000\n0x0004 001\n0x0005 001\n0x0006 001\n0x0007 001\n");
  const PortEnd host{.node = node_of(shaped("tree:2x2"), "h0"), .port = 1};
  EXPECT_EQ(plan.lids_of(host), (PortLids{.base = wire::Lid{4}, .lmc = 2}));
}

TEST(ForwardingDump, MistakesAreNamedWithTheirLine) {
  const std::string start = "dump_ucast_routes: Switch 0x0256420200000000\n";
  EXPECT_EQ(mistake_in("\n"),
            "0: no table is in this text; expected is opensm.fdbs or opensm-lfts.dump, which "
            "OpenSM writes when it runs with -D 0x43");
  EXPECT_EQ(mistake_in("dump_ucast_routes: Switch 0x5\n"),
            "1: no switch of the topology has the node GUID 0x0000000000000005; the dump is of "
            "another fabric");
  EXPECT_EQ(mistake_in("dump_ucast_routes: x\n"), "1: '' is not the GUID of a switch");
  EXPECT_NE(mistake_in("0x0001 001\n").find("1: this row belongs to no switch"), std::string::npos);
  EXPECT_NE(mistake_in(start + "Switch 0x0256420200000000\n")
                .find("2: this begins a table for "
                      "multicast LIDs"),
            std::string::npos);
  EXPECT_EQ(mistake_in(start + "\n" + start), "3: the table of 'leaf0' already stands in line 1");
  EXPECT_EQ(mistake_in(start + "0xc000 : 001\n"),
            "2: '0xc000' is not a LID of one port: 0x0001 to 0xbfff");
  EXPECT_EQ(mistake_in(start + "0x0001 : \n"),
            "2: '' is not a port, as in: 0x0001 : 003 : 01 : yes");
  EXPECT_EQ(mistake_in(start + "0x0001 : 009  : 01   : yes\n"),
            "2: 9 is not a port of 'leaf0', which has ports 0 to 4");
  EXPECT_EQ(mistake_in(start + "0x0001 : 001\n0x0001 : 002\n"),
            "3: the table of 'leaf0' has a row for LID 1 already");
  EXPECT_NE(mistake_in(start + "hello\n").find("2: 'hello' begins no line"), std::string::npos);
  EXPECT_EQ(mistake_in(start + "0x0001 : 001\n0x0005 : 001\n"),
            "1: the table of 'leaf0' sends 2 LIDs, 1 to 5, through port 1 to 'h0'; the LIDs of a "
            "port are 1, 2, 4 ... that follow each other, so the dump is of another fabric, or "
            "older than a change of it");
}

}  // namespace
}  // namespace verbatim::fabric::test
