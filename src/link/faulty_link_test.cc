// SPDX-License-Identifier: Apache-2.0
#include "link/faulty_link.h"

#include <gtest/gtest.h>

#include "link/test_link.h"

namespace verbatim::link {
namespace {

using test::at_ms;
using test::FakeLink;
using test::put;
using test::received_psns;
using test::rules_of;
using Psns = std::vector<std::uint32_t>;

class FaultyLinkTest : public ::testing::Test {
 protected:
  void send_all(Link& link, std::uint32_t count) {
    for (std::uint32_t psn = 1; psn <= count; ++psn) put(link, at_ms(0), psn);
    link.flush(at_ms(0));
  }
  /// Every packet that left has the number that its place in its train gives it.
  void expect_numbered() const {
    std::uint16_t place = 0;
    for (std::size_t i = 0; i < inner.sent.size(); ++i) {
      if (i == 0 || inner.sent[i].train != inner.sent[i - 1].train) place = 0;
      EXPECT_EQ(inner.sent[i].identification, place++);
    }
  }

  FakeLink inner;
};

TEST_F(FaultyLinkTest, ChangesNothingThatNoRuleHits) {
  FaultyLink link(inner, rules_of("out drop opcode=CNP"));
  send_all(link, 3);
  EXPECT_EQ(inner.sent_psns(), (Psns{1, 2, 3}));
  EXPECT_EQ(inner.trains, 1U);
  EXPECT_EQ(inner.sends, 1U) << "one call for a burst";
  expect_numbered();
  EXPECT_EQ(link.next_due(), Instant::never());
  EXPECT_EQ(link.counters().packets_sent, 3U);
  EXPECT_EQ(link.descriptors().data(), inner.descriptors().data());
}

TEST_F(FaultyLinkTest, ATrainClosesUpBehindALostPacket) {
  FaultyLink link(inner, rules_of("out drop first=1 after=1"));
  send_all(link, 5);
  EXPECT_EQ(inner.sent_psns(), (Psns{1, 3, 4, 5}));
  EXPECT_EQ(inner.trains, 1U);
  expect_numbered();
  EXPECT_EQ(link.faults().dropped, 1U);
}

TEST_F(FaultyLinkTest, CopiesAndLatecomersGetTheNumberOfTheirNewPlace) {
  FaultyLink link(inner,
                  rules_of("out duplicate first=1 after=1; out reorder first=1 after=3 by=2"));
  send_all(link, 6);
  EXPECT_EQ(inner.sent_psns(), (Psns{1, 2, 2, 3, 5, 6, 4}));
  EXPECT_EQ(inner.trains, 1U);
  expect_numbered();
}

TEST_F(FaultyLinkTest, PacketsThatAreCommittedTogetherAreJudgedApart) {
  FaultyLink link(inner, rules_of("out drop first=1 after=1"));
  const Outgoing to = test::outgoing();
  const Frame frame = link.next_frame();
  std::size_t octets = 0;
  for (std::uint16_t i = 0; i < 4; ++i) {
    octets += test::write_packet(frame.octets.subspan(octets), to, i, i);
  }
  link.commit(at_ms(0), to, {.octets = octets, .packets = 4, .identification = 0});
  link.flush(at_ms(0));
  EXPECT_EQ(inner.sent_psns(), (Psns{0, 2, 3}));
  expect_numbered();
}

TEST_F(FaultyLinkTest, ACorruptPacketHasNoRightIcrc) {
  FaultyLink link(inner, rules_of("out corrupt first=1 after=1"));
  send_all(link, 3);
  ASSERT_EQ(inner.sent.size(), 3U);
  EXPECT_EQ(inner.sent[0].identification, 0);
  EXPECT_NE(inner.sent[1].identification, 1);
  EXPECT_EQ(inner.sent[2].identification, 2);
}

TEST_F(FaultyLinkTest, WhatIsDelayedLeavesWithAFlushWhenItIsDue) {
  FaultyLink link(inner, rules_of("out delay 3ms first=1"));
  send_all(link, 2);
  EXPECT_EQ(inner.sent_psns(), (Psns{2}));
  EXPECT_EQ(link.next_due(), at_ms(3));
  link.flush(at_ms(2));
  EXPECT_EQ(inner.sent.size(), 1U);
  link.flush(at_ms(3));
  EXPECT_EQ(inner.sent_psns(), (Psns{2, 1}));
  EXPECT_EQ(link.next_due(), Instant::never());
  expect_numbered();
}

TEST_F(FaultyLinkTest, TheInnerLinkMayBeDueFirst) {
  FaultyLink link(inner, rules_of("out delay 3ms"));
  send_all(link, 1);
  inner.due = at_ms(1);
  EXPECT_EQ(link.next_due(), at_ms(1));
}

TEST_F(FaultyLinkTest, WhatArrivesAsATrainIsJudgedPacketByPacket) {
  FaultyLink link(inner, rules_of("in drop first=1 after=1; in delay 2ms first=1 after=2"));
  inner.let_arrive({1, 2, 3, 4});
  inner.let_arrive({5});
  EXPECT_EQ(received_psns(link, at_ms(0)), (Psns{1, 3, 5}));
  EXPECT_EQ(inner.last_look, Link::Look::kAtAllAddresses);
  EXPECT_EQ(link.next_due(), at_ms(2));
  EXPECT_EQ(received_psns(link, at_ms(2)), (Psns{4}));
}

TEST_F(FaultyLinkTest, ForwardedPacketsMeetTheSameRules) {
  FaultyLink link(inner, rules_of("in drop first=1 after=1"));
  const Outgoing to = test::outgoing();
  const Incoming about{
      .source = to.source, .destination = to.destination, .source_port = to.source_port};
  std::vector<std::byte> packet(kFrameOctets);
  packet.resize(test::write_packet(packet, to, 9, 0));
  EXPECT_TRUE(link.admit_forwarded(at_ms(0), about, packet));
  EXPECT_FALSE(link.admit_forwarded(at_ms(0), about, packet));
  EXPECT_TRUE(link.admit_forwarded(at_ms(0), about, packet));
}

TEST_F(FaultyLinkTest, ABurstThatIsFullLeavesByItself) {
  FaultyLink link(inner, rules_of("out drop opcode=CNP"));
  constexpr std::uint32_t kCount = 200;
  for (std::uint32_t psn = 0; psn < kCount; ++psn) {
    put(link, at_ms(0), psn, test::outgoing(), 4096);
  }
  EXPECT_GT(inner.sent.size(), kCount / 2);
  link.flush(at_ms(0));
  Psns all(kCount);
  for (std::uint32_t psn = 0; psn < kCount; ++psn) all[psn] = psn;
  EXPECT_EQ(inner.sent_psns(), all);
  expect_numbered();
}

TEST_F(FaultyLinkTest, MakesNoTrainsWhereTheInnerLinkMakesNone) {
  FakeLink alone(false);
  FaultyLink link(alone, rules_of("out drop opcode=CNP"));
  send_all(link, 3);
  EXPECT_EQ(alone.trains, 3U);
  for (const auto& sent : alone.sent) EXPECT_EQ(sent.identification, 0);
}

TEST_F(FaultyLinkTest, ClosedIsSilent) {
  FaultyLink link(inner, rules_of("both delay 1ms"));
  send_all(link, 1);
  link.close();
  EXPECT_TRUE(inner.is_closed());
  EXPECT_TRUE(link.next_frame().octets.empty());
  EXPECT_EQ(link.next_due(), Instant::never());
  link.flush(at_ms(5));
  EXPECT_TRUE(link.receive(at_ms(5)).empty());
  EXPECT_TRUE(inner.sent.empty());
}

TEST_F(FaultyLinkTest, FaultsMayLieAroundFaults) {
  FaultyLink near(inner, rules_of("out drop first=1"));
  FaultyLink far(near, rules_of("out drop first=1"));
  send_all(far, 4);
  EXPECT_EQ(inner.sent_psns(), (Psns{3, 4}));
  expect_numbered();
}

}  // namespace
}  // namespace verbatim::link
