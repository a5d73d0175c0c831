// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric.h"

#include <gtest/gtest.h>

#include <chrono>

#include "fabric/test_fabric.h"
#include "wire/management/node_info.h"

namespace verbatim::fabric {
namespace {

using std::chrono::milliseconds;
using test::star;
using test::TestFabric;
using wire::PortState;
using wire::SmpAttribute;

constexpr wire::Smp kNodeInfo{.attribute = SmpAttribute::kNodeInfo};
/// A class of vendors, which programs use for pings.
constexpr wire::MgmtClass kVendor{0x0a};

Registration listener() {
  return {.mgmt_class = kVendor, .class_version = 1, .methods = MethodMask().set(0x01).set(0x03)};
}
wire::Mad vendor_mad(wire::MadMethod method) {
  return {.header = {.mgmt_class = kVendor, .class_version = 1, .method = method}};
}

TEST(Fabric, EveryNodeAnswersAlongADirectedRoute) {
  TestFabric test(star("3"));
  const auto own = test.ask(kNodeInfo, {});
  ASSERT_TRUE(own);
  EXPECT_EQ(wire::NodeInfo::from(own->data).type, wire::NodeType::kChannelAdapter);
  const auto leaf = test.ask(kNodeInfo, {1});
  ASSERT_TRUE(leaf);
  EXPECT_EQ(wire::NodeInfo::from(leaf->data).type, wire::NodeType::kSwitch);
  EXPECT_EQ(wire::NodeInfo::from(leaf->data).local_port, 1);
  const auto other = test.ask(kNodeInfo, {1, 3});
  ASSERT_TRUE(other);
  EXPECT_EQ(wire::NodeInfo::from(other->data).node_guid,
            test.fabric.topology().nodes[test.node("h2")].node_guid);
}

TEST(Fabric, ARouteBackToTheSenderWorks) {
  TestFabric test(star("2"));
  const auto answer = test.ask(kNodeInfo, {1, 1});
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::NodeInfo::from(answer->data).node_guid,
            test.fabric.topology().nodes[test.node("h0")].node_guid);
}

TEST(Fabric, ARouteToNowhereIsDroppedWithAReason) {
  TestFabric test(star("2"));
  EXPECT_FALSE(test.ask(kNodeInfo, {1, 200}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kNoSuchPort), 1U);
  EXPECT_FALSE(test.ask(kNodeInfo, {1, 2, 1}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kMalformed), 1U) << "through a host";
  const auto drops = test.fabric.recent_drops();
  ASSERT_EQ(drops.size(), 2U);
  EXPECT_EQ(drops[0].port, test.leaf(1));
  EXPECT_EQ(drops[0].attribute_id, 0x11);
}

TEST(Fabric, ADirectedRouteThatCannotBeginHereIsRefused) {
  TestFabric test(star("2"));
  const PortEnd host = test.host("h1");
  const AgentId agent = test.open(host, {.qpn = wire::QpNumber::kSmi,
                                         .mgmt_class = wire::MgmtClass::kSubnetDirectedRoute,
                                         .class_version = 1});
  const auto post = [&](std::uint8_t port, std::uint8_t pointer) {
    wire::Smp smp{.hop_pointer = pointer, .hop_count = 1};
    smp.initial_path[1] = std::byte{port};
    UserMad user{.agent = agent, .address = {.lid = wire::Lid::kPermissive}};
    user.octets.resize(wire::Smp::kSize);
    smp.emit(std::span(user.octets).first<wire::Smp::kSize>());
    const Status allowed = test.fabric.may_send(host, TestFabric::kClient, user, 256);
    const Status posted = test.fabric.post_send(test.now, host, TestFabric::kClient, user);
    EXPECT_EQ(allowed.ok(), posted.ok());
    return posted;
  };
  EXPECT_TRUE(post(1, 0));
  EXPECT_EQ(post(2, 0).error(), Errc::kInvalidArgument);  // another port of the adapter
  EXPECT_EQ(post(1, 1).error(), Errc::kInvalidArgument);  // begun already
}

TEST(Fabric, LateRetriesDoNotHoldUpThePacketsOfOthers) {
  TestFabric test(star("2"));
  const PortEnd host = test.host("h1");
  const AgentId agent = test.open(host, {.qpn = wire::QpNumber::kSmi,
                                         .mgmt_class = wire::MgmtClass::kSubnetLidRouted,
                                         .class_version = 1});
  UserMad user{.agent = agent,
               .timeout = std::chrono::milliseconds(1),
               .retries = 1000,
               .address = {.lid = wire::Lid{9}}};
  user.octets.resize(wire::Smp::kSize);
  for (std::uint32_t i = 0; i < 2 * Fabric::kEventsMax; ++i) {
    wire::Smp{.route = wire::SmpRoute::kLid, .transaction = wire::TransactionId{i}}.emit(
        std::span(user.octets).first<wire::Smp::kSize>());
    ASSERT_TRUE(test.fabric.post_send(test.now, host, TestFabric::kClient, user));
  }
  test.advance_all_due();
  test.now = test.now + std::chrono::seconds(1);  // the process got no processor for so long
  wire::Smp probe{.attribute = wire::SmpAttribute::kNodeInfo};
  const AgentId other =
      test.open(test.manager(), {.qpn = wire::QpNumber::kSmi,
                                 .mgmt_class = wire::MgmtClass::kSubnetDirectedRoute,
                                 .class_version = 1});
  UserMad request{.agent = other,
                  .timeout = std::chrono::seconds(9),
                  .address = {.lid = wire::Lid::kPermissive}};
  request.octets.resize(wire::Smp::kSize);
  probe.emit(std::span(request.octets).first<wire::Smp::kSize>());
  ASSERT_TRUE(test.fabric.post_send(test.now, test.manager(), TestFabric::kClient, request));
  test.fabric.advance(test.now);
  EXPECT_TRUE(test.take(test.manager()));
}

TEST(Fabric, TooManyDatagramsAreNotKept) {
  TestFabric test(star("2"), {.hop_delay = std::chrono::seconds(1)});
  const PortEnd host = test.host("h1");
  const AgentId agent = test.open(host, {.qpn = wire::QpNumber::kSmi,
                                         .mgmt_class = wire::MgmtClass::kSubnetLidRouted,
                                         .class_version = 1});
  UserMad user{.agent = agent, .address = {.lid = wire::Lid{9}}};
  user.octets.resize(wire::Smp::kSize);
  wire::Smp{.route = wire::SmpRoute::kLid}.emit(std::span(user.octets).first<wire::Smp::kSize>());
  for (std::size_t i = 0; i < Fabric::kFlightsMax; ++i) {
    ASSERT_TRUE(test.fabric.post_send(test.now, host, TestFabric::kClient, user));
  }
  EXPECT_EQ(test.fabric.drop_count(DropReason::kCongestion), 0);
  ASSERT_TRUE(test.fabric.post_send(test.now, host, TestFabric::kClient, user));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kCongestion), 1);
}

TEST(Fabric, LinksAreInInitializeUntilAManagerComes) {
  TestFabric test(star("2"));
  EXPECT_EQ(test.fabric.port_status(test.host("h0")).state, PortState::kInitialize);
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).physical_state, wire::PortPhysicalState::kLinkUp);
  EXPECT_EQ(test.fabric.census(), (PortCensus{.cabled = 4, .linked = 4, .active = 0}));
  test.bring_up(2);
  EXPECT_EQ(test.fabric.census(), (PortCensus{.cabled = 4, .linked = 4, .active = 4}));
  const auto status = test.fabric.port_status(test.host("h1"));
  EXPECT_EQ(status.state, PortState::kActive);
  EXPECT_EQ(status.lid, wire::Lid{2});
  EXPECT_EQ(status.sm_lid, wire::Lid{1});
  EXPECT_EQ(status.rate, LinkRate{});
  EXPECT_EQ(status.pkeys.front(), wire::PKey::kDefault);
  EXPECT_EQ(status.gids.front().octets[0], 0xfe);
}

TEST(Fabric, WhatAManagerWritesIsAChangeToPoll) {
  TestFabric test(star("2"));
  while (test.fabric.poll_change()) {
  }
  test.set_lids(1, wire::Lid{7}, {1, 2});
  EXPECT_EQ(test.fabric.poll_change(), test.host("h1"));
  EXPECT_FALSE(test.fabric.poll_change());
  (void)test.ask(kNodeInfo, {1, 2});
  EXPECT_FALSE(test.fabric.poll_change()) << "a Get changes nothing";
}

TEST(Fabric, PacketsByLidFollowTheTable) {
  TestFabric test(star("2"));
  EXPECT_FALSE(test.ask_lid(kNodeInfo, wire::Lid{2}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kNoRoute), 1U);
  test.bring_up(2);
  EXPECT_EQ(test.fabric.route_of(test.node("leaf0"), wire::Lid{2}), 2);
  EXPECT_EQ(test.fabric.route_of(test.node("leaf0"), TestFabric::kSwitchLid), 0);
  EXPECT_FALSE(test.fabric.route_of(test.node("leaf0"), wire::Lid{9}));
  const auto answer = test.ask_lid(kNodeInfo, wire::Lid{2});
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::NodeInfo::from(answer->data).node_guid,
            test.fabric.topology().nodes[test.node("h1")].node_guid);
  const auto leaf = test.ask_lid(kNodeInfo, TestFabric::kSwitchLid);
  ASSERT_TRUE(leaf);
  EXPECT_EQ(wire::NodeInfo::from(leaf->data).type, wire::NodeType::kSwitch);
  const auto own = test.ask_lid(kNodeInfo, wire::Lid{1});
  ASSERT_TRUE(own) << "to itself";
  EXPECT_FALSE(test.ask_lid(kNodeInfo, wire::Lid{9}));
}

TEST(Fabric, ADirectedPartOfARouteCanBeginAtASwitch) {
  TestFabric test(star("2"));
  test.bring_up(2);
  wire::Smp request = kNodeInfo;
  request.dr_source = wire::Lid{1};
  for (const std::uint8_t port : {std::uint8_t{1}, std::uint8_t{2}}) {
    const auto answer = test.ask_from(request, TestFabric::kSwitchLid, {port});
    ASSERT_TRUE(answer) << "port 1 is also the way back to the program";
    EXPECT_EQ(wire::NodeInfo::from(answer->data).node_guid,
              test.fabric.topology().nodes[test.node(port == 1 ? "h0" : "h1")].node_guid);
  }
}

TEST(Fabric, AnAdapterTakesPacketsToItsOwnLidOnly) {
  TestFabric test(star("2"));
  test.bring_up(2);
  test.set_lids(1, wire::Lid{50}, {1, 2});
  EXPECT_FALSE(test.ask_lid(kNodeInfo, wire::Lid{2}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kNotForThisPort), 1U);
}

TEST(Fabric, APingNeedsActivePortsAndAnAgent) {
  TestFabric test(star("2"));
  const PortEnd h0 = test.host("h0");
  const PortEnd h1 = test.host("h1");
  const AgentId client = test.open(h0, {.mgmt_class = kVendor, .class_version = 1});
  test.send(h0, client, vendor_mad(wire::MadMethod::kSend), wire::Lid{2});
  EXPECT_EQ(test.fabric.drop_count(DropReason::kPortNotActive), 1U);
  test.bring_up(2);
  test.send(h0, client, vendor_mad(wire::MadMethod::kSend), wire::Lid{2});
  EXPECT_EQ(test.fabric.drop_count(DropReason::kUnclaimed), 1U);
  (void)test.open(h1, listener());
  test.send(h0, client, vendor_mad(wire::MadMethod::kSend), wire::Lid{2});
  const auto arrived = test.take(h1);
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->address.lid, wire::Lid{1});
}

TEST(Fabric, ARequestThatIsForNobodyIsAnsweredSo) {
  TestFabric test(star("2"));
  test.bring_up(2);
  const PortEnd h0 = test.host("h0");
  const AgentId client = test.open(h0, {.mgmt_class = kVendor, .class_version = 1});
  UserMad request{
      .agent = client,
      .timeout = milliseconds(100),
      .address = {.lid = wire::Lid{2}, .qpn = wire::QpNumber::kGsi, .qkey = wire::QKey::kGsi}};
  request.octets.resize(wire::Mad::kSize);
  vendor_mad(wire::MadMethod::kGet).emit(std::span(request.octets).first<wire::Mad::kSize>());
  ASSERT_TRUE(test.fabric.post_send(test.now, h0, TestFabric::kClient, request));
  test.advance_all_due();
  const auto answer = test.take(h0);
  ASSERT_TRUE(answer);
  const auto mad = wire::MadView::parse(answer->octets);
  ASSERT_TRUE(mad);
  EXPECT_EQ(mad->status(), 0x000c);
  EXPECT_EQ(mad->method(), wire::MadMethod::kGetResp);
  const auto sm_info = test.ask({.attribute = SmpAttribute::kSmInfo}, {1, 2});
  ASSERT_TRUE(sm_info);
  EXPECT_EQ(sm_info->status, wire::SmpStatus::kUnsupportedMethodOrAttribute)
      << "no subnet manager there";
}

TEST(Fabric, AWrongQKeyIsCountedAndDropped) {
  TestFabric test(star("2"));
  test.bring_up(2);
  const PortEnd h0 = test.host("h0");
  const AgentId client = test.open(h0, {.mgmt_class = kVendor, .class_version = 1});
  UserMad mad{.agent = client,
              .address = {.lid = wire::Lid{2}, .qpn = wire::QpNumber::kGsi, .qkey = wire::QKey{5}}};
  mad.octets.resize(wire::Mad::kSize);
  vendor_mad(wire::MadMethod::kSend).emit(std::span(mad.octets).first<wire::Mad::kSize>());
  ASSERT_TRUE(test.fabric.post_send(test.now, h0, TestFabric::kClient, mad));
  test.advance_all_due();
  EXPECT_EQ(test.fabric.drop_count(DropReason::kBadQKey), 1U);
  EXPECT_EQ(test.port_info(1, {1, 2}).qkey_violations, 1);
}

TEST(Fabric, CountersOfBothEndsOfALinkAgree) {
  TestFabric test(star("2"));
  test.bring_up(2);
  const PortEnd h0 = test.host("h0");
  const AgentId client = test.open(h0, {.mgmt_class = kVendor, .class_version = 1});
  (void)test.open(test.host("h1"), listener());
  const auto before = test.fabric.counter(test.leaf(2), wire::PortCounter::kTransmitPackets);
  for (int i = 0; i < 10; ++i) {
    test.send(h0, client, vendor_mad(wire::MadMethod::kSend), wire::Lid{2});
  }
  EXPECT_EQ(test.fabric.counter(test.leaf(2), wire::PortCounter::kTransmitPackets), before + 10);
  for (const std::uint8_t port : {std::uint8_t{1}, std::uint8_t{2}}) {
    const PortEnd here = test.leaf(port);
    const PortEnd there = *test.fabric.peer_of(here);
    for (const auto& [sent, received] :
         {std::pair(wire::PortCounter::kTransmitPackets, wire::PortCounter::kReceivePackets),
          std::pair(wire::PortCounter::kTransmitWords, wire::PortCounter::kReceiveWords)}) {
      EXPECT_EQ(test.fabric.counter(here, sent), test.fabric.counter(there, received));
      EXPECT_EQ(test.fabric.counter(there, sent), test.fabric.counter(here, received));
    }
  }
  EXPECT_EQ(test.fabric.counter(h0, wire::PortCounter::kTransmitWords),
            72 * test.fabric.counter(h0, wire::PortCounter::kTransmitPackets));
}

TEST(Fabric, AllPacketsAreLostIfTheUserWantsThat) {
  TestFabric test(star("2"), {.loss_per_mille = 1000});
  EXPECT_FALSE(test.ask(kNodeInfo, {1}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kLossOnPurpose), 1U);
  EXPECT_TRUE(test.ask(kNodeInfo, {})) << "within the node there is no loss";
  test.fabric.set_loss(0);
  EXPECT_TRUE(test.ask(kNodeInfo, {1}));
  EXPECT_TRUE(test.fabric.set_link_loss(test.leaf(2), 1000));
  EXPECT_TRUE(test.ask(kNodeInfo, {1}));
  EXPECT_FALSE(test.ask(kNodeInfo, {1, 2}));
}

TEST(Fabric, ASeedRepeatsItsLosses) {
  const auto lost = [](std::uint64_t seed) {
    TestFabric test(star("2"), {.seed = seed, .loss_per_mille = 300});
    std::vector<bool> answered;
    for (int i = 0; i < 50; ++i) answered.push_back(test.ask(kNodeInfo, {1}).has_value());
    return answered;
  };
  EXPECT_EQ(lost(1), lost(1));
  EXPECT_NE(lost(1), lost(2));
}

TEST(Fabric, ALinkTakesItsTime) {
  TestFabric test(star("2"), {.hop_delay = milliseconds(2)});
  (void)test.ask(kNodeInfo, {1, 2});
  EXPECT_EQ(test.now, Instant::at(milliseconds(200))) << "the answer came while the program waited";
  EXPECT_FALSE(test.fabric.next_due());
}

TEST(Fabric, OnlySwitchesCanBeStrictAboutSpeeds) {
  TestFabric test(star("2"), {.has_strict_switches = true});
  EXPECT_EQ(test.port_info(2, {1}).extended_speed_active, 0);
  EXPECT_EQ(test.port_info(1, {1, 2}).extended_speed_active, 2);
  test.fabric.set_power(test.now, test.node("leaf0"), false);
  test.fabric.set_power(test.now, test.node("leaf0"), true);
  EXPECT_EQ(test.port_info(2, {1}).extended_speed_active, 0) << "a new start changes nothing";
}

TEST(Fabric, TablesThatLoopEndAPacket) {
  TestFabric test([] {
    std::string message;
    return tree_topology("2x1", LinkRate{}, message).value();
  }());
  // Two switches with two links: both send LID 9 to each other, over different links.
  const std::uint32_t leaf0 = test.node("leaf0");
  std::vector<std::uint8_t> trunks;
  for (std::uint8_t port = 1; port <= test.fabric.topology().nodes[leaf0].port_count; ++port) {
    const auto peer = test.fabric.peer_of({.node = leaf0, .port = port});
    if (peer && peer->node == test.node("leaf1")) trunks.push_back(port);
  }
  ASSERT_EQ(trunks.size(), 2U);
  wire::Smp table{.method = wire::MadMethod::kSet,
                  .attribute = SmpAttribute::kLinearForwardingTable};
  const wire::SwitchInfo top{.linear_top = 63};
  table.data.fill(std::byte{trunks[0]});
  const auto back = test.fabric.peer_of({.node = leaf0, .port = trunks[1]})->port;
  ASSERT_TRUE(test.ask(table, {1}));
  test.set(SmpAttribute::kSwitchInfo, 0, top, {1});
  table.data.fill(std::byte{back});
  ASSERT_TRUE(test.ask(table, {1, trunks[0]}));
  test.set(SmpAttribute::kSwitchInfo, 0, top, {1, trunks[0]});
  EXPECT_FALSE(test.ask_lid(kNodeInfo, wire::Lid{9}));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kHopLimit), 1U);
}

}  // namespace
}  // namespace verbatim::fabric
