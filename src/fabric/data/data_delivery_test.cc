// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "fabric/data/test_subnet.h"
#include "wire/management/notice.h"

namespace verbatim::fabric {
namespace {

using test::star;
using test::TestSubnet;
using test::tree;
using wire::PortCounter;
using wire::PortState;

using Ports = std::vector<PortEnd>;

TEST(DataDelivery, APacketArrivesAtThePortThatHasItsLid) {
  TestSubnet test(tree("3x2"));
  for (const std::string_view from : {"h0", "h1", "h5"}) {
    for (const std::string_view to : {"h0", "h1", "h2", "h4", "h5"}) {
      EXPECT_EQ(test.deliver(from, to), Ports{test.host(to)}) << from << " to " << to;
    }
  }
  EXPECT_EQ(test.drops(), 0U);
}

TEST(DataDelivery, AllLidsOfAPortAreItsOwn) {
  TestSubnet test(star("2"));
  test.change_port(test.host("h1"), [](wire::PortInfo& info) {
    info.lid = wire::Lid{40};
    info.lmc = 2;
  });
  test.set_route("leaf0", wire::Lid{43}, 2);
  EXPECT_EQ(test.deliver("h0", wire::Lid{43}), Ports{test.host("h1")});
  DataPacket packet = test.packet("h1", "h0");
  packet.source = wire::Lid{43};
  EXPECT_EQ(test.deliver(test.host("h1"), packet), Ports{test.host("h0")});
}

TEST(DataDelivery, EachPortOnTheWayCountsThePacket) {
  TestSubnet test(tree("2x1"));
  const PortEnd out = test.host("h0");
  const std::uint64_t packets = test.counted(out, PortCounter::kUnicastTransmitPackets);
  const std::uint64_t words = test.counted(out, PortCounter::kTransmitWords);
  const auto received = [&](PortEnd port) {
    return test.counted(port, PortCounter::kUnicastReceivePackets);
  };
  const std::uint64_t at_h1 = received(test.host("h1"));
  (void)test.deliver("h0", "h1");
  EXPECT_EQ(test.counted(out, PortCounter::kUnicastTransmitPackets), packets + 1);
  EXPECT_EQ(test.counted(out, PortCounter::kTransmitWords), words + TestSubnet::kWords);
  EXPECT_EQ(received(test.host("h1")), at_h1 + 1);
  EXPECT_EQ(test.counted(out, PortCounter::kMulticastTransmitPackets), 0U);
}

TEST(DataDelivery, APacketToItsOwnPortDoesNotLeaveTheAdapter) {
  TestSubnet test(star("2"));
  const std::uint64_t sent = test.counted(test.host("h1"), PortCounter::kTransmitPackets);
  EXPECT_EQ(test.deliver("h1", "h1"), Ports{test.host("h1")});
  EXPECT_EQ(test.counted(test.host("h1"), PortCounter::kTransmitPackets), sent);
  EXPECT_EQ(test.counted(test.leaf(2), PortCounter::kReceivePackets), sent);
  test.set_state(1, PortState::kDown, test.path("h1"));
  EXPECT_EQ(test.discarded("h1", "h1").reason, DropReason::kPortNotActive);
}

TEST(DataDelivery, WhatNoPortCanTakeIsDiscardedAtTheSender) {
  TestSubnet test(star("2"));
  const auto reason = [&](wire::Lid to) { return test.discarded("h0", to).reason; };
  EXPECT_EQ(reason(wire::Lid::kReserved), DropReason::kMalformed);
  EXPECT_EQ(reason(wire::Lid::kPermissive), DropReason::kMalformed);
  DataPacket packet = test.packet("h0", "h1");
  packet.source = test.lid("h1");
  const DropRecord record = test.discarded(test.host("h0"), packet);
  EXPECT_EQ(record.reason, DropReason::kWrongSource);
  EXPECT_EQ(record.port, test.host("h0"));
  EXPECT_EQ(record.kind, PacketKind::kData);
  EXPECT_EQ(record.source, test.lid("h1"));
  EXPECT_EQ(record.dest_qp, wire::QpNumber{0x123});
}

TEST(DataDelivery, ASwitchDiscardsWhatItHasNoPortFor) {
  TestSubnet test(star("2"));
  const DropRecord record = test.discarded("h0", wire::Lid{55});
  EXPECT_EQ(record.reason, DropReason::kNoRoute);
  EXPECT_EQ(record.port, test.leaf(1));
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kDestinationErrors), 1U);
  test.set_route("leaf0", wire::Lid{55}, 1);
  EXPECT_EQ(test.discarded("h0", wire::Lid{55}).reason, DropReason::kLooping);
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kLoopingErrors), 1U);
  test.set_route("leaf0", wire::Lid{55}, 2);
  EXPECT_EQ(test.discarded("h0", wire::Lid{55}).reason, DropReason::kNotForThisPort);
  EXPECT_EQ(test.discarded("h0", "leaf0").reason, DropReason::kUnclaimed);
}

TEST(DataDelivery, ALinkThatIsDownEndsAPacket) {
  TestSubnet test(star("2"));
  test.fabric.set_cable(test.now, test.leaf(2), false);
  EXPECT_EQ(test.discarded("h0", "h1").port, test.leaf(2));
  EXPECT_EQ(test.discarded("h1", "h0").port, test.host("h1"));
  EXPECT_EQ(test.fabric.drop_count(DropReason::kPortDown), 2U);
  EXPECT_EQ(test.counted(test.host("h1"), PortCounter::kInactiveDiscards), 1U);
  test.fabric.set_cable(test.now, test.leaf(2), true);
  EXPECT_EQ(test.discarded("h0", "h1").reason, DropReason::kPortNotActive);
  test.fabric.set_power(test.now, test.node("h1"), false);
  EXPECT_EQ(test.discarded("h1", "h0").reason, DropReason::kNodeOff);
  EXPECT_EQ(test.discarded("h0", "h1").reason, DropReason::kPortDown);
}

TEST(DataDelivery, TheFirstPacketMakesAnArmedPortActive) {
  TestSubnet test(star("2"));
  test.set_state(2, PortState::kDown, {1});
  test.set_state(2, PortState::kArmed, {1});
  test.set_state(1, PortState::kArmed, {1, 2});
  test.set_state(2, PortState::kActive, {1});
  EXPECT_EQ(test.deliver("h0", "h1"), Ports{test.host("h1")});
  EXPECT_EQ(test.fabric.port_status(test.host("h1")).state, PortState::kActive);
}

TEST(DataDelivery, APacketIsNoLongerThanTheMtuOfEachLink) {
  TestSubnet test(star("2"));
  DataPacket packet = test.packet("h0", "h1");
  packet.words = (4096 + 124) / 4;
  EXPECT_EQ(test.deliver(test.host("h0"), packet).size(), 1U);
  ++packet.words;
  EXPECT_EQ(test.discarded(test.host("h0"), packet).reason, DropReason::kTooLong);
  EXPECT_EQ(test.counted(test.host("h0"), PortCounter::kNeighborMtuDiscards), 1U);
  EXPECT_EQ(test.counted(test.host("h0"), PortCounter::kTransmitDiscards), 1U);
  test.change_port(test.leaf(2), [](wire::PortInfo& info) { info.neighbor_mtu = 4; });
  --packet.words;
  EXPECT_EQ(test.discarded(test.host("h0"), packet).port, test.leaf(2));
  packet.words = (2048 + 124) / 4;
  EXPECT_EQ(test.deliver(test.host("h0"), packet).size(), 1U);
}

TEST(DataDelivery, ASwitchPortKeepsStrangePartitionsOut) {
  TestSubnet test(star("2"));
  test.change_port(test.leaf(2), [](wire::PortInfo& info) { info.enforces_pkey_outbound = true; });
  test.change_port(test.leaf(1), [](wire::PortInfo& info) { info.enforces_pkey_inbound = true; });
  EXPECT_EQ(test.deliver("h0", "h1").size(), 1U);
  DataPacket packet = test.packet("h0", "h1");
  packet.pkey = wire::PKey{0x8005};
  packet.source_qp = wire::QpNumber{0x456};
  EXPECT_EQ(test.discarded(test.host("h0"), packet).port, test.leaf(1));
  EXPECT_EQ(test.counted(test.leaf(1), PortCounter::kReceiveConstraintErrors), 1U);
  const auto trap = test.take(test.manager());
  ASSERT_TRUE(trap);
  const auto smp = wire::SmpView::parse(*wire::MadView::parse(trap->octets))->value();
  const wire::Notice notice = wire::Notice::from(smp.data);
  EXPECT_EQ(notice.number, wire::TrapNumber::kBadPKeyAtSwitchPort);
  EXPECT_EQ(notice.details[11], std::byte{0x56}) << "the source QP";
  EXPECT_EQ(notice.details[50], std::byte{1}) << "the port";
  test.change_port(test.leaf(1), [](wire::PortInfo& info) { info.enforces_pkey_inbound = false; });
  EXPECT_EQ(test.discarded(test.host("h0"), packet).port, test.leaf(2));
  EXPECT_EQ(test.counted(test.leaf(2), PortCounter::kTransmitConstraintErrors), 1U);
}

TEST(DataDelivery, TablesThatLoopEndAPacket) {
  TestSubnet test(tree("2x1"));
  const std::uint8_t there = test.port_to("leaf0", "leaf1").port;
  const PortEnd back = *test.fabric.peer_of(test.leaf(static_cast<std::uint8_t>(there + 1)));
  ASSERT_EQ(back.node, test.node("leaf1"));
  test.set_route("leaf0", wire::Lid{55}, there);
  test.set_route("leaf1", wire::Lid{55}, back.port);
  EXPECT_EQ(test.discarded("h0", wire::Lid{55}).reason, DropReason::kHopLimit);
}

TEST(DataDelivery, LossIsOfOneLinkOnly) {
  TestSubnet test(star("3"));
  test.fabric.set_loss(1000);
  EXPECT_EQ(test.deliver("h0", "h1").size(), 1U) << "this is for management datagrams";
  EXPECT_TRUE(test.fabric.set_link_loss(test.leaf(2), 1000));
  EXPECT_EQ(test.deliver("h0", "h2").size(), 1U);
  EXPECT_EQ(test.discarded("h0", "h1").reason, DropReason::kLossOnPurpose);
  EXPECT_EQ(test.counted(test.host("h1"), PortCounter::kReceiveErrors), 1U);
}

/// What one end of a link has sent, the other one has received or lost.
TEST(DataDelivery, NoLinkMakesOrHidesPackets) {
  TestSubnet test(tree("3x3"));
  Prng prng(5);
  for (const TopologyLink& link : test.fabric.topology().links) {
    EXPECT_TRUE(test.fabric.set_link_loss(link.a, prng.one_in(2) ? 200 : 0));
  }
  std::size_t arrived = 0;
  const std::size_t before = test.drops();
  for (int i = 0; i < 2000; ++i) {
    const std::string from = "h" + std::to_string(prng.below(9));
    DataPacket packet = test.packet(from, "h" + std::to_string(prng.below(9)));
    if (prng.one_in(10)) packet.destination = wire::Lid{static_cast<std::uint16_t>(prng.below(64))};
    packet.words = static_cast<std::uint16_t>(prng.between(7, 1100));
    const std::size_t ports = test.deliver(test.host(from), packet).size();
    ASSERT_LE(ports, 1U);
    arrived += ports;
    ASSERT_EQ(arrived + test.drops() - before, static_cast<std::size_t>(i) + 1);
  }
  EXPECT_GT(arrived, 500U);
  for (const TopologyLink& link : test.fabric.topology().links) {
    for (const auto& [from, to] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      const std::uint64_t lost = test.counted(to, PortCounter::kReceiveErrors) +
                                 test.counted(to, PortCounter::kLane15Dropped);
      EXPECT_EQ(test.counted(from, PortCounter::kTransmitPackets),
                test.counted(to, PortCounter::kReceivePackets) + lost);
      if (lost != 0) continue;
      EXPECT_EQ(test.counted(from, PortCounter::kTransmitWords),
                test.counted(to, PortCounter::kReceiveWords));
      EXPECT_EQ(test.counted(from, PortCounter::kTransmitPackets),
                test.counted(from, PortCounter::kUnicastTransmitPackets));
    }
  }
}

}  // namespace
}  // namespace verbatim::fabric
