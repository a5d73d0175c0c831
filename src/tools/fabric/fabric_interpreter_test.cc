// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "fabric/routing/plan_routes.h"
#include "fabric/routing/set_up_subnet.h"
#include "fabric/topology/generate.h"
#include "fabric/topology/read_topology.h"
#include "sim/fabric/fabric_load.h"

namespace verbatim::tools {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

fabric::Topology tree() {
  std::string message;
  auto topology = fabric::tree_topology("2x2", {}, message);
  EXPECT_TRUE(topology.ok()) << message;
  return std::move(*topology);
}

/// Two switches and four hosts, whose links have had the time to come up. No subnet manager.
class FabricInterpreterTest : public testing::Test {
 protected:
  FabricInterpreterTest() { advance(); }

  void advance() {
    now_ = now_ + std::chrono::seconds(10);
    fabric_.advance(now_);
  }
  CommandAnswer execute(std::string_view line) {
    const CommandAnswer answer = interpreter_.execute(now_, line);
    advance();
    return answer;
  }
  std::string done(std::string_view line) {
    const CommandAnswer answer = execute(line);
    EXPECT_TRUE(answer.is_done) << line << ": " << answer.text;
    return answer.text;
  }
  std::string refused(std::string_view line) {
    const CommandAnswer answer = execute(line);
    EXPECT_FALSE(answer.is_done) << line << ": " << answer.text;
    return answer.text;
  }
  nlohmann::json json(std::string_view line) { return nlohmann::json::parse(done(line)); }

  fabric::Fabric fabric_{tree()};
  fabric::NodeNames names_{fabric_.topology()};
  fabric::NodeAddresses addresses_{fabric_.topology()};
  FabricCaptures captures_{fabric_};
  FabricInterpreter interpreter_{fabric_, names_, addresses_, captures_};
  Instant now_{};
};

TEST_F(FabricInterpreterTest, TheSummaryCounts) {
  EXPECT_EQ(done("show"),
            "2 switches, 4 hosts, 6 links\n"
            "0 of 12 ports are Active, 12 have a link that is up\n"
            "no subnet manager\n"
            "0 packets discarded\n");
  const auto summary = json("show --json");
  EXPECT_EQ(summary["hosts"], 4);
  EXPECT_EQ(summary["ports"], 12);
  EXPECT_EQ(summary["ports_active"], 0);
}

TEST_F(FabricInterpreterTest, ACableIsPulledOutAndPluggedIn) {
  EXPECT_EQ(done("link down leaf0[3]"), "link leaf0[3] - leaf1[3] is pulled out\n");
  EXPECT_THAT(done("show links"), HasSubstr("leaf0[3]  leaf1[3]  4xEDR  Down   out"));
  EXPECT_EQ(json("show --json")["ports"], 10);
  EXPECT_EQ(done("link up leaf1[3]"), "link leaf1[3] - leaf0[3] is plugged in\n");
  EXPECT_EQ(json("show --json")["ports_linked"], 12);
}

TEST_F(FabricInterpreterTest, ANodeWithoutPowerHasNoLinks) {
  EXPECT_EQ(done("switch off leaf1"), "leaf1 has no power\n");
  EXPECT_EQ(json("show --json")["ports"], 4);
  const auto nodes = json("show nodes --json");
  EXPECT_EQ(nodes[1]["name"], "leaf1");
  EXPECT_EQ(nodes[1]["has_power"], false);
  EXPECT_EQ(done("node on leaf1"), "leaf1 has power\n");
  EXPECT_EQ(json("show --json")["ports_linked"], 12);
}

TEST_F(FabricInterpreterTest, HostsAreShownWithTheirAddresses) {
  const auto nodes = json("show nodes --json");
  EXPECT_EQ(nodes[0]["address"], nullptr);
  EXPECT_EQ(nodes[2]["name"], "h0");
  EXPECT_EQ(nodes[2]["address"], "127.64.0.1");
  EXPECT_EQ(nodes[5]["address"], "127.64.0.4");
  EXPECT_THAT(done("show nodes"), HasSubstr("127.64.0.3"));
}

TEST_F(FabricInterpreterTest, AHostIsNoSwitch) {
  EXPECT_EQ(refused("switch off h0"), "h0 is not a switch; `node on` and `node off` take it\n");
}

TEST_F(FabricInterpreterTest, PortsAreShownForOneNodeOrAll) {
  const std::string leaf = done("show ports leaf0");
  EXPECT_THAT(leaf, HasSubstr("leaf0[1]"));
  EXPECT_THAT(leaf, Not(HasSubstr("leaf1[1]  ")));
  EXPECT_EQ(json("show ports --json").size(), 2 * 5 + 4U);
  const auto port = json("show ports h3 --json").at(0);
  EXPECT_EQ(port["peer"], "leaf1[2]");
  EXPECT_EQ(port["state"], "Init");
  EXPECT_EQ(port["physical_state"], "LinkUp");
  EXPECT_EQ(port["mtu"], 4096);
}

TEST_F(FabricInterpreterTest, ADiscardedPacketOfAProgramIsShownAsOne) {
  EXPECT_EQ(done("show drops"), "nothing was discarded\n");
  fabric_.post_data(now_, {.node = 2, .port = 1},
                    {.source = wire::Lid{9},
                     .destination = wire::Lid{4},
                     .dest_qp = wire::QpNumber{0x123},
                     .words = 10});
  const std::string text = done("show drops");
  EXPECT_THAT(text, HasSubstr("1 source LID of another port\n"));
  EXPECT_THAT(text, HasSubstr("data    9         4       0x0123  -      -\n"));
  const auto drop = json("show drops --json")["recent"].at(0);
  EXPECT_EQ(drop["packet"], "data");
  EXPECT_EQ(drop["destination_qp"], 0x123);
  EXPECT_FALSE(drop.contains("class"));
}

TEST_F(FabricInterpreterTest, WithoutLidsThereIsNoRoute) {
  EXPECT_THAT(refused("show route h0 h3"), HasSubstr("h3[1] has no LID; does a subnet manager"));
  const CommandAnswer answer = execute("show route h0 h3 --json");
  EXPECT_EQ(nlohmann::json::parse(answer.text)["arrives"], false);
  EXPECT_THAT(refused("show route leaf0 h3"), StartsWith("the way begins at a port of a host"));
}

TEST_F(FabricInterpreterTest, TheTopologyIsWrittenAsItCanBeRead) {
  fabric::TopologyError error;
  const auto topology = fabric::read_topology(done("show topology"), error);
  ASSERT_TRUE(topology.ok()) << error.line << ": " << error.message;
  EXPECT_EQ(topology->nodes.size(), 6U);
  EXPECT_EQ(topology->links.size(), 6U);
}

TEST_F(FabricInterpreterTest, ADescriptionIsChanged) {
  EXPECT_EQ(done("node describe h0 \"rack 3\""), "h0 has a new description\n");
  EXPECT_THAT(done("show nodes"), HasSubstr("rack 3"));
  EXPECT_THAT(refused("node describe h0 " + std::string(65, 'x')), HasSubstr("has 65 octets"));
}

TEST_F(FabricInterpreterTest, LossIsConfirmed) {
  EXPECT_EQ(done("loss 2.5%"), "2.5 % of management datagrams are lost\n");
  EXPECT_EQ(done("link loss leaf0[1] 10"), "10 % of packets are lost on the link of leaf0[1]\n");
}

TEST_F(FabricInterpreterTest, NamesThatDoNotExistAreRefused) {
  EXPECT_EQ(refused("link down leaf7[1]"),
            "there is no node 'leaf7'; similar names: leaf0, leaf1\n");
  EXPECT_THAT(refused("node off h9"), StartsWith("there is no node 'h9'; similar names: h0, h1"));
  EXPECT_THAT(refused("link error leaf0[9] symbol"), StartsWith("'9' is not a port of leaf0"));
  EXPECT_THAT(refused("show ports nothing"), StartsWith("there is no node 'nothing'"));
  EXPECT_THAT(refused("jump"), EndsWith("lists them\n"));
}

TEST_F(FabricInterpreterTest, QuitEndsTheFabric) {
  EXPECT_TRUE(execute("quit").quits);
  EXPECT_FALSE(execute("show").quits);
}

fabric::Topology ring() {
  std::string message;
  auto topology = fabric::ring_topology("6", {}, message);
  EXPECT_TRUE(topology.ok()) << message;
  return std::move(*topology);
}

/// A ring with shortest ways, on which hosts send to the one two ahead until nothing moves.
TEST(ShowDeadlock, NamesEachLaneOfTheCycleWithBothEndsOfItsLink) {
  fabric::Fabric fabric(ring(), {.hop_delay = std::chrono::nanoseconds(150), .slowdown = 1});
  const fabric::NodeNames names(fabric.topology());
  const fabric::NodeAddresses addresses(fabric.topology());
  FabricCaptures captures(fabric);
  FabricInterpreter interpreter(fabric, names, addresses, captures);
  std::string message;
  const auto plan = fabric::plan_routes(fabric.topology(), fabric::Routing::kMinHop, message);
  ASSERT_TRUE(plan) << message;
  constexpr std::uint8_t kForEver = 31;
  const fabric::SubnetSettings settings{
      .queue_life = kForEver, .queue_life_to_host = kForEver, .switch_life = kForEver};
  ASSERT_TRUE(fabric::set_up_subnet(fabric, Instant{}, *plan, settings, message)) << message;
  EXPECT_THAT(interpreter.execute(Instant{}, "show deadlock").text,
              StartsWith("no deadlock; 0 lanes wait for room\n"
                         "the forwarding tables make one possible, on service level 0:\n"
                         "credit loop 1 of 2\n"
                         "  sw0[2] -> sw1[3]  lane 0, LID 7 -> 8\n"));
  const sim::FabricLoad load{.pattern = {sim::TrafficPattern::Kind::kShift, 2},
                             .duration = std::chrono::microseconds(100)};
  ASSERT_TRUE(sim::run_load(fabric, load, message)) << message;
  const std::string text = interpreter.execute(Instant{}, "show deadlock").text;
  EXPECT_THAT(text, StartsWith("deadlock since 0.00000"));
  EXPECT_THAT(text, HasSubstr("  sw5[2] -> sw0[3]  lane 0, LID 12 -> 7\n"
                              "12 lanes with "));
  const auto json =
      nlohmann::json::parse(interpreter.execute(Instant{}, "show deadlock --json").text);
  ASSERT_EQ(json["deadlocks"].size(), 1U);
  EXPECT_EQ(json["deadlocks"][0]["cycle"].size(), 6U);
  EXPECT_EQ(json["deadlocks"][0]["cycle"][5]["peer_node"], "sw0");
  EXPECT_EQ(json["credit_loops"].size(), 2U);
}

}  // namespace
}  // namespace verbatim::tools
