// SPDX-License-Identifier: Apache-2.0
// How a requester handles acknowledgements, data and refusals.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/pointer.h"
#include "transport/rc/rc_requester.h"
#include "transport/rc/test_requester.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using wire::Psn;
using Config = RcRequester::Config;
using Psns = std::vector<std::uint32_t>;

Octets pattern(std::size_t count, std::uint64_t seed = 99) {
  Prng prng(seed);
  Octets octets(count);
  for (std::byte& octet : octets) octet = std::byte(prng.below(256));
  return octets;
}

std::span<const std::byte> part(const Octets& all, std::size_t offset, std::size_t count) {
  return std::span(all).subspan(offset, count);
}

// ---- Acknowledgements

TEST(RcRequesterAnswers, AnAckCompletesEverythingUpToItsSequenceNumber) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kSend, 600);    // 100..102
  const auto second = rig.post(SendOpcode::kWrite, 256);  // 103
  const auto third = rig.post(SendOpcode::kSend, 257);    // 104..105
  rig.drain();
  rig.ack(Psn(101));
  EXPECT_TRUE(rig.completions().empty());
  rig.ack(Psn(104));
  EXPECT_EQ(outcomes_of(rig.completions()),
            (Outcomes{{first, WcStatus::kSuccess}, {second, WcStatus::kSuccess}}));
  EXPECT_EQ(rig.machine().in_flight(), 1U);
  rig.ack(Psn(105));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{third, WcStatus::kSuccess}}));
  EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
}

TEST(RcRequesterAnswers, NoPeerCanCompleteWhatWasNeverSent) {
  Config config = RequesterRig::defaults();
  config.window_packets = 2;
  RequesterRig rig(config);
  rig.post(SendOpcode::kSend, 4 * 256);
  EXPECT_EQ(rig.drain().size(), 2U);
  for (const std::uint32_t psn : {102U, 103U, 104U, 100U + 0x7f'ffffU}) rig.ack(Psn(psn));
  for (const int syndrome : {0x20, 0x60, 0x61, 0x62, 0x63}) {
    rig.nak(Psn(102), static_cast<std::uint8_t>(syndrome));
  }
  EXPECT_EQ(rig.counters().ghosts, 9U);
  EXPECT_EQ(rig.machine().in_flight(), 2U);
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_TRUE(rig.drain().empty());
}

TEST(RcRequesterAnswers, AnAnswerToSomethingLongDoneIsIgnored) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.ack(Psn(100));
  rig.completions();
  // Some responders acknowledge duplicates with a stale number, 0xffffff among them.
  for (const std::uint32_t psn : {100U, 99U, 0U, 0xff'ffffU, 100U + 0x80'0000U}) {
    rig.ack(Psn(psn));
    rig.nak(Psn(psn), 0x60);
    rig.nak(Psn(psn), 0x62);
    rig.nak(Psn(psn), 0x2c);
  }
  EXPECT_EQ(rig.counters().ghosts, 20U);
  EXPECT_EQ(rig.machine().in_flight(), 1U);
  EXPECT_TRUE(rig.completions().empty());
  EXPECT_TRUE(rig.drain().empty());
}

TEST(RcRequesterAnswers, ACreditCountOfZeroStopsNothing) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x00);  // an ACK without credits
  EXPECT_EQ(rig.completions().size(), 1U);
  rig.post(SendOpcode::kSend, 8);
  EXPECT_EQ(rig.drain().size(), 1U);
}

TEST(RcRequesterAnswers, ReservedSyndromesAreIgnored) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  std::uint64_t count = 0;
  const auto try_one = [&](unsigned syndrome) {
    rig.nak(Psn(100), static_cast<std::uint8_t>(syndrome));
    EXPECT_EQ(rig.counters().reserved_answers, ++count) << syndrome;
  };
  for (unsigned syndrome = 0x40; syndrome < 0x60; ++syndrome) try_one(syndrome);
  for (unsigned syndrome = 0x65; syndrome <= 0xff; ++syndrome) try_one(syndrome);
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_TRUE(rig.completions().empty());
  EXPECT_TRUE(rig.drain().empty());
  rig.ack(Psn(100));
  EXPECT_EQ(rig.completions().size(), 1U);
}

TEST(RcRequesterAnswers, ASequenceThatWrapsIsAcknowledgedAcrossTheWrap) {
  Config config = RequesterRig::defaults();
  config.first_psn = Psn(0xff'fffd);
  RequesterRig rig(config);
  const auto id = rig.post(SendOpcode::kRead, 6 * 256);
  const Octets data = pattern(6 * 256);
  const auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{0xff'fffd}));
  rig.answer_read(packets[0], data);
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kSuccess}}));
  EXPECT_EQ(rig.arena().copy(0, data.size()), data);
  EXPECT_EQ(rig.machine().next_psn(), Psn(3));
}

// The longest message takes 2^23 sequence numbers at the smallest MTU, half of all numbers: its
// first number then is as far behind as it is ahead. An MTU of one octet makes the test cheap.
TEST(RcRequesterAnswers, AMessageOfHalfTheSequenceSpaceIsCompletedByAnAckBehindIt) {
  if (kIsSanitized) GTEST_SKIP() << "eight million packets, in builds without sanitizers";
  constexpr std::uint32_t kPackets = 1U << 23;
  static_assert(kMaxMessageOctets / 256 == kPackets);
  Config config = RequesterRig::defaults();
  config.path_mtu = 1;
  config.window_packets = 1U << 16;
  RequesterRig rig(config);
  const Octets large(kPackets);
  const auto address = numeric_address(large.data());
  const auto key = *rig.arena().registry().register_region(
      {.domain = kHome, .address = address, .octets = kPackets, .base = address});
  SendRequest request = rig.request(SendOpcode::kWrite, 0);
  request.list = rig.list({{.address = address, .octets = kPackets, .lkey = key}});
  ASSERT_TRUE(rig.post(request));
  const auto next = rig.post(SendOpcode::kSend, 1);

  std::array<std::byte, wire::kMaxTransportOctets> frame;
  const auto send_all = [&] {
    while (rig.machine().poll_transmit(rig.now(), frame, 0) > 0) continue;
    return rig.machine().counters().packets_sent;
  };
  for (std::uint64_t sent = send_all(); sent <= kPackets; sent = send_all()) {
    rig.ack(config.first_psn + static_cast<std::uint32_t>(sent - 2));
  }
  ASSERT_TRUE(rig.completions().empty());
  rig.ack(config.first_psn + kPackets);
  EXPECT_EQ(outcomes_of(rig.completions()),
            (Outcomes{{request.wr_id, WcStatus::kSuccess}, {next, WcStatus::kSuccess}}));
}

// ---- READ

TEST(RcRequesterAnswers, ReadDataIsPlacedInTheScatterList) {
  RequesterRig rig;
  SendRequest read = rig.request(SendOpcode::kRead, 0);
  read.list = rig.list({rig.arena().sge(1000, 100), rig.arena().sge(5000, 0),
                        rig.arena().sge(3000, 401), rig.arena().sge(2000, 99)});
  ASSERT_TRUE(rig.post(read));
  const auto packets = rig.drain();
  const Octets data = pattern(600);
  rig.answer_read(packets[0], data);
  const auto completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kRead);
  EXPECT_EQ(completions[0].octets, 600U);
  EXPECT_EQ(rig.arena().copy(1000, 100), Octets(data.begin(), data.begin() + 100));
  EXPECT_EQ(rig.arena().copy(3000, 401), Octets(data.begin() + 100, data.begin() + 501));
  EXPECT_EQ(rig.arena().copy(2000, 99), Octets(data.begin() + 501, data.end()));
  EXPECT_EQ(rig.arena().copy(1100, 4), Octets(4));
}

TEST(RcRequesterAnswers, AnEmptyReadIsAnsweredByAnEmptyOnly) {
  RequesterRig rig;
  const auto id = rig.post(SendOpcode::kRead, 0);
  rig.drain();
  rig.answer(Operation::kReadResponseOnly, Psn(100));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kSuccess}}));
}

TEST(RcRequesterAnswers, AReadResponseAcknowledgesEverythingBeforeIt) {
  RequesterRig rig;
  const auto send = rig.post(SendOpcode::kSend, 8);
  const auto write = rig.post(SendOpcode::kWrite, 300);
  const auto read = rig.post(SendOpcode::kRead, 8);
  const auto packets = rig.drain();
  rig.answer_read(packets.back(), pattern(8));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{send, WcStatus::kSuccess},
                                                      {write, WcStatus::kSuccess},
                                                      {read, WcStatus::kSuccess}}));
}

TEST(RcRequesterAnswers, AnAckDoesNotCompleteAReadNorWhatIsBehindIt) {
  RequesterRig rig;
  rig.post(SendOpcode::kRead, 600);  // 100..102
  rig.post(SendOpcode::kSend, 8);    // 103
  rig.drain();
  rig.ack(Psn(103));
  EXPECT_TRUE(rig.completions().empty());
  EXPECT_EQ(rig.machine().counters().implied_naks, 1U);
}

/// A READ of ten packets, 100..109, and its responses.
class RcRequesterReadTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kPackets = 10;
  static constexpr std::uint32_t kOctets = kPackets * 256 - 100;

  RcRequesterReadTest() : data_(pattern(kOctets)) {
    read_ = rig_.post(SendOpcode::kRead, kOctets);
    send_ = rig_.post(SendOpcode::kSend, 8);  // 110
    EXPECT_EQ(psns_of(rig_.drain()), (Psns{100, 110}));
  }
  /// Response `index` of the data, as a responder that began with `from` shapes it.
  void respond(std::uint32_t index, std::uint32_t from = 0) {
    const std::uint32_t offset = index * 256;
    const std::uint32_t octets = std::min(256U, kOctets - offset);
    rig_.answer(RequesterRig::read_shape(index - from, kPackets - from), Psn(100 + index),
                part(data_, offset, octets));
  }
  void expect_retry_from(std::uint32_t index) {
    const auto packets = rig_.drain();
    ASSERT_EQ(psns_of(packets), (Psns{100 + index, 110}));
    const auto reth = packets[0].view().reth();
    EXPECT_EQ(reth.address, RequesterRig::kRemoteAddress + index * 256);
    EXPECT_EQ(reth.rkey, RequesterRig::kRemoteKey);
    EXPECT_EQ(reth.dma_octets, kOctets - index * 256);
  }
  void expect_success() {
    rig_.ack(Psn(110));
    EXPECT_EQ(outcomes_of(rig_.completions()),
              (Outcomes{{read_, WcStatus::kSuccess}, {send_, WcStatus::kSuccess}}));
    EXPECT_EQ(rig_.arena().copy(0, kOctets), data_);
  }

  RequesterRig rig_;
  Octets data_;
  std::uint64_t read_ = 0;
  std::uint64_t send_ = 0;
};

TEST_F(RcRequesterReadTest, ARetryBeginsWithTheFirstMissingPacket) {
  for (std::uint32_t i = 0; i < 3; ++i) respond(i);
  ASSERT_TRUE(rig_.sleep());
  expect_retry_from(3);
  for (std::uint32_t i = 3; i < kPackets; ++i) respond(i, 3);
  expect_success();
}

TEST_F(RcRequesterReadTest, AGapInTheResponsesIsRepairedOnce) {
  for (std::uint32_t i = 0; i < 4; ++i) respond(i);
  for (std::uint32_t i = 5; i < kPackets; ++i) respond(i);
  rig_.ack(Psn(110));
  EXPECT_EQ(rig_.counters().implied_naks, 1U);
  expect_retry_from(4);
  EXPECT_TRUE(rig_.drain().empty());
  for (std::uint32_t i = 5; i < kPackets; ++i) respond(i);  // late packets of the first answer
  EXPECT_TRUE(rig_.drain().empty());
  for (std::uint32_t i = 4; i < kPackets; ++i) respond(i, 4);
  expect_success();
}

TEST_F(RcRequesterReadTest, ASecondGapIsRepairedToo) {
  respond(1);
  expect_retry_from(0);
  respond(0);
  respond(2);
  expect_retry_from(1);
  for (std::uint32_t i = 1; i < kPackets; ++i) respond(i, 1);
  EXPECT_EQ(rig_.counters().implied_naks, 2U);
  expect_success();
}

TEST_F(RcRequesterReadTest, AnAckBehindTheReadIsAnImpliedNak) {
  rig_.ack(Psn(110));
  EXPECT_EQ(rig_.counters().implied_naks, 1U);
  expect_retry_from(0);
  for (std::uint32_t i = 0; i < kPackets; ++i) respond(i);
  expect_success();
}

TEST_F(RcRequesterReadTest, ARepeatedReadMayBeAnsweredFromTheMiddle) {
  respond(0);
  ASSERT_TRUE(rig_.sleep());
  expect_retry_from(1);
  for (std::uint32_t i = 1; i < kPackets; ++i) respond(i, 0);  // Middle and Last, no First
  expect_success();
}

TEST_F(RcRequesterReadTest, ADuplicateResponseIsAGhost) {
  respond(0);
  respond(0);
  EXPECT_EQ(rig_.counters().ghosts, 1U);
  for (std::uint32_t i = 1; i < kPackets; ++i) respond(i);
  expect_success();
}

TEST_F(RcRequesterReadTest, AnAnswerThatIsNoAckIsIgnored) {
  rig_.answer(Operation::kReadResponseFirst, Psn(100), part(data_, 0, 256), wire::Syndrome(0x40));
  rig_.answer(Operation::kReadResponseFirst, Psn(100), part(data_, 0, 256), wire::Syndrome(0x62));
  EXPECT_FALSE(rig_.machine().has_failed());
  EXPECT_EQ(rig_.counters().reserved_answers, 2U);
  EXPECT_EQ(rig_.arena().copy(0, 256), Octets(256));
  for (std::uint32_t i = 0; i < kPackets; ++i) respond(i);
  expect_success();
}

TEST_F(RcRequesterReadTest, AnEndTooSoonIsABadResponse) {
  respond(0);
  rig_.answer(Operation::kReadResponseLast, Psn(101), part(data_, 256, 256));
  EXPECT_EQ(outcomes_of(rig_.completions()), (Outcomes{{read_, WcStatus::kBadResponse}}));
  EXPECT_TRUE(rig_.machine().has_failed());
}

TEST_F(RcRequesterReadTest, NoEndAtTheEndIsABadResponse) {
  for (std::uint32_t i = 0; i + 1 < kPackets; ++i) respond(i);
  rig_.answer(Operation::kReadResponseMiddle, Psn(109), part(data_, 9 * 256, 156));
  EXPECT_EQ(outcomes_of(rig_.completions()), (Outcomes{{read_, WcStatus::kBadResponse}}));
}

TEST_F(RcRequesterReadTest, AShortResponseIsALengthError) {
  rig_.answer(Operation::kReadResponseFirst, Psn(100), part(data_, 0, 252));
  EXPECT_EQ(outcomes_of(rig_.completions()), (Outcomes{{read_, WcStatus::kLocalLength}}));
}

TEST_F(RcRequesterReadTest, ALongResponseIsALengthErrorAndOverwritesNothing) {
  for (std::uint32_t i = 0; i + 1 < kPackets; ++i) respond(i);
  rig_.answer(Operation::kReadResponseLast, Psn(109), Octets(160, std::byte{0xee}));
  EXPECT_EQ(outcomes_of(rig_.completions()), (Outcomes{{read_, WcStatus::kLocalLength}}));
  EXPECT_EQ(rig_.arena().copy(kOctets, 8), Octets(8));
}

TEST_F(RcRequesterReadTest, AnAtomicAckForAReadIsABadResponse) {
  rig_.atomic_ack(Psn(100), 1);
  EXPECT_EQ(outcomes_of(rig_.completions()), (Outcomes{{read_, WcStatus::kBadResponse}}));
}

TEST(RcRequesterAnswers, AReadResponseToASendIsABadResponse) {
  RequesterRig rig;
  const auto id = rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.answer(Operation::kReadResponseOnly, Psn(100), Octets(8));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kBadResponse}}));
}

TEST(RcRequesterAnswers, ARetriedPieceEndsWhereItEndedBefore) {
  Config config = RequesterRig::defaults();
  config.read_chunk_packets = 4;
  RequesterRig rig(config);
  const auto id = rig.post(SendOpcode::kRead, 10 * 256);  // pieces 100, 104, 108
  const Octets data = pattern(10 * 256);
  auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{100, 104, 108}));
  rig.answer_read(packets[0], part(data, 0, 4 * 256));
  rig.answer(Operation::kReadResponseFirst, Psn(104), part(data, 4 * 256, 256));
  ASSERT_TRUE(rig.sleep());
  packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{105, 108}));
  EXPECT_EQ(packets[0].view().reth().address, RequesterRig::kRemoteAddress + 5 * 256);
  EXPECT_EQ(packets[0].view().reth().dma_octets, 3U * 256);
  rig.answer_read(packets[0], part(data, 5 * 256, 3 * 256));
  rig.answer_read(packets[1], part(data, 8 * 256, 2 * 256));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kSuccess}}));
  EXPECT_EQ(rig.arena().copy(0, data.size()), data);
}

TEST(RcRequesterAnswers, ALostAnswerOfOneReadIsNoticedByTheAnswerOfTheNext) {
  RequesterRig rig;
  const auto first = rig.post(SendOpcode::kRead, 8);   // 100
  const auto second = rig.post(SendOpcode::kRead, 8);  // 101
  const auto packets = rig.drain();
  rig.answer_read(packets[1], pattern(8));
  EXPECT_TRUE(rig.completions().empty());
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
  rig.answer_read(packets[0], pattern(8));
  rig.answer_read(packets[1], pattern(8));
  EXPECT_EQ(outcomes_of(rig.completions()),
            (Outcomes{{first, WcStatus::kSuccess}, {second, WcStatus::kSuccess}}));
}

TEST(RcRequesterAnswers, ReadsInFlightAreCountedRightAfterARetry) {
  Config config = RequesterRig::defaults();
  config.max_read_atomic = 2;
  RequesterRig rig(config);
  for (int i = 0; i < 6; ++i) rig.post(SendOpcode::kRead, 8);
  auto packets = rig.drain();
  ASSERT_EQ(psns_of(packets), (Psns{100, 101}));
  ASSERT_TRUE(rig.sleep());
  ASSERT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
  rig.answer_read(packets[0], Octets(8));  // the same for the first and the second request
  EXPECT_EQ(psns_of(rig.drain()), (Psns{102}));
  rig.answer_read(packets[0], Octets(8));
  EXPECT_TRUE(rig.drain().empty());
  rig.answer_read(packets[1], Octets(8));
  rig.answer_read(packets[1], Octets(8));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{103}));
}

// ---- Atomics, FLUSH, ATOMIC WRITE

TEST(RcRequesterAnswers, AnAtomicLeavesTheOldValueInHostOrder) {
  RequesterRig rig;
  const auto swap = rig.post(SendOpcode::kCompareSwap, 8);
  rig.drain();
  rig.atomic_ack(Psn(100), 0x0102'0304'0506'0708);
  auto completions = rig.completions();
  ASSERT_EQ(outcomes_of(completions), (Outcomes{{swap, WcStatus::kSuccess}}));
  EXPECT_EQ(completions[0].opcode, WcOpcode::kCompareSwap);
  EXPECT_EQ(completions[0].octets, 8U);
  std::uint64_t value = 0;
  std::memcpy(&value, rig.arena().octets().data(), sizeof value);
  EXPECT_EQ(value, 0x0102'0304'0506'0708U);

  rig.post(SendOpcode::kFetchAdd, 8);
  rig.drain();
  rig.atomic_ack(Psn(101), 42);
  completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kFetchAdd);
  std::memcpy(&value, rig.arena().octets().data(), sizeof value);
  EXPECT_EQ(value, 42U);
}

TEST(RcRequesterAnswers, AnAckBehindAnAtomicIsAnImpliedNak) {
  RequesterRig rig;
  rig.post(SendOpcode::kFetchAdd, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.ack(Psn(101));
  EXPECT_EQ(psns_of(rig.drain()), (Psns{100, 101}));
  rig.atomic_ack(Psn(100), 0);
  rig.ack(Psn(101));
  EXPECT_EQ(rig.completions().size(), 2U);
}

TEST(RcRequesterAnswers, AReadResponseToAnAtomicIsABadResponse) {
  RequesterRig rig;
  const auto id = rig.post(SendOpcode::kFetchAdd, 8);
  rig.drain();
  rig.answer(Operation::kReadResponseOnly, Psn(100), Octets(8));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kBadResponse}}));
}

TEST(RcRequesterAnswers, FlushAndAtomicWriteAreAnsweredByAnEmptyReadResponse) {
  RequesterRig rig;
  const auto flush = rig.post(SendOpcode::kFlush, 0);
  const auto write = rig.post(SendOpcode::kAtomicWrite, 8);
  rig.drain();
  rig.answer(Operation::kReadResponseOnly, Psn(100));
  rig.answer(Operation::kReadResponseOnly, Psn(101));
  const auto completions = rig.completions();
  ASSERT_EQ(outcomes_of(completions),
            (Outcomes{{flush, WcStatus::kSuccess}, {write, WcStatus::kSuccess}}));
  EXPECT_EQ(completions[0].opcode, WcOpcode::kFlush);
  EXPECT_EQ(completions[1].opcode, WcOpcode::kAtomicWrite);
}

TEST(RcRequesterAnswers, DataInTheAnswerToAFlushIsABadResponse) {
  RequesterRig rig;
  const auto flush = rig.post(SendOpcode::kFlush, 0);
  rig.drain();
  rig.answer(Operation::kReadResponseOnly, Psn(100), Octets(4));
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{flush, WcStatus::kBadResponse}}));
}

// ---- Refusals

TEST(RcRequesterAnswers, ARefusalNamesItsStatusAndAcknowledgesWhatWasBefore) {
  const std::pair<std::uint8_t, WcStatus> kRefusals[] = {{0x61, WcStatus::kRemoteInvalidRequest},
                                                         {0x62, WcStatus::kRemoteAccess},
                                                         {0x63, WcStatus::kRemoteOperation}};
  for (const auto& [syndrome, status] : kRefusals) {
    RequesterRig rig;
    const auto first = rig.post(SendOpcode::kSend, 300);         // 100..101
    SendRequest refused = rig.request(SendOpcode::kWrite, 600);  // 102..104
    refused.flags = SendFlags::kNone;
    ASSERT_TRUE(rig.post(refused));
    const auto third = rig.post(SendOpcode::kSend, 8);
    rig.drain();
    rig.nak(Psn(103), syndrome);
    EXPECT_TRUE(rig.machine().has_failed());
    EXPECT_TRUE(rig.drain().empty());
    EXPECT_EQ(rig.machine().next_timeout(), Instant::never());
    rig.machine().flush();
    EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess},
                                                        {refused.wr_id, status},
                                                        {third, WcStatus::kFlushed}}));
  }
}

TEST(RcRequesterAnswers, ARefusedReadFailsAlsoInItsMiddle) {
  RequesterRig rig;
  const auto id = rig.post(SendOpcode::kRead, 600);
  rig.drain();
  rig.answer(Operation::kReadResponseFirst, Psn(100), Octets(256));
  rig.nak(Psn(101), 0x62);
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{id, WcStatus::kRemoteAccess}}));
}

TEST(RcRequesterAnswers, AfterAFailureAnswersChangeNothing) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);
  rig.post(SendOpcode::kSend, 8);
  rig.drain();
  rig.nak(Psn(100), 0x61);
  EXPECT_EQ(rig.completions().size(), 1U);
  rig.ack(Psn(101));
  rig.nak(Psn(101), 0x62);
  rig.machine().handle_timeout(rig.now() + std::chrono::hours(1));
  EXPECT_TRUE(rig.completions().empty());
}

// The answer to a READ was lost, and the request behind it is refused. The READ must be repeated:
// a refusal does not acknowledge requests that are answered by data.
TEST(RcRequesterAnswers, ARefusalBehindALostAnswerIsAnImpliedNak) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 8);  // 100
  rig.post(SendOpcode::kRead, 8);  // 101
  rig.post(SendOpcode::kSend, 8);  // 102
  rig.drain();
  rig.nak(Psn(102), 0x62);
  EXPECT_FALSE(rig.machine().has_failed());
  EXPECT_EQ(rig.completions().size(), 1U);
  EXPECT_EQ(rig.counters().implied_naks, 1U);
  EXPECT_EQ(psns_of(rig.drain()), (Psns{101, 102}));
}

/// An earlier request, a second one that fails locally, and a third one.
class RcRequesterFailureTest : public testing::Test {
 protected:
  explicit RcRequesterFailureTest(const Config& config = RequesterRig::defaults()) : rig_(config) {
    first_ = rig_.post(SendOpcode::kSend, 8);
    SendRequest broken = rig_.request(SendOpcode::kSend, 0);
    broken.list = rig_.list({rig_.arena().sge(0, 256), {.address = 1, .octets = 1, .lkey = {}}});
    VB_ASSERT(rig_.post(broken));
    broken_ = broken.wr_id;
    rig_.post(SendOpcode::kSend, 8);
    EXPECT_EQ(psns_of(rig_.drain()), (Psns{100, 101}));
  }
  /// Only the local failure is reported.
  void expect_one_failure() {
    EXPECT_TRUE(rig_.machine().has_failed());
    EXPECT_EQ(outcomes_of(rig_.completions()),
              (Outcomes{{first_, WcStatus::kSuccess}, {broken_, WcStatus::kLocalProtection}}));
  }

  RequesterRig rig_;
  std::uint64_t first_ = 0;
  std::uint64_t broken_ = 0;
};

TEST_F(RcRequesterFailureTest, ARefusalInsideARequestThatFailedAlreadyIsNotASecondFailure) {
  rig_.nak(Psn(101), 0x62);
  expect_one_failure();
}

class RcRequesterImpatientTest : public RcRequesterFailureTest {
 protected:
  static Config impatient() {
    Config config = RequesterRig::defaults();
    config.retry_limit = config.rnr_retry_limit = 0;
    return config;
  }
  RcRequesterImpatientTest() : RcRequesterFailureTest(impatient()) {}
};

TEST_F(RcRequesterImpatientTest, NorIsAReceiverNotReady) {
  rig_.nak(Psn(101), 0x21);
  expect_one_failure();
}

TEST_F(RcRequesterImpatientTest, NorIsAGap) {
  rig_.nak(Psn(101), 0x60);
  expect_one_failure();
}

TEST(RcRequesterAnswers, NothingSucceedsAfterAFailure) {
  RequesterRig rig;
  const auto key = rig.arena().region(memory::Access::kNone, 0, 64);
  const auto first = rig.post(SendOpcode::kSend, 8);
  SendRequest second = rig.request(SendOpcode::kSend, 8);
  auto sge = rig.arena().sge(0, 8);
  sge.lkey = key;
  second.list = rig.list({sge});
  ASSERT_TRUE(rig.post(second));
  const auto third = rig.post(SendOpcode::kSend, 8);
  EXPECT_EQ(rig.drain().size(), 3U);
  ASSERT_TRUE(rig.sleep());
  ASSERT_TRUE(rig.arena().registry().deregister_region(key).ok());
  EXPECT_EQ(rig.drain().size(), 1U);  // the second cannot be sent again
  rig.ack(Psn(102));                  // of the first transmission
  rig.machine().flush();
  EXPECT_EQ(outcomes_of(rig.completions()), (Outcomes{{first, WcStatus::kSuccess},
                                                      {second.wr_id, WcStatus::kLocalProtection},
                                                      {third, WcStatus::kFlushed}}));
}

}  // namespace
}  // namespace verbatim::transport
