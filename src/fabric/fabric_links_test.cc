// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>

#include "fabric/test_fabric.h"
#include "wire/management/notice.h"

namespace verbatim::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::star;
using test::TestFabric;
using wire::PortCounter;
using wire::PortPhysicalState;
using wire::PortState;
using wire::SmpAttribute;
using wire::TrapNumber;

/// A trap that the manager got.
struct Trap {
  wire::Smp smp{};
  wire::Notice notice{};
  wire::Lid source{};
};

std::optional<Trap> take_trap(TestFabric& test) {
  test.advance_all_due();
  const auto user = test.take(test.manager());
  if (!user) return std::nullopt;
  const auto smp = wire::SmpView::parse(*wire::MadView::parse(user->octets))->value();
  EXPECT_EQ(smp.method, wire::MadMethod::kTrap);
  return Trap{.smp = smp, .notice = wire::Notice::from(smp.data), .source = user->address.lid};
}

void repress(TestFabric& test, const Trap& trap) {
  wire::Smp smp = trap.smp;
  smp.method = wire::MadMethod::kTrapRepress;
  test.send(smp, trap.source);
}

TestFabric managed(std::uint8_t hosts = 3) {
  TestFabric test(star(std::to_string(hosts)));
  test.bring_up(hosts);
  test.advance_all_due();
  // What happened before the manager was known caused no traps.
  EXPECT_FALSE(take_trap(test));
  return test;
}

bool has_state_change(TestFabric& test) {
  const auto answer = test.ask({.attribute = SmpAttribute::kSwitchInfo}, {1});
  EXPECT_TRUE(answer);
  return answer && wire::SwitchInfo::from(answer->data).port_state_change;
}

/// A datagram of a vendor's class to LID 2.
void send_from(TestFabric& test, std::string_view host) {
  constexpr wire::MgmtClass kVendor{0x0a};
  const AgentId agent = test.open(test.host(host), {.mgmt_class = kVendor, .class_version = 1});
  test.send(
      test.host(host), agent,
      {.header = {.mgmt_class = kVendor, .class_version = 1, .method = wire::MadMethod::kSend}},
      wire::Lid{2});
}

TEST(FabricLinks, ACutLinkIsDownAtBothEnds) {
  TestFabric test = managed();
  EXPECT_TRUE(test.fabric.set_cable(test.now, test.leaf(2), false));
  for (const PortEnd end : {test.leaf(2), test.host("h1")}) {
    const auto status = test.fabric.port_status(end);
    EXPECT_EQ(status.state, PortState::kDown);
    EXPECT_EQ(status.physical_state, PortPhysicalState::kPolling);
    EXPECT_EQ(test.fabric.counter(end, PortCounter::kLinkDowned), 1U);
  }
  EXPECT_EQ(test.fabric.census(), (PortCensus{.cabled = 4, .linked = 4, .active = 4}));
  EXPECT_FALSE(test.fabric.has_cable(test.host("h1")));
  EXPECT_TRUE(test.fabric.set_cable(test.now, test.host("h1"), true));
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).state, PortState::kInitialize);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).lid, wire::Lid{2}) << "it keeps its LID";
}

TEST(FabricLinks, EachTimeThatAPortIsNoLongerActiveIsAnOutage) {
  TestFabric test(star("2"));
  test.bring_up(2);
  const auto outages = [&] { return test.fabric.port_status(test.host("h1")).outages; };
  EXPECT_EQ(outages(), 0U);
  test.fabric.set_cable(test.now, test.leaf(2), false);
  EXPECT_EQ(outages(), 1U);
  test.fabric.set_cable(test.now, test.leaf(2), true);
  test.fabric.set_cable(test.now, test.leaf(2), false);
  EXPECT_EQ(outages(), 1U) << "it was not Active yet";
  test.fabric.set_power(test.now, test.node("h1"), false);
  test.fabric.set_power(test.now, test.node("h1"), true);
  EXPECT_EQ(outages(), 1U) << "programs still count from there";
}

TEST(FabricLinks, APortWithoutALinkHasNoCable) {
  TestFabric test(star("2"));
  const PortEnd free{.node = test.node("leaf0"),
                     .port = test.fabric.topology().nodes[test.node("leaf0")].port_count};
  ASSERT_FALSE(test.fabric.peer_of(free));
  EXPECT_FALSE(test.fabric.set_cable(test.now, free, true));
  EXPECT_FALSE(test.fabric.set_link_loss(free, 1));
  EXPECT_EQ(test.fabric.port_status(free).state, PortState::kDown);
}

TEST(FabricLinks, ASwitchReportsACutLinkUntilItIsRepressed) {
  TestFabric test = managed();
  test.fabric.set_cable(test.now, test.leaf(2), false);
  const auto first = take_trap(test);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->notice.number, TrapNumber::kLinkStateChange);
  EXPECT_EQ(first->notice.type, wire::NoticeType::kUrgent);
  EXPECT_EQ(first->notice.producer, wire::NodeType::kSwitch);
  EXPECT_EQ(first->notice.issuer, TestFabric::kSwitchLid);
  EXPECT_EQ(first->notice.details[1], std::byte{100});
  EXPECT_EQ(first->source, TestFabric::kSwitchLid);
  EXPECT_FALSE(take_trap(test)) << "once";
  EXPECT_TRUE(has_state_change(test));
  test.wait(seconds(2));
  const auto second = take_trap(test);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->smp.transaction, first->smp.transaction);
  repress(test, *second);
  test.wait(seconds(5));
  EXPECT_FALSE(take_trap(test));
  EXPECT_FALSE(test.fabric.next_due()) << "nothing left to do";
}

TEST(FabricLinks, TheManagerCanDisableAndEnableAPort) {
  TestFabric test = managed();
  wire::PortInfo info = test.port_info(2, {1});
  info.state = PortState::kDown;
  info.physical_state = PortPhysicalState::kDisabled;
  test.set(SmpAttribute::kPortInfo, 2, info, {1});
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).physical_state, PortPhysicalState::kDisabled);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).state, PortState::kDown);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).physical_state, PortPhysicalState::kPolling);
  test.fabric.set_cable(test.now, test.leaf(2), false);
  test.fabric.set_cable(test.now, test.leaf(2), true);
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).state, PortState::kDown) << "still disabled";
  info.state = PortState::kNoChange;
  info.physical_state = PortPhysicalState::kPolling;
  test.set(SmpAttribute::kPortInfo, 2, info, {1});
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).state, PortState::kInitialize);
}

TEST(FabricLinks, DownInASetTrainsTheLinkAgain) {
  TestFabric test = managed();
  test.set_state(2, PortState::kDown, {1});
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).state, PortState::kInitialize);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).state, PortState::kInitialize);
  EXPECT_EQ(test.fabric.counter(test.leaf(2), PortCounter::kLinkDowned), 1U);
  EXPECT_TRUE(has_state_change(test));
}

TEST(FabricLinks, ASlowerSpeedComesWithTheNextTraining) {
  TestFabric test = managed();
  wire::PortInfo info = test.port_info(2, {1});
  info.state = PortState::kDown;
  info.physical_state = PortPhysicalState::kNoChange;
  info.extended_speed_enabled = 30;
  info.speed_enabled = 1;
  info.width_enabled = 1;
  test.set(SmpAttribute::kPortInfo, 2 | wire::PortInfo::kExtendedSpeedsModifier, info, {1});
  const LinkRate slow{.width = LinkWidth::k1x, .speed = LinkSpeed::kSdr};
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).rate, slow);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).rate, slow);
}

TEST(FabricLinks, WithoutPowerANodeForgetsAndItsNeighboursNotice) {
  TestFabric test = managed();
  test.fabric.set_power(test.now, test.node("h1"), false);
  EXPECT_FALSE(test.fabric.has_power(test.node("h1")));
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).state, PortState::kDown);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).physical_state, PortPhysicalState::kDisabled);
  const auto trap = take_trap(test);
  ASSERT_TRUE(trap);
  EXPECT_EQ(trap->notice.number, TrapNumber::kLinkStateChange);
  EXPECT_FALSE(test.ask({.attribute = SmpAttribute::kNodeInfo}, {1, 2}));
  test.fabric.set_power(test.now, test.node("h1"), true);
  EXPECT_EQ(test.fabric.port_status(test.leaf(2)).state, PortState::kInitialize);
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).lid, wire::Lid{});
}

TEST(FabricLinks, ANewSubnetManagerIsReported) {
  TestFabric test = managed();
  test.fabric.set_is_sm(test.now, test.host("h2"), true);
  const auto trap = take_trap(test);
  ASSERT_TRUE(trap);
  EXPECT_EQ(trap->notice.number, TrapNumber::kLocalChanges);
  EXPECT_EQ(trap->notice.issuer, wire::Lid{3});
  EXPECT_EQ(trap->notice.details[9] & std::byte{2}, std::byte{2}) << "IsSM";
  repress(test, *trap);
  test.fabric.set_is_sm(test.now, test.host("h2"), true);
  EXPECT_FALSE(take_trap(test)) << "nothing has changed";
  EXPECT_EQ(test.fabric.port_status(test.host("h2")).capability_mask & 2, 2U);
}

TEST(FabricLinks, ANewDescriptionIsReported) {
  TestFabric test = managed();
  test.fabric.set_description(test.now, test.node("h1"), "renamed");
  EXPECT_EQ(test.fabric.description(test.node("h1")), "renamed");
  const auto trap = take_trap(test);
  ASSERT_TRUE(trap);
  EXPECT_EQ(trap->notice.number, TrapNumber::kLocalChanges);
  EXPECT_EQ(trap->notice.details[5], std::byte{1});
  EXPECT_EQ(trap->notice.details[11], std::byte{1});
}

TEST(FabricLinks, ErrorsOfALinkHaveCountersAndTraps) {
  TestFabric test = managed();
  test.fabric.report_link_error(test.now, test.leaf(2), LinkError::kSymbol);
  EXPECT_EQ(test.fabric.counter(test.leaf(2), PortCounter::kSymbolErrors), 1U);
  EXPECT_FALSE(take_trap(test));
  for (const auto& [error, number] :
       {std::pair(LinkError::kLocalIntegrity, TrapNumber::kLocalLinkIntegrity),
        std::pair(LinkError::kBufferOverrun, TrapNumber::kBufferOverrun),
        std::pair(LinkError::kFlowControlWatchdog, TrapNumber::kFlowControlWatchdog)}) {
    test.fabric.report_link_error(test.now, test.leaf(2), error);
    const auto trap = take_trap(test);
    ASSERT_TRUE(trap);
    EXPECT_EQ(trap->notice.number, number);
    EXPECT_EQ(trap->notice.details[3], std::byte{100});
    EXPECT_EQ(trap->notice.details[4], std::byte{2});
    repress(test, *trap);
  }
  EXPECT_EQ(test.fabric.counter(test.leaf(2), PortCounter::kLocalIntegrityErrors), 1U);
}

TEST(FabricLinks, ASwitchPortKeepsStrangePartitionsOut) {
  TestFabric test = managed();
  wire::Smp keys{.method = wire::MadMethod::kSet,
                 .attribute = SmpAttribute::kPKeyTable,
                 .attribute_modifier = 0x0002'0000};
  keys.data[0] = std::byte{0x80};
  keys.data[1] = std::byte{0x05};
  ASSERT_TRUE(test.ask(keys, {1}));
  wire::PortInfo info = test.port_info(2, {1});
  info.state = PortState::kNoChange;
  info.physical_state = PortPhysicalState::kNoChange;
  info.enforces_pkey_outbound = true;
  test.set(SmpAttribute::kPortInfo, 2, info, {1});
  send_from(test, "h2");
  EXPECT_EQ(test.fabric.drop_count(DropReason::kBadPKey), 1U);
  EXPECT_EQ(test.fabric.counter(test.leaf(2), PortCounter::kTransmitConstraintErrors), 1U);
  const auto trap = take_trap(test);
  ASSERT_TRUE(trap);
  EXPECT_EQ(trap->notice.number, TrapNumber::kBadPKeyAtSwitchPort);
  EXPECT_EQ(trap->notice.details[50], std::byte{2});
}

TEST(FabricLinks, APacketOfAStrangePartitionIsAViolation) {
  TestFabric test = managed();
  wire::Smp keys{.method = wire::MadMethod::kSet, .attribute = SmpAttribute::kPKeyTable};
  keys.data[0] = std::byte{0x80};
  keys.data[1] = std::byte{0x05};
  ASSERT_TRUE(test.ask(keys, {1, 2}));
  send_from(test, "h2");
  EXPECT_EQ(test.fabric.drop_count(DropReason::kBadPKey), 1U);
  EXPECT_EQ(test.port_info(1, {1, 2}).pkey_violations, 1);
}

TEST(FabricLinks, AnArmedPortBecomesActiveWithTheFirstPacket) {
  TestFabric test(star("2"));
  test.bring_up(2);
  test.set_state(2, PortState::kDown, {1});
  test.set_state(2, PortState::kArmed, {1});
  test.set_state(1, PortState::kArmed, {1, 2});
  test.set_state(2, PortState::kActive, {1});
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).state, PortState::kArmed);
  send_from(test, "h0");
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).state, PortState::kActive);
}

}  // namespace
}  // namespace verbatim::fabric
