// SPDX-License-Identifier: Apache-2.0
#include "link/fault_injector.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/headers/bth.h"

namespace verbatim::link {
namespace {

using std::chrono::milliseconds;
using Octets = std::vector<std::byte>;

constexpr auto kSendOnly = wire::opcode_of(wire::Transport::kRc, wire::Operation::kSendOnly);
constexpr auto kAck = wire::opcode_of(wire::Transport::kRc, wire::Operation::kAcknowledge);

Instant at_ms(int ms) { return Instant::at(milliseconds(ms)); }

FaultRules rules(std::string_view text) {
  std::string message;
  auto parsed = parse_fault_rules(text, message);
  EXPECT_TRUE(parsed.ok()) << message;
  return parsed.ok() ? std::move(parsed).value() : FaultRules{};
}

/// A packet that its PSN names.
Octets packet(std::uint32_t psn, std::uint32_t qp = 0x11, wire::Opcode opcode = kSendOnly) {
  Octets octets(64);
  wire::Bth bth;
  bth.opcode = opcode;
  bth.dest_qp = wire::QpNumber{qp};
  bth.psn = wire::Psn(psn);
  bth.emit(std::span(octets).first<wire::Bth::kSize>());
  return octets;
}

std::uint32_t psn_of(std::span<const std::byte> octets) {
  return wire::BthView::parse(octets)->psn().raw();
}

/// Sends packets through an injector, and keeps the PSNs of those that come out.
struct Sender {
  FaultInjector injector;
  std::vector<std::uint32_t> sent{};

  void send(Instant now, Octets octets) {
    const Frame frame{.octets = octets, .identification = 0};
    if (injector.handle_outgoing(now, {}, frame)) sent.push_back(psn_of(octets));
    release(now);
  }
  void release(Instant now) {
    while (const auto released = injector.poll_outgoing(now)) {
      sent.push_back(psn_of(released->octets));
    }
  }
  void send_all(std::uint32_t count) {
    for (std::uint32_t psn = 1; psn <= count; ++psn) send(at_ms(0), packet(psn));
  }
};

Sender sender(std::string_view text) { return {.injector = FaultInjector(rules(text))}; }

std::vector<std::uint32_t> sent_of(std::string_view text, std::uint32_t count) {
  Sender one = sender(text);
  one.send_all(count);
  return one.sent;
}

using Psns = std::vector<std::uint32_t>;

TEST(FaultInjector, CountsSayWhichPacketsAreHit) {
  EXPECT_EQ(sent_of("out drop first=2", 5), (Psns{3, 4, 5}));
  EXPECT_EQ(sent_of("out drop after=3", 5), (Psns{1, 2, 3}));
  EXPECT_EQ(sent_of("out drop every=2", 6), (Psns{1, 3, 5}));
  EXPECT_EQ(sent_of("out drop after=1 first=4 every=2", 8), (Psns{1, 2, 4, 6, 7, 8}));
  EXPECT_EQ(sent_of("out drop", 3), Psns{});
  EXPECT_EQ(sent_of("out drop 0%", 3), (Psns{1, 2, 3}));
  EXPECT_EQ(sent_of("in drop", 3), (Psns{1, 2, 3}));
}

TEST(FaultInjector, OnlyPacketsThatTheRuleNamesAreCounted) {
  Sender one = sender("out drop first=1 opcode=RC_ACKNOWLEDGE qp=0x12");
  one.send(at_ms(0), packet(1, 0x12));
  one.send(at_ms(0), packet(2, 0x11, kAck));
  one.send(at_ms(0), packet(3, 0x12, kAck));
  one.send(at_ms(0), packet(4, 0x12, kAck));
  EXPECT_EQ(one.sent, (Psns{1, 2, 4}));
  EXPECT_EQ(one.injector.counters().dropped, 1U);
}

TEST(FaultInjector, TheSameSeedHitsTheSamePackets) {
  const auto once = sent_of("seed=7; out drop 10%", 1000);
  EXPECT_EQ(sent_of("seed=7; out drop 10%", 1000), once);
  EXPECT_NE(sent_of("seed=8; out drop 10%", 1000), once);
  EXPECT_GT(once.size(), 850U);
  EXPECT_LT(once.size(), 950U);
}

TEST(FaultInjector, ARuleThatHitsNothingChangesNoOther) {
  const auto alone = sent_of("out drop 10%", 1000);
  EXPECT_EQ(sent_of("out drop 10%; out drop 50% opcode=CNP", 1000), alone);
  EXPECT_EQ(sent_of("out drop 10%; in drop 50%", 1000), alone);
}

TEST(FaultInjector, BothDirectionsCountApart) {
  Sender one = sender("both drop first=1");
  const Octets octets = packet(9);
  const Incoming incoming{.octets = octets};
  EXPECT_TRUE(one.injector.handle_incoming(at_ms(0), std::span(&incoming, 1)).empty());
  one.send_all(2);
  EXPECT_EQ(one.sent, (Psns{2}));
  EXPECT_EQ(one.injector.handle_incoming(at_ms(0), std::span(&incoming, 1)).size(), 1U);
}

TEST(FaultInjector, ACopyFollowsItsPacket) {
  EXPECT_EQ(sent_of("out duplicate first=1; out duplicate first=2", 3), (Psns{1, 1, 1, 2, 2, 3}));
}

TEST(FaultInjector, AReorderedPacketIsOvertakenBySoManyOfItsFlow) {
  EXPECT_EQ(sent_of("out reorder first=1", 4), (Psns{2, 1, 3, 4}));
  EXPECT_EQ(sent_of("out reorder first=1 by=3", 5), (Psns{2, 3, 4, 1, 5}));
  Sender one = sender("out reorder first=1");
  one.send(at_ms(0), packet(1));
  one.send(at_ms(0), packet(2, 0x99));
  one.send(at_ms(0), packet(3));
  EXPECT_EQ(one.sent, (Psns{2, 3, 1}));
}

TEST(FaultInjector, AReorderedPacketDoesNotWaitForever) {
  Sender one = sender("out reorder first=1");
  one.send(at_ms(10), packet(1));
  EXPECT_EQ(one.injector.next_due(), at_ms(10) + FaultInjector::kOvertakePatience);
  one.release(one.injector.next_due());
  EXPECT_EQ(one.sent, (Psns{1}));
  EXPECT_EQ(one.injector.next_due(), Instant::never());
}

TEST(FaultInjector, ADelayedPacketComesWhenItIsDue) {
  Sender one = sender("out delay 10ms first=1; out delay 3ms after=1");
  one.send_all(2);
  EXPECT_EQ(one.sent, Psns{});
  EXPECT_EQ(one.injector.next_due(), at_ms(3));
  one.release(at_ms(3));
  EXPECT_EQ(one.sent, (Psns{2}));
  one.release(at_ms(9));
  EXPECT_EQ(one.sent, (Psns{2}));
  one.release(at_ms(10));
  EXPECT_EQ(one.sent, (Psns{2, 1}));
  EXPECT_EQ(one.injector.counters().delayed, 2U);
}

TEST(FaultInjector, DelaysAreSpreadBetweenTheirLimits) {
  Sender one = sender("out delay 1ms..5ms");
  one.send_all(100);
  EXPECT_GE(one.injector.next_due(), at_ms(1));
  one.release(at_ms(3));
  EXPECT_GT(one.sent.size(), 25U);
  EXPECT_LT(one.sent.size(), 75U);
  one.release(at_ms(5));
  EXPECT_EQ(one.sent.size(), 100U);
}

TEST(FaultInjector, HoldsNoMoreThanItsLimit) {
  Sender one = sender("out delay 1s");
  one.send_all(FaultInjector::kHeldMax + 2);
  EXPECT_EQ(one.sent.size(), 2U);
}

TEST(FaultInjector, CorruptionFlipsOneBitThatTheIcrcCovers) {
  FaultInjector injector(rules("out corrupt"));
  for (int i = 0; i < 10'000; ++i) {
    const Octets before(2000, std::byte{0x5a});
    Octets after = before;
    ASSERT_TRUE(injector.handle_outgoing(at_ms(0), {}, {.octets = after}));
    std::size_t bits = 0;
    for (std::size_t k = 0; k < after.size(); ++k) {
      bits +=
          static_cast<std::size_t>(std::popcount(static_cast<std::uint8_t>(after[k] ^ before[k])));
    }
    ASSERT_EQ(bits, 1U);
    ASSERT_EQ(after[4], before[4]);
    ASSERT_EQ((after[173] ^ before[173]) & std::byte{1 << 3}, std::byte{0});
    ASSERT_EQ((after[1834] ^ before[1834]) & std::byte{1 << 6}, std::byte{0});
  }
}

TEST(FaultInjector, ATrainIsTakenApart) {
  FaultInjector injector(
      rules("in drop first=1 after=1; in corrupt first=1; in duplicate first=1"));
  Octets train;
  for (std::uint32_t psn = 1; psn <= 3; ++psn) {
    const Octets one = packet(psn);
    train.insert(train.end(), one.begin(), one.end());
  }
  train.resize(train.size() - 8);  // the last packet of a train may be shorter
  const Incoming incoming{.source_port = 0xc000, .octets = train, .segment_octets = 64};
  const auto got = injector.handle_incoming(at_ms(0), std::span(&incoming, 1));
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(Octets(got[0].octets.begin(), got[0].octets.end()),
            Octets(got[1].octets.begin(), got[1].octets.end()));
  EXPECT_NE(Octets(got[0].octets.begin(), got[0].octets.end()), packet(1));
  EXPECT_EQ(psn_of(got[2].octets), 3U);
  EXPECT_EQ(got[2].octets.size(), 56U);
  for (const Incoming& one : got) {
    EXPECT_EQ(one.segment_octets, 0U);
    EXPECT_EQ(one.source_port, 0xc000);
  }
}

TEST(FaultInjector, WhatArrivesLateIsGivenWithoutABurst) {
  FaultInjector injector(rules("in delay 2ms"));
  const Octets octets = packet(7);
  const Incoming incoming{.hop_limit = 3, .octets = octets};
  EXPECT_TRUE(injector.handle_incoming(at_ms(0), std::span(&incoming, 1)).empty());
  EXPECT_TRUE(injector.handle_incoming(at_ms(1), {}).empty());
  const auto late = injector.handle_incoming(at_ms(2), {});
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(psn_of(late[0].octets), 7U);
  EXPECT_EQ(late[0].hop_limit, 3);
}

TEST(FaultInjector, LeavesWhatIsForAnotherProcessToItsRules) {
  constexpr FaultInjector::OwnNumbers kOwn{.first = 0x03'0000, .count = 0x1'0000};
  FaultInjector injector(rules("in drop"), kOwn);
  const auto arrives = [&](std::uint32_t qp) {
    const Octets octets = packet(1, qp);
    const Incoming incoming{.octets = octets};
    return injector.handle_incoming(at_ms(0), std::span(&incoming, 1)).size() == 1;
  };
  EXPECT_FALSE(arrives(0x03'0011));
  EXPECT_FALSE(arrives(0x03'ffff));
  EXPECT_TRUE(arrives(0x02'0011));
  EXPECT_TRUE(arrives(0x04'0000));
  EXPECT_FALSE(arrives(1)) << "management";
  EXPECT_FALSE(arrives(0xff'ffff)) << "a group";
}

TEST(FaultInjector, RulesAreForForwardedPacketsToo) {
  FaultInjector injector(
      rules("in drop first=1; in delay 2ms first=1; in corrupt first=1 after=1"));
  const auto arrives = [&](std::uint32_t psn) {
    Octets octets = packet(psn);
    const bool does = injector.handle_forwarded(at_ms(0), {.hop_limit = 3}, octets);
    return does && octets == packet(psn);
  };
  EXPECT_FALSE(arrives(1)) << "dropped";
  EXPECT_FALSE(arrives(2)) << "delayed";
  EXPECT_FALSE(arrives(3)) << "corrupted";
  EXPECT_TRUE(arrives(4));
  EXPECT_EQ(injector.next_due(), at_ms(2));
  const auto late = injector.handle_incoming(at_ms(2), {});
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(psn_of(late[0].octets), 2U);
  EXPECT_EQ(late[0].hop_limit, 3);
}

TEST(FaultInjector, FragmentsOfPacketsAreHarmless) {
  FaultInjector injector(rules("both corrupt; both duplicate; both reorder; both drop qp=0"));
  for (std::size_t size = 0; size <= 16; ++size) {
    Octets octets(size);
    (void)injector.handle_outgoing(at_ms(0), {}, {.octets = octets});
    const Incoming incoming{.octets = octets};
    (void)injector.handle_incoming(at_ms(0), std::span(&incoming, 1));
  }
}

TEST(FaultInjector, APacketThatWasHeldBackKeepsItsWay) {
  FaultInjector injector(rules("out delay 1ms"));
  const Outgoing to{.source_port = 7,
                    .local = {.source = wire::Lid{1},
                              .destination = wire::Lid{2},
                              .level = wire::ServiceLevel{3}},
                    .flow_label = 4};
  Octets octets = packet(1);
  EXPECT_FALSE(injector.handle_outgoing(at_ms(0), to, {.octets = octets}));
  const auto released = injector.poll_outgoing(at_ms(1));
  ASSERT_TRUE(released);
  EXPECT_EQ(released->to, to);
}

}  // namespace
}  // namespace verbatim::link
