// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/subnet_agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fabric/node/test_node.h"
#include "wire/headers/test_octets.h"

namespace verbatim::fabric {
namespace {

using test::ask;
using test::get;
using test::host;
using test::set;
using test::switch_of;
using wire::SmpAttribute;
using wire::SmpStatus;
using wire::test::hex;

/// The first octets of the data of an answer.
wire::test::Octets head(const wire::Smp& smp, std::size_t octets) {
  return {smp.data.begin(), smp.data.begin() + static_cast<std::ptrdiff_t>(octets)};
}

wire::Smp with_data(wire::Smp smp, std::string_view text) {
  std::ranges::copy(hex(text), smp.data.begin());
  return smp;
}

TEST(SubnetAgent, AnAnswerKeepsWhatConnectsItWithItsRequest) {
  Node node = host();
  wire::Smp request = get(SmpAttribute::kNodeInfo);
  request.transaction = wire::TransactionId{0x1234};
  request.hop_count = 3;
  request.hop_pointer = 4;
  request.return_path[2] = std::byte{7};
  const auto [outcome, answer] = ask(node, request);
  EXPECT_TRUE(outcome.is_answered);
  EXPECT_EQ(answer.method, wire::MadMethod::kGetResp);
  EXPECT_EQ(answer.status, SmpStatus::kOk);
  EXPECT_TRUE(answer.returning);
  EXPECT_EQ(answer.transaction, request.transaction);
  EXPECT_EQ(answer.hop_pointer, 4);
  EXPECT_EQ(answer.return_path, request.return_path);
}

TEST(SubnetAgent, NodeInfoNamesThePortWhereTheRequestArrived) {
  Node node = host(2);
  const auto answer = ask(node, get(SmpAttribute::kNodeInfo), {.ingress = 2}).answer;
  const auto info = wire::NodeInfo::from(answer.data);
  EXPECT_EQ(info.type, wire::NodeType::kChannelAdapter);
  EXPECT_EQ(info.port_count, 2);
  EXPECT_EQ(info.local_port, 2);
  EXPECT_EQ(info.port_guid, wire::Guid{0x112});
  EXPECT_EQ(info.node_guid, wire::Guid{0x100});
  EXPECT_EQ(info.system_guid, wire::Guid{0x101});
}

TEST(SubnetAgent, ASwitchHasTheGuidOfPortZero) {
  Node node = switch_of(36);
  const auto answer = ask(node, get(SmpAttribute::kNodeInfo), {.ingress = 17}).answer;
  const auto info = wire::NodeInfo::from(answer.data);
  EXPECT_EQ(info.type, wire::NodeType::kSwitch);
  EXPECT_EQ(info.local_port, 17);
  EXPECT_EQ(info.port_guid, wire::Guid{0x202});
}

TEST(SubnetAgent, ADescriptionIsTextWithZeroesBehindIt) {
  Node node = host();
  const auto answer = ask(node, get(SmpAttribute::kNodeDescription)).answer;
  std::string text;
  for (const std::byte octet : answer.data) text.push_back(static_cast<char>(octet));
  EXPECT_EQ(text, std::string("h0 HCA-1") + std::string(56, '\0'));
}

TEST(SubnetAgent, WhatItDoesNotKnowItRefusesByName) {
  Node node = host();
  const auto status = [&node](const wire::Smp& smp) { return ask(node, smp).answer.status; };
  const auto unsupported = SmpStatus::kUnsupportedMethodOrAttribute;
  EXPECT_EQ(status(get(SmpAttribute::kLedInfo)), unsupported);
  EXPECT_EQ(status(get(SmpAttribute::kNotice)), unsupported);
  EXPECT_EQ(status(get(SmpAttribute{0xff90})), unsupported);
  EXPECT_EQ(status(get(SmpAttribute::kSwitchInfo)), unsupported) << "not in an adapter";
  EXPECT_EQ(status(get(SmpAttribute::kLinearForwardingTable)), unsupported);
  EXPECT_EQ(status(get(SmpAttribute::kMulticastForwardingTable)), unsupported);
  EXPECT_EQ(status(set(SmpAttribute::kNodeInfo, wire::NodeInfo{})), unsupported) << "read only";
  EXPECT_EQ(status({.method = wire::MadMethod::kSend}), SmpStatus::kUnsupportedMethod);
}

TEST(SubnetAgent, PortStateChangeIsClearedByWritingOne) {
  Node node = switch_of(4);
  node.switch_part().info.port_state_change = true;
  (void)ask(node, set(SmpAttribute::kSwitchInfo, wire::SwitchInfo{.port_state_change = false}));
  EXPECT_TRUE(node.switch_part().info.port_state_change);
  const auto answer =
      ask(node, set(SmpAttribute::kSwitchInfo, wire::SwitchInfo{.port_state_change = true})).answer;
  EXPECT_FALSE(node.switch_part().info.port_state_change);
  EXPECT_FALSE(wire::SwitchInfo::from(answer.data).port_state_change);
}

TEST(SubnetAgent, ASwitchKeepsWhatIsWritableAndShowsItsLimits) {
  Node node = switch_of(4);
  const auto answer =
      ask(node, set(SmpAttribute::kSwitchInfo, wire::SwitchInfo{.linear_limit = 1,
                                                                .multicast_limit = 1,
                                                                .linear_top = 0xbfff,
                                                                .life_time = 0x12,
                                                                .multicast_top = 0xc010}))
          .answer;
  const auto info = wire::SwitchInfo::from(answer.data);
  EXPECT_EQ(answer.status, SmpStatus::kOk);
  EXPECT_EQ(info.linear_limit, 0xc000);
  EXPECT_EQ(info.multicast_limit, 0x1000);
  EXPECT_EQ(info.random_limit, 0);
  EXPECT_EQ(info.optimized_sl_to_vl, 0);
  EXPECT_EQ(info.linear_top, 0xbfff);
  EXPECT_EQ(info.life_time, 0x12);
  EXPECT_EQ(info.multicast_top, 0xc010);
  const auto beyond =
      ask(node, set(SmpAttribute::kSwitchInfo, wire::SwitchInfo{.linear_top = 0xc000})).answer;
  EXPECT_EQ(beyond.status, SmpStatus::kInvalidField);
}

TEST(SubnetAgent, APacketIsForwardedByTheTableUpToItsTop) {
  Node node = switch_of(4);
  wire::Smp block = set(SmpAttribute::kLinearForwardingTable, wire::SwitchInfo{});
  block.data.fill(std::byte{0xff});
  block.data[5] = std::byte{3};
  block.data[6] = std::byte{99};
  EXPECT_EQ(ask(node, block).answer.status, SmpStatus::kOk);
  EXPECT_FALSE(node.route_of(wire::Lid{5})) << "LinearFDBTop is 0";
  (void)ask(node, set(SmpAttribute::kSwitchInfo, wire::SwitchInfo{.linear_top = 6}));
  EXPECT_EQ(node.route_of(wire::Lid{5}), 3);
  EXPECT_FALSE(node.route_of(wire::Lid{6})) << "a port that there is not";
  EXPECT_EQ(ask(node, get(SmpAttribute::kLinearForwardingTable, 0)).answer.data, block.data);
  EXPECT_EQ(ask(node, get(SmpAttribute::kLinearForwardingTable, 768)).answer.status,
            SmpStatus::kInvalidField);
}

TEST(SubnetAgent, AMulticastBlockIsWrittenAndReadBack) {
  Node node = switch_of(36);
  const auto block = with_data({.method = wire::MadMethod::kSet,
                                .attribute = SmpAttribute::kMulticastForwardingTable,
                                .attribute_modifier = 0x2000'0000},
                               "0001 0002");
  EXPECT_EQ(ask(node, block).answer.status, SmpStatus::kOk);
  EXPECT_TRUE(node.switch_part().tables.ports_of(wire::Lid{0xc000}).contains(32));
  EXPECT_TRUE(node.switch_part().tables.ports_of(wire::Lid{0xc001}).contains(33));
}

TEST(SubnetAgent, APKeyTableHasBlocksOfThirtyTwo) {
  Node node = host();
  const auto first = ask(node, get(SmpAttribute::kPKeyTable, 0)).answer;
  EXPECT_EQ(head(first, 6), hex("ffff 0000 0000"));
  const auto written = ask(node, with_data({.method = wire::MadMethod::kSet,
                                            .attribute = SmpAttribute::kPKeyTable,
                                            .attribute_modifier = 1},
                                           "8005 0006"));
  EXPECT_EQ(written.answer.status, SmpStatus::kOk);
  EXPECT_EQ(written.outcome.changed_port, 1);
  EXPECT_EQ(node.port(1).pkeys[32], wire::PKey{0x8005});
  EXPECT_EQ(node.port(1).pkeys[33], wire::PKey{0x0006});
  EXPECT_EQ(ask(node, get(SmpAttribute::kPKeyTable, 2)).answer.status, SmpStatus::kInvalidField);
}

TEST(SubnetAgent, EachPortOfASwitchHasItsPKeys) {
  Node node = switch_of(4);
  (void)ask(node, with_data({.method = wire::MadMethod::kSet,
                             .attribute = SmpAttribute::kPKeyTable,
                             .attribute_modifier = 0x0003'0000},
                            "7fff 8001"));
  EXPECT_EQ(node.port(3).pkeys[1], wire::PKey{0x8001});
  EXPECT_EQ(node.port(2).pkeys[1], wire::PKey{0});
  EXPECT_EQ(ask(node, get(SmpAttribute::kPKeyTable, 0x0003'0001)).answer.status,
            SmpStatus::kInvalidField)
      << "32 keys";
  EXPECT_EQ(ask(node, get(SmpAttribute::kPKeyTable, 0x0005'0000)).answer.status,
            SmpStatus::kInvalidField)
      << "four ports";
}

TEST(SubnetAgent, TheFirstGuidIsThePortsOwn) {
  Node node = host();
  const auto answer =
      ask(node, with_data({.method = wire::MadMethod::kSet, .attribute = SmpAttribute::kGuidInfo},
                          "00000000000000aa 00000000000000bb"))
          .answer;
  EXPECT_EQ(head(answer, 24), hex("0000000000000111 00000000000000bb 0000000000000000"));
  EXPECT_EQ(ask(node, get(SmpAttribute::kGuidInfo, 1)).answer.status, SmpStatus::kInvalidField);
}

TEST(SubnetAgent, ASwitchMapsLanesByPortInAndPortOut) {
  Node node = switch_of(4);
  const auto change = with_data({.method = wire::MadMethod::kSet,
                                 .attribute = SmpAttribute::kSlToVlTable,
                                 .attribute_modifier = 0x0102},
                                "0123456701234560");
  EXPECT_EQ(head(ask(node, change).answer, 9), hex("0123456701234560 00"));
  EXPECT_EQ(head(ask(node, get(SmpAttribute::kSlToVlTable, 0x0102)).answer, 8),
            hex("0123456701234560"));
  EXPECT_EQ(head(ask(node, get(SmpAttribute::kSlToVlTable, 0x0201)).answer, 8),
            hex("0123456701234567"));
  EXPECT_EQ(ask(node, get(SmpAttribute::kSlToVlTable, 0x0105)).answer.status,
            SmpStatus::kInvalidField);
  EXPECT_EQ(ask(node, get(SmpAttribute::kSlToVlTable, 0x1'0101)).answer.status,
            SmpStatus::kInvalidField);
}

TEST(SubnetAgent, AnAdapterHasOneMapOfLanes) {
  Node node = host();
  (void)ask(node, with_data({.method = wire::MadMethod::kSet,
                             .attribute = SmpAttribute::kSlToVlTable,
                             .attribute_modifier = 0},
                            "0000000000000000"));
  EXPECT_EQ(head(ask(node, get(SmpAttribute::kSlToVlTable, 0)).answer, 8), hex("0000000000000000"));
}

TEST(SubnetAgent, ArbitrationHasAHighAndALowTable) {
  Node node = switch_of(4);
  const auto high = with_data({.method = wire::MadMethod::kSet,
                               .attribute = SmpAttribute::kVlArbitrationTable,
                               .attribute_modifier = 0x0003'0002},
                              "01c0");
  EXPECT_EQ(ask(node, high).answer.status, SmpStatus::kOk);
  EXPECT_EQ(node.port(2).high_arbitration[1], std::byte{0xc0});
  EXPECT_EQ(head(ask(node, get(SmpAttribute::kVlArbitrationTable, 0x0001'0002)).answer, 4),
            hex("0001 0101"))
      << "the low table is another one";
  for (const std::uint32_t wrong : {0x0002'0002U, 0x0004'0002U, 0x0001'0000U, 0x0001'0005U}) {
    EXPECT_EQ(ask(node, get(SmpAttribute::kVlArbitrationTable, wrong)).answer.status,
              SmpStatus::kInvalidField)
        << wrong;
  }
}

TEST(SubnetAgent, AWrongMKeyIsDiscardedAndReported) {
  Node node = host();
  wire::PortInfo& info = node.port(1).info;
  info.mkey = wire::MKey{1};
  info.lid = wire::Lid{5};
  info.sm_lid = wire::Lid{6};
  const auto exchange = ask(node, set(SmpAttribute::kPortInfo, wire::PortInfo{}),
                            {.ingress = 1, .source = wire::Lid{7}});
  EXPECT_FALSE(exchange.outcome.is_answered);
  EXPECT_EQ(info.mkey_violations, 1);
  EXPECT_EQ(info.lid, wire::Lid{5});
  const auto trap = node.traps().poll({}, Duration{1});
  ASSERT_TRUE(trap);
  EXPECT_EQ(trap->notice.number, wire::TrapNumber::kBadMKey);
  EXPECT_EQ(trap->notice.type, wire::NoticeType::kSecurity);
  EXPECT_EQ(trap->notice.issuer, wire::Lid{5});
  EXPECT_EQ(trap->notice.details[3], std::byte{7});
  EXPECT_EQ(trap->notice.details[6], std::byte{2}) << "a Set";
}

TEST(SubnetAgent, TheMKeyOfPortZeroGuardsAllPortsOfASwitch) {
  Node node = switch_of(4);
  node.port(0).info.mkey = wire::MKey{1};
  wire::Smp change = set(SmpAttribute::kPortInfo, node.port(3).info, 3);
  EXPECT_FALSE(ask(node, change).outcome.is_answered);
  change.mkey = wire::MKey{1};
  EXPECT_TRUE(ask(node, change).outcome.is_answered);
}

TEST(SubnetAgent, WithoutASubnetManagerThereIsNoTrap) {
  Node node = host();
  node.port(1).info.mkey = wire::MKey{1};
  (void)ask(node, set(SmpAttribute::kPortInfo, wire::PortInfo{}));
  EXPECT_FALSE(node.traps().next_due());
}

}  // namespace
}  // namespace verbatim::fabric
