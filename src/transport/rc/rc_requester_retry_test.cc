// SPDX-License-Identifier: Apache-2.0
// How a requester waits, goes back, and fails when its retries are used up.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "transport/rc/rc_requester.h"
#include "transport/rc/test_requester.h"

namespace verbatim::transport {
namespace {

using namespace std::chrono_literals;
using namespace test;
using wire::Operation;
using wire::Psn;
using Config = RcRequester::Config;
using Psns = std::vector<std::uint32_t>;

constexpr Duration kTick = Duration(1);

Config with_retries(std::uint8_t retries, std::uint8_t rnr_retries = 7) {
  Config config = RequesterRig::defaults();
  config.retry_limit = retries;
  config.rnr_retry_limit = rnr_retries;
  return config;
}

// ---- Timeouts

TEST(RcRequesterRetry, ARetryLimitOfNGivesNPlusOneTransmissions) {
  for (std::uint8_t limit = 0; limit <= 7; ++limit) {
    RequesterRig rig(with_retries(limit));
    const auto id = rig.post(SendOpcode::kSend, 8);
    rig.post(SendOpcode::kSend, 8);
    int transmissions = 0;
    do {
      if (const auto packets = rig.drain(); !packets.empty()) {
        EXPECT_EQ(psns_of(packets), (Psns{100, 101}));
        ++transmissions;
      }
    } while (rig.sleep());
    EXPECT_EQ(transmissions, limit + 1);
    EXPECT_TRUE(rig.machine().has_failed());
    EXPECT_EQ(rig.counters().timeouts, limit + 1U);
    EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kRetryExceeded}}));
  }
}

TEST(RcRequesterRetry, TheTimerRunsFromTheFirstPacketAndNotEarlierNorLater) {
  RequesterRig rig;
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
  rig.post(SendOpcode::kSend, 8);
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
  rig.drain();
  const Instant due = rig.now() + rig.config().ack_timeout;
  EXPECT_EQ(rig.machine().next_timeout(), due);
  rig.pass(rig.config().ack_timeout - kTick);
  rig.machine().handle_timeout(rig.now());
  EXPECT_TRUE(rig.drain().empty());
  rig.pass(kTick);
  rig.machine().handle_timeout(rig.now());
  EXPECT_EQ(rig.drain().size(), 1U);
  EXPECT_EQ(rig.machine().next_timeout(), due + rig.config().ack_timeout);
}

TEST(RcRequesterRetry, ProgressStartsTheTimerAnew) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 3 * 256);
  rig.drain();
  rig.pass(60ms);
  rig.ack(Psn(100));
  EXPECT_EQ(rig.machine().next_timeout(), rig.now() + rig.config().ack_timeout);
  rig.pass(60ms);
  rig.ack(Psn(100));  // acknowledged already
  EXPECT_EQ(rig.machine().next_timeout(), rig.now() + (rig.config().ack_timeout - 60ms));
}

TEST(RcRequesterRetry, ProgressGivesAllRetriesBack) {
  RequesterRig rig(with_retries(2));
  rig.post(SendOpcode::kSend, 3 * 256);
  rig.drain();
  for (std::uint32_t psn = 100; psn < 102; ++psn) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(rig.sleep());
      EXPECT_EQ(rig.drain().size(), 103U - psn);
    }
    rig.ack(Psn(psn));
  }
  ASSERT_TRUE(rig.sleep());
  ASSERT_TRUE(rig.sleep());
  EXPECT_FALSE(rig.machine().has_failed());
  ASSERT_TRUE(rig.sleep());
  EXPECT_TRUE(rig.machine().has_failed());
}

TEST(RcRequesterRetry, ResponsesOfAReadAreProgress) {
  RequesterRig rig(with_retries(1));
  rig.post(SendOpcode::kRead, 3 * 256);
  rig.drain();
  for (std::uint32_t psn = 100; psn < 102; ++psn) {
    ASSERT_TRUE(rig.sleep());
    rig.drain();
    rig.answer(Operation::kReadResponseFirst, Psn(psn), Octets(256));
  }
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{102}));
  EXPECT_FALSE(rig.machine().has_failed());
}

/// A connection that has measured a short round trip.
RequesterRig& acquainted(RequesterRig& rig) {
  rig.post(SendOpcode::kSend, 1);
  rig.drain();
  rig.pass(10us);
  rig.ack(Psn(100));
  rig.completions();
  return rig;
}

TEST(RcRequesterRetry, RepeatsLongBeforeTheTimeoutWhenTheRoundTripIsKnown) {
  RequesterRig rig(with_retries(1));
  acquainted(rig).post(SendOpcode::kSend, 2 * 256);
  EXPECT_EQ(rig.drain().size(), 2U);
  const Instant sent = rig.now();
  for (const Duration silence : {2ms, 6ms, 14ms, 30ms, 62ms}) {
    ASSERT_TRUE(rig.sleep());
    EXPECT_EQ(rig.now(), sent + silence) << "each time twice as long";
    EXPECT_EQ(psns_of(rig.drain()), (Psns{101, 102}));
  }
  EXPECT_EQ(rig.counters().suspicions, 5U);
  EXPECT_EQ(rig.counters().timeouts, 0U);
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(rig.now(), sent + rig.config().ack_timeout) << "the program's own timeout still rules";
  EXPECT_EQ(rig.counters().timeouts, 1U);
  EXPECT_FALSE(rig.machine().has_failed()) << "only that was a retry";
  while (!rig.machine().has_failed()) ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(rig.now(), sent + 2 * rig.config().ack_timeout);
}

TEST(RcRequesterRetry, TheFirstResponseOfAReadIsTheRoundTripAlsoWhenTheRestIsLost) {
  RequesterRig rig;
  rig.post(SendOpcode::kRead, 3 * 256);
  rig.drain();
  rig.pass(10us);
  rig.answer(Operation::kReadResponseFirst, Psn(100), Octets(256));
  EXPECT_EQ(rig.machine().round_trip().mean(), Duration(10us));
  const Instant heard = rig.now();
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(rig.now(), heard + 2ms) << "so the rest is not waited for until the timeout";
  EXPECT_EQ(psns_of(rig.drain()), (Psns{101}));
}

TEST(RcRequesterRetry, TheFirstRoundTripCountsEvenIfThePacketWasRepeated) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 1);
  rig.drain();
  ASSERT_TRUE(rig.sleep());
  rig.drain();
  rig.pass(10us);
  rig.ack(Psn(100));
  EXPECT_EQ(rig.machine().round_trip().mean(), rig.config().ack_timeout + 10us) << "at most that";
}

TEST(RcRequesterRetry, ARepeatedPacketIsNotMeasured) {
  RequesterRig rig;
  const Duration before = acquainted(rig).machine().round_trip().mean();
  rig.post(SendOpcode::kSend, 1);
  rig.drain();
  ASSERT_TRUE(rig.sleep());
  rig.drain();
  rig.ack(Psn(101));
  EXPECT_EQ(rig.machine().round_trip().mean(), before);
}

TEST(RcRequesterRetry, ALossNarrowsTheWindow) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 200 * 256);
  EXPECT_EQ(rig.drain().size(), 128U);
  rig.nak(Psn(110), 0x60);
  EXPECT_EQ(rig.drain().size(), 64U);
}

TEST(RcRequesterRetry, ATimeoutOfZeroNeverExpires) {
  Config config = RequesterRig::defaults();
  config.ack_timeout = Duration::zero();
  RequesterRig rig(config);
  rig.post(SendOpcode::kSend, 3 * 256);
  rig.drain();
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
  rig.pass(24h);
  rig.machine().handle_timeout(rig.now());
  EXPECT_TRUE(rig.drain().empty());
  rig.ack(Psn(100));
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
  rig.nak(Psn(101), 0x60);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{101, 102}));
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
}

TEST(RcRequesterRetry, ATimeoutThatIsTakenAwayDoesNotExpireAnyMore) {
  RequesterRig rig(with_retries(1));
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  Config config = rig.config();
  config.ack_timeout = Duration::zero();
  rig.machine().reconfigure(config, test_path());
  for (int i = 0; i < 4 && rig.sleep(); ++i) rig.drain();
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
}

TEST(RcRequesterRetry, AnAckDuringARetransmissionSkipsWhatItCovers) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 2 * 256);
  rig.post(SendOpcode::kSend, 2 * 256);
  rig.drain();
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(rig.poll()->psn(), Psn(100));
  rig.ack(Psn(102));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess}}));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{103}));
  EXPECT_EQ(rig.counters().packets_resent, 2U);
}

TEST(RcRequesterRetry, ARepeatedPacketIsTheSame) {
  RequesterRig rig;
  SendRequest request = rig.request(SendOpcode::kWriteImm, 0);
  request.flags = SendFlags::kSignaled | SendFlags::kSolicited;
  rig.arena().scribble(0, 4096);
  request.list = rig.list({rig.arena().sge(5, 333), rig.arena().sge(1000, 512)});
  ASSERT_TRUE(rig.post(request));
  const auto first = rig.drain();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rig.sleep());
    const auto again = rig.drain();
    ASSERT_EQ(again.size(), first.size());
    for (std::size_t p = 0; p < first.size(); ++p) EXPECT_EQ(again[p].octets(), first[p].octets());
  }
}

// ---- NAK 0x60

TEST(RcRequesterRetry, ASequenceNakGoesBackToTheNumberThatItNames) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 2 * 256);    // 100..101
  const auto second = rig.post(SendOpcode::kWrite, 3 * 256);  // 102..104
  rig.drain();
  rig.nak(Psn(103), 0x60);
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess}}));
  const auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{103, 104}));
  EXPECT_EQ(packets[0].operation(), Operation::kWriteMiddle);
  EXPECT_EQ(packets[1].operation(), Operation::kWriteLast);
  rig.ack(Psn(104));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{second, WcStatus::kSuccess}}));
  EXPECT_EQ(rig.counters().sequence_naks, 1U);
}

TEST(RcRequesterRetry, SequenceNaksWithoutProgressAreCounted) {
  RequesterRig rig(with_retries(3));
  const auto id = rig.post(SendOpcode::kSend, 8);
  int transmissions = 0;
  while (!rig.drain().empty()) {
    ++transmissions;
    rig.nak(Psn(100), 0x60);
  }
  EXPECT_EQ(transmissions, 4);
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kRetryExceeded}}));
}

TEST(RcRequesterRetry, ASecondNakBeforeAnythingWasSentAgainIsTheSameNak) {
  RequesterRig rig(with_retries(1));
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  for (int i = 0; i < 5; ++i) rig.nak(Psn(100), 0x60);
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_EQ(rig.drain().size(), 1U);
}

TEST(RcRequesterRetry, ASequenceNakBehindAReadWithoutAnswersGoesBackToTheRead) {
  RequesterRig rig;
  rig.post(SendOpcode::kRead, 2 * 256);  // 100..101
  rig.post(SendOpcode::kSend, 8);        // 102
  rig.post(SendOpcode::kSend, 8);        // 103
  rig.drain();
  rig.nak(Psn(103), 0x60);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 102, 103}));
}

// ---- Receivers that are not ready

/// The delays of IBA Vol 1, table 46, in microseconds, by timer code.
constexpr std::array<std::uint32_t, 32> kRnrMicroseconds = {
    655'360, 10,     20,     30,     40,     60,      80,      120,     160,     240,    320,
    480,     640,    960,    1'280,  1'920,  2'560,   3'840,   5'120,   7'680,   10'240, 15'360,
    20'480,  30'720, 40'960, 61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520};

TEST(RcRequesterRetry, WaitsAsLongAsTheReceiverAsksForAndNoLonger) {
  for (std::uint8_t code = 0; code < 32; ++code) {
    RequesterRig rig;
    rig.post(SendOpcode::kSend, 300);
    rig.drain();
    rig.nak(Psn(100), static_cast<std::uint8_t>(0x20 | code));
    const Instant ready = rig.now() + std::chrono::microseconds(kRnrMicroseconds[code]);
    EXPECT_EQ(rig.machine().next_timeout(), ready) << int{code};
    EXPECT_TRUE(rig.drain().empty());
    rig.machine().handle_timeout(ready + Duration(-1));
    EXPECT_TRUE(rig.drain().empty());
    rig.machine().handle_timeout(ready);
    EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
  }
}

TEST(RcRequesterRetry, AnRnrNakAcknowledgesWhatWasBefore) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(101), 0x21);
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess}}));
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{101}));
}

TEST(RcRequesterRetry, ASequenceNakDoesNotShortenTheRnrTimer) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x2c);  // 0.64 ms
  const Instant ready = rig.now() + 640us;
  for (int i = 0; i < 20; ++i) {
    rig.nak(Psn(100), 0x60);
    EXPECT_TRUE(rig.drain().empty());
    EXPECT_EQ(rig.machine().next_timeout(), ready);
  }
  rig.pass(639us);
  rig.machine().handle_timeout(rig.now());
  EXPECT_TRUE(rig.drain().empty());
  rig.pass(1us);
  rig.machine().handle_timeout(rig.now());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
}

TEST(RcRequesterRetry, ASequenceNakBehindTheRefusedRequestDoesNotShortenTheRnrTimer) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x2c);
  rig.nak(Psn(101), 0x60);  // the receiver has taken the first one meanwhile
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess}}));
  EXPECT_TRUE(rig.drain().empty());
  EXPECT_EQ(rig.machine().next_timeout(), rig.now() + 640us);
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{101}));
}

TEST(RcRequesterRetry, ASecondRnrNakBeforeAnythingWasSentAgainIsTheSameNak) {
  RequesterRig rig(with_retries(0, 1));
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x2c);
  const Instant ready = rig.now() + 640us;
  rig.pass(100us);
  rig.nak(Psn(100), 0x2c);
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_EQ(rig.machine().next_timeout(), ready);
}

TEST(RcRequesterRetry, RnrRetriesAreCountedExactlyAndSevenIsForever) {
  for (std::uint8_t limit = 0; limit <= 6; ++limit) {
    RequesterRig rig(with_retries(0, limit));
    const auto id = rig.post(SendOpcode::kSend, 8);
    int transmissions = 0;
    while (!rig.drain().empty()) {
      ++transmissions;
      rig.nak(Psn(100), 0x21);
      rig.sleep();
    }
    EXPECT_EQ(transmissions, limit + 1);
    EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kRnrRetryExceeded}}));
  }
  RequesterRig rig(with_retries(0, 7));
  rig.post(SendOpcode::kSend, 8);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(rig.drain().size(), 1U);
    rig.nak(Psn(100), 0x21);
    ASSERT_TRUE(rig.sleep());
  }
  EXPECT_FALSE(rig.machine().has_failed());
}

TEST(RcRequesterRetry, ProgressGivesRnrRetriesBack) {
  RequesterRig rig(with_retries(0, 1));
  rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kSend, 8);
  for (const std::uint32_t psn : {100U, 101U}) {
    rig.drain();
    rig.nak(Psn(psn), 0x21);
    ASSERT_TRUE(rig.sleep());
    rig.drain();
    rig.ack(Psn(psn));
  }
  EXPECT_EQ(rig.completions().size(), 2U);
  EXPECT_FALSE(rig.machine().has_failed());
}

TEST(RcRequesterRetry, TheAckTimerRestsWhileTheReceiverIsNotReady) {
  RequesterRig rig(with_retries(1));
  rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kRead, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x20);  // 655.36 ms, ten times the ack timeout
  rig.ack(Psn(102));        // a violation of the protocol, and an implied NAK
  for (int i = 0; i < 60; ++i) {
    rig.pass(10ms);
    rig.machine().handle_timeout(rig.now());
    EXPECT_TRUE(rig.drain().empty());
  }
  EXPECT_FALSE(rig.machine().has_failed());
  rig.pass(60ms);
  rig.machine().handle_timeout(rig.now());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{101, 102}));
}

TEST(RcRequesterRetry, AnRnrNakCountsAlsoAfterATimeoutHasGoneBack) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  ASSERT_TRUE(rig.sleep());  // back at the start, nothing sent yet
  rig.nak(Psn(100), 0x2e);   // 1.28 ms, for the first transmission
  EXPECT_TRUE(rig.drain().empty());
  EXPECT_EQ(rig.machine().next_timeout(), rig.now() + 1280us);
}

TEST(RcRequesterRetry, WhatWasPostedWhileWaitingFollowsInOrder) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x21);
  rig.post(SendOpcode::kSend, 8);
  EXPECT_TRUE(rig.drain().empty());
  ASSERT_TRUE(rig.sleep());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
}

}  // namespace
}  // namespace verbatim::transport
