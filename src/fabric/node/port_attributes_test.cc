// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fabric/node/test_node.h"

namespace verbatim::fabric {
namespace {

using test::ask;
using test::get;
using test::host;
using test::set;
using test::switch_of;
using wire::PortInfo;
using wire::PortPhysicalState;
using wire::PortState;
using wire::SmpAttribute;
using wire::SmpStatus;

constexpr std::uint32_t kExtended = PortInfo::kExtendedSpeedsModifier;

PortInfo read(Node& node, std::uint32_t modifier) {
  return PortInfo::from(ask(node, get(SmpAttribute::kPortInfo, modifier)).answer.data);
}
/// Nothing that changes the link.
PortInfo no_change() {
  PortInfo info;
  info.gid_prefix = 0xfe80'0000'0000'0000;
  return info;
}
test::Exchange write(Node& node, const PortInfo& info, std::uint32_t modifier = 0) {
  return ask(node, set(SmpAttribute::kPortInfo, info, modifier));
}
SmpStatus status_of(Node& node, const PortInfo& info, std::uint32_t modifier = 0) {
  return write(node, info, modifier).answer.status;
}
void link_up(Node& node, std::uint8_t port) {
  node.port(port).info.state = PortState::kInitialize;
  node.port(port).info.physical_state = PortPhysicalState::kLinkUp;
}

TEST(PortAttributes, AStrictNodeShowsSpeedsAboveQdrOnRequestOnly) {
  Node node = host();
  EXPECT_EQ(read(node, 1).extended_speed_active, 2) << "EDR";
  node.set_hides_extended_speeds(true);
  const auto plain = read(node, 1);
  EXPECT_EQ(plain.extended_speed_active, 0);
  EXPECT_EQ(plain.extended_speed_supported, 0);
  EXPECT_EQ(plain.extended_speed_enabled, 0);
  EXPECT_EQ(plain.speed_active, 4);
  const auto extended = read(node, 1 | kExtended);
  EXPECT_EQ(extended.extended_speed_active, 2);
  EXPECT_EQ(extended.extended_speed_supported, 3);
  EXPECT_EQ(extended.extended_speed_enabled, 3);
  EXPECT_NE(plain.capability_mask & wire::PortCapability::kExtendedSpeeds, 0U);
}

TEST(PortAttributes, PortZeroIsThePortOfTheRequest) {
  Node node = host(2);
  node.port(2).info.lid = wire::Lid{9};
  const auto answer = ask(node, get(SmpAttribute::kPortInfo, 0), {.ingress = 2}).answer;
  EXPECT_EQ(PortInfo::from(answer.data).lid, wire::Lid{9});
  EXPECT_EQ(PortInfo::from(answer.data).local_port, 2);
  Node leaf = switch_of(4);
  EXPECT_EQ(read(leaf, 0).state, PortState::kActive) << "port 0 of a switch has no link";
  EXPECT_EQ(ask(leaf, get(SmpAttribute::kPortInfo, 5)).answer.status, SmpStatus::kInvalidField);
  EXPECT_EQ(ask(leaf, get(SmpAttribute::kPortInfo, 0x101)).answer.status, SmpStatus::kInvalidField);
}

TEST(PortAttributes, AManagerGivesAPortItsAddress) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.mkey = wire::MKey{0x77};
  wanted.gid_prefix = 0xfec0'0000'0000'0000;
  wanted.lid = wire::Lid{0x10};
  wanted.sm_lid = wire::Lid{0x20};
  wanted.sm_level = 3;
  wanted.lmc = 2;
  wanted.mkey_lease_seconds = 60;
  wanted.mkey_protection = 1;
  wanted.subnet_timeout = 0x11;
  const auto exchange = write(node, wanted, 1);
  EXPECT_EQ(exchange.answer.status, SmpStatus::kOk);
  EXPECT_EQ(exchange.outcome.changed_port, 1);
  EXPECT_FALSE(exchange.outcome.order);
  const PortInfo& info = node.port(1).info;
  EXPECT_EQ(info.mkey, wire::MKey{0x77});
  EXPECT_EQ(info.gid_prefix, 0xfec0'0000'0000'0000U);
  EXPECT_EQ(info.lid, wire::Lid{0x10});
  EXPECT_EQ(info.sm_lid, wire::Lid{0x20});
  EXPECT_EQ(info.sm_level, 3);
  EXPECT_EQ(info.lmc, 2);
  EXPECT_EQ(info.mkey_lease_seconds, 60);
  EXPECT_EQ(info.mkey_protection, 1);
  EXPECT_EQ(info.subnet_timeout, 0x11);
  EXPECT_TRUE(node.port(1).has_lid(wire::Lid{0x13}));
  EXPECT_FALSE(node.port(1).has_lid(wire::Lid{0x14}));
  EXPECT_FALSE(node.port(1).has_lid(wire::Lid{0x0f}));
}

TEST(PortAttributes, AnExternalSwitchPortHasNoAddress) {
  Node node = switch_of(4);
  PortInfo wanted = no_change();
  wanted.lid = wire::Lid{5};
  wanted.mkey = wire::MKey{5};
  wanted.neighbor_mtu = 4;
  EXPECT_EQ(status_of(node, wanted, 2), SmpStatus::kOk);
  EXPECT_EQ(node.port(2).info.lid, wire::Lid{});
  EXPECT_EQ(node.port(2).info.mkey, wire::MKey{});
  EXPECT_EQ(node.port(2).info.neighbor_mtu, 4);
}

TEST(PortAttributes, AMulticastLidIsNone) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.lid = wire::Lid{0xc000};
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField);
  EXPECT_EQ(node.port(1).info.lid, wire::Lid{});
}

TEST(PortAttributes, AManagerMovesAPortFromInitializeToActive) {
  Node node = host();
  link_up(node, 1);
  PortInfo wanted = no_change();
  wanted.state = PortState::kActive;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField) << "Armed comes first";
  wanted.state = PortState::kArmed;
  EXPECT_EQ(PortInfo::from(write(node, wanted).answer.data).state, PortState::kArmed);
  wanted.state = PortState::kActive;
  EXPECT_EQ(PortInfo::from(write(node, wanted).answer.data).state, PortState::kActive);
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kOk) << "again";
  wanted.state = PortState::kArmed;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField) << "not back";
  wanted.state = PortState::kInitialize;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField);
  EXPECT_EQ(node.port(1).info.state, PortState::kActive);
}

TEST(PortAttributes, APortThatIsDownCannotBeArmed) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.state = PortState::kArmed;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField);
}

TEST(PortAttributes, StatesInASetAreOrdersForTheLink) {
  Node node = host();
  link_up(node, 1);
  const auto order = [&node](PortState state, PortPhysicalState physical) {
    PortInfo wanted = no_change();
    wanted.state = state;
    wanted.physical_state = physical;
    return write(node, wanted).outcome.order;
  };
  using Kind = LinkOrder::Kind;
  EXPECT_EQ(order(PortState::kDown, PortPhysicalState::kNoChange),
            (LinkOrder{.port = 1, .kind = Kind::kRetrain}));
  EXPECT_EQ(order(PortState::kDown, PortPhysicalState::kDisabled),
            (LinkOrder{.port = 1, .kind = Kind::kDisable}));
  EXPECT_EQ(order(PortState::kDown, PortPhysicalState::kSleep),
            (LinkOrder{.port = 1, .kind = Kind::kSleep}));
  EXPECT_EQ(order(PortState::kNoChange, PortPhysicalState::kPolling),
            (LinkOrder{.port = 1, .kind = Kind::kRetrain}));
  EXPECT_FALSE(order(PortState::kArmed, PortPhysicalState::kPolling)) << "contradicts itself";
  EXPECT_FALSE(order(PortState::kDown, PortPhysicalState::kLinkUp)) << "no Set can order that";
  node.port(1).info.physical_state = PortPhysicalState::kDisabled;
  node.port(1).info.state = PortState::kDown;
  EXPECT_FALSE(order(PortState::kDown, PortPhysicalState::kNoChange)) << "stays disabled";
  EXPECT_EQ(order(PortState::kDown, PortPhysicalState::kPolling),
            (LinkOrder{.port = 1, .kind = Kind::kPoll}));
  EXPECT_EQ(order(PortState::kNoChange, PortPhysicalState::kPolling),
            (LinkOrder{.port = 1, .kind = Kind::kPoll}));
}

TEST(PortAttributes, OnlyWhatIsSupportedCanBeEnabled) {
  Node node = host();  // 4xEDR
  PortInfo wanted = no_change();
  wanted.width_enabled = 8;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField) << "12x";
  wanted = no_change();
  wanted.extended_speed_enabled = 4;
  EXPECT_EQ(status_of(node, wanted, 1 | kExtended), SmpStatus::kInvalidField) << "HDR";
  EXPECT_EQ(status_of(node, wanted, 1), SmpStatus::kInvalidField);
  node.set_hides_extended_speeds(true);
  EXPECT_EQ(status_of(node, wanted, 1), SmpStatus::kOk) << "not looked at without bit 31";
  wanted = no_change();
  wanted.neighbor_mtu = 6;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField);
  wanted = no_change();
  wanted.operational_vls = 5;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kInvalidField) << "eight lanes";
}

TEST(PortAttributes, ZeroEnablesNothingElseAndAllOnesEnableAll) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.width_enabled = 1;
  wanted.speed_enabled = 1;
  wanted.extended_speed_enabled = 30;
  EXPECT_EQ(status_of(node, wanted, 1 | kExtended), SmpStatus::kOk);
  EXPECT_EQ(status_of(node, no_change(), 1 | kExtended), SmpStatus::kOk);
  EXPECT_EQ(node.port(1).info.width_enabled, 1);
  EXPECT_EQ(node.port(1).info.speed_enabled, 1);
  EXPECT_EQ(node.port(1).info.extended_speed_enabled, 0);
  wanted.width_enabled = 255;
  wanted.speed_enabled = 15;
  wanted.extended_speed_enabled = 31;
  EXPECT_EQ(status_of(node, wanted, 1 | kExtended), SmpStatus::kOk);
  EXPECT_EQ(node.port(1).info.width_enabled, 3);
  EXPECT_EQ(node.port(1).info.speed_enabled, 7);
  EXPECT_EQ(node.port(1).info.extended_speed_enabled, 3);
}

TEST(PortAttributes, ARefusedSetChangesNothing) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.lid = wire::Lid{5};
  wanted.neighbor_mtu = 9;
  const auto exchange = write(node, wanted);
  EXPECT_EQ(exchange.answer.status, SmpStatus::kInvalidField);
  EXPECT_FALSE(exchange.outcome.changed_port);
  EXPECT_EQ(node.port(1).info.lid, wire::Lid{});
}

TEST(PortAttributes, ClientReregisterIsConfirmedAndThenGone) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.client_reregister = true;
  EXPECT_TRUE(PortInfo::from(write(node, wanted).answer.data).client_reregister);
  EXPECT_EQ(node.port(1).reregister_requests, 1U);
  EXPECT_FALSE(read(node, 1).client_reregister);
}

TEST(PortAttributes, TheMKeyIsHiddenWhereTheProtectionSaysSo) {
  Node node = host();
  node.port(1).info.mkey = wire::MKey{0x55};
  EXPECT_EQ(read(node, 1).mkey, wire::MKey{0x55});
  node.port(1).info.mkey_protection = 1;
  EXPECT_EQ(read(node, 1).mkey, wire::MKey{});
  wire::Smp request = get(SmpAttribute::kPortInfo, 1);
  request.mkey = wire::MKey{0x55};
  EXPECT_EQ(PortInfo::from(ask(node, request).answer.data).mkey, wire::MKey{0x55});
}

TEST(PortAttributes, TheAnswerToASetShowsTheMKeyThatItHasWritten) {
  Node node = host();
  PortInfo wanted = no_change();
  wanted.mkey = wire::MKey{0x55};
  wanted.mkey_protection = 2;
  EXPECT_EQ(PortInfo::from(write(node, wanted).answer.data).mkey, wire::MKey{0x55});
}

TEST(PortAttributes, ViolationsAreClearedByWritingZero) {
  Node node = host();
  node.port(1).info.pkey_violations = 3;
  node.port(1).info.qkey_violations = 4;
  PortInfo wanted = no_change();
  wanted.qkey_violations = 0xffff;
  EXPECT_EQ(status_of(node, wanted), SmpStatus::kOk);
  EXPECT_EQ(node.port(1).info.pkey_violations, 0);
  EXPECT_EQ(node.port(1).info.qkey_violations, 4);
}

}  // namespace
}  // namespace verbatim::fabric
