// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/node_names.h"

#include <gtest/gtest.h>

#include "fabric/topology/read_topology.h"

namespace verbatim::fabric {
namespace {

class NodeNamesTest : public testing::Test {
 protected:
  NodeNamesTest() {
    TopologyError error;
    auto read = read_topology(R"(switchguid=0x900
Switch 36 "S-0000000000000900" # "leaf0 of rack 1"

caguid=0x100
Ca 1 "H-0000000000000100" # "h0 mlx5_0"

caguid=0x200
Ca 2 "H-0000000000000200" # "h1 mlx5_0"

caguid=0x300
Ca 1 "H-0000000000000300" # "h1 mlx5_1"

caguid=0x400
Ca 1 "H-0000000000000400" # "twin"

caguid=0x500
Ca 1 "H-0000000000000500" # "twin"
)",
                              error);
    EXPECT_TRUE(read.ok()) << error.message;
    if (read.ok()) topology_ = std::move(*read);
  }

  std::string find(std::string_view name) const {
    std::string message;
    const auto found = NodeNames(topology_).find(name, message);
    return found.ok() ? std::to_string(*found) : message;
  }
  std::string find_port(std::string_view name) const {
    std::string message;
    const auto found = NodeNames(topology_).find_port(name, message);
    return found.ok() ? std::to_string(found->node) + ":" + std::to_string(found->port) : message;
  }

  Topology topology_;
};

TEST_F(NodeNamesTest, ANodeIsFoundByEachOfItsNames) {
  EXPECT_EQ(find("h0"), "1");
  EXPECT_EQ(find("h0 mlx5_0"), "1");
  EXPECT_EQ(find("H-0000000000000100"), "1");
  EXPECT_EQ(find("0x100"), "1");
  EXPECT_EQ(find("0x201"), "2") << "the GUID of port 1";
  EXPECT_EQ(find("leaf0"), "0");
}

TEST_F(NodeNamesTest, AFirstWordOfSeveralNodesNamesNone) {
  EXPECT_EQ(find("h1"), "'h1' is the name of 2 nodes; they are 'h1 mlx5_0', 'h1 mlx5_1'");
  EXPECT_EQ(find("twin"),
            "'twin' is the name of 2 nodes; they are 'H-0000000000000400', 'H-0000000000000500'");
}

TEST_F(NodeNamesTest, MessagesUseTheShortestNameThatIsUnique) {
  const NodeNames names(topology_);
  EXPECT_EQ(names.name_of(0), "leaf0");
  EXPECT_EQ(names.name_of(2), "h1 mlx5_0");
  EXPECT_EQ(names.name_of(4), "H-0000000000000400");
  EXPECT_EQ(names.name_of(PortEnd{0, 17}), "leaf0[17]");
}

TEST_F(NodeNamesTest, AnUnknownNameIsRefusedWithSimilarOnes) {
  EXPECT_EQ(find("h9"), "there is no node 'h9'; similar names: h0");
  EXPECT_EQ(find("laef0"), "there is no node 'laef0'; similar names: leaf0");
  EXPECT_EQ(find("elephant"),
            "there is no node 'elephant'; `verbatim fabric show nodes` lists the 6 nodes");
  EXPECT_EQ(find("0x999").substr(0, 25), "there is no node '0x999';");
}

TEST_F(NodeNamesTest, PortsStandInBrackets) {
  EXPECT_EQ(find_port("leaf0[17]"), "0:17");
  EXPECT_EQ(find_port("h1 mlx5_0[2]"), "2:2");
  EXPECT_EQ(find_port("h0"), "1:1") << "the only port";
  EXPECT_EQ(find_port("leaf0"),
            "a port is missing behind 'leaf0', which has ports 1 to 36, as in: leaf0[1]");
  EXPECT_EQ(find_port("leaf0[37]"),
            "'37' is not a port of leaf0, which has ports 1 to 36, as in: leaf0[1]");
  EXPECT_EQ(find_port("leaf0[0]").substr(0, 23), "'0' is not a port of le");
  EXPECT_EQ(find_port("h9[1]"), "there is no node 'h9'; similar names: h0");
}

}  // namespace
}  // namespace verbatim::fabric
