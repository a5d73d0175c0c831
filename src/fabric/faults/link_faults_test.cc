// SPDX-License-Identifier: Apache-2.0
#include "fabric/faults/link_faults.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "fabric/data/test_subnet.h"

namespace verbatim::fabric {
namespace {

using std::chrono::microseconds;
using test::star;
using test::TestSubnet;
using wire::PortCounter;

constexpr auto kWrite = wire::opcode_of(wire::Transport::kRc, wire::Operation::kWriteOnly);
constexpr auto kAck = wire::opcode_of(wire::Transport::kRc, wire::Operation::kAcknowledge);

link::FaultRules rules(std::string_view text) {
  std::string message;
  auto parsed = link::parse_fault_rules(text, message);
  EXPECT_TRUE(parsed.ok()) << message;
  return parsed.ok() ? std::move(*parsed) : link::FaultRules{};
}

Instant at_us(int us) { return Instant::at(microseconds(us)); }

// ---- Of one direction ----

using Side = link::DirectionRules::Side;

LinkFaults outward(std::string_view text, std::uint64_t seed = 1) {
  return {rules(text), Side::kOut, seed};
}
PacketHeader header(wire::Opcode opcode = kWrite) {
  return {
      .kind = PacketKind::kData, .words = 100, .dest_qp = wire::QpNumber{0x11}, .opcode = opcode};
}

TEST(LinkFaults, WhatALinkCannotDoIsRefusedByName) {
  EXPECT_EQ(objection_to(rules("out drop 1%; in corrupt; both delay 1ms")), "");
  EXPECT_NE(objection_to(rules("out drop; in reorder by=2")).find("`reorder`"), std::string::npos);
  EXPECT_NE(objection_to(rules("out duplicate")).find("`duplicate`"), std::string::npos);
}

TEST(LinkFaults, RulesOfTheOtherDirectionDoNotApply) {
  LinkFaults faults = outward("in drop; out corrupt");
  const auto fate = faults.judge(at_us(0), header());
  EXPECT_FALSE(fate.is_lost);
  EXPECT_TRUE(fate.is_damaged);
  EXPECT_EQ(faults.counts(), (LinkFaultCounts{.damaged = 1}));
}

TEST(LinkFaults, RulesSelectByOpcodeAndQueuePair) {
  LinkFaults faults = outward("out drop opcode=RC_ACKNOWLEDGE; out corrupt qp=0x12");
  EXPECT_FALSE(faults.judge(at_us(0), header()).is_lost);
  EXPECT_TRUE(faults.judge(at_us(0), header(kAck)).is_lost);
  PacketHeader other = header();
  other.dest_qp = wire::QpNumber{0x12};
  EXPECT_TRUE(faults.judge(at_us(0), other).is_damaged);
}

TEST(LinkFaults, TheSeedChoosesUnlessTheRulesHaveOne) {
  const auto losses = [](LinkFaults faults) {
    std::vector<bool> all;
    for (int i = 0; i < 64; ++i) all.push_back(faults.judge(at_us(0), header()).is_lost);
    return all;
  };
  EXPECT_EQ(losses(outward("out drop 50%", 7)), losses(outward("out drop 50%", 7)));
  EXPECT_NE(losses(outward("out drop 50%", 7)), losses(outward("out drop 50%", 8)));
  EXPECT_EQ(losses(outward("seed=3; out drop 50%", 7)), losses(outward("seed=3; out drop 50%", 8)));
}

TEST(LinkFaults, APacketBehindADelayedOneDoesNotOvertakeIt) {
  LinkFaults faults = outward("out delay 100us first=1");
  EXPECT_EQ(faults.judge(at_us(0), header()).delay, microseconds(100));
  EXPECT_EQ(faults.judge(at_us(30), header()).delay, microseconds(70));
  const auto at_the_same_moment = faults.judge(at_us(100), header()).delay;
  EXPECT_GT(at_the_same_moment, Duration(0));
  EXPECT_LT(at_the_same_moment, microseconds(1));
  EXPECT_EQ(faults.judge(at_us(101), header()).delay, Duration(0));
  EXPECT_EQ(faults.counts(), (LinkFaultCounts{.delayed = 1}));
}

// ---- Of a fabric ----

TEST(LinkFaults, ADamagedPacketIsCountedAsAPhysicalErrorWhereItArrives) {
  TestSubnet test(star("2"));
  ASSERT_TRUE(test.fabric.set_link_faults(test.host("h0"), rules("out corrupt first=1")));
  test.fabric.set_tap(test.leaf(1), true);
  const std::uint64_t received = test.counted(test.leaf(1), PortCounter::kReceivePackets);
  const DropRecord record = test.discarded("h0", "h1");
  EXPECT_EQ(record.reason, DropReason::kDamageOnPurpose);
  EXPECT_EQ(record.port, test.leaf(1));
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kReceiveErrors), 1U);
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kLocalPhysicalErrors), 1U);
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kReceivePackets), received);
  const auto tapped = test.fabric.poll_tapped();
  ASSERT_TRUE(tapped);
  EXPECT_TRUE(tapped->is_damaged);
  EXPECT_EQ(test.fabric.link_fault_counts(test.host("h0")).damaged, 1U);
  EXPECT_EQ(test.deliver("h0", "h1").size(), 1U) << "the rule was for one packet";
}

TEST(LinkFaults, ALostPacketIsCountedAtTheOtherEnd) {
  TestSubnet test(star("2"));
  ASSERT_TRUE(test.fabric.set_link_faults(test.leaf(2), rules("out drop")));
  EXPECT_EQ(test.discarded("h0", "h1").reason, DropReason::kLossOnPurpose);
  EXPECT_EQ(test.counted(test.host("h1"), PortCounter::kReceiveErrors), 1U);
  EXPECT_EQ(test.deliver("h1", "h0").size(), 1U) << "the other direction is intact";
}

TEST(LinkFaults, OutAndInAreAsTheNamedPortSeesThem) {
  TestSubnet test(star("2"));
  ASSERT_TRUE(test.fabric.set_link_faults(test.leaf(2), rules("in drop")));
  EXPECT_EQ(test.deliver("h0", "h1").size(), 1U);
  EXPECT_EQ(test.discarded("h1", "h0").port, test.host("h1"));
}

TEST(LinkFaults, ManagementDatagramsAreUnderThem) {
  TestSubnet test(star("2"));
  ASSERT_TRUE(test.fabric.set_link_faults(test.leaf(2), rules("out drop qp=0")));
  EXPECT_FALSE(test.ask({.attribute = wire::SmpAttribute::kNodeInfo}, test.path("h1")));
  EXPECT_EQ(test.deliver("h0", "h1").size(), 1U);
  ASSERT_TRUE(test.fabric.set_link_faults(test.leaf(2), {}));
  EXPECT_TRUE(test.ask({.attribute = wire::SmpAttribute::kNodeInfo}, test.path("h1")));
}

TEST(LinkFaults, DelayedPacketsArriveLaterInTheirOrder) {
  TestSubnet test(star("2"));
  ASSERT_TRUE(test.fabric.set_link_faults(test.host("h0"), rules("out delay 10us..50us")));
  test.fabric.set_tap(test.host("h1"), true);
  std::vector<std::uint32_t> sent;
  for (int i = 0; i < 20; ++i) {
    const DataPacket packet = test.packet("h0", "h1");
    sent.push_back(packet.handle);
    test.fabric.post_data(test.now, test.host("h0"), packet);
    EXPECT_FALSE(test.fabric.poll_tapped());
    test.wait(microseconds(1));
  }
  test.wait(microseconds(60));
  std::vector<std::uint32_t> arrived;
  while (const auto tapped = test.fabric.poll_tapped()) arrived.push_back(tapped->handle);
  EXPECT_EQ(arrived, sent);
  EXPECT_EQ(test.fabric.link_fault_counts(test.host("h0")).delayed, 20U);
}

TEST(LinkFaults, EqualHistoriesHaveEqualFaults) {
  const auto history = [](std::uint64_t seed) {
    TestSubnet test(star("2"), {.seed = seed});
    EXPECT_TRUE(
        test.fabric.set_link_faults(test.host("h0"), rules("out drop 30%; out corrupt 30%")));
    std::vector<std::size_t> arrivals;
    for (int i = 0; i < 50; ++i) arrivals.push_back(test.deliver("h0", "h1").size());
    return arrivals;
  };
  EXPECT_EQ(history(5), history(5));
  EXPECT_NE(history(5), history(6));
}

TEST(LinkFaults, APortWithoutALinkHasNone) {
  TestSubnet test(star("2"));
  EXPECT_FALSE(test.fabric.set_link_faults(test.leaf(3), rules("out drop")));
}

}  // namespace
}  // namespace verbatim::fabric
