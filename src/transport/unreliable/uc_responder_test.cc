// SPDX-License-Identifier: Apache-2.0
#include "transport/unreliable/uc_responder.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using memory::Access;
using wire::Operation;
using wire::Psn;

class UcResponderTest : public testing::Test {
 protected:
  explicit UcResponderTest(std::uint32_t lane_depth = Receiver::kDepth)
      : parts_(false, lane_depth), responder_(&parts_.state(), parts_.landing()) {}

  wire::PacketHeaders headers(Operation operation, std::uint32_t psn, std::uint32_t dma_octets) {
    auto made = request_headers(wire::Transport::kUc, operation, Psn(psn));
    made.bth.ack_request = false;
    made.reth = parts_.reth(dma_octets);
    return made;
  }
  void deliver(const wire::PacketHeaders& made, std::span<const std::byte> payload) {
    responder_.handle_request(TestPacket(made, payload).view());
  }
  void deliver(Operation operation, std::uint32_t psn, std::span<const std::byte> payload) {
    deliver(headers(operation, psn, static_cast<std::uint32_t>(payload.size())), payload);
  }
  void expect_received(std::uint64_t wr_id, const Octets& data) {
    const auto completions = parts_.completions();
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].wr_id, wr_id);
    EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(completions[0].octets, data.size());
    EXPECT_EQ(parts_.arena().copy(0, data.size()), data);
  }
  void expect_nothing() { EXPECT_TRUE(parts_.completions().empty()); }
  std::uint64_t lost() const { return responder_.counters().messages_lost; }

  Receiver parts_;
  UcResponder responder_;
};

std::span<const std::byte> part(const Octets& all, std::size_t offset, std::size_t count) {
  return std::span(all).subspan(offset, count);
}

TEST_F(UcResponderTest, AMessageFillsAReceive) {
  const auto id = parts_.post_receive(1000);
  const Octets data = octets_of(600);
  deliver(Operation::kSendFirst, 500, part(data, 0, 256));
  deliver(Operation::kSendMiddle, 501, part(data, 256, 256));
  auto last = headers(Operation::kSendLastImm, 502, 0);
  last.bth.solicited = true;
  last.imm_dt.immediate = wire::Immediate{0x1234'5678};
  deliver(last, part(data, 512, 88));
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kReceive);
  EXPECT_EQ(completions[0].octets, 600U);
  EXPECT_EQ(completions[0].qp, kOurQp);
  EXPECT_EQ(completions[0].imm_or_key, 0x1234'5678U);
  EXPECT_EQ(completions[0].flags, WcFlags::kWithImm);
  EXPECT_TRUE(completions[0].solicited);
  EXPECT_EQ(parts_.arena().copy(0, 600), data);
  EXPECT_EQ(responder_.counters().requests, 3U);
  EXPECT_EQ(lost(), 0U);
}

TEST_F(UcResponderTest, AWriteStoresIntoTheRangeThatItNames) {
  const Octets data = octets_of(300);
  deliver(headers(Operation::kWriteFirst, 500, 300), part(data, 0, 256));
  deliver(Operation::kWriteLast, 501, part(data, 256, 44));
  EXPECT_EQ(parts_.remote(0, 300), data);
  expect_nothing();
  const auto id = parts_.post_receive(0);
  auto with_immediate = headers(Operation::kWriteOnlyImm, 502, 4);
  with_immediate.imm_dt.immediate = wire::Immediate{5};
  deliver(with_immediate, octets_of(4, 9));
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kReceiveWithImm);
  EXPECT_EQ(completions[0].imm_or_key, 5U);
  EXPECT_EQ(completions[0].octets, 4U);
}

// ---- Torn messages

TEST_F(UcResponderTest, ATornMessageLeavesItsReceiveToTheNext) {
  const auto id = parts_.post_receive(600);
  deliver(Operation::kSendFirst, 500, Octets(256, std::byte{0xee}));
  deliver(Operation::kSendLast, 502, Octets(8, std::byte{0xee}));  // 501 is missing
  expect_nothing();
  EXPECT_EQ(lost(), 1U);
  const Octets data = octets_of(300);
  deliver(Operation::kSendFirst, 503, part(data, 0, 256));
  deliver(Operation::kSendLast, 504, part(data, 256, 44));
  expect_received(id, data);
}

TEST_F(UcResponderTest, AMessageMayBeginAtAGap) {
  for (const std::uint32_t psn : {510U, 400U, 500U + 0x80'0000U}) {
    const auto id = parts_.post_receive(300);
    deliver(Operation::kSendOnly, psn, octets_of(30));
    expect_received(id, octets_of(30));
    EXPECT_EQ(parts_.state().expected_psn, Psn(psn + 1));
  }
  EXPECT_EQ(lost(), 0U);
}

TEST_F(UcResponderTest, AMessageThatDirectlyFollowsATornOneIsWhole) {
  const auto id = parts_.post_receive(300);
  deliver(Operation::kSendFirst, 500, Octets(256));
  deliver(Operation::kSendOnly, 502, octets_of(30));
  expect_received(id, octets_of(30));
  EXPECT_EQ(lost(), 1U);
}

TEST_F(UcResponderTest, ANewBeginningWithoutAGapEndsTheOldMessageToo) {
  const auto id = parts_.post_receive(600);
  deliver(Operation::kSendFirst, 500, Octets(256, std::byte{1}));
  deliver(Operation::kSendFirst, 501, octets_of(256));
  deliver(Operation::kSendLast, 502, octets_of(1, 8));
  EXPECT_EQ(lost(), 1U);
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].octets, 257U);
  EXPECT_EQ(parts_.arena().copy(0, 256), octets_of(256));
}

TEST_F(UcResponderTest, NothingContinuesWhatHasNotBegun) {
  parts_.post_receive(600);
  deliver(Operation::kSendMiddle, 500, Octets(256));
  deliver(Operation::kSendLast, 501, Octets(8));
  deliver(Operation::kWriteLast, 502, Octets(8));
  deliver(Operation::kWriteMiddle, 503, Octets(256));
  expect_nothing();
  EXPECT_EQ(parts_.posted_count(), 1U);
  EXPECT_EQ(parts_.remote(0, 8), Octets(8));
  EXPECT_FALSE(parts_.state().failed);
}

TEST_F(UcResponderTest, ASendDoesNotContinueAWriteNorTheReverse) {
  parts_.post_receive(600);
  deliver(Operation::kSendFirst, 500, Octets(256));
  deliver(Operation::kWriteLast, 501, Octets(8));
  deliver(Operation::kSendLast, 502, Octets(8));
  deliver(headers(Operation::kWriteFirst, 503, 264), Octets(256));
  deliver(Operation::kSendLast, 504, Octets(8));
  deliver(Operation::kWriteLast, 505, Octets(8));
  expect_nothing();
  EXPECT_EQ(lost(), 2U);
}

TEST_F(UcResponderTest, ATornWriteLeavesWhatWasWrittenAndNothingMore) {
  const Octets data = octets_of(600);
  deliver(headers(Operation::kWriteFirst, 500, 600), part(data, 0, 256));
  deliver(Operation::kWriteLast, 502, part(data, 512, 88));
  EXPECT_EQ(parts_.remote(0, 256), octets_of(256));
  EXPECT_EQ(parts_.remote(256, 344), Octets(344));
  EXPECT_EQ(lost(), 1U);
}

// ---- Wrong messages are dropped

TEST_F(UcResponderTest, WithoutAReceiveAMessageIsLostAndCounted) {
  deliver(Operation::kSendOnly, 500, octets_of(8));
  deliver(Operation::kSendFirst, 501, octets_of(256));
  const auto id = parts_.post_receive(100);
  deliver(Operation::kSendLast, 502, octets_of(8));  // too late for this message
  expect_nothing();
  EXPECT_EQ(lost(), 2U);
  deliver(Operation::kSendOnly, 503, octets_of(8));
  expect_received(id, octets_of(8));
}

TEST_F(UcResponderTest, AMessageThatDoesNotFitIsLostAndItsReceiveKept) {
  const auto id = parts_.post_receive(300);
  deliver(Operation::kSendFirst, 500, Octets(256, std::byte{1}));
  deliver(Operation::kSendLast, 501, Octets(45, std::byte{1}));
  expect_nothing();
  EXPECT_EQ(parts_.arena().copy(256, 64), Octets(64));
  EXPECT_EQ(lost(), 1U);
  deliver(Operation::kSendOnly, 502, octets_of(200));
  expect_received(id, octets_of(200));
}

TEST_F(UcResponderTest, WrongLengthsLoseTheMessage) {
  parts_.post_receive(4096);
  deliver(Operation::kSendFirst, 500, Octets(252));
  deliver(Operation::kSendLast, 501, Octets(8));
  deliver(Operation::kSendFirst, 502, Octets(256));
  deliver(Operation::kSendMiddle, 503, Octets(260));
  deliver(Operation::kSendLast, 504, Octets(8));
  deliver(Operation::kSendFirst, 505, Octets(256));
  deliver(Operation::kSendLast, 506, {});
  deliver(Operation::kSendOnly, 507, Octets(257));
  expect_nothing();
  EXPECT_EQ(lost(), 4U);
}

TEST_F(UcResponderTest, WrongWritesChangeNothing) {
  const Octets data(256, std::byte{1});
  auto stranger = headers(Operation::kWriteOnly, 500, 8);
  stranger.reth.rkey = wire::MemoryKey{0x666};
  deliver(stranger, part(data, 0, 8));
  deliver(headers(Operation::kWriteOnly, 501, 9), part(data, 0, 8));  // too little
  deliver(headers(Operation::kWriteOnly, 502, 7), part(data, 0, 8));  // too much
  deliver(headers(Operation::kWriteFirst, 503, 256), data);           // a First is not all
  deliver(headers(Operation::kWriteFirst, 504, 0x8000'0001), data);   // no such message
  auto outside = headers(Operation::kWriteFirst, 505, 300);
  outside.reth.address = parts_.arena().address(Arena::kOctets - 256);
  deliver(outside, data);  // judged as a whole
  parts_.state().access = Access::kRemoteRead;
  deliver(Operation::kWriteOnly, 506, part(data, 0, 8));  // not enabled
  EXPECT_EQ(parts_.remote(0, 300), Octets(300));
  EXPECT_EQ(parts_.arena().copy(Arena::kOctets - 256, 256), Octets(256));
  EXPECT_TRUE(parts_.arena().guards_hold());
  EXPECT_EQ(lost(), 7U);
  EXPECT_FALSE(parts_.state().failed);
  parts_.state().access = Access::kRemoteWrite;
  deliver(Operation::kWriteOnly, 507, part(data, 0, 8));
  EXPECT_EQ(parts_.remote(0, 8), Octets(8, std::byte{1}));
}

TEST_F(UcResponderTest, AnEmptyWriteNeedsNoKey) {
  parts_.post_receive(0);
  auto empty = headers(Operation::kWriteOnlyImm, 500, 0);
  empty.reth = {.address = 1, .rkey = wire::MemoryKey{0x666}, .dma_octets = 0};
  deliver(empty, {});
  EXPECT_EQ(parts_.completions().size(), 1U);
}

TEST_F(UcResponderTest, AWriteWithImmediateAndNoReceiveIsLost) {
  deliver(headers(Operation::kWriteFirst, 500, 264), Octets(256, std::byte{1}));
  deliver(Operation::kWriteLastImm, 501, Octets(8, std::byte{2}));
  expect_nothing();
  EXPECT_EQ(lost(), 1U);
  EXPECT_EQ(parts_.remote(256, 8), Octets(8));
}

TEST_F(UcResponderTest, AKeyThatGoesAwayInTheMiddleStopsTheWrite) {
  const auto key = parts_.arena().region(kAllRights, Receiver::kRemote, 4096);
  auto first = headers(Operation::kWriteFirst, 500, 264);
  first.reth.rkey = key;
  deliver(first, Octets(256, std::byte{1}));
  ASSERT_TRUE(parts_.arena().registry().deregister_region(key).ok());
  deliver(Operation::kWriteLast, 501, Octets(8, std::byte{1}));
  EXPECT_EQ(parts_.remote(256, 8), Octets(8));
  EXPECT_EQ(lost(), 1U);
  EXPECT_FALSE(parts_.state().failed);
}

// ---- Local errors

TEST_F(UcResponderTest, AReceiveThatCannotBeFilledEndsTheQueuePair) {
  auto bad = parts_.arena().sge(0, 64);
  bad.lkey = wire::MemoryKey{0x666};
  const auto id = parts_.post_receive(std::vector{bad});
  deliver(Operation::kSendOnly, 500, octets_of(8));
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].status, WcStatus::kLocalProtection);
  EXPECT_TRUE(parts_.state().failed);
  deliver(Operation::kSendOnly, 501, octets_of(8));
  expect_nothing();
}

class UcResponderOverrunTest : public UcResponderTest {
 protected:
  UcResponderOverrunTest() : UcResponderTest(1) {}
};

TEST_F(UcResponderOverrunTest, ACompletionWithoutAPlaceEndsTheQueuePair) {
  parts_.post_receive(8);
  parts_.post_receive(8);
  deliver(Operation::kSendOnly, 500, octets_of(8));
  deliver(Operation::kSendOnly, 501, octets_of(8));
  EXPECT_TRUE(parts_.state().failed && parts_.state().event_due);
  EXPECT_EQ(parts_.state().event, QpEvent::kFatal);
  EXPECT_EQ(parts_.state().reason, Reason::kCompletionOverrun);
}

}  // namespace
}  // namespace verbatim::transport
