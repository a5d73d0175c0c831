// SPDX-License-Identifier: Apache-2.0
// How a responder executes the requests that it accepts, and how it ends. Refusals are in
// rc_responder_checks_test.cc, answers in rc_responder_answers_test.cc, shared receive queues in
// rc_responder_shared_test.cc.
#include "transport/rc/rc_responder.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/window.h"
#include "transport/rc/test_rc_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using memory::Access;
using wire::Operation;
using wire::Psn;

// ---- What is accepted

TEST_F(RcResponderTest, ASendFillsAReceiveAndIsAcknowledged) {
  const auto id = rig_.post_receive(100);
  const Octets data = octets_of(70);
  rig_.deliver(Operation::kSendOnly, 500, data);
  expect_answer(kAck, 500, 1);
  const auto completions = rig_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kReceive);
  EXPECT_EQ(completions[0].octets, 70U);
  EXPECT_EQ(completions[0].qp, kOurQp);
  EXPECT_EQ(completions[0].source_qp, wire::QpNumber{});
  EXPECT_FALSE(completions[0].solicited);
  EXPECT_EQ(completions[0].flags, WcFlags::kNone);
  EXPECT_EQ(rig_.arena().copy(0, 70), data);
  EXPECT_EQ(rig_.arena().copy(70, 30), Octets(30));
}

TEST_F(RcResponderTest, ALongSendIsScatteredOverTheWholeList) {
  rig_.post_receive({rig_.arena().sge(0, 100), rig_.arena().sge(5000, 0),
                     rig_.arena().sge(1000, 301), rig_.arena().sge(3000, 400)});
  const Octets data = octets_of(256 + 256 + 44);
  rig_.deliver(Operation::kSendFirst, 500, std::span(data).first(256));
  rig_.deliver(Operation::kSendMiddle, 501, std::span(data).subspan(256, 256));
  EXPECT_TRUE(rig_.completions().empty());
  auto last = rig_.headers(Operation::kSendLastImm, 502);
  last.bth.solicited = true;
  last.imm_dt.immediate = wire::Immediate{0x0a0b'0c0d};
  rig_.deliver(last, std::span(data).subspan(512));
  expect_answer(kAck, 502, 1);
  const auto completions = rig_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].octets, data.size());
  EXPECT_EQ(completions[0].flags, WcFlags::kWithImm);
  EXPECT_EQ(completions[0].imm_or_key, 0x0a0b'0c0dU);
  EXPECT_TRUE(completions[0].solicited);
  EXPECT_EQ(rig_.arena().copy(0, 100), Octets(data.begin(), data.begin() + 100));
  EXPECT_EQ(rig_.arena().copy(1000, 301), Octets(data.begin() + 100, data.begin() + 401));
  EXPECT_EQ(rig_.arena().copy(3000, 155), Octets(data.begin() + 401, data.end()));
}

TEST_F(RcResponderTest, AnEmptySendTakesAReceiveToo) {
  const auto first = rig_.post_receive(0);
  const auto second = rig_.post_receive(std::vector<memory::Sge>{});
  rig_.deliver(Operation::kSendOnly, 500);
  rig_.deliver(Operation::kSendOnly, 501);
  expect_answer(kAck, 501, 2);
  const auto completions = rig_.completions();
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(completions[0].wr_id, first);
  EXPECT_EQ(completions[1].wr_id, second);
  EXPECT_EQ(completions[0].octets, 0U);
}

TEST_F(RcResponderTest, AWriteStoresIntoTheRangeThatItNames) {
  const Octets data = octets_of(600);
  auto first = rig_.headers(Operation::kWriteFirst, 500, 600);
  rig_.deliver(first, std::span(data).first(256));
  rig_.deliver(Operation::kWriteMiddle, 501, std::span(data).subspan(256, 256));
  rig_.deliver(Operation::kWriteLast, 502, std::span(data).subspan(512));
  expect_answer(kAck, 502, 1);
  EXPECT_EQ(rig_.remote(0, 600), data);
  EXPECT_EQ(rig_.remote(600, 8), Octets(8));
  EXPECT_TRUE(rig_.completions().empty());
}

TEST_F(RcResponderTest, AWriteWithImmediateTakesItsReceiveAtTheEnd) {
  const Octets data = octets_of(300);
  rig_.deliver(rig_.headers(Operation::kWriteFirst, 500, 300), std::span(data).first(256));
  const auto id = rig_.post_receive(0);
  auto last = rig_.headers(Operation::kWriteLastImm, 501);
  last.bth.solicited = true;
  last.imm_dt.immediate = wire::Immediate{77};
  rig_.deliver(last, std::span(data).subspan(256));
  expect_answer(kAck, 501, 1);
  EXPECT_EQ(rig_.remote(0, 300), data);
  const auto completions = rig_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kReceiveWithImm);
  EXPECT_EQ(completions[0].octets, 300U);
  EXPECT_EQ(completions[0].imm_or_key, 77U);
  EXPECT_EQ(completions[0].flags, WcFlags::kWithImm);
  EXPECT_TRUE(completions[0].solicited);
}

TEST_F(RcResponderTest, SequenceNumbersWrap) {
  rig_.state().expected_psn = Psn(0xff'ffff);
  rig_.post_receive(300);
  const Octets data = octets_of(300);
  rig_.deliver(Operation::kSendFirst, 0xff'ffff, std::span(data).first(256));
  rig_.deliver(Operation::kSendLast, 0, std::span(data).subspan(256));
  expect_answer(kAck, 0, 1);
  EXPECT_EQ(rig_.arena().copy(0, 300), data);
}

TEST_F(RcResponderTest, TheMessageSequenceNumberHas24Bits) {
  rig_.state().msn = 0xff'ffff;
  rig_.post_receive(8);
  rig_.deliver(Operation::kSendOnly, 500, octets_of(8));
  expect_answer(kAck, 500, 0);
}

TEST_F(RcResponderTest, ZeroOctetsNeedNoKey) {
  auto write = rig_.headers(Operation::kWriteOnly, 500);
  write.reth = {.address = 0xdead'beef, .rkey = wire::MemoryKey{0x666}, .dma_octets = 0};
  rig_.deliver(write);
  expect_answer(kAck, 500, 1);
  auto read = rig_.headers(Operation::kReadRequest, 501);
  read.reth = write.reth;
  rig_.deliver(read);
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].operation(), Operation::kReadResponseOnly);
  EXPECT_TRUE(packets[0].payload().empty());
  rig_.post_receive(0);
  auto with_immediate = rig_.headers(Operation::kWriteOnlyImm, 502);
  with_immediate.reth = write.reth;
  rig_.deliver(with_immediate);
  expect_answer(kAck, 502, 3);
  EXPECT_EQ(rig_.completions().size(), 1U);
}

// ---- Atomics, FLUSH, ATOMIC WRITE

TEST_F(RcResponderTest, AtomicsWorkInHostOrderAndReturnTheValueBefore) {
  rig_.set_remote_number(40);
  rig_.fetch_add(500, 2);
  auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].operation(), Operation::kAtomicAcknowledge);
  EXPECT_EQ(packets[0].psn(), Psn(500));
  EXPECT_EQ(packets[0].view().atomic_ack_eth().original, 40U);
  EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kAck);
  EXPECT_EQ(packets[0].view().aeth().msn, 1U);
  EXPECT_EQ(rig_.remote_number(), 42U);

  auto swap = rig_.headers(Operation::kCompareSwap, 501);
  swap.atomic_eth.compare = 41;
  swap.atomic_eth.swap_or_add = 7;
  rig_.deliver(swap);
  packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].view().atomic_ack_eth().original, 42U);
  EXPECT_EQ(rig_.remote_number(), 42U);  // it did not compare equal

  swap.bth.psn = Psn(502);
  swap.atomic_eth.compare = 42;
  rig_.deliver(swap);
  packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].view().atomic_ack_eth().original, 42U);
  EXPECT_EQ(packets[0].view().aeth().msn, 3U);
  EXPECT_EQ(rig_.remote_number(), 7U);
}

TEST_F(RcResponderTest, AnAdditionWrapsAround) {
  rig_.set_remote_number(~std::uint64_t{0});
  rig_.fetch_add(500, 2);
  EXPECT_EQ(rig_.remote_number(), 1U);
}

TEST_F(RcResponderTest, AnAtomicWriteStoresEightOctetsAndIsAnsweredLikeARead) {
  const Octets value = octets_of(8);
  rig_.deliver(Operation::kAtomicWrite, 500, value);
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].operation(), Operation::kReadResponseOnly);
  EXPECT_TRUE(packets[0].payload().empty());
  EXPECT_EQ(packets[0].view().aeth().msn, 1U);
  EXPECT_EQ(rig_.remote(0, 8), value);
}

TEST_F(RcResponderTest, AFlushIsAnsweredLikeARead) {
  auto flush = rig_.headers(Operation::kFlush, 500, 4096);
  flush.feth = {.selectivity = wire::Feth::kRange, .placement = wire::Feth::kGlobalVisibility};
  rig_.deliver(flush);
  const auto packets = rig_.drain();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].operation(), Operation::kReadResponseOnly);
  EXPECT_TRUE(packets[0].payload().empty());
  EXPECT_EQ(packets[0].psn(), Psn(500));
  EXPECT_EQ(packets[0].view().aeth().msn, 1U);
  EXPECT_EQ(rig_.state().expected_psn, Psn(501));
}

TEST_F(RcResponderTest, AFlushNeedsTheRightToThatKindOfFlush) {
  const auto key = rig_.arena().region(Access::kFlushGlobal, Receiver::kRemote, 64);
  auto flush = rig_.headers(Operation::kFlush, 500, 64);
  flush.reth.rkey = key;
  flush.feth.placement = wire::Feth::kGlobalVisibility;
  rig_.deliver(flush);
  EXPECT_EQ(rig_.drain().at(0).operation(), Operation::kReadResponseOnly);
  flush.bth.psn = Psn(501);
  flush.reth.dma_octets = 9999;  // the length of a whole-region flush means nothing
  flush.feth.selectivity = wire::Feth::kWholeRegion;
  rig_.deliver(flush);
  EXPECT_EQ(rig_.drain().at(0).operation(), Operation::kReadResponseOnly);
  flush.bth.psn = Psn(502);
  flush.feth.placement = wire::Feth::kPersistence;
  rig_.deliver(flush);
  expect_answer(kRemoteAccess, 502, 2);
  EXPECT_EQ(rig_.state().reason, reason_of(memory::Refusal::kNoFlush));
}

TEST_F(RcResponderTest, AFlushWithAReservedValueIsInvalid) {
  using Feth = wire::Feth;
  for (const Feth reserved : {Feth{.selectivity = 2, .placement = Feth::kGlobalVisibility},
                              Feth{.selectivity = 3, .placement = Feth::kGlobalVisibility},
                              Feth{.selectivity = Feth::kRange, .placement = 0},
                              Feth{.selectivity = Feth::kRange, .placement = 4},
                              Feth{.selectivity = Feth::kWholeRegion, .placement = 9}}) {
    SCOPED_TRACE(testing::Message() << +reserved.selectivity << ", " << +reserved.placement);
    RcRig rig;
    auto flush = rig.headers(Operation::kFlush, 500, 64);
    flush.feth = reserved;
    rig.deliver(flush);
    EXPECT_EQ(rig.state().reason, Reason::kReservedValue);
    EXPECT_TRUE(rig.state().failed);
  }
}

// ---- SEND with invalidate

class RcResponderInvalidateTest : public RcResponderTest {
 protected:
  wire::MemoryKey window(wire::QpNumber qp) {
    const auto key =
        *rig_.arena().registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
    VB_ASSERT(memory::bind_type2(rig_.arena().keys(), {.domain = kHome, .qp = qp},
                                 {.window_key = key,
                                  .new_key = key,
                                  .region_key = rig_.arena().key(),
                                  .address = rig_.arena().address(Receiver::kRemote),
                                  .octets = 64,
                                  .access = Access::kRemoteRead}) == memory::BindRefusal::kNone);
    return key;
  }
  void send_with_invalidate(std::uint32_t psn, wire::MemoryKey key) {
    auto headers = rig_.headers(Operation::kSendOnlyInvalidate, psn);
    headers.ieth.rkey = key;
    rig_.deliver(headers, octets_of(8));
  }
};

TEST_F(RcResponderInvalidateTest, TheKeyIsGoneWhenTheReceiveIsReported) {
  const auto key = window(kOurQp);
  auto read = rig_.headers(Operation::kReadRequest, 500, 8);
  read.reth.rkey = key;
  rig_.deliver(read);
  EXPECT_EQ(rig_.drain().at(0).operation(), Operation::kReadResponseOnly);
  const auto id = rig_.post_receive(8);
  send_with_invalidate(501, key);
  expect_answer(kAck, 501, 2);
  const auto completions = rig_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].flags, WcFlags::kWithInvalidate);
  EXPECT_EQ(completions[0].imm_or_key, static_cast<std::uint32_t>(key));
  EXPECT_EQ(rig_.arena().copy(0, 8), octets_of(8));
  read.bth.psn = Psn(502);
  rig_.deliver(read);
  expect_answer(kRemoteAccess, 502, 2);
}

TEST_F(RcResponderInvalidateTest, AKeyThatCannotBeInvalidatedEndsTheConnection) {
  const auto others = window(kPeerQp);
  for (const auto key : {rig_.arena().key(), others, wire::MemoryKey{0x666}}) {
    RcRig fresh;
    rig_.state() = fresh.state();
    const auto id = rig_.post_receive(8);
    send_with_invalidate(500, key);
    const auto packets = rig_.drain();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].view().aeth().syndrome.raw(), kRemoteAccess);
    EXPECT_EQ(packets[0].view().aeth().msn, 0U);
    expect_failed_receive(id, WcStatus::kRemoteInvalidRequest);
  }
}

// ---- Endings

TEST_F(RcResponderTest, AfterARefusalEverythingIsDropped) {
  rig_.deliver(Operation::kSendLast, 500, octets_of(8));
  expect_answer(kInvalidRequest, 500, 0);
  rig_.post_receive(8);
  rig_.deliver(Operation::kSendOnly, 500, octets_of(8));
  rig_.deliver(Operation::kSendOnly, 499, octets_of(8));
  rig_.deliver(Operation::kSendOnly, 510, octets_of(8));
  expect_silence();
  EXPECT_TRUE(rig_.completions().empty());
}

TEST(RcResponderOverrun, ACompletionWithoutAPlaceEndsTheConnectionWithoutAnAnswer) {
  RcRig rig(false, 1);  // one place for two receives
  rig.post_receive(8);
  rig.post_receive(8);
  rig.deliver(Operation::kSendOnly, 500, octets_of(8));
  EXPECT_EQ(rig.drain().size(), 1U);
  rig.deliver(Operation::kSendOnly, 501, octets_of(8));
  EXPECT_TRUE(rig.drain().empty());
  EXPECT_TRUE(rig.state().failed && rig.state().event_due);
  EXPECT_EQ(rig.state().event, QpEvent::kFatal);
  EXPECT_EQ(rig.state().reason, Reason::kCompletionOverrun);
}

}  // namespace
}  // namespace verbatim::transport
